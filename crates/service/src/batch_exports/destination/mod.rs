//! Where an export goes: the kinds, what each must be told, and which of it is secret.
//!
//! One table per kind ([`Kind::fields`]) checks what users send, splits off secrets, and describes the form.

mod check;
mod fields;
mod kinds;
mod split;
mod tables;
mod titles;

pub(super) use check::meant;
pub use check::read;
pub use fields::{ConfigField, FieldKind, Part};
pub use kinds::{
    AzureBlob, BigQuery, ClickHouse, Compression, CopyAuthorization, CopyInputs, Databricks, File, FileFormat,
    FileOptions, Gcs, Http, Keys, NoOp, Postgres, PropertiesType, Redshift, RedshiftMode, S3, Snowflake,
    SnowflakeAuthentication,
};
pub use split::{merge, split};
pub use titles::Family;

use serde::{Deserialize, Serialize};

/// What kind of place an export goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Kind {
    S3,
    #[serde(rename = "GCS")]
    Gcs,
    AzureBlob,
    File,
    #[serde(rename = "HTTP")]
    Http,
    Postgres,
    Redshift,
    Snowflake,
    BigQuery,
    Databricks,
    ClickHouse,
    NoOp,
}

/// A whole, checked configuration, secrets included. It is never shown.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "type", content = "config")]
pub enum Destination {
    S3(S3),
    #[serde(rename = "GCS")]
    Gcs(Gcs),
    AzureBlob(AzureBlob),
    File(File),
    #[serde(rename = "HTTP")]
    Http(Http),
    Postgres(Postgres),
    Redshift(Redshift),
    Snowflake(Snowflake),
    BigQuery(BigQuery),
    Databricks(Databricks),
    ClickHouse(ClickHouse),
    NoOp(NoOp),
}

/// A place on the network that a destination names, as the address policy looks at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    Url { field: &'static str, url: String },
    Host { field: &'static str, host: String },
}

impl Kind {
    pub const ALL: [Self; 12] = [
        Self::S3,
        Self::Gcs,
        Self::AzureBlob,
        Self::File,
        Self::Http,
        Self::Postgres,
        Self::Redshift,
        Self::Snowflake,
        Self::BigQuery,
        Self::Databricks,
        Self::ClickHouse,
        Self::NoOp,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::S3 => "S3",
            Self::Gcs => "GCS",
            Self::AzureBlob => "AzureBlob",
            Self::File => "File",
            Self::Http => "HTTP",
            Self::Postgres => "Postgres",
            Self::Redshift => "Redshift",
            Self::Snowflake => "Snowflake",
            Self::BigQuery => "BigQuery",
            Self::Databricks => "Databricks",
            Self::ClickHouse => "ClickHouse",
            Self::NoOp => "NoOp",
        }
    }

    /// By name, however it is capitalized.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.name().eq_ignore_ascii_case(name))
    }

    /// Whether persons can go there. An endpoint that takes events has no place for them.
    pub fn takes_persons(self) -> bool {
        self != Self::Http
    }
}
