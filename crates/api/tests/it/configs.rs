//! A configuration of each kind of destination, with all its secrets, that can be saved.

use serde_json::{Map, Value, json};
use service::batch_exports::destination::Kind;

/// A private key that is one.
pub(crate) const KEY: &str = include_str!("../../../auth/tests/fixtures/saml/rsa.key");

pub(crate) fn destinations() -> Vec<(Kind, Map<String, Value>)> {
    Kind::ALL.into_iter().map(|kind| (kind, config(kind))).collect()
}

/// Every secret has a word of its own in it: `hush-` and the name of its key.
pub(crate) fn config(kind: Kind) -> Map<String, Value> {
    let account = json!({
        "type": "service_account", "project_id": "p", "private_key_id": "hush-private_key_id", "private_key": KEY,
        "client_email": "hush-client_email@p.iam.gserviceaccount.com", "client_id": "1",
    });
    let config = match kind {
        Kind::S3 => json!({
            "bucket_name": "events", "region": "eu-central-1", "prefix": "acme", "endpoint_url": "https://s3.example.com",
            "aws_access_key_id": "hush-aws_access_key_id", "aws_secret_access_key": "hush-aws_secret_access_key",
        }),
        Kind::Gcs => json!({
            "bucket_name": "events", "prefix": "acme", "endpoint_url": "https://gcs.example.com",
            "service_account_key": account.to_string(),
        }),
        Kind::AzureBlob => json!({
            "container_name": "events", "prefix": "acme", "account_name": "acme", "account_key": "aHVzaC1hY2NvdW50X2tleQ==",
            "endpoint_url": "https://azure.example.com",
        }),
        Kind::File => json!({ "folder": "out", "prefix": "acme" }),
        Kind::Http => json!({ "url": "https://http.example.com/batch/", "token": "hush-token" }),
        Kind::Postgres => json!({
            "host": "db.example.com", "port": 5432, "database": "d", "user": "hush-user", "password": "hush-password",
        }),
        Kind::Redshift => json!({
            "host": "redshift.example.com", "database": "d", "user": "hush-user", "password": "hush-password", "mode": "COPY",
            "copy_inputs": {
                "s3_bucket": "b", "region_name": "eu-central-1", "endpoint_url": "https://s3.example.com",
                "authorization": { "aws_access_key_id": "hush-reader", "aws_secret_access_key": "hush-readers-secret" },
                "bucket_credentials": { "aws_access_key_id": "hush-writer", "aws_secret_access_key": "hush-writers-secret" },
            },
        }),
        Kind::Snowflake => json!({
            "account": "acme-one", "user": "hush-user", "database": "D", "warehouse": "W", "schema": "PUBLIC",
            "authentication_type": "keypair", "private_key": KEY, "password": "hush-password",
        }),
        Kind::BigQuery => json!({
            "project_id": "acme", "dataset_id": "events", "private_key": KEY, "private_key_id": "hush-private_key_id",
            "token_uri": "https://hush-token_uri.example.com/token", "client_email": "hush-client_email@acme.example.com",
        }),
        Kind::Databricks => json!({
            "server_hostname": "dbc.example.com", "http_path": "/sql/1.0/warehouses/abc", "catalog": "c", "schema": "s",
            "table_name": "t", "access_token": "hush-access_token", "client_secret": "hush-client_secret", "client_id": "id",
        }),
        Kind::ClickHouse => json!({
            "url": "https://ch.example.com:8443", "user": "hush-user", "password": "hush-password",
        }),
        Kind::NoOp => json!({ "arg": "x" }),
    };
    config.as_object().expect("an object").clone()
}
