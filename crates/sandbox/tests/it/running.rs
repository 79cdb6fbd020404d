//! Calls: what goes in, what comes out, in which order.

use std::time::Duration;

use sandbox::{Attachment, Failure, Meta};
use serde_json::{Value, json};

use crate::kit::{files, open, open_with, sandbox, value_of};

#[tokio::test]
async fn methods_get_their_arguments_and_meta_last() {
    let text = "export const composeWebhook = (event, { config, attachments, geoip }) => ({
        url: config.url, body: event, file: attachments.key.contents.toString(), name: attachments.key.file_name
    })";
    let key = Attachment {
        content_type: "text/plain".into(),
        file_name: "key.txt".into(),
        contents: b"secret".to_vec(),
    };
    let meta = Meta {
        config: json!({ "url": "https://example.com" }).as_object().unwrap().clone(),
        attachments: [("key".to_owned(), key)].into(),
        ..Meta::default()
    };
    let (mut app, _) = open_with(sandbox(), text, meta).await;
    let webhook = app.call("composeWebhook", vec![json!({ "event": "a" })]).await.unwrap();
    assert_eq!(
        webhook,
        json!({ "url": "https://example.com", "body": { "event": "a" }, "file": "secret", "name": "key.txt" })
    );
}

#[tokio::test]
async fn setup_comes_before_and_its_state_stays() {
    let text = "
        export async function setupPlugin({ global }) { global.count = (global.count ?? 0) + 10 }
        export function onEvent(event, { global }) { global.count += event.by }
        export const composeWebhook = (event, { global }) => global.count
        export async function teardownPlugin({ storage, global }) { await storage.set('count', global.count) }";
    let (mut app, host) = open(text).await;
    app.setup().await.unwrap();
    let outcomes = app
        .call_each("onEvent", vec![json!({ "by": 1 }), json!({ "by": 5 })])
        .await;
    assert_eq!(outcomes, [Ok(Value::Null), Ok(Value::Null)]);
    assert_eq!(app.call("composeWebhook", vec![Value::Null]).await, Ok(json!(16)));
    app.close().await.unwrap();
    assert_eq!(host.calls.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn an_app_without_setup_is_set_up() {
    let (mut app, _) = open("export const onEvent = () => {}").await;
    app.setup().await.unwrap();
    assert_eq!(
        app.call("onAction", vec![]).await,
        Err(Failure::NoSuchMethod("onAction".to_owned()))
    );
    assert_eq!(
        app.call_job("x", Value::Null).await,
        Err(Failure::NoSuchMethod("x".to_owned()))
    );
    app.close().await.unwrap();
}

#[tokio::test]
async fn each_event_has_its_own_outcome_in_order() {
    let text = "export const onEvent = async ({ number }) => {
        await Promise.resolve()
        if (number % 2) throw new RetryError(`odd ${number}`)
        console.log(number)
    }";
    let (mut app, host) = open(text).await;
    let outcomes = app
        .call_each("onEvent", (0..100).map(|number| json!({ "number": number })).collect())
        .await;
    assert_eq!(outcomes.len(), 100);
    assert!(
        outcomes
            .iter()
            .enumerate()
            .all(|(number, outcome)| outcome.is_err() == (number % 2 == 1))
    );
    assert!(outcomes[1].as_ref().unwrap_err().is_retry());
    assert_eq!(outcomes[99].as_ref().unwrap_err().to_string(), "RetryError: odd 99");
    assert_eq!(host.lines()[..3], ["0", "2", "4"]);
}

#[tokio::test]
async fn large_batches_pass_while_the_app_talks_back() {
    let text = "export const onEvent = async ({ text, n }) => { await fetch(`http://example.com/${n}`, { method: 'POST', body: text }) }";
    let (mut app, host) = open(text).await;
    let each = (0..300).map(|n| json!({ "n": n, "text": "x".repeat(4000) })).collect();
    let outcomes = app.call_each("onEvent", each).await;
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    assert_eq!(host.urls()[299], "http://example.com/299");
}

#[tokio::test]
async fn jobs_and_tasks_run() {
    let text = "
        export const jobs = { greet: async ({ name }, { storage }) => { await storage.set('greeted', name) } }
        export async function runEveryMinute({ jobs }) {
            await jobs.greet({ name: 'Ann' }).runNow()
            await jobs.greet().runIn(2, 'minutes')
            await jobs.greet().runAt(new Date(Date.now() - 1000))
        }";
    let (mut app, host) = open(text).await;
    app.call("runEveryMinute", vec![]).await.unwrap();
    app.call_job("greet", json!({ "name": "Bob" })).await.unwrap();
    let calls = serde_json::to_value(&*host.calls.lock().unwrap()).unwrap();
    assert_eq!(
        calls,
        json!([
            { "run_job": { "name": "greet", "payload": { "name": "Ann" }, "delay_ms": 0 } },
            { "run_job": { "name": "greet", "payload": null, "delay_ms": 120_000 } },
            { "run_job": { "name": "greet", "payload": null, "delay_ms": 0 } },
            { "storage_set": { "key": "greeted", "value": "Bob" } },
        ])
    );
}

#[tokio::test]
async fn what_nobody_waited_for_is_done_before_the_call_is_over() {
    let text = "
        export const onEvent = () => { fetch('http://example.com/a').then(() => fetch('http://example.com/b')) }
        export const onAction = () => { Promise.reject(new Error('lost')) }";
    let (mut app, host) = open(text).await;
    app.call("onEvent", vec![json!({})]).await.unwrap();
    assert_eq!(host.urls(), ["http://example.com/a", "http://example.com/b"]);
    app.call("onAction", vec![json!({})]).await.unwrap();
    assert_eq!(host.lines(), ["Unhandled promise rejection: lost"]);
}

#[tokio::test]
async fn timers_run_within_their_call_and_not_beyond() {
    let text = "
        let late = 0
        export const composeWebhook = async () => {
            setTimeout(() => { late += 1 }, 5000)
            const off = setTimeout(() => { late += 10 }, 5)
            clearTimeout(off)
            await new Promise((resolve) => setTimeout(resolve, 20))
            return late
        }";
    let (mut app, _) = open(text).await;
    for _ in 0..2 {
        assert_eq!(app.call("composeWebhook", vec![]).await, Ok(json!(0)));
    }
}

#[tokio::test]
async fn calls_end_with_the_first_that_asks_for_something_or_fails() {
    let text = "export const onEvent = async ({ number }) => {
        console.log(number)
        if (number === 2) await fetch('http://example.com/')
        if (number === 5) throw new Error('five')
    }";
    let (mut app, host) = open(text).await;
    let events = |numbers: std::ops::Range<i32>| numbers.map(|number| json!({ "number": number })).collect::<Vec<_>>();
    let outcomes = app.call_until_request("onEvent", &events(0..5)).await;
    assert!(outcomes[..3].iter().all(Result::is_ok), "{outcomes:?}");
    assert_eq!(outcomes[3..], [Err(Failure::NotRun), Err(Failure::NotRun)]);
    let outcomes = app.call_until_request("onEvent", &events(3..8)).await;
    assert!(matches!(outcomes[2], Err(Failure::Thrown { .. })), "{outcomes:?}");
    assert_eq!(outcomes[3..], [Err(Failure::NotRun), Err(Failure::NotRun)]);
    assert!(app.is_open(), "the rest can be called for");
    assert_eq!(host.lines(), ["0", "1", "2", "3", "4", "5"]);
}

