//! External services that are slow, endless, or not to be reached.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use exports::{Error, Verdict};
use hogql::Model;
use serde_json::{Value, json};
use service::batch_exports::destination::Kind;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::files::{deps, open};
use super::suite::delivery;

fn config(endpoint: &str) -> Value {
    json!({
        "bucket_name": "exports", "region": "us-east-1", "prefix": "in", "endpoint_url": endpoint,
        "aws_access_key_id": "key", "aws_secret_access_key": "the-secret",
    })
}

/// Answers with these bytes, over and over, with a pause after each.
async fn peer(first: &'static str, again: &'static str, pause: Duration) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let _ = stream.read(&mut [0; 4096]).await;
                let mut piece = first;
                while stream.write_all(piece.as_bytes()).await.is_ok() {
                    tokio::time::sleep(pause).await;
                    piece = again;
                }
            });
        }
    });
    address
}

/// What becomes of a delivery to it, within a time that leaves room for the few retries.
async fn refused(address: SocketAddr) -> Error {
    let mut deps = deps(None);
    deps.http = deps.http.within(Duration::from_millis(500));
    let destination = open(Kind::S3, &config(&format!("http://{address}")), &deps).unwrap();
    let delivery = delivery(&*destination, Model::Events, 0);
    let start = Instant::now();
    let error = destination.begin(&delivery).await.err().unwrap();
    assert!(
        start.elapsed() < Duration::from_secs(20),
        "it took {:?}",
        start.elapsed()
    );
    assert!(!error.sentence.contains("the-secret"));
    error
}

#[tokio::test]
async fn a_slow_peer_is_given_up() {
    let silent = peer("", "", Duration::from_mins(1)).await;
    let error = refused(silent).await;
    assert!(!error.is_permanent && error.sentence.contains("timed out"), "{error}");
    let first = "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\nETag: \"1\"\r\nLast-Modified: Sun, 15 Nov 2026 00:00:00 GMT\r\n\r\n";
    let dripping = peer(first, "x", Duration::from_millis(50)).await;
    let error = refused(dripping).await;
    assert!(!error.is_permanent, "{error}");
}

#[tokio::test]
async fn an_endless_peer_is_given_up() {
    let headers = peer("HTTP/1.1 200 OK\r\n", "X-More: and more\r\n", Duration::ZERO).await;
    assert!(!refused(headers).await.is_permanent);
    let body = peer(
        "HTTP/1.1 200 OK\r\n\r\n",
        "and more and more and more and more ",
        Duration::ZERO,
    )
    .await;
    assert!(!refused(body).await.is_permanent);
}

#[tokio::test]
async fn a_peers_own_words_are_not_repeated() {
    let said = "HTTP/1.1 403 Forbidden\r\nContent-Length: 58\r\n\r\n<Error><Code>AccessDenied</Code><M>at 10.1.2.3</M></Error>";
    let error = refused(peer(said, "", Duration::from_mins(1)).await).await;
    assert!(
        error.is_permanent && error.sentence.contains("denies access"),
        "{error}"
    );
    assert!(!error.sentence.contains("10.1.2.3"));
}

/// Decided before anything is dialed.
#[tokio::test]
async fn addresses_that_are_not_allowed_are_refused() {
    let service_account = "{}";
    for endpoint in [
        "http://169.254.169.254/latest",
        "https://10.0.0.1",
        "https://127.0.0.2",
        "https://[::ffff:10.0.0.1]",
        "https://0x7f.2",
        "http://example.com",
        "ftp://example.com",
        "https://user:pass@example.com",
    ] {
        let s3 = open(Kind::S3, &config(endpoint), &deps(None));
        let azure = json!({
            "container_name": "c", "account_name": "a", "account_key": "a2V5", "endpoint_url": endpoint,
        });
        let azure = open(Kind::AzureBlob, &azure, &deps(None));
        for destination in [s3, azure] {
            let steps = destination.unwrap().test().await;
            assert_eq!(steps[0].verdict, Verdict::Failed, "{endpoint}: {steps:?}");
            assert!(
                steps[1..].iter().all(|step| step.verdict == Verdict::Skipped),
                "{endpoint}: {steps:?}"
            );
        }
        let gcs = json!({ "bucket_name": "b", "service_account_key": service_account, "endpoint_url": endpoint });
        assert!(open(Kind::Gcs, &gcs, &deps(None)).is_err());
    }
}

/// Without keys nothing is asked of the machine's own role: it is an error before there is any client.
#[tokio::test]
async fn there_is_no_sign_in_but_by_keys() {
    let mut destination = None;
    for missing in ["aws_access_key_id", "aws_secret_access_key"] {
        let mut whole = config("http://127.0.0.1:1");
        whole[missing] = Value::Null;
        let config = serde_json::from_value(whole).unwrap();
        let opened = exports::destinations::open(
            &service::batch_exports::destination::Destination::S3(config),
            &deps(None),
        );
        destination = Some(opened.err().unwrap());
    }
    assert!(destination.unwrap().sentence.contains("are required"));
    let azure = serde_json::from_value(json!({ "container_name": "c", "account_name": "a" })).unwrap();
    let azure = service::batch_exports::destination::Destination::AzureBlob(azure);
    let refused = exports::destinations::open(&azure, &deps(None)).err().unwrap();
    assert!(
        refused.is_permanent && refused.sentence.contains("is required"),
        "{refused}"
    );
}

