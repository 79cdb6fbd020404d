//! Where events go in the tests of crashes, and how to see what has arrived.

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use serde_json::{Value, json};
use testkit::Kit;
use testkit::external::warehouses::{BigQuery, Databricks, PASSWORD, Snowflake, USER};
use testkit::external::{AZURE_ACCOUNT, ClickHouse, ObjectStore, Receiver, S3_KEY};

use crate::database::Home;
use crate::files::{Folder, uuids};
use crate::gcs::service_account;
use crate::warehouse::first;

#[async_trait]
pub(super) trait Target: Send + Sync {
    fn name(&self) -> &'static str;

    /// As the API is told.
    fn destination(&self) -> Value;

    /// The id of every row that has arrived, by a reader that has nothing to do with what wrote.
    async fn uuids(&self) -> Vec<String>;

    /// Whoever cannot take anything back gets each at least once.
    fn is_exact(&self) -> bool {
        true
    }

    /// Fails a few times from now on, if it can.
    fn fail(&self) {}

    /// Undoes what clients that are gone had begun, if it does not automatically.
    fn forget(&self) {}

    /// An authority that workers must trust to get there.
    fn authority(&self) -> Option<String> {
        None
    }
}

/// What runs on both databases.
pub(super) async fn near(kit: &Kit) -> Vec<Box<dyn Target>> {
    let bucket = ObjectStore::seaweedfs();
    bucket.make("exports");
    vec![
        Box::new(Files::plain(kit)),
        Box::new(Files::split(kit)),
        Box::new(Bucket::s3(bucket)),
        Box::new(Database::postgres().await),
        Box::new(ClickHouse::start()),
        Box::new(Receiver::start()),
    ]
}

/// The rest: other stores, and warehouses as far as somebody plays them here.
pub(super) async fn far() -> Vec<Box<dyn Target>> {
    let container = ObjectStore::azurite();
    container.make("exports");
    vec![
        Box::new(Bucket::azure(container)),
        Box::new(Bucket::gcs(ObjectStore::gcs())),
        Box::new(Database::redshift().await),
        Box::new(Snowflake::start()),
        Box::new(BigQuery::start()),
        Box::new(Databricks::start()),
    ]
}

struct Files {
    name: &'static str,
    config: Value,
    pattern: PathBuf,
    reader: &'static str,
}

impl Files {
    fn plain(kit: &Kit) -> Self {
        Self {
            name: "files",
            config: json!({ "folder": "plain" }),
            pattern: kit
                .export_root()
                .join(kit.organization.to_string())
                .join("plain/*.jsonl"),
            reader: "read_json",
        }
    }

    fn split(kit: &Kit) -> Self {
        Self {
            name: "split files",
            config: json!({
                "folder": "split", "file_format": "Parquet", "compression": "zstd", "max_file_size_mb": 1,
            }),
            pattern: kit
                .export_root()
                .join(kit.organization.to_string())
                .join("split/*.parquet.zst"),
            reader: "read_parquet",
        }
    }
}

#[async_trait]
impl Target for Files {
    fn name(&self) -> &'static str {
        self.name
    }

    fn destination(&self) -> Value {
        json!({ "type": "File", "config": self.config })
    }

    async fn uuids(&self) -> Vec<String> {
        read(&self.pattern, self.reader)
    }
}

fn read(pattern: &Path, reader: &str) -> Vec<String> {
    let pattern = pattern.to_str().unwrap();
    let rows = testkit::external::duckdb(&format!("SELECT uuid FROM {reader}('{pattern}')"), &[]);
    let id = |row: Vec<Value>| row[0].as_str().unwrap().to_owned();
    rows.into_iter().map(id).collect()
}

struct Bucket {
    name: &'static str,
    store: ObjectStore,
    destination: Value,
}

impl Bucket {
    fn s3(store: ObjectStore) -> Self {
        let config = json!({
            "bucket_name": "exports", "region": "us-east-1", "prefix": "in", "compression": "gzip",
            "aws_access_key_id": S3_KEY.0, "aws_secret_access_key": S3_KEY.1, "endpoint_url": store.base(),
        });
        Self::new("S3", store, &config)
    }

    fn azure(store: ObjectStore) -> Self {
        let config = json!({
            "container_name": "exports", "account_name": AZURE_ACCOUNT.0, "account_key": AZURE_ACCOUNT.1,
            "endpoint_url": store.base(), "prefix": "in", "compression": "gzip",
        });
        Self::new("AzureBlob", store, &config)
    }