#[tokio::test]
async fn events_of_an_exporter_go_out_as_one_batch() {
    let text = "
        import { RetryError } from '@posthog/plugin-scaffold'
        export async function exportEvents(events, meta) {
            console.log(events.map(({ event }) => event).join())
            if (events.some(({ event }) => event === 'bad')) throw new RetryError('not now')
        }";
    let config = json!({ "exportEventsToIgnore": "skipped, other" })
        .as_object()
        .unwrap()
        .clone();
    let (mut app, host) = open_with(
        sandbox(),
        text,
        Meta {
            config,
            ..Meta::default()
        },
    )
    .await;
    let events = |names: &[&str]| names.iter().map(|name| json!({ "event": name })).collect::<Vec<_>>();
    assert_eq!(
        app.call_each("onEvent", events(&["a", "skipped", "b"])).await,
        vec![Ok(Value::Null); 3]
    );
    let outcomes = app.call_each("onEvent", events(&["c", "bad"])).await;
    assert!(
        outcomes
            .iter()
            .all(|outcome| outcome.as_ref().is_err_and(Failure::is_retry))
    );
    assert_eq!(host.lines(), ["a,b", "c,bad"]);
}

#[tokio::test]
async fn what_a_buffer_holds_goes_out_with_the_batch() {
    let text = "
        import { createBuffer } from '@posthog/plugin-contrib'
        let buffer
        export const setupPlugin = () => {
            buffer = createBuffer({ limit: 3, timeoutSeconds: 10, onFlush: async (held) => {
                if (held.includes('bad')) throw new Error('no')
                await fetch(`http://example.com/${held.join('')}`)
            } })
        }
        export const onEvent = async ({ event }) => { await buffer.add(event) }";
    let (mut app, host) = open(text).await;
    app.setup().await.unwrap();
    let events = |names: [&str; 4]| names.iter().map(|name| json!({ "event": name })).collect::<Vec<_>>();
    assert_eq!(
        app.call_each("onEvent", events(["a", "b", "c", "d"])).await,
        vec![Ok(Value::Null); 4]
    );
    assert_eq!(host.urls(), ["http://example.com/abc", "http://example.com/d"]);
    let outcomes = app.call_each("onEvent", events(["e", "bad", "f", "g"])).await;
    assert!(outcomes.iter().any(Result::is_err), "{outcomes:?}");
    assert!(
        outcomes[0].is_err() || host.urls().iter().any(|url| url.contains('e')),
        "{outcomes:?}"
    );
}

