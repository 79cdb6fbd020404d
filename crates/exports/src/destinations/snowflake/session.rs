//! A session: signing in, running statements one after the other, and an end.

use std::time::Duration;

use http::{Method, Request, StatusCode, header};
use outbound::Http;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Value, json};
use service::Clock;
use service::batch_exports::destination::{Snowflake as Config, SnowflakeAuthentication};
use uuid::Uuid;

use super::answer::{Outcome, Reply};
use super::errors::{self, unreadable};
use super::key;
use crate::Error;
use crate::destinations::answers::read;
use crate::destinations::staging::{Backoff, RemoteWork};

/// How long one statement may run. The server is told, too.
const STATEMENT_TIME: Duration = Duration::from_hours(1);
/// How long tidying up may take.
const CLOSING_TIME: Duration = Duration::from_secs(10);
/// The statement is still running.
const BUSY: [u32; 2] = [333_333, 333_334];
/// The session's token has run out, and another one can be had.
const EXPIRED: u32 = 390_112;

/// Somebody signed in. Dropped, it is forgotten by the server after some hours; [`Session::close`] ends it immediately.
pub(super) struct Session {
    pub(super) http: Http,
    base: String,
    token: SecretString,
    master_token: Option<SecretString>,
    sequence: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SignedIn {
    token: SecretString,
    master_token: Option<SecretString>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Renewed {
    session_token: SecretString,
    master_token: Option<SecretString>,
}

impl Session {
    pub(super) async fn sign_in(http: &Http, base: &str, config: &Config) -> Result<Self, Error> {
        let url = format!("{base}/session/v1/login-request?requestId={}", Uuid::now_v7());
        let body = json!({ "data": credentials(config)? });
        let reply: Reply<SignedIn> = exchange(http, Method::POST, &url, None, &body).await?;
        let code = reply.code();
        match reply.data {
            Some(signed_in) if reply.success => Ok(Self {
                http: http.clone(),
                base: base.to_owned(),
                token: signed_in.token,
                master_token: signed_in.master_token,
                sequence: 0,
            }),
            _ => Err(errors::refused(code, reply.message)),
        }
    }

    /// Runs a statement to its end. If whoever waits gives up, the server is asked to stop, too.
    pub(super) async fn run(&mut self, sql: &str) -> Result<Outcome, Error> {
        match self.run_once(sql).await {
            Err(error) if errors::code_of(&error) == Some(EXPIRED) => {
                self.renew().await?;
                self.run_once(sql).await
            }
            other => other,
        }
    }

    async fn run_once(&mut self, sql: &str) -> Result<Outcome, Error> {
        self.sequence += 1;
        let request = Uuid::now_v7();
        let running = self.running(request);
        let url = format!("{}/queries/v1/query-request?requestId={request}", self.base);
        let body = json!({ "sqlText": sql, "asyncExec": false, "sequenceId": self.sequence });
        let mut backoff = Backoff::new(STATEMENT_TIME);
        let mut reply: Reply<Outcome> = exchange(&self.http, Method::POST, &url, Some(&self.token), &body).await?;
        while BUSY.contains(&reply.code()) {
            let again = reply.data.and_then(|data| data.get_result_url);
            let again = again.ok_or_else(|| unreadable("busy without a place to ask again"))?;
            // A path, never another host: the token goes along.
            if !again.starts_with('/') {
                return Err(unreadable("asked to go elsewhere for the result"));
            }
            backoff.pause("Snowflake").await?;
            let url = format!("{}{again}", self.base);
            reply = exchange(&self.http, Method::GET, &url, Some(&self.token), &Value::Null).await?;
        }
        running.ended();
        let code = reply.code();
        match reply.data {
            Some(outcome) if reply.success => Ok(outcome),
            _ if reply.success => Ok(Outcome::default()),
            _ => Err(errors::refused(code, reply.message)),
        }
    }

    fn running(&self, statement: Uuid) -> RemoteWork {
        let url = format!("{}/queries/v1/abort-request?requestId={}", self.base, Uuid::now_v7());
        let body = json!({ "requestId": statement.to_string() });
        RemoteWork::new(&self.http, request(Method::POST, &url, Some(&self.token), &body))
    }

    async fn renew(&mut self) -> Result<(), Error> {
        let master = self.master_token.as_ref();
        let master = master.ok_or_else(|| errors::refused(EXPIRED, Some("no master token".to_owned())))?;
        let url = format!("{}/session/token-request?requestId={}", self.base, Uuid::now_v7());
        let body = json!({ "oldSessionToken": self.token.expose_secret(), "requestType": "RENEW" });
        let reply: Reply<Renewed> = exchange(&self.http, Method::POST, &url, Some(master), &body).await?;
        let code = reply.code();
        let Some(renewed) = reply.data.filter(|_| reply.success) else {
            return Err(errors::refused(code, reply.message));
        };
        self.token = renewed.session_token;
        self.master_token = renewed.master_token.or(self.master_token.take());
        Ok(())
    }

    /// Ends the session, and with it its temporary stage and a transaction that was not committed.
    pub(super) async fn close(self) {
        let url = format!("{}/session?delete=true&requestId={}", self.base, Uuid::now_v7());
        let http = self.http.within(CLOSING_TIME);
        let ended = exchange::<IgnoredAny>(&http, Method::POST, &url, Some(&self.token), &json!({})).await;
        if let Err(error) = ended {
            tracing::debug!(
                error = &error as &dyn std::error::Error,
                "a Snowflake session was not ended"
            );
        }
    }
}

fn credentials(config: &Config) -> Result<Value, Error> {
    let mut data = json!({
        // The server chooses its response format by driver name. Unknown names were not tested, so this is the name of an
        // official driver; APPLICATION below identifies us.
        "CLIENT_APP_ID": "Go",
        "CLIENT_APP_VERSION": "1.18.0",
        "CLIENT_ENVIRONMENT": { "APPLICATION": "Hedgerow" },
        "ACCOUNT_NAME": key::account_name(&config.account),
        "LOGIN_NAME": config.user.expose_secret(),
        "SESSION_PARAMETERS": {
            "GO_QUERY_RESULT_FORMAT": "JSON",
            "QUERY_TAG": "hedgerow",
            "STATEMENT_TIMEOUT_IN_SECONDS": STATEMENT_TIME.as_secs(),
            // Times without a zone are in UTC, as the rest of an export is.
            "TIMEZONE": "UTC",
            // Whoever dies in a transaction gives its locks back soon.
            "ABORT_DETACHED_QUERY": true,
        },
    });
    match config.authentication_type {
        SnowflakeAuthentication::Password => {
            let missing = || Error::plain("password authentication requires the password");
            data["PASSWORD"] = config.password.as_ref().ok_or_else(missing)?.expose_secret().into();
        }
        SnowflakeAuthentication::Keypair => {
            data["AUTHENTICATOR"] = "SNOWFLAKE_JWT".into();
            data["TOKEN"] = key::token(config, Clock::System.now())?.into();
        }
    }
    Ok(data)
}

fn request(method: Method, url: &str, token: Option<&SecretString>, body: &Value) -> http::Result<Request<Vec<u8>>> {
    let mut request = Request::builder()
        .method(method)
        .uri(url)
        .header(header::ACCEPT, "application/json")
        .header(header::CONTENT_TYPE, "application/json");
    if let Some(token) = token {
        request = request.header(
            header::AUTHORIZATION,
            format!("Snowflake Token=\"{}\"", token.expose_secret()),
        );
    }
    let body = if body.is_null() {
        Vec::new()
    } else {
        body.to_string().into_bytes()
    };
    request.body(body)
}

async fn exchange<T: DeserializeOwned>(
    http: &Http,
    method: Method,
    url: &str,
    token: Option<&SecretString>,
    body: &Value,
) -> Result<Reply<T>, Error> {
    let request = request(method, url, token, body)
        .map_err(|cause| Error::permanent("the account or its endpoint_url does not form a valid URL", cause))?;
    let response = http.send(request).await?;
    let status = response.status();
    // An ended session is told with 401 and a code in the body.
    if status.is_success() || status == StatusCode::UNAUTHORIZED {
        return read(response.body(), unreadable);
    }
    match serde_json::from_slice::<Reply<IgnoredAny>>(response.body()) {
        Ok(reply) if reply.code() != 0 && !status.is_server_error() => {
            Err(errors::refused(reply.code(), reply.message))
        }
        _ => Err(errors::status(status)),
    }
}
