//! Requests: tables, and jobs that are waited for.

use std::sync::OnceLock;
use std::time::Duration;

use bytes::Bytes;
use chrono::TimeDelta;
use http::request::Builder;
use http::{Method, Request, StatusCode, header};
use outbound::Http;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::{Value, json};
use service::Clock;
use service::batch_exports::destination::BigQuery as Config;
use url::Url;
use uuid::Uuid;

use super::errors::{self, Reason, unreadable};
use super::tables::Table;
use super::token::Tokens;
use crate::destinations::answers::{Bounded, Cell, MAX_CELLS, MAX_ROWS, Row, read};
use crate::destinations::staging::{Backoff, RemoteWork};
use crate::{Error, ExportsDeps};

const GOOGLE: &str = "https://bigquery.googleapis.com";
const EXCHANGE_TIME: Duration = Duration::from_mins(1);
/// How long one file may take.
const UPLOAD_TIME: Duration = Duration::from_mins(10);
/// How long one job may run. The server is told, too.
const JOB_TIME: Duration = Duration::from_hours(1);
/// The server answers by then, finished or not.
const ANSWER_TIME: Duration = Duration::from_secs(20);
/// Tables of attempts that died are removed by `BigQuery` after this long.
const STAGE_LIFE: TimeDelta = TimeDelta::days(1);

/// A dataset of a project, as somebody signed in sees it.
pub(super) struct Client {
    http: Http,
    base: Url,
    project: String,
    dataset: String,
    tokens: Tokens,
    /// Jobs run where the dataset is.
    location: OnceLock<String>,
}

