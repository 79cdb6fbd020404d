//! Apps that mean harm, or might as well: each is stopped within its limits, and others go on.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sandbox::{Failure, Limits, Meta, Program, Sandbox};
use serde_json::json;
use tempfile::TempDir;

use crate::kit::{Remembering, brief, files, limits, message, open, open_with, read, sandbox_with};

/// Calls an app's `onEvent` once; it must be over in a few times the limit.
async fn outcome(body: &str) -> Result<serde_json::Value, Failure> {
    outcome_within(brief(), body).await
}

async fn outcome_within(limits: Limits, body: &str) -> Result<serde_json::Value, Failure> {
    let text = format!("export const onEvent = async (event, meta) => {{ {body} }}");
    let (mut app, _) = open_with(sandbox_with(limits), &text, Meta::default()).await;
    let begun = Instant::now();
    let outcome = app.call("onEvent", vec![json!({})]).await;
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    if outcome.as_ref().is_err_and(Failure::is_final) {
        assert!(!app.is_open());
        assert_eq!(app.call("onEvent", vec![json!({})]).await, Err(Failure::Closed));
    }
    outcome
}

#[tokio::test]
async fn endless_loops_are_stopped() {
    assert_eq!(outcome("for (;;) {}").await, Err(Failure::TooSlow));
    assert_eq!(outcome("for (;;) await null").await, Err(Failure::TooSlow));
    assert_eq!(
        outcome("for (;;) { try { for (;;) {} } catch {} finally { continue } }").await,
        Err(Failure::TooSlow)
    );
    let failure = outcome("const again = () => Promise.resolve().then(again); await again()")
        .await
        .unwrap_err();
    assert!(!matches!(failure, Failure::Crashed(_)), "{failure:?}");
    assert_eq!(
        outcome("/^(a+)+$/.test('a'.repeat(40) + '!')").await,
        Err(Failure::TooSlow)
    );
    assert_eq!(
        outcome("return { then(done) { for (;;) {} } }").await,
        Err(Failure::TooSlow)
    );
    assert_eq!(
        outcome("throw { get message() { for (;;) {} } }").await,
        Err(Failure::TooSlow)
    );
}

#[tokio::test]
async fn what_cannot_be_interrupted_is_killed() {
    let endless = "Array.prototype.indexOf.call({ length: 1e15 }, 1)";
    assert_eq!(outcome(endless).await, Err(Failure::TooSlow));
    for heavy in [
        "new Array(1e9) + ''",
        "3n ** 20000000n",
        "String(3n ** 600000n)",
        "new Array(1e8).fill(0).sort()",
    ] {
        let begun = Instant::now();
        let outcome = outcome(heavy).await;
        assert!(begun.elapsed() < Duration::from_secs(20), "{heavy}: {outcome:?}");
        assert!(!matches!(outcome, Err(Failure::Crashed(_))), "{heavy}: {outcome:?}");
    }
}

#[tokio::test]
async fn a_request_that_takes_too_long_ends_the_call() {
    assert_eq!(
        outcome("await fetch('http://example.com/slow')").await,
        Err(Failure::TooSlow)
    );
}

#[tokio::test]
async fn memory_is_bounded() {
    let bombs = [
        "const all = []; for (;;) all.push(new Array(1000).fill(all.length))",
        "let text = 'x'; for (;;) text += text",
        "const all = []; for (;;) all.push(new Uint8Array(1 << 20).fill(1))",
        "const all = []; for (;;) all.push(Buffer.from('x'.repeat(1 << 16)))",
        "const map = new Map(); for (let i = 0; ; i += 1) map.set(i, { i })",
        "'x'.repeat(1 << 29).split('')",
    ];
    for bomb in bombs {
        let failure = outcome(bomb).await.unwrap_err();
        let is_bounded = matches!(
            failure,
            Failure::TooMuchMemory | Failure::TooSlow | Failure::Thrown { .. }
        );
        assert!(is_bounded, "{bomb}: {failure:?}");
    }
}

