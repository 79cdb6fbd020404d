//! Access tokens for a service account: a signed assertion is exchanged for one, which is kept until it runs out.

use chrono::TimeDelta;
use http::{Method, Request, header};
use outbound::Http;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::json;
use service::batch_exports::destination::BigQuery as Config;
use service::{Clock, Time};
use tokio::sync::Mutex;

use crate::Error;
use crate::destinations::staging::private_key;

const SCOPE: &str = "https://www.googleapis.com/auth/bigquery";
const GRANT: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
/// The longest that the server accepts.
const VALID_FOR: TimeDelta = TimeDelta::hours(1);
/// A token that ends sooner than this is not used any more.
const SPARE: TimeDelta = TimeDelta::minutes(2);

/// Where tokens come from.
pub(super) struct Tokens {
    config: Config,
    http: Http,
    kept: Mutex<Option<(SecretString, Time)>>,
}

#[derive(Deserialize)]
struct Granted {
    access_token: SecretString,
    #[serde(default)]
    expires_in: i64,
}

impl Tokens {
    pub(super) fn new(config: &Config, http: Http) -> Self {
        Self {
            config: config.clone(),
            http,
            kept: Mutex::new(None),
        }
    }

    /// A token that is valid for a while.
    pub(super) async fn token(&self) -> Result<SecretString, Error> {
        let now = Clock::System.now();
        let mut kept = self.kept.lock().await;
        if let Some((token, end)) = kept.as_ref()
            && now + SPARE < *end
        {
            return Ok(token.clone());
        }
        let granted = self.ask(now).await?;
        let seconds = granted.expires_in.clamp(0, VALID_FOR.num_seconds());
        *kept = Some((granted.access_token.clone(), now + TimeDelta::seconds(seconds)));
        Ok(granted.access_token)
    }

    async fn ask(&self, now: Time) -> Result<Granted, Error> {
        let assertion = self.assertion(now)?;
        let body: String = url::form_urlencoded::Serializer::new(String::new())
            .append_pair("grant_type", GRANT)
            .append_pair("assertion", &assertion)
            .finish();
        let request = Request::builder()
            .method(Method::POST)
            .uri(self.config.token_uri.expose_secret())
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(body.into_bytes())
            .map_err(|cause| Error::permanent("the token_uri is not a valid URL", cause))?;
        let response = self.http.send(request).await?;
        let status = response.status();
        if status.is_success() {
            return serde_json::from_slice(response.body()).map_err(|cause| {
                Error::permanent(
                    "the token_uri does not return a token; check it in the service account's key",
                    cause,
                )
            });
        }
        let cause = format!("the token server answered {status}");
        if status.is_server_error() || status == http::StatusCode::TOO_MANY_REQUESTS {
            return Err(Error::retryable(
                "the token server is temporarily unavailable; it will be retried",
                cause,
            ));
        }
        Err(Error::permanent(
            "the service account's key is not accepted; check private_key, private_key_id and client_email, and that the \
             key was not deleted",
            cause,
        ))
    }

    fn assertion(&self, now: Time) -> Result<String, Error> {
        let signer = private_key(&self.config.private_key, None)?;
        let header = json!({ "kid": self.config.private_key_id.expose_secret() });
        let claims = json!({
            "iss": self.config.client_email.expose_secret(),
            "scope": SCOPE,
            "aud": self.config.token_uri.expose_secret(),
            "iat": now.timestamp(),
            "exp": (now + VALID_FOR).timestamp(),
        });
        signer.sign(header, &claims)
    }
}
