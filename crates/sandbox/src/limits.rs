//! What an app may use.

use std::time::Duration;

use serde::{Deserialize, Serialize};

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// What a child gets on top of its time to say itself that the time is over.
pub(crate) const GRACE: Duration = Duration::from_millis(500);

/// How much less urgent apps are than the server, as the system counts it, and the least urgent of them.
pub(crate) const NICE: i32 = 10;
pub(crate) const NICEST: i32 = 19;

/// What an app may use before it is stopped.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Limits {
    /// The heap of its JavaScript, in bytes.
    pub memory: usize,
    /// The stack of its JavaScript, in bytes.
    pub stack: usize,
    /// How long reading it may take, and loading it before calls.
    pub load_time: Duration,
    /// How long one call may take, what it waits for included.
    pub call_time: Duration,
    /// How long its teardown may take.
    pub close_time: Duration,
    /// What a call may return, in bytes of JSON.
    pub result_bytes: usize,
    /// Lines a call may write into the log; what follows is counted and dropped.
    pub log_lines: usize,
    /// What a line of the log may hold, in bytes; what follows is cut.
    pub log_line_bytes: usize,
    /// Calls to the host that one call may make.
    pub host_calls: usize,
    /// Calls to the host that may be in progress at once.
    pub host_calls_at_once: usize,
    /// What a call to the host may carry, in bytes of JSON.
    pub host_call_bytes: usize,
    /// Apps that may be open at once.
    pub instances: usize,
    /// Apps that may be read at once.
    pub readings: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory: 64 * MIB,
            stack: 512 * KIB,
            load_time: Duration::from_secs(5),
            call_time: Duration::from_secs(30),
            close_time: Duration::from_secs(5),
            result_bytes: MIB,
            log_lines: 100,
            log_line_bytes: 8 * KIB,
            host_calls: 1000,
            host_calls_at_once: 32,
            host_call_bytes: 4 * MIB,
            instances: 64,
            readings: 2,
        }
    }
}

impl Limits {
    /// The longest line that comes from an open app that keeps to the limits.
    pub(crate) fn longest_line(&self) -> usize {
        // Each character of a line of the log may be escaped into six.
        let log = 6 * self.log_line_bytes;
        self.host_call_bytes.max(self.result_bytes).max(log) + 64 * KIB
    }

    /// The longest line that comes from a reading: it holds all of the code.
    pub(crate) const MAX_READING: usize = 24 * MIB;
}
