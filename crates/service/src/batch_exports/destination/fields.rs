//! What each kind of destination must be told.

use super::Kind;

/// One key of a configuration.
#[derive(Debug, Clone, Copy)]
pub struct ConfigField {
    pub key: &'static str,
    pub kind: FieldKind,
    pub is_required: bool,
    /// Kept sealed and never shown.
    pub is_secret: bool,
    /// Says where the destination is: whoever changes it must give the secrets again.
    pub is_address: bool,
    pub about: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldKind {
    Text,
    Number,
    Flag,
    /// Text, or an object that is kept as its JSON text.
    Document,
    Choice(&'static [&'static str]),
    Texts,
    /// The bucket that Redshift copies from; see `copy_inputs` in `check.rs`.
    CopyInputs,
}

impl ConfigField {
    const fn new(key: &'static str, kind: FieldKind, about: &'static str) -> Self {
        Self {
            key,
            kind,
            is_required: false,
            is_secret: false,
            is_address: false,
            about,
        }
    }

    const fn required(mut self) -> Self {
        self.is_required = true;
        self
    }

    const fn secret(mut self) -> Self {
        self.is_secret = true;
        self
    }

    const fn address(mut self) -> Self {
        self.is_address = true;
        self
    }
}

const fn text(key: &'static str, about: &'static str) -> ConfigField {
    ConfigField::new(key, FieldKind::Text, about)
}

const fn number(key: &'static str, about: &'static str) -> ConfigField {
    ConfigField::new(key, FieldKind::Number, about)
}

const fn flag(key: &'static str, about: &'static str) -> ConfigField {
    ConfigField::new(key, FieldKind::Flag, about)
}

