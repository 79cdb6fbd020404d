//! The outside, as a running app reaches it: everything through this server, and nothing that is not its own.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use chrono::Datelike;
use events::capture::is_sensible;
use events::{Hold, Incoming};
use http::{HeaderName, HeaderValue, Method, Request};
use outbound::{Http, Meter};
use sandbox::{FetchRequest, FetchResponse, Host, HostCall, Json, Level, Reservation};
use serde_json::{Map, Value};
use service::Time;
use service::caller;
use service::pipeline::{AppConfig, AppLog, AppLogLevel, AppLogSource, Runnable};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use untrusted_json::{RESERVED, has_reserved_name};
use uuid::Uuid;

use crate::asked_hosts::AskedHosts;
use crate::pending_output::{Lines, PendingOutput};
use crate::shared::Core;

/// The last whose times are compared as text.
const LAST_YEAR: i32 = 9999;
const FETCH_TIME: Duration = Duration::from_secs(10);
/// Of a request.
const MAX_HEADERS: usize = 100;
const MAX_HEADER_BYTES: usize = 64 * 1024;
const MAX_ANSWER: usize = 4 * 1024 * 1024;
/// Lines that wait to be written down, and their bytes; more are counted and dropped.
const MAX_LINES: usize = 500;
const MAX_LINE_BYTES: usize = 512 * 1024;
/// In bytes, of which a line of the log keeps 2,000 characters. What is cut by the app's process is cut here as well.
const MAX_LINE: usize = 8 * 1000;
/// In characters: as long as those that are sent from outside can be.
const MAX_EVENT: usize = 200;
const MAX_DISTINCT_ID: usize = 200;
/// What the properties of an event of an app may take: as text, and as values in memory.
const MAX_PROPERTIES: usize = 256 * 1024;
const HEAVIEST_PROPERTIES: usize = 4 * 1024 * 1024;

pub(crate) struct Outlet {
    core: Arc<Core>,
    config: AppConfig,
    lines: Mutex<Lines>,
    asked: Arc<AskedHosts>,
    http: Http,
    /// One event at a time waits for memory.
    capturing: Semaphore,
}

impl Outlet {
    pub(crate) fn new(core: Arc<Core>, runnable: &Runnable) -> Arc<Self> {
        let config = runnable.config.clone();
        let asked = Arc::new(AskedHosts::default());
        let (allowed, remembered) = (runnable.hosts.clone(), asked.clone());
        let http = core.http.clone().of_programs(config.organization_id.0.as_u128());
        let http = http.only_to(move |host| {
            let is_allowed = allowed.allows(host);
            remembered.add(host, is_allowed);
            is_allowed
        });
        Arc::new(Self {
            http,
            core,
            config,
            lines: Mutex::default(),
            asked,
            capturing: Semaphore::new(1),
        })
    }

    /// What sends this app's requests, and nobody else's.
    pub(crate) fn http(&self) -> Http {
        self.http.clone()
    }

    /// What this server has to say of the app.
    pub(crate) fn say(&self, level: AppLogLevel, message: String) {
        self.note(AppLogSource::System, level, message);
    }

    fn note(&self, source: AppLogSource, level: AppLogLevel, message: String) {
        let message = cut(message, MAX_LINE);
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = lines.bytes + message.len();
        if lines.waiting.len() >= MAX_LINES || bytes > MAX_LINE_BYTES {
            lines.dropped += 1;
            return;
        }
        lines.bytes = bytes;
        lines.waiting.push(AppLog {
            source,
            level,
            message,
            created_at: self.core.service.clock().now(),
        });
    }

    /// Writes down what was said since the last time, and whom the app asked for.
    pub(crate) async fn flush(&self) {
        // In a task of its own: whoever waits for this may stop waiting, and what was taken would be lost.
        if let Err(error) = tokio::spawn(self.unwritten().write_down()).await {
            tracing::error!(
                error = &error as &dyn std::error::Error,
                "could not write down what an app said"
            );
        }
    }

    fn unwritten(&self) -> PendingOutput {
        PendingOutput {
            core: self.core.clone(),
            config: self.config.clone(),
            lines: std::mem::take(&mut *self.lines.lock().unwrap_or_else(PoisonError::into_inner)),
            asked: self.asked.clone(),
        }
    }

