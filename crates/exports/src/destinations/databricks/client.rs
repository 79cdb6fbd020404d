//! Requests: statements that are waited for, and files.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use chrono::TimeDelta;
use http::{Method, Request, header};
use outbound::Http;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::{Value, json};
use service::batch_exports::destination::Databricks as Config;
use service::{Clock, Time};
use tokio::sync::Mutex;
use url::Url;

use super::errors::{self, Refused, unreadable};
use crate::destinations::answers::{Bounded, Cells, MAX_ROWS, Row, read};
use crate::destinations::staging::{Backoff, RemoteWork};
use crate::{Error, ExportsDeps};

/// A statement is answered after 30 seconds at the latest, finished or not.
const EXCHANGE_TIME: Duration = Duration::from_secs(90);
/// How long one file may take.
const UPLOAD_TIME: Duration = Duration::from_mins(10);
/// How long one statement may run, the start of a warehouse that slept included.
const STATEMENT_TIME: Duration = Duration::from_hours(1);
/// A token that ends sooner than this is not used any more.
const SPARE: TimeDelta = TimeDelta::minutes(2);

/// A workspace, as somebody signed in sees it.
pub(super) struct Client {
    http: Http,
    base: Url,
    warehouse: String,
    catalog: String,
    schema: String,
    credentials: Credentials,
    kept: Mutex<Option<(SecretString, Time)>>,
}

enum Credentials {
    Token(SecretString),
    Principal { id: String, secret: SecretString },
}

#[derive(Deserialize)]
struct Granted {
    access_token: SecretString,
    #[serde(default)]
    expires_in: i64,
}

#[derive(Deserialize)]
struct Statement {
    #[serde(rename = "statement_id")]
    id: String,
    status: Status,
    result: Option<Rows>,
}

#[derive(Deserialize)]
struct Status {
    state: String,
    error: Option<Refused>,
}

#[derive(Deserialize)]
struct Rows {
    #[serde(default)]
    data_array: Bounded<Cells, MAX_ROWS>,
}

impl Rows {
    fn texts(self) -> Vec<Row> {
        self.data_array.0.into_iter().map(Cells::texts).collect()
    }
}

impl Client {
    pub(super) fn new(config: &Config, deps: &ExportsDeps) -> Result<Self, Error> {
        let credentials = match (&config.access_token, &config.client_id, &config.client_secret) {
            (Some(token), ..) => Credentials::Token(token.clone()),
            (None, Some(id), Some(secret)) => Credentials::Principal {
                id: id.clone(),
                secret: secret.clone(),
            },
            _ => {
                return Err(Error::plain("enter access_token, or client_id and client_secret").in_key("access_token"));
            }
        };
        Ok(Self {
            http: deps.http.clone().within(EXCHANGE_TIME),
            base: base(&config.server_hostname).map_err(|error| error.in_key("server_hostname"))?,
            warehouse: warehouse(&config.http_path).map_err(|error| error.in_key("http_path"))?,
            catalog: config.catalog.clone(),
            schema: config.schema.clone(),
            credentials,
            kept: Mutex::new(None),
        })
    }

    /// With a personal token there is nothing to ask for; the first statement shows whether it is good.
    pub(super) async fn sign_in(&self) -> Result<(), Error> {
        self.token().await.map(drop)
    }

    async fn running(&self, statement: &str) -> Result<RemoteWork, Error> {
        let url = self.url(&["api", "2.0", "sql", "statements", statement, "cancel"]);
        let token = self.token().await?;
        let request = Request::builder()
            .method(Method::POST)
            .uri(url.as_str())
            .header(header::AUTHORIZATION, format!("Bearer {}", token.expose_secret()));
        Ok(RemoteWork::new(&self.http, request.body(Vec::new())))
    }

    /// Runs a statement to its end and gives its first rows.
    pub(super) async fn run(&self, sql: &str) -> Result<Vec<Row>, Error> {
        let ask = json!({
            "warehouse_id": self.warehouse,
            "catalog": self.catalog,
            "schema": self.schema,
            "statement": sql,
            "wait_timeout": "30s",
            "on_wait_timeout": "CONTINUE",
            "disposition": "INLINE",
            "format": "JSON_ARRAY",
        });
        let mut answer = self
            .ask(Method::POST, &["api", "2.0", "sql", "statements"], Some(&ask))
            .await?;
        let mut backoff = Backoff::new(STATEMENT_TIME);
        let running = self.running(&answer.id).await?;
        while matches!(answer.status.state.as_str(), "PENDING" | "RUNNING") {
            backoff.pause("Databricks").await?;
            let path = ["api", "2.0", "sql", "statements", &answer.id];
            answer = self.ask(Method::GET, &path, None).await?;
        }
        running.ended();
        match answer.status.state.as_str() {
            "SUCCEEDED" => Ok(answer.result.map(Rows::texts).unwrap_or_default()),
            "FAILED" => Err(errors::refused(answer.status.error.unwrap_or_default())),
            state => Err(Error::retryable(
                "the statement was cancelled in Databricks; it will be retried",
                state.to_owned(),
            )),
        }
    }