#[derive(Deserialize)]
struct Job {
    status: JobStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct JobStatus {
    state: String,
    error_result: Option<Reason>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Results {
    #[serde(default)]
    job_complete: bool,
    #[serde(default)]
    rows: Bounded<ResultRow, MAX_ROWS>,
    job_reference: Option<JobReference>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct JobReference {
    job_id: String,
}

#[derive(Deserialize)]
struct ResultRow {
    f: Bounded<ResultCell, MAX_CELLS>,
}

#[derive(Deserialize)]
struct ResultCell {
    v: Cell,
}

impl Client {
    pub(super) fn new(config: &Config, deps: &ExportsDeps) -> Result<Self, Error> {
        let base = config.endpoint_url.as_deref().unwrap_or(GOOGLE);
        let base = Url::parse(base).map_err(|cause| {
            Error::permanent("enter a valid URL, such as https://bigquery.example.com", cause).in_key("endpoint_url")
        })?;
        let http = deps.http.clone().within(EXCHANGE_TIME);
        Ok(Self {
            tokens: Tokens::new(config, http.clone()),
            http,
            base,
            project: config.project_id.clone(),
            dataset: config.dataset_id.clone(),
            location: OnceLock::new(),
        })
    }

    pub(super) async fn sign_in(&self) -> Result<(), Error> {
        self.tokens.token().await.map(drop)
    }

    /// Sees where the dataset is.
    pub(super) async fn locate(&self, dataset: &str) -> Result<(), Error> {
        #[derive(Deserialize)]
        struct Dataset {
            location: Option<String>,
        }
        if self.location.get().is_none() {
            let found = self.call(Method::GET, self.url(&["datasets", dataset]), None).await?;
            let found: Dataset = serde_json::from_slice(&found).map_err(unreadable)?;
            let _ = self.location.set(found.location.unwrap_or_else(|| "US".to_owned()));
        }
        Ok(())
    }

    pub(super) async fn find(&self, table: &str) -> Result<Option<Table>, Error> {
        let url = self.url(&["datasets", &self.dataset, "tables", table]);
        let response = self.send(Method::GET, url, None).await?;
        match response.status() {
            StatusCode::NOT_FOUND => Ok(None),
            status if status.is_success() => read(response.body(), unreadable).map(Some),
            status => Err(errors::response(status, response.body())),
        }
    }

    /// The table as it is; it is made if it is not there.
    pub(super) async fn ensure(&self, name: &str, wanted: &Table) -> Result<Table, Error> {
        if let Some(table) = self.find(name).await? {
            return Ok(table);
        }
        self.create(name, wanted).await?;
        Ok(self.find(name).await?.unwrap_or_else(|| wanted.clone()))
    }

    /// Makes a table. That somebody else has just made it is as good.
    pub(super) async fn create(&self, name: &str, table: &Table) -> Result<(), Error> {
        let mut description = table.description();
        description["tableReference"] =
            json!({ "projectId": self.project, "datasetId": self.dataset, "tableId": name });
        if table.is_temporary {
            let end = Clock::System.now() + STAGE_LIFE;
            description["expirationTime"] = end.timestamp_millis().to_string().into();
        }
        let url = self.url(&["datasets", &self.dataset, "tables"]);
        let response = self.send(Method::POST, url, Some(&description)).await?;
        match response.status() {
            StatusCode::CONFLICT => Ok(()),
            status if status.is_success() => Ok(()),
            status => Err(errors::response(status, response.body())),
        }
    }

    pub(super) async fn remove(&self, table: &str) {
        let url = self.url(&["datasets", &self.dataset, "tables", table]);
        match self.send(Method::DELETE, url, None).await {
            Ok(response) if response.status().is_success() || response.status() == StatusCode::NOT_FOUND => {}
            Ok(response) => tracing::warn!(status = %response.status(), "a stage table was left behind"),
            Err(error) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "a stage table was left behind"
                );
            }
        }
    }

    /// The rows of a query that gives few.
    pub(super) async fn rows(&self, sql: &str) -> Result<Vec<Row>, Error> {
        let ask = json!({
            "query": sql,
            "useLegacySql": false,
            "location": self.location(),
            "timeoutMs": ANSWER_TIME.as_millis(),
            "requestId": Uuid::now_v7().to_string(),
        });
        let answer = self.call(Method::POST, self.url(&["queries"]), Some(&ask)).await?;
        let mut results: Results = read(&answer, unreadable)?;
        let mut backoff = Backoff::new(JOB_TIME);
        while !results.job_complete {
            let job = results
                .job_reference
                .ok_or_else(|| unreadable("unfinished, without a job"))?;
            backoff.pause("BigQuery").await?;
            let mut url = self.url(&["queries", &job.job_id]);
            url.query_pairs_mut().append_pair("location", self.location());
            let answer = self.call(Method::GET, url, None).await?;
            results = read(&answer, unreadable)?;
        }
        Ok(texts(results.rows))
    }

    /// Runs a statement or a script to its end.
    pub(super) async fn run(&self, sql: &str) -> Result<(), Error> {
        let job = format!("hedgerow_{}", Uuid::now_v7().simple());
        let configuration = json!({ "query": { "query": sql, "useLegacySql": false }, "jobTimeoutMs": JOB_TIME.as_millis().to_string() });
        let running = self.running(&job).await?;
        let response = self
            .send(Method::POST, self.url(&["jobs"]), Some(&self.job(&job, &configuration)))
            .await?;
        if !response.status().is_success() {
            running.ended();
            return Err(errors::response(response.status(), response.body()));
        }
        let done = self.wait(&job, response.body()).await;
        running.ended();
        done
    }

    async fn running(&self, job: &str) -> Result<RemoteWork, Error> {
        let mut url = self.url(&["jobs", job, "cancel"]);
        url.query_pairs_mut().append_pair("location", self.location());
        let request = authorized(&self.tokens.token().await?).method(Method::POST);
        Ok(RemoteWork::new(&self.http, request.uri(url.as_str()).body(Vec::new())))
    }

    /// Adds a file of rows to a table.
    pub(super) async fn load(&self, table: &str, job: &str, file: Bytes) -> Result<(), Error> {
        let configuration = json!({ "load": {
            "destinationTable": { "projectId": self.project, "datasetId": self.dataset, "tableId": table },
            "sourceFormat": "PARQUET",
            "writeDisposition": "WRITE_APPEND",
            "createDisposition": "CREATE_NEVER",
        }});
        let mut url = self.url_below("upload/bigquery/v2", &["jobs"]);
        url.query_pairs_mut().append_pair("uploadType", "resumable");
        let response = self
            .send(Method::POST, url, Some(&self.job(job, &configuration)))
            .await?;
        if !response.status().is_success() {
            return Err(errors::response(response.status(), response.body()));
        }
        let place = response
            .headers()
            .get(header::LOCATION)
            .and_then(|place| place.to_str().ok());
        let place = place.ok_or_else(|| unreadable("no place for the file"))?;
        let running = self.running(job).await?;
        let answer = self.upload(place, file).await?;
        let done = self.wait(job, &answer).await;
        running.ended();
        done
    }

    /// The place itself is the permission: no token goes there.
    async fn upload(&self, place: &str, file: Bytes) -> Result<Vec<u8>, Error> {
        let length = file.len();
        let request = Request::builder()
            .method(Method::PUT)
            .uri(place)
            .header(header::CONTENT_TYPE, "application/octet-stream")
            .header(
                header::CONTENT_RANGE,
                format!("bytes 0-{}/{length}", length.saturating_sub(1)),
            )
            .body(file)
            .map_err(unreadable)?;
        let response = self.http.clone().within(UPLOAD_TIME).open(request).await?;
        let status = response.status();
        let body = response.into_body().collect(outbound::http::BODY_LIMIT).await?;
        if status.is_success() {
            return Ok(body);
        }
        Err(errors::response(status, &body))
    }

    async fn wait(&self, job: &str, first: &[u8]) -> Result<(), Error> {
        let mut answer: Job = serde_json::from_slice(first).map_err(unreadable)?;
        let mut backoff = Backoff::new(JOB_TIME);
        while answer.status.state != "DONE" {
            backoff.pause("BigQuery").await?;
            let mut url = self.url(&["jobs", job]);
            url.query_pairs_mut().append_pair("location", self.location());
            let body = self.call(Method::GET, url, None).await?;
            answer = serde_json::from_slice(&body).map_err(unreadable)?;
        }
        answer
            .status
            .error_result
            .map_or(Ok(()), |reason| Err(errors::refused(reason)))
    }

    fn job(&self, id: &str, configuration: &Value) -> Value {
        json!({
            "jobReference": { "projectId": self.project, "jobId": id, "location": self.location() },
            "configuration": configuration,
        })
    }

    fn location(&self) -> &str {
        self.location.get().map_or("US", String::as_str)
    }

    fn url(&self, path: &[&str]) -> Url {
        self.url_below("bigquery/v2", path)
    }

    /// Every part becomes one segment, whatever is in it.
    fn url_below(&self, root: &str, path: &[&str]) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments
                .pop_if_empty()
                .extend(root.split('/'))
                .extend(["projects", &self.project])
                .extend(path);
        }
        url
    }

    async fn call(&self, method: Method, url: Url, body: Option<&Value>) -> Result<Vec<u8>, Error> {
        let response = self.send(method, url, body).await?;
        let status = response.status();
        if status.is_success() {
            return Ok(response.into_body());
        }
        Err(errors::response(status, response.body()))
    }

    async fn send(&self, method: Method, url: Url, body: Option<&Value>) -> Result<http::Response<Vec<u8>>, Error> {
        let token = self.tokens.token().await?;
        let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        let request = authorized(&token)
            .method(method)
            .uri(url.as_str())
            .body(body)
            .map_err(unreadable)?;
        Ok(self.http.send(request).await?)
    }
}

