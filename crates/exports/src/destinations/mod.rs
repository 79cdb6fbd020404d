//! Destinations: a folder for each kind, each of which passes the suite in `tests/it/suite.rs`.

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

use service::batch_exports::destination::Destination;

pub use files::check_prefix;

use crate::{Deliver, Error, Outside};

/// The destination that a configuration describes. Reaches out to nothing yet.
pub fn open(destination: &Destination, outside: &Outside) -> Result<Box<dyn Deliver>, Error> {
    match destination {
        Destination::S3(config) => s3::open(config, outside),
        Destination::Gcs(config) => gcs::open(config, outside),
        Destination::AzureBlob(config) => azure_blob::open(config, outside),
        Destination::File(config) => file::open(config, outside),
        Destination::Http(config) => http::open(config, outside),
        Destination::Postgres(config) => postgres::open(config, outside),
        Destination::Redshift(config) => redshift::open(config, outside),
        Destination::Snowflake(config) => snowflake::open(config, outside),
        Destination::BigQuery(config) => bigquery::open(config, outside),
        Destination::Databricks(config) => databricks::open(config, outside),
        Destination::ClickHouse(config) => clickhouse::open(config, outside),
        Destination::NoOp(config) => no_op::open(config, outside),
    }
}
