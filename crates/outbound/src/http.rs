//! HTTP through the guarded dialer.

use std::collections::HashMap;
use std::error::Error as StdError;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use reqwest::dns::{Addrs, Name, Resolving};
use url::Url;

use crate::dial::{CONNECT_TIME, DialError, Dialer};
use crate::outgoing::{Outgoing, SHORT};
use crate::policy::{Policy, Refusal, Rule};
use crate::tls::{BadCertificates, Roots};

/// What a whole exchange may take, redirects and body included, unless [`Http::within`] says otherwise.
pub const TOTAL_TIME: Duration = Duration::from_secs(30);

/// How large a response body may be, unless [`Http::limited_to`] says otherwise.
pub const BODY_LIMIT: usize = 4 * 1024 * 1024;

/// How large the response headers may be, together.
const HEADER_LIMIT: usize = 64 * 1024;
const HEADER_COUNT: usize = 100;

/// Headers that decide where a request goes or ends; they follow from the URL and the body alone.
const OURS: [HeaderName; 6] = [
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::HOST,
    header::TE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// The headers that follow a redirect to another origin, unless they were marked as sensitive. Any other may carry a
/// credential, whatever it is called.
const FOR_ANY_ORIGIN: [HeaderName; 6] = [
    header::ACCEPT,
    header::ACCEPT_ENCODING,
    header::ACCEPT_LANGUAGE,
    header::CACHE_CONTROL,
    header::CONTENT_TYPE,
    header::USER_AGENT,
];

/// How long a receiver may read nothing.
const UNREAD_TIME: Duration = Duration::from_secs(15);

/// Clients of single callers that are kept; beyond these, the one that was used longest ago goes.
const MOST_CALLERS: usize = 200;

/// An HTTP client that reaches only what the policy allows. Cheap to clone; clones share their connections.
#[derive(Debug, Clone)]
pub struct Http {
    client: reqwest::Client,
    callers: Arc<Callers>,
    policy: Policy,
    total_time: Duration,
    body_limit: usize,
    redirects: u8,
    hosts: Option<HostRule>,
    meter: Option<BodyMeter>,
}

/// Whether connections stay open for the next exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Idle {
    Kept,
    /// Whoever decides how many there are must not be able to keep them all, each with what was read last in its buffer.
    Closed,
}

/// What clients of single callers are made of, and those that were made.
struct Callers {
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
    fn client(&self, caller: u128, idle: Idle) -> Result<reqwest::Client, reqwest::Error> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((client, used_at)) = clients.get_mut(&(caller, idle)) {
            *used_at = Instant::now();
            return Ok(client.clone());
        }
        let client = build(self.dialer.of(caller), self.tls.clone(), idle)?;
        let oldest = clients.iter().min_by_key(|(_, (_, used_at))| *used_at);
        let oldest = oldest
            .map(|(caller, _)| *caller)
            .filter(|_| clients.len() >= MOST_CALLERS);
        if let Some(oldest) = oldest {
            clients.remove(&oldest);
        }
        clients.insert((caller, idle), (client.clone(), Instant::now()));
        Ok(client)
    }
}

/// Counts what is kept of a response's body.
#[async_trait::async_trait]
pub trait Meter: Send + Sync {
    /// Waits until there is room for this piece as well.
    async fn take(&self, piece: &[u8]);
}

#[derive(Clone)]
struct BodyMeter(Arc<dyn Meter>);

impl fmt::Debug for BodyMeter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BodyMeter")
    }
}

/// Which hosts may be asked at all, beside what the policy says of their addresses.
#[derive(Clone)]
struct HostRule(Arc<dyn Fn(&str) -> bool + Send + Sync>);

impl fmt::Debug for HostRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HostRule")
    }
}

/// Why there is no response. What it displays may be shown to whoever chose the URL: it names no address and
/// quotes nothing of the response. Its sources, and [`Refusal::detail`], are for the log.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    #[error("{0}")]
    Refused(Refusal),
    #[error("Requests to {host} are not allowed.")]
    HostNotAllowed { host: String },
    #[error("The request is malformed.")]
    Malformed(#[source] Box<dyn StdError + Send + Sync>),
    #[error(
        "The connection to {host} failed. Check the host, the port and its certificate, and that it accepts \
         connections from here."
    )]
    Unreachable { host: String, source: reqwest::Error },
    #[error("The request to {host} timed out after {} seconds.", limit.as_secs_f32())]
    TooSlow { host: String, limit: Duration },
    #[error("The response from {host} is larger than {limit} bytes.")]
    TooLarge { host: String, limit: usize },
    #[error("{host} closed the connection, or its response is not valid HTTP.")]
    Broken { host: String, source: reqwest::Error },
}

