//! How fast apps are read and run, as a line of JSON: `cargo run --release -p sandbox --example speed`.

use std::error::Error;
use std::io::{Write, stdout};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use sandbox::{
    Code, FetchRequest, FetchResponse, Files, Host, HostCall, Instance, Level, Limits, Meta, Program, Reservation,
    Sandbox,
};
use serde_json::{Value, json};

const FILES: usize = 200;
const BATCH: usize = 1000;
const ROUNDS: usize = 20;
const STARTS: usize = 101;

/// A host that has nothing.
struct Nothing;

#[async_trait]
impl Host for Nothing {
    async fn fetch(&self, _: FetchRequest, _: &Arc<Reservation>) -> Result<FetchResponse, String> {
        Ok(FetchResponse {
            status: 200,
            ..FetchResponse::default()
        })
    }

    async fn call(&self, _: HostCall, _: &Reservation) -> Result<sandbox::Json, String> {
        Ok(sandbox::Json::null())
    }

    fn log(&self, _: Level, _: String) {}
}

fn main() -> Result<(), Box<dyn Error>> {
    if std::env::args().nth(1).is_some_and(|argument| argument == "sandbox") {
        sandbox::child();
    }
    // One thread for us and one for the child, as on a busy server.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let figures = runtime.block_on(measure())?;
    writeln!(stdout(), "{figures}")?;
    Ok(())
}

async fn measure() -> Result<Value, Box<dyn Error>> {
    let limits = Limits {
        memory: 256 << 20,
        ..Limits::default()
    };
    let sandbox = Sandbox::new(Program::this_with("sandbox"), limits);
    let app = app_of_many_files();
    let begun = Instant::now();
    let reading = sandbox.read(&app).await?;
    let read = begun.elapsed();
    let begun = Instant::now();
    drop(open(&sandbox, &reading.code).await?);
    let opened = begun.elapsed();

    let one = Files::from([("index.ts".to_owned(), [SHARED, OTHERS].concat())]);
    let code = sandbox.read(&one).await?.code;
    let start = start(&sandbox, &code).await?;
    let events = rate(&mut open(&sandbox, &code).await?, "onEvent").await?;
    let webhooks = rate(&mut open(&sandbox, &code).await?, "composeWebhook").await?;
    let fetching = rate(&mut open(&sandbox, &code).await?, "onAction").await?;
    Ok(json!({
        "files": FILES,
        "read_ms": milliseconds(read),
        "files_per_second": per_second(FILES, read),
        "open_ms": milliseconds(opened),
        "start_ms": milliseconds(start),
        "events_per_second": events,
        "webhooks_per_second": webhooks,
        "events_with_a_request_per_second": fetching,
    }))
}

/// What the peers run, too.
const SHARED: &str = include_str!("../../../bench/apps/app.js");
const OTHERS: &str = "
    export function composeWebhook(event, { config }) {
        return { url: 'https://example.com/', method: 'POST', body: JSON.stringify(event) }
    }
    export async function onAction(event) {
        await fetch('https://example.com/', { method: 'POST', body: JSON.stringify(event) })
    }";

async fn open(sandbox: &Sandbox, code: &Code) -> Result<Instance, Box<dyn Error>> {
    let mut app = sandbox.open(code, Meta::default(), Arc::new(Nothing)).await?;
    app.setup().await?;
    Ok(app)
}

/// How long it takes from nothing to an app of one file that is ready for calls: the median.
async fn start(sandbox: &Sandbox, code: &Code) -> Result<Duration, Box<dyn Error>> {
    let mut times = Vec::with_capacity(STARTS);
    for _ in 0..STARTS {
        let begun = Instant::now();
        let app = open(sandbox, code).await?;
        times.push(begun.elapsed());
        app.close().await?;
    }
    times.sort_unstable();
    Ok(times[STARTS / 2])
}

async fn rate(app: &mut Instance, method: &str) -> Result<f64, Box<dyn Error>> {
    let events: Vec<Value> = (0..BATCH).map(event).collect();
    let begun = Instant::now();
    for _ in 0..ROUNDS {
        let outcomes = app.call_each(method, events.clone()).await;
        outcomes.into_iter().collect::<Result<Vec<_>, _>>()?;
    }
    Ok(per_second(BATCH * ROUNDS, begun.elapsed()))
}

fn event(number: usize) -> Value {
    json!({
        "event": "$pageview", "distinct_id": format!("user-{number}"), "team_id": 1, "uuid": "0190a2b3-0000-7000-8000-000000000000",
        "timestamp": "2024-06-01T12:00:00.000Z",
        "properties": {
            "$current_url": "https://example.com/pricing?plan=large", "$browser": "Firefox", "$os": "Linux", "$lib": "web",
            "$screen_width": 1920, "$screen_height": 1080, "number": number, "list": [1, 2, 3], "title": "Pricing",
        },
    })
}

/// An entry that imports all others, each about sixty lines of TypeScript.
fn app_of_many_files() -> Files {
    let imports = joined(1..FILES, |n| format!("import {{ part{n} }} from './lib/part{n}'\n"));
    let uses = joined(1..FILES, |n| format!("    sum += part{n}(event)\n"));
    let entry =
        format!("{imports}export async function onEvent(event: any) {{\n    let sum = 0\n{uses}    return sum\n}}\n");
    let mut files: Files = (1..FILES).map(|n| (format!("lib/part{n}.ts"), part(n))).collect();
    files.insert("index.ts".to_owned(), entry);
    files.insert(
        "plugin.json".to_owned(),
        json!({ "name": "Large", "config": [] }).to_string(),
    );
    files
}

fn part(number: usize) -> String {
    let functions = joined(0..8, |n| {
        format!(
            "interface Shape{n} {{ name: string; values: number[]; nested?: {{ deep: boolean }} }}
                 function step{n}(shape: Shape{n}): number {{
                     const {{ name, values = [] }} = shape
                     let total: number = name.length as number
                     for (const value of values) total += value > {n} ? value : -value
                     return total ?? 0
                 }}\n"
        )
    });
    let calls = joined(0..8, |n| {
        format!(" + step{n}({{ name: String(event.event), values: [{n}, 2] }})")
    });
    format!(
        "enum Kind {{ A = {number}, B }}\n{functions}export const part{number} = (event: any): number => Kind.B{calls}\n"
    )
}

fn joined(numbers: Range<usize>, text: impl Fn(usize) -> String) -> String {
    numbers.map(text).collect()
}

fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 10_000.0).round() / 10.0
}

#[expect(clippy::cast_precision_loss, reason = "counts are small")]
fn per_second(count: usize, time: Duration) -> f64 {
    (count as f64 / time.as_secs_f64()).round()
}
