//! What the tests share: a sandbox with short limits, and a host that remembers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use sandbox::{
    Failure, Fault, FetchRequest, FetchResponse, Files, Host, HostCall, Instance, Json, Level, Limits, Meta, Program,
    Reading, Reservation, Sandbox,
};
use serde_json::{Value, json};

pub(crate) fn limits() -> Limits {
    Limits {
        memory: 16 * 1024 * 1024,
        load_time: Duration::from_secs(5),
        call_time: Duration::from_secs(10),
        ..Limits::default()
    }
}

/// For apps that are to be stopped.
pub(crate) fn brief() -> Limits {
    Limits {
        call_time: Duration::from_millis(500),
        ..limits()
    }
}

pub(crate) fn sandbox() -> Sandbox {
    sandbox_with(limits())
}

pub(crate) fn sandbox_with(limits: Limits) -> Sandbox {
    Sandbox::new(Program::new(env!("CARGO_BIN_EXE_sandbox-child")), limits)
}

pub(crate) fn files<const N: usize>(files: [(&str, &str); N]) -> Files {
    files.map(|(name, text)| (name.to_owned(), text.to_owned())).into()
}

pub(crate) async fn read<const N: usize>(app: [(&str, &str); N]) -> Result<Reading, Fault> {
    sandbox().read(&files(app)).await
}

pub(crate) async fn refusal<const N: usize>(app: [(&str, &str); N]) -> String {
    read(app).await.unwrap_err().to_string()
}

/// The methods that an app of one file offers.
pub(crate) async fn methods(file: &str, text: &str) -> Vec<String> {
    read([(file, text)]).await.unwrap().capabilities.methods
}

/// An app of one file, open.
pub(crate) async fn open(text: &str) -> (Instance, Arc<Remembering>) {
    open_with(sandbox(), text, Meta::default()).await
}

pub(crate) async fn open_with(sandbox: Sandbox, text: &str, meta: Meta) -> (Instance, Arc<Remembering>) {
    let host = Arc::new(Remembering::default());
    let reading = sandbox.read(&files([("index.ts", text)])).await.unwrap();
    let instance = sandbox.open(&reading.code, meta, host.clone()).await.unwrap();
    (instance, host)
}

/// What a webhook composed of nothing returns: the way to get a value out of an app.
pub(crate) async fn value_of(body: &str) -> Value {
    let (mut app, _) = open(&format!(
        "export async function composeWebhook(event, meta) {{ {body} }}"
    ))
    .await;
    app.call("composeWebhook", vec![json!({})]).await.unwrap()
}

pub(crate) fn message(failure: &Failure) -> &str {
    match failure {
        Failure::Thrown { message, .. } => message,
        other => panic!("nothing was thrown, but {other:?}"),
    }
}

/// A host that keeps things in memory and answers every request with what was asked.
#[derive(Default)]
pub(crate) struct Remembering {
    pub(crate) logs: Mutex<Vec<(Level, String)>>,
    pub(crate) requests: Mutex<Vec<FetchRequest>>,
    pub(crate) calls: Mutex<Vec<HostCall>>,
    /// How many large bodies were handed out.
    pub(crate) large: Mutex<usize>,
    stored: Mutex<HashMap<String, Json>>,
}

impl Remembering {
    pub(crate) fn lines(&self) -> Vec<String> {
        self.logs.lock().unwrap().iter().map(|(_, line)| line.clone()).collect()
    }

    pub(crate) fn urls(&self) -> Vec<String> {
        self.requests
            .lock()
            .unwrap()
            .iter()
            .map(|request| request.url.clone())
            .collect()
    }
}

#[async_trait]
impl Host for Remembering {
    async fn fetch(&self, request: FetchRequest, memory: &Arc<Reservation>) -> Result<FetchResponse, String> {
        self.requests.lock().unwrap().push(request.clone());
        let path = request.url.split_once("://").map_or("", |(_, rest)| rest).to_owned();
        match path.split_once('/').map_or("", |(_, path)| path) {
            "refused" => Err("this address may not be reached".to_owned()),
            "slow" => {
                tokio::time::sleep(Duration::from_mins(1)).await;
                Err("too late".to_owned())
            }
            "binary" => Ok(FetchResponse {
                status: 200,
                headers: vec![],
                body: vec![0, 1, 254, 255],
            }),
            "large" => {
                let body = vec![1; 1024 * 1024];
                memory.grow_by_piece(&body).await;
                *self.large.lock().unwrap() += 1;
                Ok(FetchResponse {
                    status: 200,
                    headers: vec![],
                    body,
                })
            }
            "missing" => Ok(FetchResponse {
                status: 404,
                headers: vec![],
                body: b"no".to_vec(),
            }),
            _ => {
                let body = json!({ "method": request.method, "body": request.body, "headers": request.headers });
                let headers = vec![("Content-Type".to_owned(), "application/json".to_owned())];
                Ok(FetchResponse {
                    status: 200,
                    headers,
                    body: body.to_string().into_bytes(),
                })
            }
        }
    }

    async fn call(&self, call: HostCall, _: &Reservation) -> Result<Json, String> {
        self.calls.lock().unwrap().push(call.clone());
        let mut stored = self.stored.lock().unwrap();
        match call {
            HostCall::StorageGet { key } | HostCall::CacheGet { key } => {
                Ok(stored.get(&key).cloned().unwrap_or_else(Json::null))
            }
            HostCall::StorageSet { key, value } | HostCall::CacheSet { key, value, .. } => {
                stored.insert(key, value);
                Ok(Json::null())
            }
            HostCall::StorageDel { key } => {
                stored.remove(&key);
                Ok(Json::null())
            }
            HostCall::CacheIncr { key } => {
                let number = stored.get(&key).and_then(|json| json.text().parse::<i64>().ok());
                let next = Json::from(json!(number.unwrap_or(0) + 1));
                stored.insert(key, next.clone());
                Ok(next)
            }
            _ => Ok(Json::null()),
        }
    }

    fn log(&self, level: Level, message: String) {
        self.logs.lock().unwrap().push((level, message));
    }
}