#[tokio::test]
async fn recursion_is_an_error_like_others() {
    let failure = outcome("const deep = () => deep() + 1; deep()").await.unwrap_err();
    assert!(message(&failure).contains("stack"), "{failure:?}");
    let failure = outcome("let deep = []; for (let i = 0; i < 100000; i += 1) deep = [deep]; JSON.stringify(deep)")
        .await
        .unwrap_err();
    assert!(!matches!(failure, Failure::Crashed(_)), "{failure:?}");
}

#[tokio::test]
async fn returned_values_are_bounded() {
    let text = "
        export const composeWebhook = () => 'x'.repeat(3 << 20)
        export const getSettings = () => { const a = {}; a.a = a; return a }
        export const onEvent = () => 5n";
    let (mut app, _) = open(text).await;
    assert_eq!(
        app.call("composeWebhook", vec![]).await,
        Err(Failure::TooLarge { limit: 1 << 20 })
    );
    assert!(message(&app.call("getSettings", vec![]).await.unwrap_err()).contains("circular"));
    assert_eq!(app.call("onEvent", vec![]).await, Ok(json!(null)));
}

#[tokio::test]
async fn the_log_is_bounded_for_each_call() {
    let text = "export const onEvent = () => { for (let i = 0; i < 500; i += 1) console.log(i, 'x'.repeat(9000)) }";
    let (mut app, host) = open(text).await;
    let outcomes = app.call_each("onEvent", vec![json!({}); 2]).await;
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    let lines = host.lines();
    assert_eq!(lines.len(), 202);
    assert!(lines.iter().all(|line| line.len() <= 8192));
    assert!(lines[100].starts_with("log limit reached"), "{}", lines[100]);
}

#[tokio::test]
async fn calls_to_the_host_are_bounded() {
    let many = "await Promise.all(Array.from({ length: 100 }, () => fetch('http://example.com/')))";
    let failure = outcome_within(limits(), many).await.unwrap_err();
    assert_eq!(
        message(&failure),
        "request to http://example.com/ failed, reason: too many concurrent calls; wait for some to finish"
    );
    let few = Limits {
        host_calls: 50,
        ..limits()
    };
    let text = "export const onEvent = async (event, { cache }) => { for (;;) await cache.incr('x') }";
    let (mut app, host) = open_with(sandbox_with(few), text, Meta::default()).await;
    assert_eq!(
        message(&app.call("onEvent", vec![json!({})]).await.unwrap_err()),
        "too many calls"
    );
    assert_eq!(host.calls.lock().unwrap().len(), 50);
    let large = "await meta.storage.set('x', 'x'.repeat(5 << 20))";
    let failure = outcome_within(limits(), large).await.unwrap_err();
    assert_eq!(message(&failure), "this is too large for one call");
}

/// The memory of this process, in bytes.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
}

#[tokio::test]
async fn an_app_that_floods_the_host_is_stopped_and_others_go_on() {
    let (mut good, _) = open("let n = 0; export const composeWebhook = () => ++n").await;
    let mut count = 0;
    let before = resident();
    for flood in [
        "for (;;) await fetch('http://example.com/').catch(() => {})",
        "for (;;) fetch('http://example.com/').catch(() => {})",
        "for (;;) await meta.storage.set('x', 'x'.repeat(1 << 17)).catch(() => {})",
        "for (;;) await Promise.allSettled(Array.from({ length: 100 }, () => meta.cache.incr('x')))",
        "for (;;) console.log('x'.repeat(1 << 16))",
        "for (;;) setTimeout(() => {}, 1e9)",
        "for (;;) await new Promise((done) => setTimeout(done, 0)).catch(() => {})",
    ] {
        let text = format!("export const onEvent = async (event, meta) => {{ {flood} }}");
        let (mut bad, host) = open_with(sandbox_with(brief()), &text, Meta::default()).await;
        let bad = tokio::spawn(async move { bad.call("onEvent", vec![json!({})]).await });
        let begun = Instant::now();
        while !bad.is_finished() {
            count += 1;
            assert_eq!(good.call("composeWebhook", vec![]).await, Ok(json!(count)));
            assert!(begun.elapsed() < Duration::from_secs(10), "{flood}");
        }
        let outcome = bad.await.unwrap();
        // Some run out of memory in the midst of the engine, which then aborts. None gets as far as the system.
        let is_stopped = outcome.as_ref().is_err_and(|failure| *failure != Failure::Forbidden);
        assert!(is_stopped, "{flood}: {outcome:?}");
        let asked = host.calls.lock().unwrap().len() + host.requests.lock().unwrap().len();
        assert!(asked <= 1000, "{flood}: {asked}");
        assert!(host.lines().len() <= 101, "{flood}");
    }
    let grown = resident().saturating_sub(before);
    assert!(grown < 300 << 20, "{grown}");
}