    async fn capture(
        &self,
        (event, distinct_id, timestamp): (String, String, Option<String>),
        properties: &Json,
        answer: &Reservation,
    ) -> Result<Json, String> {
        if event.is_empty() || event.chars().count() > MAX_EVENT {
            return Err(format!("an event name must have 1 to {MAX_EVENT} characters"));
        }
        let now = self.core.service.clock().now();
        let said = timestamp.map_or(Some(now), |text| text.parse::<Time>().ok());
        let timestamp = said.ok_or("the timestamp must be in the format 2026-11-15T09:30:00Z")?;
        if !is_sensible(timestamp, now) {
            return Err("the timestamp must be after 1900 and not in the future".to_owned());
        }
        if has_reserved_name(properties.text().as_bytes()) {
            return Err(format!("names of event properties cannot start with {RESERVED}"));
        }
        let memory = self.memory_for(memory_of(properties)?, answer).await;
        let read = serde_json::from_str(properties.text());
        let mut properties: Map<String, Value> = read.map_err(|_| "event properties must be an object")?;
        properties.entry("$lib").or_insert_with(|| "hedgerow-apps".into());
        let incoming = Incoming {
            uuid: None,
            event,
            distinct_id: distinct_id.chars().take(MAX_DISTINCT_ID).collect(),
            properties,
            timestamp,
        };
        // It is in memory until it is stored, even if the app does not wait for that.
        let turn = Hold::of(EventMemory(memory)).in_turn_of(self.organization().as_u128());
        let (events, team) = (&self.core.events, self.config.team_id.0);
        let stored = events.append_holding(turn, team, vec![incoming], now).await;
        stored.map_err(|error| {
            tracing::error!(
                error = &error as &dyn std::error::Error,
                "an app's event could not be stored"
            );
            "the event could not be stored: try again later".to_owned()
        })?;
        Ok(Json::null())
    }

    /// Room for an event of so many bytes, which organizations share. The call's answer counts how long it waits for that.
    async fn memory_for(&self, bytes: usize, answer: &Reservation) -> Reservation {
        let _turn = self.capturing.acquire().await;
        let memory = self
            .core
            .captured_events
            .reserve_for(self.organization())
            .counting_like(answer);
        memory.take_all(bytes).await;
        memory
    }

    async fn storage(&self, key: &str) -> Result<Json, String> {
        let stored = self.core.service.stored_of_app(&self.config, key).await;
        let stored = stored.map_err(|error| sentence(&error))?;
        Ok(stored.and_then(Json::from_text).unwrap_or_else(Json::null))
    }

    async fn store(&self, key: &str, value: &Json) -> Result<Json, String> {
        let stored = self.core.service.store_for_app(&self.config, key, value.text()).await;
        stored.map(|()| Json::null()).map_err(|error| sentence(&error))
    }

    async fn run_job(&self, name: &str, payload: &Json, delay_ms: u64) -> Result<Json, String> {
        let delay = i64::try_from(delay_ms)
            .ok()
            .and_then(chrono::TimeDelta::try_milliseconds);
        let at = delay.and_then(|delay| self.core.service.clock().now().checked_add_signed(delay));
        // Later years would be written with a sign, which sorts before all others.
        let at = at.filter(|at| at.year() <= LAST_YEAR);
        let at = at.ok_or("the delay of the job is too long")?;
        let queued = self
            .core
            .service
            .queue_app_job(&self.config, name, payload.text(), at)
            .await;
        queued.map(|()| Json::null()).map_err(|error| sentence(&error))
    }
}

/// However the app ended, what it said last is written down, and whom it asked for.
impl Drop for Outlet {
    fn drop(&mut self) {
        let unwritten = self.unwritten();
        // Without a runtime the server has ended, which has waited for all of its apps.
        if let (false, Ok(runtime)) = (unwritten.is_empty(), Handle::try_current()) {
            runtime.spawn(unwritten.write_down());
        }
    }
}

