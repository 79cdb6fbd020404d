//! HTTP through the guarded dialer.

mod body;
mod client;
mod error;
mod request;

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, header};

use self::body::BodyMeter;
pub use self::body::{Chunks, Meter};
use self::client::{Callers, Idle, build};
pub use self::error::HttpError;
use self::error::unanswered;
use self::request::{Ask, redirect};
use crate::dial::Dialer;
use crate::outgoing::{Outgoing, SHORT};
use crate::policy::{Policy, Refusal, Rule};
use crate::tls::{BadCertificates, Roots};

/// What a whole exchange may take, redirects and body included, unless [`Http::within`] says otherwise.
pub const TOTAL_TIME: Duration = Duration::from_secs(30);

/// How large a response body may be, unless [`Http::limited_to`] says otherwise.
pub const BODY_LIMIT: usize = 4 * 1024 * 1024;

/// How large the response headers may be, together.
const HEADER_LIMIT: usize = 64 * 1024;

/// An HTTP client that reaches only what the policy allows. Cheap to clone; clones share their connections.
#[derive(Debug, Clone)]
pub struct Http {
    client: reqwest::Client,
    callers: Arc<Callers>,
    policy: Policy,
    total_time: Duration,
    body_limit: usize,
    /// What no later limit exceeds.
    highest_body_limit: usize,
    redirects: u8,
    hosts: Option<HostRule>,
    meter: Option<BodyMeter>,
}

/// Which hosts may be asked at all, beside what the policy says of their addresses.
#[derive(Clone)]
struct HostRule(Arc<dyn Fn(&str) -> bool + Send + Sync>);

impl fmt::Debug for HostRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HostRule")
    }
}

impl Http {
    pub fn new(dialer: Dialer, roots: &Roots) -> Result<Self, BadCertificates> {
        let policy = dialer.policy().clone();
        let tls = roots.client_config()?;
        let client = build(dialer.clone(), tls.clone(), Idle::Kept).map_err(BadCertificates::from_client)?;
        Ok(Self {
            client,
            callers: Arc::new(Callers::new(dialer, tls)),
            policy,
            total_time: TOTAL_TIME,
            body_limit: BODY_LIMIT,
            highest_body_limit: usize::MAX,
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
        self.body_limit = body_limit.min(self.highest_body_limit);
        self
    }

    /// The same client, whose limit on response bodies can no longer be more than this.
    #[must_use]
    pub fn never_more_than(mut self, body_limit: usize) -> Self {
        self.highest_body_limit = body_limit;
        let limit = self.body_limit;
        self.limited_to(limit)
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
        let ask = Ask::get(url, accept)?;
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
        let response = request.send().await.map_err(|error| unanswered(ask.host(), error))?;
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