const fn choice(key: &'static str, of: &'static [&'static str], about: &'static str) -> ConfigField {
    ConfigField::new(key, FieldKind::Choice(of), about)
}

pub(super) const FORMATS: &[&str] = &["JSONLines", "Parquet", "CSV"];
pub(super) const COMPRESSIONS: &[&str] = &["gzip", "brotli", "zstd", "snappy", "lz4"];

/// Every kind has these.
const COMMON: [ConfigField; 2] = [
    ConfigField::new("include_events", FieldKind::Texts, "Only events of these names."),
    ConfigField::new("exclude_events", FieldKind::Texts, "No events of these names."),
];

const FILES: [ConfigField; 4] = [
    text(
        "prefix",
        "Where files begin; {year}, {month}, {day}, {hour}, {minute}, {second}, {table} are filled in.",
    ),
    choice("file_format", FORMATS, "How rows are written; JSONLines unless given."),
    choice(
        "compression",
        COMPRESSIONS,
        "How files are packed; not at all unless given.",
    ),
    number("max_file_size_mb", "Begin another file when one is this large."),
];

const TABLE: &str = "The table, made if it is not there; events unless given.";

const S3: &[ConfigField] = &[
    text("bucket_name", "The bucket.").required(),
    text("region", "The bucket's region, such as eu-central-1.").required(),
    FILES[0].required(),
    text("aws_access_key_id", "Who writes.").secret(),
    text("aws_secret_access_key", "The secret that goes with it.").secret(),
    FILES[1],
    FILES[2],
    FILES[3],
    choice("encryption", &["AES256", "aws:kms"], "How the bucket encrypts files."),
    text("kms_key_id", "The key for aws:kms."),
    text("endpoint_url", "An S3-compatible server; Amazon's unless given.").address(),
    flag("use_virtual_style_addressing", "The bucket is part of the host name."),
];

const GCS: &[ConfigField] = &[
    text("bucket_name", "The bucket.").required(),
    ConfigField::new(
        "service_account_key",
        FieldKind::Document,
        "The JSON of a service account's key.",
    )
    .required()
    .secret(),
    FILES[0],
    FILES[1],
    FILES[2],
    FILES[3],
    text("endpoint_url", "Another server; Google's unless given.").address(),
];

const AZURE_BLOB: &[ConfigField] = &[
    text("container_name", "The container.").required(),
    text(
        "connection_string",
        "As the portal shows it; else an account name with a key or a SAS token.",
    )
    .secret()
    .address(),
    text("account_name", "The storage account.").address(),
    text("account_key", "A key of the account.").secret(),
    text("sas_token", "A shared access signature.").secret(),
    FILES[0],
    FILES[1],
    FILES[2],
    FILES[3],
    text("endpoint_url", "Another server; Azure's unless given.").address(),
];

const FILE: &[ConfigField] = &[
    text("folder", "A folder below the server's export root."),
    FILES[0],
    FILES[1],
    FILES[2],
    FILES[3],
];

const HTTP: &[ConfigField] = &[
    text("url", "Where batches are sent, such as https://example.com/batch/.")
        .required()
        .address(),
    text("token", "The project token sent along.").required().secret(),
];

const POSTGRES: &[ConfigField] = &[
    text("user", "Who writes.").required().secret(),
    text("password", "The password that goes with it.").required().secret(),
    text("host", "The server's name or address.").required().address(),
    number("port", "The server's port; 5432 unless given.").address(),
    text("database", "The database.").required(),
    text("schema", "The schema; public unless given."),
    text("table_name", TABLE),
    flag(
        "has_self_signed_cert",
        "The server's certificate is its own; the connection is encrypted but not verified.",
    ),
];

const REDSHIFT: &[ConfigField] = &[
    text("user", "Who writes.").required().secret(),
    text("password", "The password that goes with it.").required().secret(),
    text("host", "The cluster's name.").required().address(),
    number("port", "The cluster's port; 5439 unless given.").address(),
    text("database", "The database.").required(),
    text("schema", "The schema; public unless given."),
    text("table_name", TABLE),
    choice(
        "properties_data_type",
        &["varchar", "super"],
        "The type of properties; varchar unless given.",
    ),
    choice(
        "mode",
        &["INSERT", "COPY"],
        "How rows get in: INSERT, or COPY from a bucket.",
    ),
    ConfigField::new(
        "copy_inputs",
        FieldKind::CopyInputs,
        "The bucket to copy from, for COPY.",
    )
    .address(),
];

const SNOWFLAKE: &[ConfigField] = &[
    text("account", "The account's identifier, such as myorg-myaccount.")
        .required()
        .address(),
    text("user", "Who writes.").required().secret(),
    text("database", "The database.").required(),
    text("warehouse", "The warehouse that does the work.").required(),
    text("schema", "The schema.").required(),
    text("table_name", TABLE),
    choice(
        "authentication_type",
        &["password", "keypair"],
        "How to sign in; password unless given.",
    ),
    text("password", "For password.").secret(),
    text("private_key", "For keypair: PEM, PKCS #8.").secret(),
    text("private_key_passphrase", "If the private key is encrypted.").secret(),
    text("role", "The role to take; the user's own unless given."),
    text(
        "endpoint_url",
        "Another address of the account, such as a private link.",
    )
    .address(),
];

const BIGQUERY: &[ConfigField] = &[
    text("project_id", "The project.").required(),
    text("dataset_id", "The dataset.").required(),
    text("table_id", TABLE),
    text("private_key", "From the service account's key.")
        .required()
        .secret(),
    text("private_key_id", "From the service account's key.")
        .required()
        .secret(),
    text("token_uri", "From the service account's key.")
        .required()
        .secret()
        .address(),
    text("client_email", "From the service account's key.")
        .required()
        .secret(),
    flag("use_json_type", "Properties are JSON rather than STRING."),
    text("endpoint_url", "Another server; Google's unless given.").address(),
];

const DATABRICKS: &[ConfigField] = &[
    text(
        "server_hostname",
        "The workspace, such as dbc-1234.cloud.databricks.com.",
    )
    .required()
    .address(),
    text("http_path", "Of the SQL warehouse, such as /sql/1.0/warehouses/abc.").required(),
    text("catalog", "The catalog.").required(),
    text("schema", "The schema.").required(),
    text("table_name", "The table, made if it is not there.").required(),
    text(
        "access_token",
        "A personal access token; else a service principal's id and secret.",
    )
    .secret(),
    text("client_id", "A service principal's id."),
    text("client_secret", "A service principal's secret.").secret(),
    flag(
        "use_variant_type",
        "Properties are VARIANT rather than STRING; yes unless told otherwise.",
    ),
    flag(
        "use_automatic_schema_evolution",
        "New columns are added; yes unless told otherwise.",
    ),
];

const CLICKHOUSE: &[ConfigField] = &[
    text(
        "url",
        "Of the HTTP interface, such as https://clickhouse.example.com:8443.",
    )
    .required()
    .address(),
    text("user", "Who writes.").required().secret(),
    text("password", "The password that goes with it.").required().secret(),
    text("database", "The database; default unless given."),
    text("table_name", TABLE),
];

const NO_OP: &[ConfigField] = &[text("arg", "Anything.")];

impl Kind {
    /// The keys of its configuration, the common ones last.
    pub fn fields(self) -> impl Iterator<Item = &'static ConfigField> {
        let own = match self {
            Self::S3 => S3,
            Self::Gcs => GCS,
            Self::AzureBlob => AZURE_BLOB,
            Self::File => FILE,
            Self::Http => HTTP,
            Self::Postgres => POSTGRES,
            Self::Redshift => REDSHIFT,
            Self::Snowflake => SNOWFLAKE,
            Self::BigQuery => BIGQUERY,
            Self::Databricks => DATABRICKS,
            Self::ClickHouse => CLICKHOUSE,
            Self::NoOp => NO_OP,
        };
        own.iter().chain(&COMMON)
    }
}
