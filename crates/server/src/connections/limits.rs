//! What a connection may do, and how long.

use std::time::Duration;

use ipnet::IpNet;

/// Streams of HTTP/2 on one connection.
pub(super) const STREAMS: u32 = 32;

/// What a connection may do, and how long.
#[derive(Debug, Clone)]
pub(crate) struct Limits {
    /// Open at the same time, in all and from one network. Proxies are trusted to have limits of their own.
    pub(crate) connections: usize,
    pub(crate) of_network: usize,
    pub(crate) proxies: Vec<IpNet>,
    /// Requests in progress at the same time, on all connections of one network.
    pub(crate) requests_of_network: usize,
    /// From the beginning of a header to its end.
    pub(crate) header: Duration,
    /// Without a request that begins or ends. Longer than any request may take.
    pub(crate) idle: Duration,
    /// For what is in progress when the connection is closed.
    pub(crate) closing: Duration,
    /// Without the other side taking anything of an answer, whatever else it does on the connection.
    pub(crate) write: Duration,
    /// Between two pings of HTTP/2, and until their answer.
    pub(crate) ping: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 10_000,
            of_network: 500,
            requests_of_network: 1000,
            proxies: Vec::new(),
            header: Duration::from_secs(15),
            idle: Duration::from_mins(1),
            closing: Duration::from_secs(5),
            write: Duration::from_secs(30),
            ping: Duration::from_secs(20),
        }
    }
}

impl Limits {
    /// So many connections are let in without a look at the others. The rest of the room is for those that come while
    /// others are told to close.
    pub(crate) fn nearly_all(&self) -> usize {
        let rest = (self.connections / 16).max(2);
        self.connections.saturating_sub(rest).max(1)
    }
}
