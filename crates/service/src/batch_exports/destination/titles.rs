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
            Self::ObjectStores => "Object stores",
            Self::Databases => "Warehouses and databases",
            Self::Others => "Others",
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
            Self::File => "Folder on the server",
            Self::Http => "HTTP endpoint",
            Self::Postgres => "PostgreSQL",
            Self::Redshift => "Amazon Redshift",
            Self::Snowflake => "Snowflake",
            Self::BigQuery => "Google BigQuery",
            Self::Databricks => "Databricks",
            Self::ClickHouse => "ClickHouse",
            Self::NoOp => "Nowhere",
        }
    }

    pub fn about(self) -> &'static str {
        match self {
            Self::S3 => "Files in a bucket of Amazon S3, or of another server that speaks like it.",
            Self::Gcs => "Files in a bucket of Google Cloud Storage.",
            Self::AzureBlob => "Files in a container of Azure Blob Storage.",
            Self::File => "Files in a folder that whoever runs this server has set aside for exports.",
            Self::Http => "Batches of events, sent to an endpoint that takes them.",
            Self::Postgres => "Rows in a table of PostgreSQL.",
            Self::Redshift => "Rows in a table of Amazon Redshift.",
            Self::Snowflake => "Rows in a table of Snowflake.",
            Self::BigQuery => "Rows in a table of Google BigQuery.",
            Self::Databricks => "Rows in a table of Databricks.",
            Self::ClickHouse => "Rows in a table of ClickHouse.",
            Self::NoOp => "Takes everything and keeps nothing, for trying things out.",
        }
    }
}