/// What an event of an app takes until it is stored. It is one, and short once it is text.
#[derive(Debug)]
struct EventMemory(#[expect(dead_code, reason = "it is given back with this")] Reservation);

impl events::Held for EventMemory {
    fn shrink_to(&mut self, _: usize) {}
}

/// What a body takes is counted before it is kept.
struct Metered(Arc<Reservation>);

#[async_trait]
impl Meter for Metered {
    async fn take(&self, piece: &[u8]) {
        self.0.grow_by_piece(piece).await;
    }
}

#[async_trait]
impl Host for Outlet {
    async fn fetch(&self, request: FetchRequest, memory: &Arc<Reservation>) -> Result<FetchResponse, String> {
        let request = outgoing(request)?;
        let client = self.http().within(FETCH_TIME).limited_to(MAX_ANSWER);
        let answer = client
            .following(5)
            .metered_by(Arc::new(Metered(memory.clone())))
            .send(request)
            .await
            .map_err(|error| error.to_string())?;
        let text = |(name, value): (&HeaderName, &HeaderValue)| {
            (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())
        };
        let headers: Vec<(String, String)> = answer.headers().iter().map(text).collect();
        let bytes: usize = headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        // As they are, and as they will be written.
        memory.grow(2 * bytes).await;
        Ok(FetchResponse {
            status: answer.status().as_u16(),
            headers,
            body: answer.into_body(),
        })
    }

    async fn call(&self, call: HostCall, memory: &Reservation) -> Result<Json, String> {
        if let Some(done) = self.core.caches.call((&self.config).into(), &call, Instant::now()) {
            return done;
        }
        caller::on_behalf_of_organization(self.config.organization_id, Box::pin(self.answer(call, memory))).await
    }

    fn organization(&self) -> Uuid {
        self.config.organization_id.0
    }

    fn log(&self, level: Level, message: String) {
        let level = match level {
            Level::Debug => AppLogLevel::Debug,
            Level::Log => AppLogLevel::Log,
            Level::Info => AppLogLevel::Info,
            Level::Warn => AppLogLevel::Warn,
            Level::Error => AppLogLevel::Error,
        };
        self.note(AppLogSource::Console, level, message);
    }
}

impl Outlet {
    /// What it takes the database to answer.
    async fn answer(&self, call: HostCall, memory: &Reservation) -> Result<Json, String> {
        match call {
            HostCall::StorageGet { key } => self.storage(&key).await,
            HostCall::StorageSet { key, value } => self.store(&key, &value).await,
            HostCall::StorageDel { key } => self.store(&key, &Json::null()).await,
            HostCall::CursorInit { key, value } => {
                let (service, value) = (&self.core.service, number(value));
                let stored = service.store_for_app_if_absent(&self.config, &key, value.text()).await;
                stored.map(|()| Json::null()).map_err(|error| sentence(&error))
            }
            HostCall::CursorIncrement { key, by } => {
                let sum = self.core.service.increment_for_app(&self.config, &key, by).await;
                sum.map(number).map_err(|error| sentence(&error))
            }
            HostCall::Capture {
                event,
                distinct_id,
                timestamp,
                properties,
            } => {
                let event = (event, distinct_id, timestamp);
                self.capture(event, &properties, memory).await
            }
            HostCall::RunJob {
                name,
                payload,
                delay_ms,
            } => self.run_job(&name, &payload, delay_ms).await,
            // Figures that apps count are accepted, as their code expects, and kept nowhere.
            _ => Ok(Json::null()),
        }
    }
}

/// A number as apps see it; what is none is null.
fn number(value: f64) -> Json {
    Value::from(value).into()
}

/// What properties take once they are values, in bytes; an error if that is more than they may.
fn memory_of(properties: &Json) -> Result<usize, String> {
    let text = properties.text();
    let heavy = || format!("event properties are too large or too complex: the limit is {MAX_PROPERTIES} bytes");
    if text.len() > MAX_PROPERTIES {
        return Err(heavy());
    }
    let needed = events::capture::estimate(text.as_bytes());
    if needed > HEAVIEST_PROPERTIES {
        return Err(heavy());
    }
    Ok(needed)
}

/// The beginning of a text, in so many bytes at most.
fn cut(mut text: String, most: usize) -> String {
    if text.len() > most {
        let end = (0..=most).rev().find(|end| text.is_char_boundary(*end));
        text.truncate(end.unwrap_or(0));
        text.shrink_to_fit();
    }
    text
}

pub(crate) fn outgoing(request: FetchRequest) -> Result<Request<Vec<u8>>, String> {
    // As text they are short: what a request takes is several times as much.
    let bytes: usize = request
        .headers
        .iter()
        .map(|(name, value)| name.len() + value.len())
        .sum();
    if request.headers.len() > MAX_HEADERS || bytes > MAX_HEADER_BYTES {
        return Err(format!(
            "a request can have at most {MAX_HEADERS} headers, of {MAX_HEADER_BYTES} bytes"
        ));
    }
    let method: Method = request.method.parse().map_err(|_| "invalid HTTP method".to_owned())?;
    let mut made = Request::builder().method(method).uri(request.url.as_str());
    for (name, value) in &request.headers {
        made = made.header(name.as_str(), value.as_str());
    }
    made.body(request.body.unwrap_or_default())
        .map_err(|_| "invalid URL or header".to_owned())
}

/// What an app may know of a failure of ours.
fn sentence(error: &service::Error) -> String {
    match error {
        service::Error::Invalid(_) => error.to_string(),
        error => {
            tracing::error!(error = error as &dyn std::error::Error, "an app could not be served");
            "temporary error: try again later".to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_few_headers() {
        let request = |count: usize, length: usize| FetchRequest {
            method: "GET".to_owned(),
            url: "https://example.com/".to_owned(),
            headers: vec![("abc".to_owned(), "x".repeat(length)); count],
            body: None,
        };
        assert!(outgoing(request(MAX_HEADERS, 500)).is_ok());
        assert!(outgoing(request(MAX_HEADERS + 1, 0)).is_err());
        assert!(outgoing(request(2, MAX_HEADER_BYTES / 2)).is_err());
    }
}