    /// Writes a file, whatever was there.
    pub(super) async fn put(&self, path: &[String], file: Bytes) -> Result<(), Error> {
        let mut segments = vec!["api", "2.0", "fs", "files"];
        segments.extend(path.iter().map(String::as_str));
        let mut url = self.url(&segments);
        url.query_pairs_mut().append_pair("overwrite", "true");
        let token = self.token().await?;
        let request = Request::builder()
            .method(Method::PUT)
            .uri(url.as_str())
            .header(header::AUTHORIZATION, format!("Bearer {}", token.expose_secret()))
            .header(header::CONTENT_TYPE, "application/octet-stream")
            .body(file)
            .map_err(unreadable)?;
        let response = self.http.clone().within(UPLOAD_TIME).open(request).await?;
        let status = response.status();
        if status.is_success() {
            return Ok(());
        }
        let body = response.into_body().collect(outbound::http::BODY_LIMIT).await?;
        Err(errors::response(status, &body))
    }

    async fn ask(&self, method: Method, path: &[&str], body: Option<&Value>) -> Result<Statement, Error> {
        let token = self.token().await?;
        let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        let request = Request::builder()
            .method(method)
            .uri(self.url(path).as_str())
            .header(header::AUTHORIZATION, format!("Bearer {}", token.expose_secret()))
            .header(header::CONTENT_TYPE, "application/json")
            .body(body)
            .map_err(unreadable)?;
        let response = self.http.send(request).await?;
        if response.status().is_success() {
            return read(response.body(), unreadable);
        }
        Err(errors::response(response.status(), response.body()))
    }

    async fn token(&self) -> Result<SecretString, Error> {
        let (id, secret) = match &self.credentials {
            Credentials::Token(token) => return Ok(token.clone()),
            Credentials::Principal { id, secret } => (id, secret),
        };
        let now = Clock::System.now();
        let mut kept = self.kept.lock().await;
        if let Some((token, end)) = kept.as_ref()
            && now + SPARE < *end
        {
            return Ok(token.clone());
        }
        let basic = STANDARD.encode(format!("{id}:{}", secret.expose_secret()));
        let request = Request::builder()
            .method(Method::POST)
            .uri(self.url(&["oidc", "v1", "token"]).as_str())
            .header(header::AUTHORIZATION, format!("Basic {basic}"))
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(b"grant_type=client_credentials&scope=all-apis".to_vec())
            .map_err(unreadable)?;
        let response = self.http.send(request).await?;
        let status = response.status();
        if status.is_client_error() && status != http::StatusCode::TOO_MANY_REQUESTS {
            let cause = format!("the token server answered {status}");
            return Err(Error::permanent(
                "Databricks does not accept the service principal; check client_id and client_secret",
                cause,
            ));
        }
        if !status.is_success() {
            return Err(errors::response(status, response.body()));
        }
        let granted: Granted = serde_json::from_slice(response.body()).map_err(unreadable)?;
        *kept = Some((
            granted.access_token.clone(),
            now + TimeDelta::seconds(granted.expires_in.clamp(0, 3600)),
        ));
        Ok(granted.access_token)
    }

    /// Every part becomes one segment, whatever is in it.
    fn url(&self, path: &[&str]) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        url
    }
}

/// The host name becomes part of a URL, so it must be nothing but a host, perhaps with a port.
fn base(host: &str) -> Result<Url, Error> {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || ".-:".contains(char);
    let url = Url::parse(&format!("https://{host}")).ok();
    let url = url.filter(|_| !host.is_empty() && host.chars().all(is_plain));
    url.ok_or_else(|| {
        Error::plain("the server_hostname must be a host such as dbc-1234.cloud.databricks.com, without https://")
    })
}

/// The id at the end of `/sql/1.0/warehouses/abc`.
fn warehouse(path: &str) -> Result<String, Error> {
    let id = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let is_id = !id.is_empty() && id.chars().all(|char| char.is_ascii_alphanumeric());
    if is_id && path.contains("/warehouses/") {
        return Ok(id.to_owned());
    }
    Err(Error::plain(
        "the http_path must be the path of a SQL warehouse, such as /sql/1.0/warehouses/abc",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_texts_and_more_than_were_asked_for_are_refused() {
        let rows = |rows: &str| {
            let answer =
                format!(r#"{{"statement_id":"1","status":{{"state":"SUCCEEDED"}},"result":{{"data_array":{rows}}}}}"#);
            read(answer.as_bytes(), unreadable).map(|statement: Statement| statement.result.map(Rows::texts))
        };
        assert_eq!(
            rows(r#"[["a",null]]"#).unwrap(),
            Some(vec![vec![Some("a".to_owned()), None]])
        );
        let list = |item: &str| format!("[{}]", vec![item; 500_000].join(","));
        for many in [list("[]"), format!("[{}]", list("null"))] {
            assert!(rows(&many).unwrap_err().is_permanent);
        }
    }
}