#[tokio::test]
async fn globals_that_apps_rely_on_are_there() {
    let made = value_of(
        "const url = new URL('/a?x=1#h', 'https://user:pw@example.com:8443/b')
         url.searchParams.append('y', 'ä b')
         url.hostname = 'example.org'
         const params = new URLSearchParams({ a: '1', b: '&' })
         const crypto = require('crypto')
         return {
            href: url.href, host: url.host, origin: url.origin, hash: url.hash, params: params.toString(), all: [...params],
            base64: btoa('hi') + atob('aGk='), buffer: Buffer.from('hä').toString('hex'),
            joined: Buffer.concat([Buffer.from('aGk=', 'base64'), Buffer.from('21', 'hex')]).toString(),
            length: Buffer.byteLength('ä'), text: new TextDecoder().decode(new TextEncoder().encode('ü')),
            clone: structuredClone({ a: [new Date(0), new Map([[1, 2]])] }).a[1].get(1),
            sha: crypto.createHash('sha256').update('a').update('b').digest('hex').slice(0, 8),
            hmac: crypto.createHmac('sha1', 'k').update('v').digest('base64'),
            uuid: crypto.randomUUID().length, random: crypto.randomBytes(4).toString('hex').length,
            md5: crypto.createHash('md5').update('').digest('base64'),
            invalid: (() => { try { new URL('nothing') } catch (e) { return e.name } })(),
            half: '\\ud83d', retry: new RetryError('x') instanceof Error,
         }",
    )
    .await;
    assert_eq!(
        made,
        json!({
            "href": "https://user:pw@example.org:8443/a?x=1&y=%C3%A4+b#h", "host": "example.org:8443",
            "origin": "https://example.org:8443", "hash": "#h", "params": "a=1&b=%26", "all": [["a", "1"], ["b", "&"]],
            "base64": "aGk=hi", "buffer": "68c3a4", "joined": "hi!", "length": 2, "text": "ü", "clone": 2,
            "sha": "fb8e20fc", "hmac": "lPxqL36JuBls904QeajBHrZ5pVI=", "uuid": 36, "random": 8,
            "md5": "1B2M2Y8AsgTpgAmY7PhCfg==", "invalid": "TypeError", "half": "\u{fffd}", "retry": true,
        })
    );
}

#[tokio::test]
async fn nothing_else_is_within_reach() {
    let made = value_of(
        "const names = ['process', 'Deno', 'std', 'os', 'native', 'shared', 'WebAssembly', 'XMLHttpRequest', 'setInterval', 'scriptArgs', 'print']
         return names.filter((name) => typeof globalThis[name] !== 'undefined')",
    )
    .await;
    assert_eq!(made, json!([]));
}

#[tokio::test]
async fn two_apps_do_not_see_each_other() {
    let sandbox = sandbox();
    let text = "export const setupPlugin = () => { globalThis.secret = 1; Object.prototype.x = 1 }
                export const composeWebhook = () => [typeof secret, ({}).x ?? null]";
    let reading = sandbox.read(&files([("index.ts", text)])).await.unwrap();
    let host = std::sync::Arc::new(crate::kit::Remembering::default());
    let mut one = sandbox
        .open(&reading.code, Meta::default(), host.clone())
        .await
        .unwrap();
    let mut two = sandbox.open(&reading.code, Meta::default(), host).await.unwrap();
    one.setup().await.unwrap();
    assert_eq!(one.call("composeWebhook", vec![]).await, Ok(json!(["number", 1])));
    assert_eq!(two.call("composeWebhook", vec![]).await, Ok(json!(["undefined", null])));
}

#[tokio::test]
async fn a_call_that_was_given_up_ends_the_app() {
    let text = "export const composeWebhook = async ({ n }) => { await fetch('http://example.com/slow'); return n }";
    let (mut app, _) = open(text).await;
    let given_up = tokio::time::timeout(
        Duration::from_millis(50),
        app.call("composeWebhook", vec![json!({ "n": 1 })]),
    );
    given_up.await.unwrap_err();
    assert_eq!(
        app.call("composeWebhook", vec![json!({ "n": 2 })]).await,
        Err(Failure::Closed)
    );
    assert!(!app.is_open());
}

#[tokio::test]
async fn nothing_is_done_for_nothing() {
    let (mut app, _) = open("export const exportEvents = () => { throw new Error('called') }").await;
    assert_eq!(app.call_each("onEvent", vec![]).await, []);
    assert!(app.is_open());
}

#[tokio::test]
async fn processing_by_the_batch_does_for_single_events() {
    let (mut app, _) =
        open("export const processEventBatch = (events) => events.map((event) => ({ ...event, seen: true }))").await;
    assert_eq!(
        app.call("processEvent", vec![json!({ "a": 1 })]).await,
        Ok(json!({ "a": 1, "seen": true }))
    );
}