impl Http {
    pub fn new(dialer: Dialer, roots: &Roots) -> Result<Self, BadCertificates> {
        let policy = dialer.policy().clone();
        let tls = roots.client_config()?;
        let client = build(dialer.clone(), tls.clone(), Idle::Kept).map_err(BadCertificates::from_client)?;
        let callers = Callers {
            dialer,
            tls,
            clients: Mutex::default(),
        };
        Ok(Self {
            client,
            callers: Arc::new(callers),
            policy,
            total_time: TOTAL_TIME,
            body_limit: BODY_LIMIT,
            redirects: 0,
            hosts: None,
            meter: None,
        })
    }

    /// The same client for one caller: it has connections of its own, and whatever it looks up, others can look up
    /// names, too.
    #[must_use]
    pub fn of(self, caller: u128) -> Self {
        self.of_caller(caller, Idle::Kept)
    }

    /// The same for a caller whose own programs decide what is asked, and how often: no connection outlasts its exchange.
    #[must_use]
    pub fn of_programs(self, caller: u128) -> Self {
        self.of_caller(caller, Idle::Closed)
    }

    fn of_caller(mut self, caller: u128, idle: Idle) -> Self {
        match self.callers.client(caller, idle) {
            Ok(client) => self.client = client,
            Err(error) => tracing::error!(
                error = &error as &dyn StdError,
                "no client for one caller could be made"
            ),
        }
        self
    }

    /// The same client, which waits before it keeps more of a body than there is room for.
    #[must_use]
    pub fn metered_by(mut self, meter: Arc<dyn Meter>) -> Self {
        self.meter = Some(BodyMeter(meter));
        self
    }

    /// The same client with another limit on the time of a whole exchange.
    #[must_use]
    pub fn within(mut self, total_time: Duration) -> Self {
        self.total_time = total_time;
        self
    }

    /// The same client with another limit on response bodies, in bytes.
    #[must_use]
    pub fn limited_to(mut self, body_limit: usize) -> Self {
        self.body_limit = body_limit;
        self
    }

    /// The same client, following at most so many redirects of GET and HEAD requests.
    #[must_use]
    pub fn following(mut self, redirects: u8) -> Self {
        self.redirects = redirects;
        self
    }

    /// The same client for the hosts that the rule allows. It is asked for every request, redirects included, before a name is looked up.
    #[must_use]
    pub fn only_to(mut self, hosts: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        self.hosts = Some(HostRule(Arc::new(hosts)));
        self
    }

    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// GETs a URL.
    pub async fn get(&self, url: &str, accept: &str, limit: usize) -> Result<Response<Vec<u8>>, HttpError> {
        let url = parse(url)?;
        let accept = accept.parse().map_err(malformed)?;
        let headers = HeaderMap::from_iter([(header::ACCEPT, accept)]);
        let ask = Ask {
            method: Method::GET,
            url,
            headers,
            body: Bytes::new(),
        };
        self.clone().limited_to(limit).carry_out(ask).await
    }

    /// Sends a request; every status is a response, not an error.
    pub async fn send(&self, request: Request<Vec<u8>>) -> Result<Response<Vec<u8>>, HttpError> {
        self.carry_out(Ask::new(request.map(Bytes::from))?).await
    }

    /// Sends a request and hands out the response's body piece by piece, as it comes. The time of the whole exchange is
    /// unlimited; the limit holds for the headers and then for each piece. Redirects are not followed.
    pub async fn open(&self, request: Request<Bytes>) -> Result<Response<Chunks>, HttpError> {
        let ask = Ask::new(request)?;
        let host = ask.host();
        let limit = self.total_time;
        let too_slow = |_| HttpError::TooSlow {
            host: host.clone(),
            limit,
        };
        let mut response = tokio::time::timeout(limit, Box::pin(self.once(&ask)))
            .await
            .map_err(too_slow)??;
        let mut opened = Response::new(());
        *opened.status_mut() = response.status();
        *opened.version_mut() = response.version();
        *opened.headers_mut() = std::mem::take(response.headers_mut());
        Ok(opened.map(|()| Chunks { response, host, limit }))
    }