    fn gcs(store: ObjectStore) -> Self {
        let config = json!({
            "bucket_name": "exports", "service_account_key": service_account(), "prefix": "in", "compression": "gzip",
            "endpoint_url": store.base(),
        });
        Self::new("GCS", store, &config)
    }

    fn new(name: &'static str, store: ObjectStore, config: &Value) -> Self {
        let destination = json!({ "type": name, "config": config });
        Self {
            name,
            store,
            destination,
        }
    }
}

#[async_trait]
impl Target for Bucket {
    fn name(&self) -> &'static str {
        self.name
    }

    fn destination(&self) -> Value {
        self.destination.clone()
    }

    async fn uuids(&self) -> Vec<String> {
        let fetched = Folder::new();
        self.store.fetch("exports", fetched.path());
        uuids(&fetched, "in/*.jsonl.gz")
    }
}

struct Database {
    name: &'static str,
    home: Home,
}

impl Database {
    async fn postgres() -> Self {
        Self {
            name: "Postgres",
            home: Home::shared().await,
        }
    }

    async fn redshift() -> Self {
        Self {
            name: "Redshift",
            home: Home::shared().await,
        }
    }
}

#[async_trait]
impl Target for Database {
    fn name(&self) -> &'static str {
        self.name
    }

    fn destination(&self) -> Value {
        json!({ "type": self.name, "config": self.home.config(&json!({})) })
    }

    async fn uuids(&self) -> Vec<String> {
        self.home.uuids("product.events").await
    }
}

#[async_trait]
impl Target for ClickHouse {
    fn name(&self) -> &'static str {
        "ClickHouse"
    }

    fn destination(&self) -> Value {
        json!({ "type": "ClickHouse", "config": { "url": self.url(), "user": self.user, "password": self.password } })
    }

    async fn uuids(&self) -> Vec<String> {
        let rows = self.query("SELECT toString(uuid) FROM events");
        rows.lines().map(str::to_owned).collect()
    }
}

#[async_trait]
impl Target for Receiver {
    fn name(&self) -> &'static str {
        "HTTP"
    }

    fn destination(&self) -> Value {
        json!({ "type": "HTTP", "config": { "url": self.url(), "token": "t" } })
    }

    async fn uuids(&self) -> Vec<String> {
        let taken = self.requests().into_iter().filter(|request| request.status == 200);
        let events = taken.flat_map(|request| request.body["batch"].as_array().unwrap().clone());
        events.map(|event| event["uuid"].as_str().unwrap().to_owned()).collect()
    }

    fn is_exact(&self) -> bool {
        false
    }

    fn fail(&self) {
        self.answer(&["500", "503", "429"]);
    }
}

#[async_trait]
impl Target for Snowflake {
    fn name(&self) -> &'static str {
        "Snowflake"
    }

    fn destination(&self) -> Value {
        json!({ "type": "Snowflake", "config": {
            "account": Snowflake::ACCOUNT, "user": USER, "password": PASSWORD, "database": Snowflake::DATABASE,
            "schema": Snowflake::SCHEMA, "warehouse": "compute_wh", "table_name": "events", "endpoint_url": self.url(),
        } })
    }

    async fn uuids(&self) -> Vec<String> {
        first(self.read(r#"SELECT "uuid" FROM "events""#))
    }

    fn forget(&self) {
        Self::forget(self);
    }
}

#[async_trait]
impl Target for BigQuery {
    fn name(&self) -> &'static str {
        "BigQuery"
    }

    fn destination(&self) -> Value {
        json!({ "type": "BigQuery", "config": {
            "project_id": BigQuery::PROJECT, "dataset_id": BigQuery::DATASET, "table_id": "events",
            "private_key": self.private_key(), "private_key_id": BigQuery::KEY_ID, "token_uri": self.token_uri(),
            "client_email": BigQuery::EMAIL, "endpoint_url": self.url(),
        } })
    }

    async fn uuids(&self) -> Vec<String> {
        first(self.read("SELECT uuid FROM exports.events"))
    }
}

#[async_trait]
impl Target for Databricks {
    fn name(&self) -> &'static str {
        "Databricks"
    }

    fn destination(&self) -> Value {
        json!({ "type": "Databricks", "config": {
            "server_hostname": self.hostname(), "http_path": Databricks::HTTP_PATH, "catalog": Databricks::CATALOG,
            "schema": Databricks::SCHEMA, "table_name": "events", "access_token": Databricks::TOKEN,
        } })
    }

    async fn uuids(&self) -> Vec<String> {
        first(self.read("SELECT uuid FROM workspace.hedgerow.events"))
    }

    fn authority(&self) -> Option<String> {
        Some(self.ca_pem().to_owned())
    }
}
