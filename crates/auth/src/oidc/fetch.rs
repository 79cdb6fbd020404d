//! How HTTP is done for us: by the caller, so that this crate opens no connection.

use std::error::Error;
use std::pin::Pin;

use http::{Request, Response};
use openidconnect::AsyncHttpClient;
use url::{Host, Url};

/// Carries out one HTTP request, without following redirects. Implemented by closures.
pub trait Fetch: Sync {
    fn fetch(&self, request: Request<Vec<u8>>) -> impl Future<Output = Result<Response<Vec<u8>>, FetchError>> + Send;
}

impl<F, A> Fetch for F
where
    F: Fn(Request<Vec<u8>>) -> A + Sync,
    A: Future<Output = Result<Response<Vec<u8>>, FetchError>> + Send,
{
    fn fetch(&self, request: Request<Vec<u8>>) -> impl Future<Output = Result<Response<Vec<u8>>, FetchError>> + Send {
        self(request)
    }
}

/// Why there is no response. What it displays may be shown to an administrator.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    #[error("{0}")]
    Failed(Box<dyn Error + Send + Sync>),
    #[error("the provider names {host:?} with a URL that is neither https nor loopback http")]
    Endpoint { host: String },
}

impl FetchError {
    pub fn new(cause: impl Error + Send + Sync + 'static) -> Self {
        Self::Failed(Box::new(cause))
    }
}

/// The caller's way to fetch, for endpoints that may be asked.
pub(super) struct Checked<'h, H>(pub(super) &'h H);

impl<'c, H: Fetch> AsyncHttpClient<'c> for Checked<'_, H> {
    type Error = FetchError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Vec<u8>>, FetchError>> + Send + 'c>>;

    fn call(&'c self, request: Request<Vec<u8>>) -> Self::Future {
        Box::pin(async move {
            let url = request.uri().to_string();
            let url = Url::parse(&url).map_err(|_| FetchError::Endpoint { host: url })?;
            check_endpoint(&url)?;
            self.0.fetch(request).await
        })
    }
}

/// Tokens and codes travel to these, so only encrypted or within this machine.
pub(super) fn check_endpoint(url: &Url) -> Result<(), FetchError> {
    let is_loopback = match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    };
    let has_user_info = !url.username().is_empty() || url.password().is_some();
    match url.scheme() {
        "https" if !has_user_info => Ok(()),
        "http" if is_loopback && !has_user_info => Ok(()),
        _ => Err(FetchError::Endpoint {
            host: url.host_str().unwrap_or_default().to_owned(),
        }),
    }
}
