//! Each kind's configuration, typed. Which keys there are, and which are secret, is said in `tables`.

use secrecy::SecretString;
use serde::Deserialize;

use super::Kind;

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

/// How files are written: the part that object stores and folders share.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct FileOptions {
    pub prefix: String,
    pub file_format: FileFormat,
    pub compression: Option<Compression>,
    /// In MiB of what is written. Whenever it is set, files are numbered; 0 numbers and never splits.
    pub max_file_size_mb: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
pub enum FileFormat {
    #[default]
    JSONLines,
    Parquet,
    #[serde(rename = "CSV")]
    Csv,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    Gzip,
    Brotli,
    Zstd,
    Snappy,
    Lz4,
}

#[derive(Debug, Clone, Deserialize)]
pub struct S3 {
    pub bucket_name: String,
    pub region: String,
    pub aws_access_key_id: Option<SecretString>,
    pub aws_secret_access_key: Option<SecretString>,
    /// `AES256` or `aws:kms`.
    pub encryption: Option<String>,
    pub kms_key_id: Option<String>,
    pub endpoint_url: Option<String>,
    #[serde(default)]
    pub use_virtual_style_addressing: bool,
    #[serde(flatten)]
    pub files: FileOptions,
}

#[derive(Debug, Clone, Deserialize)]
pub struct Gcs {
    pub bucket_name: String,
    /// The JSON of a service account's key.
    pub service_account_key: SecretString,
    pub endpoint_url: Option<String>,
    #[serde(flatten)]
    pub files: FileOptions,
}

#[derive(Debug, Clone, Deserialize)]
pub struct AzureBlob {
    pub container_name: String,
    /// As the portal shows it. Else account name and key, or account name and SAS token.
    pub connection_string: Option<SecretString>,
    pub account_name: Option<String>,
    pub account_key: Option<SecretString>,
    pub sas_token: Option<SecretString>,
    pub endpoint_url: Option<String>,
    #[serde(flatten)]
    pub files: FileOptions,
}

/// A folder below the server's export root.
#[derive(Debug, Clone, Deserialize)]
pub struct File {
    #[serde(default)]
    pub folder: String,
    #[serde(flatten)]
    pub files: FileOptions,
}

#[derive(Debug, Clone, Deserialize)]
pub struct Http {
    pub url: String,
    pub token: SecretString,
}

#[derive(Debug, Clone, Deserialize)]
pub struct Postgres {
    pub user: SecretString,
    pub password: SecretString,
    pub host: String,
    #[serde(default = "postgres_port")]
    pub port: u16,
    pub database: String,
    #[serde(default = "public")]
    pub schema: String,
    #[serde(default = "events")]
    pub table_name: String,
    #[serde(default)]
    pub has_self_signed_cert: bool,
}

#[derive(Debug, Clone, Deserialize)]
pub struct Redshift {
    pub user: SecretString,
    pub password: SecretString,
    pub host: String,
    #[serde(default = "redshift_port")]
    pub port: u16,
    pub database: String,
    #[serde(default = "public")]
    pub schema: String,
    #[serde(default = "events")]
    pub table_name: String,
    #[serde(default)]
    pub properties_data_type: PropertiesType,
    #[serde(default)]
    pub mode: RedshiftMode,
    pub copy_inputs: Option<CopyInputs>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PropertiesType {
    #[default]
    Varchar,
    Super,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum RedshiftMode {
    #[default]
    Insert,
    Copy,
}

/// The bucket that Redshift copies from.
#[derive(Debug, Clone, Deserialize)]
pub struct CopyInputs {
    pub s3_bucket: String,
    pub region_name: String,
    #[serde(default = "slash")]
    pub s3_key_prefix: String,
    /// How Redshift reads the bucket.
    pub authorization: CopyAuthorization,
    /// How we write to it.
    pub bucket_credentials: Keys,
    /// An S3-compatible server instead of Amazon's; ours alone, Redshift itself reads from Amazon only.
    pub endpoint_url: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum CopyAuthorization {
    /// The ARN of a role that the cluster may assume.
    Role(String),
    Keys(Keys),
}

#[derive(Debug, Clone, Deserialize)]
pub struct Keys {
    pub aws_access_key_id: SecretString,
    pub aws_secret_access_key: SecretString,
}

#[derive(Debug, Clone, Deserialize)]
pub struct Snowflake {
    pub account: String,
    pub user: SecretString,
    pub database: String,
    pub warehouse: String,
    pub schema: String,
    #[serde(default = "events")]
    pub table_name: String,
    #[serde(default)]
    pub authentication_type: SnowflakeAuthentication,
    pub password: Option<SecretString>,
    pub private_key: Option<SecretString>,
    pub private_key_passphrase: Option<SecretString>,
    pub role: Option<String>,
    /// Instead of `https://{account}.snowflakecomputing.com`, for private links.
    pub endpoint_url: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SnowflakeAuthentication {
    #[default]
    Password,
    Keypair,
}

#[derive(Debug, Clone, Deserialize)]
pub struct BigQuery {
    pub project_id: String,
    pub dataset_id: String,
    #[serde(default = "events")]
    pub table_id: String,
    pub private_key: SecretString,
    pub private_key_id: SecretString,
    pub token_uri: SecretString,
    pub client_email: SecretString,
    #[serde(default)]
    pub use_json_type: bool,
    /// Instead of `https://bigquery.googleapis.com`.
    pub endpoint_url: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
pub struct Databricks {
    pub server_hostname: String,
    pub http_path: String,
    pub catalog: String,
    pub schema: String,
    pub table_name: String,
    /// A personal access token; else a service principal's id and secret.
    pub access_token: Option<SecretString>,
    pub client_id: Option<String>,
    pub client_secret: Option<SecretString>,
    #[serde(default = "yes")]
    pub use_variant_type: bool,
    #[serde(default = "yes")]
    pub use_automatic_schema_evolution: bool,
}

#[derive(Debug, Clone, Deserialize)]
pub struct ClickHouse {
    /// Of the HTTP interface, such as `https://clickhouse.example.com:8443`.
    pub url: String,
    pub user: SecretString,
    pub password: SecretString,
    #[serde(default = "default")]
    pub database: String,
    #[serde(default = "events")]
    pub table_name: String,
}

/// Takes everything and keeps nothing.
#[derive(Debug, Clone, Deserialize)]
pub struct NoOp {
    #[serde(default)]
    pub arg: String,
}

fn postgres_port() -> u16 {
    5432
}

fn redshift_port() -> u16 {
    5439
}

fn public() -> String {
    "public".to_owned()
}

fn events() -> String {
    "events".to_owned()
}

fn default() -> String {
    "default".to_owned()
}

fn slash() -> String {
    "/".to_owned()
}

fn yes() -> bool {
    true
}

impl Destination {
    pub fn kind(&self) -> Kind {
        match self {
            Self::S3(_) => Kind::S3,
            Self::Gcs(_) => Kind::Gcs,
            Self::AzureBlob(_) => Kind::AzureBlob,
            Self::File(_) => Kind::File,
            Self::Http(_) => Kind::Http,
            Self::Postgres(_) => Kind::Postgres,
            Self::Redshift(_) => Kind::Redshift,
            Self::Snowflake(_) => Kind::Snowflake,
            Self::BigQuery(_) => Kind::BigQuery,
            Self::Databricks(_) => Kind::Databricks,
            Self::ClickHouse(_) => Kind::ClickHouse,
            Self::NoOp(_) => Kind::NoOp,
        }
    }
}
