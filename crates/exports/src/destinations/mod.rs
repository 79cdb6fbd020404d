//! Destinations: a folder for each kind, each of which passes the suite in `tests/it/suite.rs`.

pub(crate) mod answers;
mod azure_blob;
mod bigquery;
mod clickhouse;
mod databricks;
mod file;
mod files;
mod gcs;
mod http;
mod no_op;
mod postgres;
mod redshift;
mod s3;
mod snowflake;
mod sql;
mod staging;
mod steps;

use service::batch_exports::destination::Destination;

pub use files::check_prefix;

use crate::{Deliver, Error, ExportsDeps};

/// The destination that a configuration describes. Reaches out to nothing yet.
pub fn open(destination: &Destination, deps: &ExportsDeps) -> Result<Box<dyn Deliver>, Error> {
    match destination {
        Destination::S3(config) => s3::open(config, deps),
        Destination::Gcs(config) => gcs::open(config, deps),
        Destination::AzureBlob(config) => azure_blob::open(config, deps),
        Destination::File(config) => file::open(config, deps),
        Destination::Http(config) => http::open(config, deps),
        Destination::Postgres(config) => postgres::open(config, deps),
        Destination::Redshift(config) => redshift::open(config, deps),
        Destination::Snowflake(config) => snowflake::open(config, deps),
        Destination::BigQuery(config) => bigquery::open(config, deps),
        Destination::Databricks(config) => databricks::open(config, deps),
        Destination::ClickHouse(config) => clickhouse::open(config, deps),
        Destination::NoOp(config) => no_op::open(config, deps),
    }
}
