//! How HTTP is done for us: by the caller, so that this crate opens no connection.

use std::error::Error;
use std::pin::Pin;

use base64::Engine;
use base64::alphabet::URL_SAFE;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use http::{Request, Response};
use openidconnect::AsyncHttpClient;
use serde::Deserialize;
use untrusted_json::RESERVED;
use url::{Host, Url};

/// The largest discovery document, list of keys or claims: a few times what large providers send. As values they take many times the
/// memory of their text, and who administers a domain chooses who sends them.
pub const MAX_RESPONSE_BYTES: usize = 64 * 1024;

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
            let response = self.0.fetch(request).await?;
            if response.body().len() > MAX_RESPONSE_BYTES {
                let cause = format!("the provider's response is larger than {MAX_RESPONSE_BYTES} bytes");
                return Err(FetchError::Failed(cause.into()));
            }
            if has_reserved_name(response.body()) {
                let cause = format!("the provider's response has a name that begins with {RESERVED}");
                return Err(FetchError::Failed(cause.into()));
            }
            Ok(response)
        })
    }
}

/// Also in a token: the response is one, or has one in it. What follows reads them into values.
fn has_reserved_name(body: &[u8]) -> bool {
    let token = match serde_json::from_slice::<Granted>(body) {
        Ok(granted) => granted.id_token,
        Err(_) => std::str::from_utf8(body).ok().map(ToOwned::to_owned),
    };
    let parts = token.iter().flat_map(|token| token.split('.'));
    let mut decoded = parts.filter_map(|part| LENIENT.decode(part).ok());
    untrusted_json::has_reserved_name(body) || decoded.any(|part| untrusted_json::has_reserved_name(&part))
}

#[derive(Deserialize)]
struct Granted {
    id_token: Option<String>,
}

/// Accepts any base64url variant.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

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

#[cfg(test)]
mod tests {
    use base64::prelude::BASE64_URL_SAFE_NO_PAD;
    use serde_json::json;

    use super::*;

    #[test]
    fn reserved_names_are_found_in_tokens_too() {
        let hostile = r#"{"aud":{"$serde_json::private::RawValue":"[]"}}"#;
        let token = |claims: &str| format!("e30.{}.c2ln", BASE64_URL_SAFE_NO_PAD.encode(claims));
        let granted = |claims: &str| json!({ "access_token": "a", "id_token": token(claims) }).to_string();
        for body in [hostile.to_owned(), token(hostile), granted(hostile)] {
            assert!(has_reserved_name(body.as_bytes()), "{body}");
        }
        let honest = r#"{"aud":"$serde_json::private::RawValue"}"#;
        for body in [honest.to_owned(), token(honest), granted(honest)] {
            assert!(!has_reserved_name(body.as_bytes()), "{body}");
        }
    }
}