fn texts(rows: Bounded<ResultRow, MAX_ROWS>) -> Vec<Row> {
    let text = |cell: ResultCell| cell.v.0;
    let row = |row: ResultRow| row.f.0.into_iter().map(text).collect();
    rows.0.into_iter().map(row).collect()
}

fn authorized(token: &SecretString) -> Builder {
    Request::builder()
        .header(header::AUTHORIZATION, format!("Bearer {}", token.expose_secret()))
        .header(header::CONTENT_TYPE, "application/json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_texts_and_more_than_were_asked_for_are_refused() {
        let rows = |rows: &str| {
            let answer = format!(r#"{{"jobComplete":true,"rows":{rows}}}"#);
            read(answer.as_bytes(), unreadable).map(|results: Results| texts(results.rows))
        };
        let row = [Some("a".to_owned()), None, Some("1".to_owned())].to_vec();
        assert_eq!(rows(r#"[{"f":[{"v":"a"},{"v":null},{"v":1}]}]"#).unwrap(), [row]);
        let list = |item: &str| format!("[{}]", vec![item; 200_000].join(","));
        for many in [list(r#"{"f":[]}"#), format!(r#"[{{"f":{}}}]"#, list(r#"{"v":""}"#))] {
            assert!(rows(&many).unwrap_err().is_permanent);
        }
        let nested = format!(r#"[{{"f":[{{"v":{}}}]}}]"#, list(r#"{"":0}"#));
        assert!(!rows(&nested).unwrap_err().is_permanent);
        let table = format!(r#"{{"schema":{{"fields":{}}}}}"#, list(r#"{"name":"","type":""}"#));
        assert!(read::<Table>(table.as_bytes(), unreadable).unwrap_err().is_permanent);
    }
}