/// A process that was taken over from within, and keeps to no limit of its own.
fn rogue(flood: &str) -> (TempDir, Program) {
    let folder = TempDir::with_prefix("hedgerow-").unwrap();
    let script = folder.path().join("child");
    let confined = r#"{"confined":{"no_new_privileges":"in_force","system_calls":"in_force"}}"#;
    let ready = r#"{"ready":{"methods":["onEvent"]}}"#;
    let lines = format!("#!/bin/sh\nread limits\necho '{confined}'\nread task\necho '{ready}'\nread order\n{flood}\n");
    std::fs::write(&script, lines).unwrap();
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
    (folder, Program::new(script))
}

#[tokio::test]
async fn a_process_that_keeps_to_no_limit_is_stopped_by_its_parent() {
    let code = read([("index.ts", "export const onEvent = () => {}")])
        .await
        .unwrap()
        .code;
    let before = resident();
    for (name, flood) in [
        (
            "asks",
            r#"exec yes '{"asked":{"id":1,"call":{"type":"cache_incr","key":"x"}}}'"#,
        ),
        (
            "fetches",
            r#"exec yes '{"asked":{"id":1,"call":{"type":"fetch","url":"http://a/slow","method":"GET","headers":[],"body":null}}}'"#,
        ),
        ("sleeps", r#"exec yes '{"sleep":{"id":1,"ms":60000}}'"#),
        ("logs", r#"exec yes '{"log":{"level":"log","message":"x"}}'"#),
        ("one line", "exec tr '\\0' x < /dev/zero"),
        ("silence", "exec sleep 60"),
    ] {
        let (_folder, program) = rogue(flood);
        let sandbox = Sandbox::new(program, brief());
        let host = Arc::new(Remembering::default());
        let mut app = sandbox.open(&code, Meta::default(), host.clone()).await.unwrap();
        let begun = Instant::now();
        let outcome = app.call("onEvent", vec![json!({})]).await;
        assert!(
            matches!(outcome, Err(Failure::Crashed(_) | Failure::TooSlow)),
            "{name}: {outcome:?}"
        );
        assert!(!app.is_open());
        assert!(
            begun.elapsed() < Duration::from_secs(5),
            "{name}: {:?}",
            begun.elapsed()
        );
        let asked = host.calls.lock().unwrap().len() + host.requests.lock().unwrap().len();
        assert!(asked <= 2000, "{name}: {asked}");
        assert!(host.lines().len() <= 202, "{name}");
    }
    let grown = resident().saturating_sub(before);
    assert!(grown < 300 << 20, "{grown}");
}

#[tokio::test]
async fn changing_what_is_built_in_harms_only_the_app_itself() {
    let text = "
        export const setupPlugin = () => {
        Object.prototype.toJSON = () => 'polluted'
        Object.prototype.ok = Object.prototype.error = Object.prototype.then = undefined
        Array.prototype.map = Array.prototype.push = Array.prototype.filter = () => { throw new Error('mine') }
        JSON.parse = JSON.stringify = () => '{}'
        Promise.prototype.then = function () { throw new Error('mine') }
        globalThis.Promise = globalThis.Map = globalThis.Error = undefined
        String.prototype.toWellFormed = () => 'mine'
        Function.prototype.call = Function.prototype.apply = () => { throw new Error('mine') }
        }
        export const onEvent = (event, { storage }) => { console.log('still here') }
        export const onAction = async (event, { storage }) => { await storage.set('a', 1) }";
    let (mut app, host) = open(text).await;
    app.setup().await.unwrap();
    app.call("onEvent", vec![json!({})]).await.unwrap();
    assert_eq!(host.lines(), ["still here"]);
    app.call("onAction", vec![json!({})]).await.unwrap();
    assert_eq!(host.calls.lock().unwrap().len(), 1);
    let (mut other, _) = open("export const onEvent = () => {}").await;
    other.call("onEvent", vec![json!({})]).await.unwrap();
}

#[tokio::test]
async fn others_go_on_while_one_is_stopped() {
    let text = "export const onEvent = () => { for (;;) {} }";
    let (mut bad, _) = open_with(sandbox_with(brief()), text, Meta::default()).await;
    let (mut good, _) = open("let n = 0; export const composeWebhook = () => ++n").await;
    let bad = tokio::spawn(async move { bad.call("onEvent", vec![]).await });
    let mut count = 0;
    while !bad.is_finished() {
        count += 1;
        assert_eq!(good.call("composeWebhook", vec![]).await, Ok(json!(count)));
    }
    assert_eq!(bad.await.unwrap(), Err(Failure::TooSlow));
    assert!(count > 10, "{count}");
}

#[tokio::test]
async fn in_a_batch_the_one_to_blame_is_named_and_the_rest_waits() {
    let text = "export const onEvent = ({ n }) => { if (n === 2) for (;;) {} }";
    let (mut app, _) = open_with(sandbox_with(brief()), text, Meta::default()).await;
    let outcomes = app
        .call_each("onEvent", (0..5).map(|n| json!({ "n": n })).collect())
        .await;
    let expected = [
        Ok(json!(null)),
        Ok(json!(null)),
        Err(Failure::TooSlow),
        Err(Failure::NotRun),
        Err(Failure::NotRun),
    ];
    assert_eq!(outcomes, expected);
}

#[tokio::test]
async fn a_teardown_that_does_not_end_is_ended() {
    let limits = Limits {
        close_time: Duration::from_millis(100),
        ..limits()
    };
    let text = "export const onEvent = () => {}; export const teardownPlugin = () => { for (;;) {} }";
    let (app, _) = open_with(sandbox_with(limits), text, Meta::default()).await;
    assert_eq!(app.close().await, Err(Failure::TooSlow));
}

#[tokio::test]
async fn reading_is_bounded_too() {
    let limits = Limits {
        load_time: Duration::from_millis(700),
        ..limits()
    };
    let sandbox = sandbox_with(limits);
    for text in [
        "for (;;) {}",
        "Array.prototype.indexOf.call({ length: 1e15 }, 1)",
        "const a = []; for (;;) a.push(new Array(1000).fill(a.length))",
    ] {
        let begun = Instant::now();
        let fault = sandbox.read(&files([("index.js", text)])).await.unwrap_err();
        assert!(begun.elapsed() < Duration::from_secs(20), "{text}");
        assert!(fault.message.contains("the app "), "{fault}");
    }
}

#[tokio::test]
async fn code_that_is_nested_beyond_measure_is_refused() {
    let deep = format!("exports.a = {}1{}", "(".repeat(200_000), ")".repeat(200_000));
    read([("index.js", &deep)]).await.unwrap_err();
    let deep = format!("exports.a = {}{}", "[".repeat(200_000), "]".repeat(200_000));
    read([("index.ts", &deep)]).await.unwrap_err();
}

#[tokio::test]
async fn a_child_that_talks_nonsense_is_stopped() {
    let program = sandbox::Program::new("/bin/echo");
    let fault = sandbox::Sandbox::new(program, limits())
        .read(&files([("index.js", "")]))
        .await
        .unwrap_err();
    assert!(fault.message.contains("invalid message"), "{fault}");
    let program = sandbox::Program::new("/bin/true");
    let fault = sandbox::Sandbox::new(program, limits())
        .read(&files([("index.js", "")]))
        .await
        .unwrap_err();
    assert!(fault.message.contains("ended with"), "{fault}");
    let program = sandbox::Program::new("/not/there");
    let fault = sandbox::Sandbox::new(program, limits())
        .read(&files([("index.js", "")]))
        .await
        .unwrap_err();
    assert!(fault.message.contains("did not start"), "{fault}");
}

#[tokio::test]
async fn no_more_apps_are_open_than_may_be() {
    let limits = Limits {
        instances: 1,
        load_time: Duration::from_secs(2),
        ..limits()
    };
    let sandbox = sandbox_with(limits);
    let text = "export const onEvent = () => {}";
    let (first, host) = open_with(sandbox.clone(), text, Meta::default()).await;
    let code = sandbox.read(&files([("index.ts", text)])).await.unwrap().code;
    assert_eq!(
        sandbox.open(&code, Meta::default(), host.clone()).await.err(),
        Some(Failure::Busy)
    );
    drop(first);
    sandbox.open(&code, Meta::default(), host).await.unwrap();
}

/// The niceness, in the fields after the name.
fn nice(stat: &str) -> Option<&str> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(16)
}

/// Whether a process is a child of ours that has nothing of ours.
fn is_confined(process: &Path) -> bool {
    let read = |name: &str| std::fs::read_to_string(process.join(name)).unwrap_or_default();
    let status = read("status");
    let is_ours = status.contains(&format!("PPid:\t{}\n", std::process::id()));
    let has_no_rights = ["NoNewPrivs:\t1\n", "Seccomp:\t2\n", "CapEff:\t0000000000000000\n"];
    let is_filtered = has_no_rights.iter().all(|line| status.contains(line)) && !status.contains("Uid:\t0");
    let limits = read("limits");
    let has = |name: &str, soft: &str| {
        let line = limits.lines().find_map(|line| line.strip_prefix(name));
        line.is_some_and(|line| line.split_whitespace().next() == Some(soft))
    };
    let is_limited = has("Max core file size", "0") && has("Max file size", "0") && has("Max open files", "3");
    let is_bounded = !has("Max address space", "unlimited") && !has("Max cpu time", "unlimited");
    // Only root may look.
    let is_elsewhere = std::fs::read_link(process.join("cwd")).map_or(true, |folder| folder == Path::new("/"));
    // Whatever happens to the machine, apps give way to the server.
    let gives_way = read("oom_score_adj").trim() == "1000" && nice(&read("stat")) == Some("10");
    gives_way
        && is_ours
        && is_filtered
        && is_limited
        && is_bounded
        && is_elsewhere
        && has_no_environment(&read("environ"))
}

/// Settings of the allocator aside.
fn has_no_environment(variables: &str) -> bool {
    let mut variables = variables.split('\0').filter(|variable| !variable.is_empty());
    variables.all(|variable| variable.starts_with("MIMALLOC_"))
}

#[tokio::test]
async fn a_child_has_nothing_of_ours() {
    let (_app, _) = open("export const onEvent = () => {}").await;
    let mut processes = std::fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
    assert!(processes.any(|process| is_confined(&process)));
}

/// As values this would take a hundred times as much memory as its text.
#[tokio::test]
async fn what_a_call_carries_is_measured_before_anything_is_built_from_it() {
    let text = "
        const heavy = Array(590000).fill({ '': 0 })
        export const jobs = { x: () => {} }
        export const onEvent = async (event, { jobs }) => { await jobs.x(heavy).runNow() }
        export const composeWebhook = () => Array(140000).fill({ '': 0 })";
    let limits = Limits {
        memory: 64 * 1024 * 1024,
        ..limits()
    };
    let (mut app, host) = open_with(sandbox_with(limits), text, Meta::default()).await;
    let failure = app.call("onEvent", vec![json!({})]).await.unwrap_err();
    assert!(message(&failure).contains("too large for one call"), "{failure}");
    assert!(host.calls.lock().unwrap().is_empty());
    let nothing: [(); 0] = [];
    let webhook = app.call_with("composeWebhook", &nothing).await.unwrap();
    assert_eq!(webhook.text().len(), 140_000 * 7 + 1, "it stays text");
}

/// One that has to be told the time again and again would never end.
#[tokio::test]
async fn many_calls_together_have_the_time_of_one() {
    let text = "export const onEvent = () => new Promise((resolve) => setTimeout(resolve, 300))";
    let (mut app, _) = open_with(sandbox_with(brief()), text, Meta::default()).await;
    let begun = Instant::now();
    let outcomes = app.call_each("onEvent", vec![json!({}); 20]).await;
    assert!(begun.elapsed() < Duration::from_secs(5));
    assert!(
        outcomes[0].is_ok() && outcomes.contains(&Err(Failure::TooSlow)),
        "{outcomes:?}"
    );
    assert_eq!(outcomes.last(), Some(&Err(Failure::NotRun)));
}

/// It follows on loading, which is allowed much less.
#[tokio::test]
async fn the_first_call_has_the_processor_for_all_of_its_time() {
    let text = "export function composeWebhook() {
        for (const begun = Date.now(); Date.now() - begun < 8000; ) {}
        return 'done'
    }";
    let limits = Limits {
        load_time: Duration::from_secs(3),
        call_time: Duration::from_mins(1),
        ..limits()
    };
    let (mut app, _) = open_with(sandbox_with(limits), text, Meta::default()).await;
    assert_eq!(app.call("composeWebhook", vec![json!({})]).await, Ok(json!("done")));
}

