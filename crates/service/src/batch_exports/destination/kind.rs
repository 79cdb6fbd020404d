//! The kinds of places that exports go to.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::db::columns::read_as_text;

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

impl FromStr for Kind {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::named(text).ok_or(())
    }
}

read_as_text!(Kind);