    async fn carry_out(&self, ask: Ask) -> Result<Response<Vec<u8>>, HttpError> {
        let host = ask.host();
        let too_slow = |_| HttpError::TooSlow {
            host,
            limit: self.total_time,
        };
        tokio::time::timeout(self.total_time, self.follow(ask))
            .await
            .map_err(too_slow)?
    }

    async fn follow(&self, mut ask: Ask) -> Result<Response<Vec<u8>>, HttpError> {
        for followed in 0..=self.redirects {
            let response = Box::pin(self.once(&ask)).await?;
            if self.redirects == 0 || !ask.may_be_redirected() {
                return self.read(&ask, response).await;
            }
            let Some(target) = redirect(&ask.url, &response) else {
                return self.read(&ask, response).await;
            };
            tracing::debug!(followed, "following a redirect");
            ask = ask.moved_to(target)?;
        }
        Err(HttpError::Refused(Refusal::new(
            Rule::TooManyRedirects,
            ask.url.as_str(),
        )))
    }

    /// One request to one place, checked.
    async fn once(&self, ask: &Ask) -> Result<reqwest::Response, HttpError> {
        self.policy.check_url(&ask.url).map_err(HttpError::Refused)?;
        let host = ask.host();
        if let Some(HostRule(allows)) = &self.hosts
            && !allows(&host)
        {
            return Err(HttpError::HostNotAllowed { host });
        }
        let request = self
            .client
            .request(ask.method.clone(), ask.url.clone())
            .headers(ask.headers.clone());
        let (outgoing, request) = if ask.body.len() <= SHORT {
            (None, request.body(ask.body.clone()))
        } else {
            let (outgoing, body) = Outgoing::new(ask.body.clone());
            let request = request.header(header::CONTENT_LENGTH, ask.body.len()).body(body);
            (Some(outgoing), request)
        };
        let response = request.send().await.map_err(|error| unanswered(ask, error))?;
        if let Some(outgoing) = outgoing {
            outgoing.sent().await;
        }
        let size: usize = response
            .headers()
            .iter()
            .map(|(name, value)| name.as_str().len() + value.len())
            .sum();
        if size > HEADER_LIMIT {
            return Err(ask.too_large(HEADER_LIMIT));
        }
        Ok(response)
    }

    /// Reads the body piece by piece and gives up at the limit, whatever length was announced.
    async fn read(&self, ask: &Ask, mut response: reqwest::Response) -> Result<Response<Vec<u8>>, HttpError> {
        let limit = self.body_limit;
        let broken = |source| HttpError::Broken {
            host: ask.host(),
            source,
        };
        let mut body = Vec::new();
        while let Some(piece) = response.chunk().await.map_err(broken)? {
            if body.len() + piece.len() > limit {
                return Err(ask.too_large(limit));
            }
            if let Some(BodyMeter(meter)) = &self.meter {
                meter.take(&piece).await;
            }
            body.extend_from_slice(&piece);
        }
        let mut whole = Response::new(body);
        *whole.status_mut() = response.status();
        *whole.version_mut() = response.version();
        *whole.headers_mut() = std::mem::take(response.headers_mut());
        Ok(whole)
    }
}

/// The body of a response on its way in. Dropped, it closes the connection.
#[derive(Debug)]
pub struct Chunks {
    response: reqwest::Response,
    host: String,
    limit: Duration,
}

impl Chunks {
    /// The next piece; none after the last.
    pub async fn next(&mut self) -> Result<Option<Bytes>, HttpError> {
        let next = tokio::time::timeout(self.limit, self.response.chunk()).await;
        let read = next.map_err(|_| HttpError::TooSlow {
            host: self.host.clone(),
            limit: self.limit,
        })?;
        read.map_err(|source| HttpError::Broken {
            host: self.host.clone(),
            source,
        })
    }

    /// The whole of it, unless it is larger than `limit` bytes.
    pub async fn collect(mut self, limit: usize) -> Result<Vec<u8>, HttpError> {
        let mut body = Vec::new();
        while let Some(piece) = self.next().await? {
            if body.len() + piece.len() > limit {
                return Err(HttpError::TooLarge { host: self.host, limit });
            }
            body.extend_from_slice(&piece);
        }
        Ok(body)
    }
}

