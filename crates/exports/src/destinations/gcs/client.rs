//! Requests to the JSON API, with a token, tried a few times.

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use object_store::gcp::{GcpCredentialProvider, GoogleCloudStorageBuilder};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use secrecy::ExposeSecret;
use service::batch_exports::destination::Gcs as Config;
use url::Url;

use crate::destinations::files::{Guarded, Words, answer, few_retries};
use crate::{Error, ExportsDeps};

const GOOGLE: &str = "https://storage.googleapis.com";
const PERMISSIONS: &str = "storage.objects.create, .get, .list and .delete (the role Storage Object User)";
/// Beyond this the whole delivery is tried again.
pub(super) const TRIES: u32 = 3;

/// A bucket.
#[derive(Debug, Clone)]
pub(super) struct Gcs {
    http: Guarded,
    pub(super) base: Url,
    bucket: String,
    credentials: GcpCredentialProvider,
    pub(super) words: Words,
}

impl Gcs {
    pub(super) fn new(config: &Config, deps: &ExportsDeps) -> Result<Self, Error> {
        let is_part_of_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
        if config.bucket_name.is_empty() || !config.bucket_name.bytes().all(is_part_of_name) {
            return Err(
                Error::plain("enter a valid bucket name: use letters, digits, dots, hyphens and underscores")
                    .in_key("bucket_name"),
            );
        }
        let base = Url::parse(config.endpoint_url.as_deref().unwrap_or(GOOGLE)).map_err(|cause| {
            Error::permanent("enter a valid URL, such as https://storage.example.com", cause).in_key("endpoint_url")
        })?;
        let http = Guarded::new(&deps.http);
        // The key is given, always: without it the store would ask the metadata address for a token. With it, tokens
        // are signed right here.
        let signer = GoogleCloudStorageBuilder::new()
            .with_bucket_name(&config.bucket_name)
            .with_service_account_key(config.service_account_key.expose_secret())
            .with_retry(few_retries())
            .with_http_connector(http.clone())
            .build()
            .map_err(|cause| {
                let sentence = "enter a valid service account key in JSON format, as downloaded from Google Cloud";
                Error::permanent(sentence, cause).in_key("service_account_key")
            })?;
        Ok(Self {
            http,
            base,
            bucket: config.bucket_name.clone(),
            credentials: signer.credentials().clone(),
            words: Words {
                place: format!("the bucket \"{}\"", config.bucket_name),
                credentials: "service_account_key",
                permissions: PERMISSIONS,
                region: None,
            },
        })
    }

    pub(super) fn objects_url(&self, above: &str, query: &[(&str, &str)]) -> Url {
        let mut url = self.base.clone();
        let base = self.base.path().trim_end_matches('/');
        url.set_path(&format!("{base}{above}/storage/v1/b/{}/o", self.bucket));
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        url
    }

    pub(super) fn object_url(&self, key: &str) -> String {
        let key = utf8_percent_encode(key, NON_ALPHANUMERIC);
        format!("{}/{key}", self.objects_url("", &[]))
    }

    /// Sends a request with a token, again if the store is busy; every status that is no success is an error.
    pub(super) async fn ask(&self, method: Method, url: &str, body: Bytes) -> Result<Response<Vec<u8>>, Refusal> {
        let mut tried = 1;
        loop {
            let request = Request::builder()
                .method(&method)
                .uri(url)
                .header(header::CONTENT_TYPE, "application/octet-stream")
                .body(body.clone());
            match self.send(request).await {
                Err(refusal) if !refusal.error.is_permanent && tried < TRIES => {
                    tokio::time::sleep(few_retries().backoff.init_backoff * tried).await;
                    tried += 1;
                }
                done => return done,
            }
        }
    }

    /// Sends a request with a token, once.
    async fn send(&self, request: http::Result<Request<Bytes>>) -> Result<Response<Vec<u8>>, Refusal> {
        let response = self.carry(request).await?;
        if response.status().is_success() {
            return Ok(response);
        }
        let answer = answer(&response);
        Err(Refusal {
            status: Some(answer.status),
            is_no_file: answer.is_no_file(),
            error: self.words.explain(&answer, answer.clone()),
        })
    }

    /// The same, but every status is a response.
    pub(super) async fn carry(&self, request: http::Result<Request<Bytes>>) -> Result<Response<Vec<u8>>, Refusal> {
        let unsent = |error| Refusal {
            status: None,
            is_no_file: false,
            error,
        };
        let mut request =
            request.map_err(|cause| unsent(Error::permanent("the settings do not form a valid URL", cause)))?;
        let token = self.credentials.get_credential().await;
        let token = token.map_err(|cause| {
            unsent(Error::permanent(
                "service_account_key cannot sign; create a new key and enter it",
                cause,
            ))
        })?;
        if !token.bearer.is_empty() {
            let value = format!("Bearer {}", token.bearer).parse();
            let mut value: http::HeaderValue = value.map_err(|cause| {
                unsent(Error::permanent(
                    "service_account_key does not produce a valid token",
                    cause,
                ))
            })?;
            value.set_sensitive(true);
            request.headers_mut().insert(header::AUTHORIZATION, value);
        }
        self.http.exchange(request).await.map_err(|error| unsent(error.into()))
    }
}

/// A request that came to nothing.
pub(super) struct Refusal {
    pub(super) status: Option<StatusCode>,
    pub(super) is_no_file: bool,
    pub(super) error: Error,
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        refusal.error
    }
}
