//! One interval, delivered as a run delivers it.

use std::path::Path;
use std::time::Instant;

use anyhow::Context;
use events::sqlite::Embedded;
use events::{Events, Scan};
use exports::{Delivery, destinations};
use hogql::Model;
use serde_json::{Value, json};
use service::batch_exports::destination::Destination;
use service::{ExportId, RunId};
use uuid::Uuid;

use super::rows::{TEAM, end, start};
use super::usage::{cpu_seconds, peak_megabytes};
use crate::external::{ObjectStore, S3_KEY};
use crate::kit::exports_deps;

/// How the rows are written.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub enum Form {
    Parquet,
    Jsonl,
}

/// Delivers all rows of a store to files below `root`, or to an S3 server of its own, and says what it took.
pub async fn deliver(store: &Path, root: &Path, form: Form, is_s3: bool) -> anyhow::Result<Value> {
    let deps = exports::ExportsDeps {
        export_root: Some(root.to_owned()),
        ..exports_deps()
    };
    let objects = is_s3.then(ObjectStore::seaweedfs);
    let destination = destinations::open(&destination(form, objects.as_ref())?, &deps)?;
    let events = Events::Embedded(Embedded::open(store)?);
    let scan = Scan {
        team: TEAM,
        query: destination.layout(Model::Events),
        start: Some(start()),
        end: end(),
        skip: 0,
        limit: None,
    };
    let delivery = Delivery {
        export: ExportId(Uuid::nil()),
        run: RunId(Uuid::nil()),
        team: TEAM,
        model: Model::Events,
        start: start(),
        end: end(),
        schema: events::schema(&scan.query),
        is_custom: false,
        is_resend: false,
        resumed_after: exports::Receipt::default(),
        acknowledged: exports::Acknowledged::default(),
    };

    let (begun, before) = (Instant::now(), cpu_seconds("self")?);
    events.settle(scan.end).await?;
    let total = events.count(scan.clone()).await?;
    let mut upload = destination
        .begin(&delivery)
        .await?
        .context("it was delivered before: the folder is not empty")?;
    let mut rows = events.scan(scan);
    while let Some(batch) = rows.next().await.transpose()? {
        upload.write(batch).await?;
    }
    let receipt = upload.commit().await?;
    let (wall, cpu) = (begun.elapsed().as_secs_f64(), cpu_seconds("self")? - before);
    anyhow::ensure!(receipt.rows == total, "{} of {total} rows were delivered", receipt.rows);
    Ok(json!({
        "rows": receipt.rows, "bytes": receipt.bytes, "wall": wall, "cpu": cpu, "peak": peak_megabytes()?,
    }))
}

fn destination(form: Form, objects: Option<&ObjectStore>) -> anyhow::Result<Destination> {
    let mut config = match form {
        Form::Parquet => json!({ "prefix": "events", "file_format": "Parquet", "compression": "zstd" }),
        Form::Jsonl => json!({ "prefix": "events", "file_format": "JSONLines", "compression": "gzip" }),
    };
    let Some(objects) = objects else {
        return Ok(Destination::File(serde_json::from_value(config)?));
    };
    objects.make("exports");
    config["bucket_name"] = "exports".into();
    config["region"] = "us-east-1".into();
    config["aws_access_key_id"] = S3_KEY.0.into();
    config["aws_secret_access_key"] = S3_KEY.1.into();
    config["endpoint_url"] = objects.base().into();
    Ok(Destination::S3(serde_json::from_value(config)?))
}
