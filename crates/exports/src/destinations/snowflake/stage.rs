//! Files on their way to a stage: a bucket of Amazon, Google or Microsoft that the server opens to us for a while.

use std::fmt::Write as _;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, header};
use ring::hmac;
use service::{Clock, Time};
use sha2::{Digest, Sha256};
use url::Url;

use super::answer::{Outcome, StageInfo};
use super::session::Session;
use crate::Error;

/// How long one file may take.
const UPLOAD_TIME: Duration = Duration::from_mins(10);

/// A PUT of one object, ready to go.
#[derive(Debug)]
struct Target {
    url: String,
    headers: Vec<(&'static str, String)>,
}

/// Where the answer to a PUT says that a file goes. Nothing else of the answer is kept.
pub(super) fn location(outcome: Outcome) -> Result<StageInfo, Error> {
    if outcome.requires_encryption() {
        // Only a stage that is not ours asks for this; see `sql::create_stage`.
        return Err(Error::plain(
            "the stage requires client-side encryption, which is not supported",
        ));
    }
    outcome.stage_info.ok_or_else(|| unopened("no location for the file"))
}

/// Sends a file to its location.
pub(super) async fn send(session: &Session, location: StageInfo, file: &str, bytes: Bytes) -> Result<(), Error> {
    let request = request(&location, file, bytes)?;
    // The server decides how long the upload takes, and how long its answer was.
    drop(location);
    let response = session.http.clone().within(UPLOAD_TIME).open(request).await?;
    if response.status().is_success() {
        return Ok(());
    }
    Err(unopened(format!("the store answered {}", response.status())))
}

fn request(location: &StageInfo, file: &str, bytes: Bytes) -> Result<Request<Bytes>, Error> {
    let target = target(location, file, &bytes, Clock::System.now())?;
    let mut request = Request::builder().method(Method::PUT).uri(&target.url);
    for (name, value) in &target.headers {
        request = request.header(*name, value);
    }
    let request = request
        .header(header::CONTENT_TYPE, "application/octet-stream")
        .body(bytes);
    request.map_err(unopened)
}

fn target(info: &StageInfo, file: &str, bytes: &[u8], now: Time) -> Result<Target, Error> {
    if let Some(url) = info.presigned_url.as_ref().filter(|url| !url.is_empty()) {
        return Ok(Target {
            url: url.clone(),
            headers: Vec::new(),
        });
    }
    match info.location_type.as_str() {
        "S3" => amazon(info, file, bytes, now),
        "AZURE" => microsoft(info, file),
        "GCS" => google(info, file),
        other => Err(unopened(format!("a stage of kind {other}"))),
    }
}

/// `bucket/path/to/`, apart.
fn split(location: &str) -> (&str, String) {
    let (bucket, path) = location.split_once('/').unwrap_or((location, ""));
    let path = path.trim_end_matches('/');
    let path = if path.is_empty() {
        String::new()
    } else {
        format!("{path}/")
    };
    (bucket, path)
}

fn google(info: &StageInfo, file: &str) -> Result<Target, Error> {
    let token = info
        .creds
        .gcs_access_token
        .as_ref()
        .ok_or_else(|| unopened("no token"))?;
    let (bucket, path) = split(&info.location);
    let host = info
        .end_point
        .as_deref()
        .filter(|host| !host.is_empty())
        .unwrap_or("storage.googleapis.com");
    Ok(Target {
        url: format!("https://{host}/{bucket}/{path}{file}"),
        headers: vec![("authorization", format!("Bearer {token}"))],
    })
}

fn microsoft(info: &StageInfo, file: &str) -> Result<Target, Error> {
    let sas = info
        .creds
        .azure_sas_token
        .as_ref()
        .ok_or_else(|| unopened("no token"))?;
    let account = info.storage_account.as_ref().ok_or_else(|| unopened("no account"))?;
    let (container, path) = split(&info.location);
    let host = info
        .end_point
        .as_deref()
        .filter(|host| !host.is_empty())
        .unwrap_or("blob.core.windows.net");
    let sas = sas.trim_start_matches('?');
    Ok(Target {
        url: format!("https://{account}.{host}/{container}/{path}{file}?{sas}"),
        headers: vec![
            ("x-ms-blob-type", "BlockBlob".to_owned()),
            ("x-ms-version", "2021-08-06".to_owned()),
        ],
    })
}

fn amazon(info: &StageInfo, file: &str, bytes: &[u8], now: Time) -> Result<Target, Error> {
    let region = info.region.as_deref().unwrap_or("us-east-1");
    let (bucket, path) = split(&info.location);
    let host = match info.end_point.as_deref().filter(|host| !host.is_empty()) {
        Some(host) => format!("{bucket}.{host}"),
        None if region.starts_with("cn-") => format!("{bucket}.s3.{region}.amazonaws.com.cn"),
        None => format!("{bucket}.s3.{region}.amazonaws.com"),
    };
    let url = Url::parse(&format!("https://{host}/{path}{file}")).map_err(unopened)?;
    let headers = signed(info, &url, region, bytes, now)?;
    Ok(Target {
        url: url.into(),
        headers,
    })
}

/// Amazon's signature, version 4, of a PUT without a query.
fn signed(
    info: &StageInfo,
    url: &Url,
    region: &str,
    bytes: &[u8],
    now: Time,
) -> Result<Vec<(&'static str, String)>, Error> {
    let creds = &info.creds;
    let (Some(key), Some(secret)) = (&creds.aws_key_id, &creds.aws_secret_key) else {
        return Err(unopened("no keys"));
    };
    let (stamp, day) = (now.format("%Y%m%dT%H%M%SZ").to_string(), now.format("%Y%m%d"));
    let content = hex::encode(Sha256::digest(bytes));
    let mut headers = vec![("x-amz-content-sha256", content.clone()), ("x-amz-date", stamp.clone())];
    headers.extend(
        creds
            .aws_token
            .iter()
            .map(|token| ("x-amz-security-token", token.clone())),
    );

    let mut canonical = format!("PUT\n{}\n\nhost:{}\n", url.path(), url.host_str().unwrap_or_default());
    for (name, value) in &headers {
        let _ = writeln!(canonical, "{name}:{value}");
    }
    let names: Vec<&str> = ["host"]
        .into_iter()
        .chain(headers.iter().map(|header| header.0))
        .collect();
    let names = names.join(";");
    let _ = write!(canonical, "\n{names}\n{content}");

    let scope = format!("{day}/{region}/s3/aws4_request");
    let text = format!(
        "AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{}",
        hex::encode(Sha256::digest(canonical))
    );
    let steps = [
        day.to_string(),
        region.to_owned(),
        "s3".to_owned(),
        "aws4_request".to_owned(),
        text,
    ];
    let mut signature = format!("AWS4{secret}").into_bytes();
    for step in steps {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &signature);
        signature = hmac::sign(&key, step.as_bytes()).as_ref().to_vec();
    }
    let authorization = format!(
        "AWS4-HMAC-SHA256 Credential={key}/{scope}, SignedHeaders={names}, Signature={}",
        hex::encode(&signature)
    );
    headers.push(("authorization", authorization));
    Ok(headers)
}

