//! How kinds of destinations are told to people.

use super::Kind;

/// Kinds that are alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    ObjectStores,
    Databases,
    Others,
}

impl Family {
    pub const ALL: [Self; 3] = [Self::ObjectStores, Self::Databases, Self::Others];

    pub fn title(self) -> &'static str {
        match self {
            Self::ObjectStores => "Object storage",
            Self::Databases => "Data warehouses and databases",
            Self::Others => "Other",
        }
    }
}

impl Kind {
    pub fn family(self) -> Family {
        match self {
            Self::S3 | Self::Gcs | Self::AzureBlob => Family::ObjectStores,
            Self::Postgres
            | Self::Redshift
            | Self::Snowflake
            | Self::BigQuery
            | Self::Databricks
            | Self::ClickHouse => Family::Databases,
            Self::File | Self::Http | Self::NoOp => Family::Others,
        }
    }

    pub fn title(self) -> &'static str {
        match self {
            Self::S3 => "Amazon S3",
            Self::Gcs => "Google Cloud Storage",
            Self::AzureBlob => "Azure Blob Storage",
            Self::File => "Local folder",
            Self::Http => "HTTP endpoint",
            Self::Postgres => "PostgreSQL",
            Self::Redshift => "Amazon Redshift",
            Self::Snowflake => "Snowflake",
            Self::BigQuery => "Google BigQuery",
            Self::Databricks => "Databricks",
            Self::ClickHouse => "ClickHouse",
            Self::NoOp => "No-op (testing)",
        }
    }

    pub fn about(self) -> &'static str {
        match self {
            Self::S3 => "Files in a bucket of Amazon S3 or any S3-compatible service.",
            Self::Gcs => "Files in a Google Cloud Storage bucket.",
            Self::AzureBlob => "Files in an Azure Blob Storage container.",
            Self::File => "Files in a folder below the server's export root.",
            Self::Http => "Batches of events, sent to an HTTP endpoint.",
            Self::Postgres => "Rows in a PostgreSQL table.",
            Self::Redshift => "Rows in an Amazon Redshift table.",
            Self::Snowflake => "Rows in a Snowflake table.",
            Self::BigQuery => "Rows in a Google BigQuery table.",
            Self::Databricks => "Rows in a Databricks table.",
            Self::ClickHouse => "Rows in a ClickHouse table.",
            Self::NoOp => "Accepts everything and stores nothing, for testing.",
        }
    }
}
