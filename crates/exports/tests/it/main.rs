#![expect(clippy::unwrap_used, reason = "these are tests")]

mod azure_blob;
mod bigquery;
mod by_model;
mod clickhouse;
mod crash;
mod database;
mod databricks;
mod endless;
mod file;
mod files;
mod formats;
mod gcs;
mod hostile;
mod http;
mod postgres;
mod redshift;
mod retention;
mod s3;
mod saving;
mod schedule;
mod snowflake;
mod suite;
mod verify;
mod warehouse;