/// A control character is six in JSON, and an app need not read what it asked for.
#[tokio::test]
async fn answers_that_an_app_does_not_read_take_little_memory() {
    let code = "export async function composeWebhook(event) {
        const all = Array.from({ length: 16 }, () => fetch('http://example.com/large'))
        for (const begun = Date.now(); event.waits && Date.now() - begun < 1000; ) {}
        let length = 0
        for (const answer of all) length += (await (await answer).text()).length
        return length
    }";
    let limits = Limits {
        memory: 256 * 1024 * 1024,
        // Without optimizations, reading all of it takes long on a busy machine.
        call_time: Duration::from_mins(5),
        ..limits()
    };
    let (mut app, host) = open_with(sandbox_with(limits), code, Meta::default()).await;
    let mut waits = Box::pin(app.call("composeWebhook", vec![json!({ "waits": true })]));
    let begun = tokio::time::Instant::now();
    while begun.elapsed() < Duration::from_millis(700) {
        let _ = tokio::time::timeout(Duration::from_millis(50), &mut waits).await;
        assert!(*host.large.lock().unwrap() < 12, "they wait for the app");
    }
    assert_eq!(waits.await.unwrap(), json!(16 * 1024 * 1024));
}

/// Its names were short when it was read, where it reaches nothing.
#[tokio::test]
async fn an_app_that_has_long_names_when_it_runs_is_not_started() {
    let text = "
        let jobs = {}
        try { setTimeout(() => {}, 0); jobs['x'.repeat(1_000_000)] = () => {} } catch {}
        exports.jobs = jobs
        exports.onEvent = () => {}
    ";
    let sandbox = sandbox_with(limits());
    let reading = sandbox.read(&files([("index.js", text)])).await.expect("it is read");
    assert!(reading.capabilities.jobs.is_empty(), "nothing is there to wait with");
    let host = Arc::new(Remembering::default());
    let opened = sandbox.open(&reading.code, Meta::default(), host).await;
    let failure = opened.err().expect("it is not started");
    assert!(matches!(failure, Failure::LongNames { .. }), "{failure}");
}