fn unopened(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::retryable(
        "a file could not be uploaded to Snowflake's stage; it will be retried",
        cause,
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn put(info: serde_json::Value) -> Result<Target, Error> {
        let info: StageInfo = serde_json::from_value(info).unwrap();
        let now = "2026-11-15T01:02:03Z".parse().unwrap();
        target(&info, "0.parquet", b"rows", now)
    }

    #[test]
    fn amazon_gets_the_signature_that_its_own_library_makes() {
        let target = put(json!({
            "locationType": "S3", "location": "sfc-bucket/stages/abc/", "region": "eu-west-1",
            "creds": {
                "AWS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_KEY": "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
                "AWS_TOKEN": "session-token",
            },
        }));
        let target = target.unwrap();
        assert_eq!(
            target.url,
            "https://sfc-bucket.s3.eu-west-1.amazonaws.com/stages/abc/0.parquet"
        );
        let (name, authorization) = target.headers.last().unwrap();
        // Made with botocore's S3SigV4Auth from the same input.
        assert_eq!(
            (*name, authorization.as_str()),
            (
                "authorization",
                "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20261115/eu-west-1/s3/aws4_request, \
                 SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-security-token, \
                 Signature=20a6fa2793b723e29963474f677f209d37a3673b685d17fd2bc7224c29e286a5"
            )
        );
    }

    #[test]
    fn microsoft_and_google_get_what_the_server_gave_for_them() {
        let azure = put(json!({
            "locationType": "AZURE", "location": "container/path/", "storageAccount": "sfc1",
            "endPoint": "blob.core.windows.net", "creds": { "AZURE_SAS_TOKEN": "?sig=x&se=y" },
        }));
        let azure = azure.unwrap();
        assert_eq!(
            azure.url,
            "https://sfc1.blob.core.windows.net/container/path/0.parquet?sig=x&se=y"
        );
        assert!(azure.headers.contains(&("x-ms-blob-type", "BlockBlob".to_owned())));
        let google = put(json!({
            "locationType": "GCS", "location": "bucket/path", "creds": { "GCS_ACCESS_TOKEN": "t" },
        }));
        let google = google.unwrap();
        assert_eq!(google.url, "https://storage.googleapis.com/bucket/path/0.parquet");
        assert_eq!(google.headers, [("authorization", "Bearer t".to_owned())]);
        assert!(put(json!({ "locationType": "LOCAL_FS", "location": "/etc" })).is_err());
    }
}
