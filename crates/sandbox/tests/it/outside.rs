//! What apps reach through the host.

use sandbox::Level;
use serde_json::json;

use crate::kit::{open, value_of};

#[tokio::test]
async fn requests_go_through_the_host() {
    let made = value_of(
        "const answer = await fetch(new URL('http://example.com/x'), { method: 'post', body: JSON.stringify({ a: 1 }), headers: { 'X-Key': 'k' } })
         const { method, body, headers } = await answer.json()
         return [answer.status, answer.ok, answer.headers.get('content-type'), method, Buffer.from(body).toString(), headers]",
    )
    .await;
    assert_eq!(
        made,
        json!([200, true, "application/json", "POST", "{\"a\":1}", [["x-key", "k"]]])
    );
}

#[tokio::test]
async fn bodies_may_be_bytes_both_ways() {
    let made = value_of(
        "const fetch = require('node-fetch')
         const sent = await (await fetch('http://example.com/', { method: 'PUT', body: Buffer.from([0, 255]) })).json()
         const got = await (await fetch('http://example.com/binary')).buffer()
         const missing = await fetch('http://example.com/missing')
         return [sent.body, [...got], missing.ok, missing.status, await missing.text()]",
    )
    .await;
    assert_eq!(made, json!([[0, 255], [0, 1, 254, 255], false, 404, "no"]));
}

#[tokio::test]
async fn a_refused_request_is_an_error_that_can_be_caught() {
    let made = value_of(
        "const { FetchError } = require('node-fetch')
         try { await fetch('http://example.com/refused') } catch (e) { return [e.name, e.message, e instanceof FetchError] }",
    )
    .await;
    assert_eq!(
        made,
        json!([
            "FetchError",
            "request to http://example.com/refused failed, reason: this address may not be reached",
            true
        ])
    );
}

#[tokio::test]
async fn requests_run_side_by_side_and_can_be_called_off() {
    let made = value_of(
        "const all = await Promise.all([1, 2, 3].map((n) => fetch(`http://example.com/${n}`)))
         const control = new AbortController()
         setTimeout(() => control.abort(), 20)
         return [all.length, typeof control.signal]",
    )
    .await;
    assert_eq!(made, json!([3, "object"]));
}

#[tokio::test]
async fn storage_and_cache_keep_what_they_are_given() {
    let made = value_of(
        "const { storage, cache, utils, metrics } = meta
         await storage.set('a', { deep: [1] })
         await cache.set('b', 5, 60)
         const seen = [await storage.get('a'), await storage.get('none', 'other'), await cache.get('b'), await cache.incr('b')]
         await storage.set('a', undefined)
         seen.push(await storage.get('a', null))
         try { await storage.get('x'.repeat(201)) } catch (e) { seen.push(e.message) }
         try { metrics.none } catch (e) { seen.push(e.message) }
         await cache.lpush('list', ['x', 1]); await cache.lrange('list', 0, -1); await cache.llen('list')
         await cache.lrem('list', 1, 'x'); await cache.lpop('list', 1); await cache.expire('list', 5)
         await utils.cursor.init('c', 3); await utils.cursor.increment('c')
         return seen",
    )
    .await;
    assert_eq!(
        made,
        json!([{ "deep": [1] }, "other", 5, 6, null, "A key has at most 200 characters", "The app has no metric 'none'"])
    );
}

#[tokio::test]
async fn events_are_captured_and_metrics_counted() {
    let text = "
        export const metrics = { sent: 'sum', top: 'max' }
        export async function runEveryHour({ metrics }) {
            await posthog.capture('tick', { a: 1, distinct_id: 'me', timestamp: '2024-01-01T00:00:00Z' })
            metrics.sent.increment(2)
            await metrics.top.max(7)
        }";
    let (mut app, host) = open(text).await;
    app.call("runEveryHour", vec![]).await.unwrap();
    let calls = serde_json::to_value(&*host.calls.lock().unwrap()).unwrap();
    assert_eq!(
        calls,
        json!([
            { "capture": { "event": "tick", "distinct_id": "me", "timestamp": "2024-01-01T00:00:00Z", "properties": { "a": 1 } } },
            { "metric": { "name": "sent", "change": "increment", "value": 2.0 } },
            { "metric": { "name": "top", "change": "max", "value": 7.0 } },
        ])
    );
}

#[tokio::test]
async fn the_log_shows_what_was_meant() {
    let (mut app, host) = open(
        "export const onEvent = () => {
            console.log('a', 1, { b: [2] }, null, undefined)
            console.error(new TypeError('bad'))
            const loop = {}; loop.loop = loop
            console.warn(loop, '\\ud83d')
        }",
    )
    .await;
    app.call("onEvent", vec![]).await.unwrap();
    assert_eq!(
        *host.logs.lock().unwrap(),
        [
            (Level::Log, "a 1 {\"b\":[2]} null undefined".to_owned()),
            (Level::Error, "TypeError: bad".to_owned()),
            (Level::Warn, "[object Object] \u{fffd}".to_owned()),
        ]
    );
}
