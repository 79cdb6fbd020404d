//! A request on its way, and what is left of it after a redirect.

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, StatusCode};
use url::Url;

use super::error::{HttpError, malformed};
use crate::policy::{Refusal, Rule};

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

/// A request whose URL was parsed once, by the parser whose reading is checked and dialed.
pub(super) struct Ask {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Ask {
    pub(super) fn new(request: Request<Bytes>) -> Result<Self, HttpError> {
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

    /// A GET that accepts this.
    pub(super) fn get(url: &str, accept: &str) -> Result<Self, HttpError> {
        let url = parse(url)?;
        let accept = accept.parse().map_err(malformed)?;
        Ok(Self {
            method: Method::GET,
            url,
            headers: HeaderMap::from_iter([(header::ACCEPT, accept)]),
            body: Bytes::new(),
        })
    }

    pub(super) fn host(&self) -> String {
        self.url.host_str().unwrap_or_default().to_owned()
    }

    pub(super) fn too_large(&self, limit: usize) -> HttpError {
        HttpError::TooLarge {
            host: self.host(),
            limit,
        }
    }

    /// A request that changes something is never sent a second time on the word of its receiver.
    pub(super) fn may_be_redirected(&self) -> bool {
        matches!(self.method, Method::GET | Method::HEAD)
    }

    pub(super) fn moved_to(mut self, url: Url) -> Result<Self, HttpError> {
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

/// Where a response sends us, if it does.
pub(super) fn redirect(from: &Url, response: &reqwest::Response) -> Option<Url> {
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

fn parse(url: &str) -> Result<Url, HttpError> {
    Url::parse(url).map_err(|_| HttpError::Refused(Refusal::new(Rule::NoHost, "not a URL")))
}
