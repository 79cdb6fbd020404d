//! Where an export goes: the kinds, what each must be told, and which of it is secret.
//!
//! One table per kind ([`Kind::fields`]) checks what users send, splits off secrets, and describes the form.

mod check;
mod fields;
mod kind;
mod kinds;
mod split;
mod tables;
mod targets;
mod titles;

pub(super) use check::meant;
pub use check::read;
pub use fields::{ConfigField, FieldKind, Part};
pub use kind::Kind;
pub use kinds::{
    AzureBlob, BigQuery, ClickHouse, Compression, CopyAuthorization, CopyInputs, Databricks, Destination, File,
    FileFormat, FileOptions, Gcs, Http, Keys, NoOp, Postgres, PropertiesType, Redshift, RedshiftMode, S3, Snowflake,
    SnowflakeAuthentication,
};
pub use split::{merge, split};
pub use targets::Target;
pub use titles::Family;