#[tokio::test]
async fn names_that_would_lead_to_another_host_are_refused() {
    for (key, value) in [
        ("bucket_name", "evil.example/"),
        ("bucket_name", "a@evil.example"),
        ("region", "x.evil.example/"),
        ("region", "eu west"),
        ("prefix", "../x"),
    ] {
        let mut config = config("https://example.com");
        config[key] = json!(value);
        let refused = open(Kind::S3, &config, &deps(None)).err().unwrap();
        assert!(refused.is_permanent, "{refused}");
    }
}

/// Words that must not come back: the other side's own, which may be those of a machine that only this server can reach.
const MARK: &str = "private-words-at-10.1.2.3";

/// Refuses whatever is asked, in the words of all APIs at once.
async fn refusing(status: u16) -> SocketAddr {
    let said = json!({
        "error": { "code": status, "message": MARK, "status": MARK, "errors": [{ "reason": MARK, "message": MARK }] },
        "error_description": MARK, "message": MARK, "code": "390100", "success": false, "data": null, "error_code": MARK,
        "exception": format!("Code: 62. DB::Exception: {MARK}"),
    });
    let said =
        format!("{said}\n<Error><Code>{MARK}</Code><Message>{MARK}</Message></Error>\nCode: 62. DB::Exception: {MARK}");
    let answer = format!(
        "HTTP/1.1 {status} {MARK}\r\nContent-Length: {}\r\nContent-Type: application/json\r\nX-ClickHouse-Exception-Code: 62\r\n\
         Location: http://10.1.2.3/\r\nConnection: close\r\n\r\n{said}",
        said.len()
    );
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let answer = answer.clone();
            tokio::spawn(async move {
                let _ = stream.read(&mut [0; 16_000]).await;
                let _ = stream.write_all(answer.as_bytes()).await;
            });
        }
    });
    address
}

/// A destination of every kind that speaks HTTP and may be told where, at this address.
fn all_at(address: SocketAddr) -> Vec<(Kind, Value)> {
    const KEY: &str = include_str!("../../../auth/tests/fixtures/saml/rsa.key");
    let url = format!("http://{address}");
    let account = json!({
        "type": "service_account", "private_key": KEY, "private_key_id": "1", "client_email": "a@example.com", "client_id": "1",
    });
    vec![
        (Kind::S3, config(&url)),
        (
            Kind::Gcs,
            json!({ "bucket_name": "b", "service_account_key": account.to_string(), "endpoint_url": url }),
        ),
        (
            Kind::AzureBlob,
            json!({ "container_name": "c", "account_name": "a", "account_key": "a2V5", "endpoint_url": url }),
        ),
        (Kind::Http, json!({ "url": url, "token": "t" })),
        (Kind::ClickHouse, json!({ "url": url, "user": "u", "password": "p" })),
        (
            Kind::Snowflake,
            json!({
                "account": "a", "user": "u", "password": "p", "database": "d", "warehouse": "w", "schema": "s", "endpoint_url": url,
            }),
        ),
        (
            Kind::BigQuery,
            json!({
                "project_id": "p", "dataset_id": "d", "private_key": KEY, "private_key_id": "1", "client_email": "a@example.com",
                "token_uri": format!("{url}/token"), "endpoint_url": url,
            }),
        ),
    ]
}

/// N7, for every kind: what a test and a run say quotes neither the answer nor an address that the answer named.
#[tokio::test]
async fn no_kind_repeats_what_the_destination_answered() {
    for status in [302, 400, 403, 404] {
        let address = refusing(status).await;
        for (kind, config) in all_at(address) {
            let destination = open(kind, &config, &deps(None)).unwrap();
            let steps = destination.test().await;
            assert!(
                steps.iter().any(|step| step.verdict == Verdict::Failed),
                "{} {status}: {steps:?}",
                kind.name()
            );
            let mut said: Vec<String> = steps.iter().map(|step| step.message.clone()).collect();
            let delivery = delivery(&*destination, Model::Events, 0);
            match destination.begin(&delivery).await {
                Err(error) => said.push(error.sentence),
                Ok(upload) => {
                    let mut upload = upload.unwrap();
                    let written = upload.write(crate::suite::events(&delivery, 0..10)).await;
                    said.extend(written.err().map(|error| error.sentence));
                    said.extend(upload.commit().await.err().map(|error| error.sentence));
                }
            }
            for said in said {
                assert!(
                    !said.contains(MARK) && !said.contains("10.1.2.3"),
                    "{} {status}: {said}",
                    kind.name()
                );
                assert!(!said.contains(&address.to_string()), "{} {status}: {said}", kind.name());
            }
        }
    }
}