/// A request whose URL was parsed once, by the parser whose reading is checked and dialled.
struct Ask {
    method: Method,
    url: Url,
    headers: HeaderMap,
    body: Bytes,
}

impl Ask {
    fn new(request: Request<Bytes>) -> Result<Self, HttpError> {
        let (parts, body) = request.into_parts();
        let url = parse(&parts.uri.to_string())?;
        let mut headers = parts.headers;
        for name in OURS {
            headers.remove(name);
        }
        Ok(Self {
            method: parts.method,
            url,
            headers,
            body,
        })
    }

    fn host(&self) -> String {
        self.url.host_str().unwrap_or_default().to_owned()
    }

    fn too_large(&self, limit: usize) -> HttpError {
        HttpError::TooLarge {
            host: self.host(),
            limit,
        }
    }

    /// A request that changes something is never sent a second time on the word of its receiver.
    fn may_be_redirected(&self) -> bool {
        matches!(self.method, Method::GET | Method::HEAD)
    }

    fn moved_to(mut self, url: Url) -> Result<Self, HttpError> {
        if self.url.scheme() == "https" && url.scheme() == "http" {
            return Err(HttpError::Refused(Refusal::new(Rule::Downgrade, url.as_str())));
        }
        if self.url.origin() != url.origin() {
            let may_travel = |name: &HeaderName| {
                let is_sensitive = self.headers.get_all(name).iter().any(HeaderValue::is_sensitive);
                FOR_ANY_ORIGIN.contains(name) && !is_sensitive
            };
            let kept: Vec<HeaderName> = self.headers.keys().filter(|name| !may_travel(name)).cloned().collect();
            for name in kept {
                self.headers.remove(name);
            }
        }
        self.url = url;
        Ok(self)
    }
}

fn build(dialer: Dialer, tls: rustls::ClientConfig, idle: Idle) -> Result<reqwest::Client, reqwest::Error> {
    reqwest::Client::builder()
        .user_agent(concat!("hedgerow/", env!("CARGO_PKG_VERSION")))
        .tls_backend_preconfigured(tls)
        .dns_resolver(CheckedNames(dialer))
        // A proxy from the environment would do the dialling, unguarded.
        .no_proxy()
        // Followed above, where each is checked.
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

/// Where a response sends us, if it does.
fn redirect(from: &Url, response: &reqwest::Response) -> Option<Url> {
    let moves = [
        StatusCode::MOVED_PERMANENTLY,
        StatusCode::FOUND,
        StatusCode::SEE_OTHER,
        StatusCode::TEMPORARY_REDIRECT,
        StatusCode::PERMANENT_REDIRECT,
    ];
    if !moves.contains(&response.status()) {
        return None;
    }
    let location = response.headers().get(header::LOCATION)?.to_str().ok()?;
    from.join(location).ok()
}

/// The dialer, as reqwest asks it: only for names, never for literal addresses, which [`Policy::check_url`] has seen.
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

fn parse(url: &str) -> Result<Url, HttpError> {
    Url::parse(url).map_err(|_| HttpError::Refused(Refusal::new(Rule::NoHost, "not a URL")))
}

fn malformed(cause: impl StdError + Send + Sync + 'static) -> HttpError {
    HttpError::Malformed(Box::new(cause))
}

/// Finds our own refusal inside reqwest's error.
fn unanswered(ask: &Ask, error: reqwest::Error) -> HttpError {
    let host = ask.host();
    if let Some(refusal) = refusal_in(&error) {
        return HttpError::Refused(refusal);
    }
    // The URL may carry a token, and the log need not know it.
    let source = error.without_url();
    match source {
        source if source.is_timeout() => HttpError::TooSlow {
            host,
            limit: CONNECT_TIME,
        },
        source if source.is_connect() => HttpError::Unreachable { host, source },
        source if source.is_builder() => malformed(source),
        source => HttpError::Broken { host, source },
    }
}

fn refusal_in(error: &(dyn StdError + 'static)) -> Option<Refusal> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(DialError::Refused(refusal)) = error.downcast_ref::<DialError>() {
            return Some(refusal.clone());
        }
        next = error.source();
    }
    None
}
