//! The clients that hold connections: one for all, and those of single callers.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use reqwest::dns::{Addrs, Name, Resolving};

use crate::dial::{CONNECT_TIME, Dialer};

/// How many headers a response may have.
const HEADER_COUNT: usize = 100;

/// How long a receiver may read nothing.
const UNREAD_TIME: Duration = Duration::from_secs(15);

/// Clients of single callers that are kept; beyond these, the one that was used longest ago goes.
const MAX_CALLERS: usize = 200;

/// Whether connections stay open for the next exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Idle {
    Kept,
    /// Whoever decides how many there are must not be able to keep them all, each with what was read last in its buffer.
    Closed,
}

/// What clients of single callers are made of, and those that were made.
pub(super) struct Callers {
    dialer: Dialer,
    tls: rustls::ClientConfig,
    clients: Mutex<HashMap<(u128, Idle), (reqwest::Client, Instant)>>,
}

impl fmt::Debug for Callers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Callers")
    }
}

impl Callers {
    pub(super) fn new(dialer: Dialer, tls: rustls::ClientConfig) -> Self {
        Self {
            dialer,
            tls,
            clients: Mutex::default(),
        }
    }

    pub(super) fn client(&self, caller: u128, idle: Idle) -> Result<reqwest::Client, reqwest::Error> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((client, used_at)) = clients.get_mut(&(caller, idle)) {
            *used_at = Instant::now();
            return Ok(client.clone());
        }
        let client = build(self.dialer.of(caller), self.tls.clone(), idle)?;
        let oldest = clients.iter().min_by_key(|(_, (_, used_at))| *used_at);
        let oldest = oldest
            .map(|(caller, _)| *caller)
            .filter(|_| clients.len() >= MAX_CALLERS);
        if let Some(oldest) = oldest {
            clients.remove(&oldest);
        }
        clients.insert((caller, idle), (client.clone(), Instant::now()));
        Ok(client)
    }
}

pub(super) fn build(dialer: Dialer, tls: rustls::ClientConfig, idle: Idle) -> Result<reqwest::Client, reqwest::Error> {
    reqwest::Client::builder()
        .user_agent(concat!("hedgerow/", env!("CARGO_PKG_VERSION")))
        .tls_backend_preconfigured(tls)
        .dns_resolver(CheckedNames(dialer))
        // A proxy from the environment would do the dialling, unguarded.
        .no_proxy()
        // Followed by `Http`, which checks each of them.
        .redirect(reqwest::redirect::Policy::none())
        // Another crate may switch these on for the whole build; a small body must not unfold into a large one.
        .no_gzip()
        .no_brotli()
        .no_deflate()
        .no_zstd()
        .http1_only()
        .http1_max_headers(HEADER_COUNT)
        .connect_timeout(CONNECT_TIME)
        // Whoever reads nothing of what they are sent loses the connection.
        .tcp_user_timeout(UNREAD_TIME)
        .pool_idle_timeout(Duration::from_secs(30))
        .pool_max_idle_per_host(match idle {
            Idle::Kept => usize::MAX,
            Idle::Closed => 0,
        })
        .build()
}

/// The dialer, as reqwest asks it: only for names, never for literal addresses, which
/// [`Policy::check_url`](crate::Policy::check_url) has seen.
struct CheckedNames(Dialer);

impl reqwest::dns::Resolve for CheckedNames {
    fn resolve(&self, name: Name) -> Resolving {
        let dialer = self.0.clone();
        Box::pin(async move {
            let found = dialer.addresses(name.as_str()).await?;
            // Port 0: reqwest puts in the URL's.
            let addresses: Addrs = Box::new(found.into_iter().map(|address| (address, 0).into()));
            Ok(addresses)
        })
    }
}
