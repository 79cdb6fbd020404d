//! The outside, as an app may reach it.

use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{Json, Reservation};

/// What anything other than a request over HTTP may answer, in bytes of JSON.
pub(crate) const MAX_ANSWER: usize = 2 * 1024 * 1024;

/// Everything an app can reach. Errors are sentences for the app's author.
#[async_trait]
pub trait Host: Send + Sync + 'static {
    /// Sends a request. Whoever reads a large body lets the reservation grow first: it waits while there is no room.
    async fn fetch(&self, request: FetchRequest, memory: &Arc<Reservation>) -> Result<FetchResponse, String>;

    /// Does one of the other things, and says what came of it; `null` where nothing did.
    async fn call(&self, call: HostCall, memory: &Reservation) -> Result<Json, String>;

    fn log(&self, level: Level, message: String);

    /// Whose app it is. Organizations share the memory for answers.
    fn organization(&self) -> Uuid {
        Uuid::nil()
    }
}

/// An HTTP request of an app.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchRequest {
    pub url: String,
    pub method: String,
    pub headers: Vec<(String, String)>,
    pub body: Option<Vec<u8>>,
}

/// The response to it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FetchResponse {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// What an app asks for, other than HTTP. Whoever does it says how large each part may be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostCall {
    /// Answers the value, or `null` if there is none.
    StorageGet {
        key: String,
    },
    StorageSet {
        key: String,
        value: Json,
    },
    StorageDel {
        key: String,
    },
    /// Answers the value, or `null` if there is none.
    CacheGet {
        key: String,
    },
    CacheSet {
        key: String,
        value: Json,
        ttl_seconds: Option<f64>,
    },
    /// Answers the new number.
    CacheIncr {
        key: String,
    },
    /// Answers whether the key is there.
    CacheExpire {
        key: String,
        ttl_seconds: f64,
    },
    /// Answers the new length.
    CacheLpush {
        key: String,
        values: Vec<String>,
    },
    /// Answers strings. The end is included, and negative positions count from the end.
    CacheLrange {
        key: String,
        start: i64,
        end: i64,
    },
    CacheLlen {
        key: String,
    },
    /// Answers how many were removed.
    CacheLrem {
        key: String,
        count: i64,
        value: String,
    },
    /// Answers strings.
    CacheLpop {
        key: String,
        count: u64,
    },
    /// Sets a number in the storage, unless it is there already.
    CursorInit {
        key: String,
        value: f64,
    },
    /// Answers the new number.
    CursorIncrement {
        key: String,
        by: f64,
    },
    Capture {
        event: String,
        distinct_id: String,
        timestamp: Option<String>,
        /// An object.
        properties: Json,
    },
    RunJob {
        name: String,
        payload: Json,
        delay_ms: u64,
    },
    Metric {
        name: String,
        change: MetricChange,
        value: f64,
    },
}

impl HostCall {
    /// What the answer can take at most, in bytes, if it is worth counting.
    pub(crate) fn largest_answer(&self) -> usize {
        match self {
            Self::CacheLrange { .. } | Self::CacheLpop { .. } => MAX_ANSWER,
            Self::StorageGet { .. } => MAX_ANSWER / 4,
            _ => 0,
        }
    }
}

/// How a value enters a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MetricChange {
    Increment,
    Max,
    Min,
}

/// How much a line of the log matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    Debug,
    Log,
    Info,
    Warn,
    Error,
}
