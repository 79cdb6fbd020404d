//! Object stores are spoken to through the guarded client and through nothing else.

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError as StoreError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};
use outbound::{Http, HttpError};
use serde::Deserialize;

use super::answer::{Answer, word};
use crate::destinations::answers::Bounded;

/// Answers are lists, small files and errors; rows are only ever sent.
const ANSWER_LIMIT: usize = 16 * 1024 * 1024;
/// Of an error.
const MAX_REASONS: usize = 100;

/// The guarded client, as `object_store` wants it.
#[derive(Debug, Clone)]
pub(crate) struct Guarded(Http);

impl Guarded {
    pub(crate) fn new(http: &Http) -> Self {
        Self(http.clone().limited_to(ANSWER_LIMIT))
    }

    /// One exchange, bounded in time and size as a whole; every status is a response.
    pub(crate) async fn exchange(&self, request: Request<Bytes>) -> Result<Response<Vec<u8>>, HttpError> {
        self.0.send(request.map(Vec::from)).await
    }
}

impl HttpConnector for Guarded {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

#[async_trait]
impl HttpService for Guarded {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, StoreError> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let response = self.exchange(Request::from_parts(parts, body)).await.map_err(unsent)?;
        if response.status().is_success() {
            return Ok(response.map(Into::into));
        }
        // As an error it comes out again whole; a response would become a text that nobody can read.
        let answer = answer(&response);
        let kind = if answer.is_retryable() {
            HttpErrorKind::Request
        } else {
            HttpErrorKind::Unknown
        };
        Err(StoreError::new(kind, answer))
    }
}

fn unsent(error: HttpError) -> StoreError {
    let kind = match &error {
        HttpError::Unreachable { .. } => HttpErrorKind::Connect,
        HttpError::TooSlow { .. } => HttpErrorKind::Timeout,
        HttpError::Broken { .. } => HttpErrorKind::Interrupted,
        HttpError::Refused(_)
        | HttpError::HostNotAllowed { .. }
        | HttpError::Malformed(_)
        | HttpError::TooLarge { .. } => HttpErrorKind::Unknown,
    };
    StoreError::new(kind, error)
}

/// Takes the store's short word out of its XML, its JSON, or Azure's header.
pub(crate) fn answer(response: &Response<Vec<u8>>) -> Answer {
    let header = response.headers().get("x-ms-error-code");
    let header = header.and_then(|code| code.to_str().ok()).map(str::to_owned);
    let body = String::from_utf8_lossy(response.body());
    let code = header.or_else(|| xml_code(&body)).or_else(|| json_reason(&body));
    Answer {
        status: response.status(),
        code: word(&code.unwrap_or_default()),
    }
}

fn xml_code(body: &str) -> Option<String> {
    let (_, rest) = body.split_once("<Code>")?;
    let (code, _) = rest.split_once("</Code>")?;
    Some(code.to_owned())
}

/// The first of Google's reasons.
fn json_reason(body: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Body {
        error: Inner,
    }
    #[derive(Deserialize)]
    struct Inner {
        errors: Bounded<Reason, MAX_REASONS>,
    }
    #[derive(Deserialize)]
    struct Reason {
        reason: Option<String>,
    }
    let body: Body = serde_json::from_str(body).ok()?;
    body.error.errors.0.into_iter().next()?.reason
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(body: &str) -> String {
        let response = Response::builder().status(403).body(body.as_bytes().to_vec());
        answer(&response.expect("a response")).code
    }

    #[test]
    fn the_stores_word_is_found() {
        assert_eq!(
            code("<?xml?><Error><Code>AccessDenied</Code><Message>x</Message></Error>"),
            "AccessDenied"
        );
        assert_eq!(
            code(r#"{"error":{"errors":[{"reason":"forbidden"}],"message":"x"}}"#),
            "forbidden"
        );
        assert_eq!(code("<Error><Code>see http://10.0.0.1/</Code></Error>"), "");
        assert_eq!(code("nginx"), "");
        let reasons = |count: usize| vec![r#"{"reason":"forbidden"}"#; count].join(",");
        let said = |reasons: &str| code(&format!(r#"{{"error":{{"errors":[{reasons}]}}}}"#));
        assert_eq!(said(&reasons(MAX_REASONS)), "forbidden");
        assert_eq!(said(&reasons(500_000)), "");
    }
}
