//! Destinations that have tables.

use super::super::fields::{ConfigField, FieldKind, Part, choice, flag, password, port, text};

const TABLE: ConfigField = text(
    "table_name",
    "Table",
    "The table, made if it is not there; events unless given.",
)
.usual("events");
const USER: ConfigField = text("user", "User", "Who writes.").required().secret();
const PASSWORD: ConfigField = password("password", "Password", "The password that goes with the user.").required();
const DATABASE: ConfigField = text("database", "Database", "The database that has the table.").required();
const SCHEMA: ConfigField = text(
    "schema",
    "Schema",
    "The schema that has the table; public unless given.",
)
.usual("public");

pub(super) const POSTGRES: &[ConfigField] = &[
    USER,
    PASSWORD,
    text("host", "Host", "The server's name or address.")
        .required()
        .address(),
    port("port", "Port", "The server's port; 5432 unless given.").usual("5432"),
    DATABASE,
    SCHEMA,
    TABLE,
    flag(
        "has_self_signed_cert",
        "Self-signed certificate",
        "The server's certificate is its own; the connection is encrypted but not verified.",
    )
    .part(Part::Access)
    // Whoever is in between would get the password.
    .address(),
];

/// Below `copy_inputs`.
const COPY_INPUTS: &[ConfigField] = &[
    text(
        "s3_bucket",
        "Bucket to copy from",
        "Files wait there until Redshift has read them.",
    )
    .required(),
    text("region_name", "Region of the bucket", "Such as eu-central-1.").required(),
    text(
        "s3_key_prefix",
        "Prefix in the bucket",
        "Where the files begin; / unless given.",
    )
    .usual("/"),
    ConfigField::new(
        "authorization",
        FieldKind::RoleOrKeys,
        "Role that reads the bucket",
        "The ARN of a role that the cluster may assume. Over the API, also a pair of keys.",
    )
    .required(),
    ConfigField::new(
        "bucket_credentials",
        FieldKind::Group(KEYS),
        "Keys that write to the bucket",
        "How we write to the bucket.",
    )
    .required(),
    text(
        "endpoint_url",
        "Endpoint of the bucket",
        "An S3-compatible server; Amazon's unless given.",
    ),
];

/// Secret wherever they are: see `split.rs`.
pub(in super::super) const KEYS: &[ConfigField] = &[
    text(
        "aws_access_key_id",
        "Access key id for the bucket",
        "Says which key writes to the bucket.",
    )
    .required()
    .secret(),
    password(
        "aws_secret_access_key",
        "Secret access key for the bucket",
        "The secret that goes with the access key id.",
    )
    .required(),
];

pub(super) const REDSHIFT: &[ConfigField] = &[
    USER,
    PASSWORD,
    text("host", "Host", "The cluster's or workgroup's name.")
        .required()
        .address(),
    port("port", "Port", "The cluster's port; 5439 unless given.").usual("5439"),
    DATABASE,
    SCHEMA,
    TABLE,
    choice(
        "properties_data_type",
        &["varchar", "super"],
        "Type of properties",
        "The type of columns that hold JSON; varchar unless given.",
    )
    .usual("varchar"),
    choice(
        "mode",
        &["INSERT", "COPY"],
        "How rows get in",
        "INSERT, or COPY from a bucket: faster for much data.",
    )
    .usual("INSERT"),
    ConfigField::new(
        "copy_inputs",
        FieldKind::Group(COPY_INPUTS),
        "Bucket for COPY",
        "The bucket to copy from, for COPY.",
    )
    .part(Part::Shape)
    .address()
    .only_with("mode", "COPY"),
];

pub(super) const SNOWFLAKE: &[ConfigField] = &[
    text(
        "account",
        "Account",
        "The account's identifier, such as myorg-myaccount.",
    )
    .required()
    .address(),
    USER,
    DATABASE,
    text("warehouse", "Warehouse", "The warehouse that does the work.").required(),
    text("schema", "Schema", "The schema that has the table.").required(),
    TABLE,
    choice(
        "authentication_type",
        &["password", "keypair"],
        "How to sign in",
        "With a password or a key pair; password unless given.",
    )
    .part(Part::Access)
    .usual("password"),
    password("password", "Password", "The password that goes with the user.")
        .only_with("authentication_type", "password"),
    ConfigField::new(
        "private_key",
        FieldKind::Lines,
        "Private key",
        "The user's private key: PEM, PKCS #8.",
    )
    .secret()
    .only_with("authentication_type", "keypair"),
    password(
        "private_key_passphrase",
        "Passphrase of the private key",
        "Only if the private key is encrypted.",
    )
    .only_with("authentication_type", "keypair"),
    text("role", "Role", "The role to take; the user's own unless given.").part(Part::Access),
    text(
        "endpoint_url",
        "Endpoint",
        "Another address of the account, such as a private link.",
    )
    .address(),
];

pub(super) const BIGQUERY: &[ConfigField] = &[
    text("project_id", "Project", "The id of the project that has the dataset.").required(),
    text("dataset_id", "Dataset", "The dataset that has the table.").required(),
    text("table_id", "Table", TABLE.about).usual("events"),
    ConfigField::new(
        "private_key",
        FieldKind::Lines,
        "Private key",
        "private_key from the service account's key.",
    )
    .required()
    .secret(),
    text(
        "private_key_id",
        "Private key id",
        "private_key_id from the service account's key.",
    )
    .required()
    .secret(),
    text("token_uri", "Token URI", "token_uri from the service account's key.")
        .required()
        .secret()
        .address(),
    text(
        "client_email",
        "Client e-mail",
        "client_email from the service account's key.",
    )
    .required()
    .secret(),
    flag(
        "use_json_type",
        "JSON columns",
        "Properties are JSON rather than STRING.",
    )
    .part(Part::Shape),
    text("endpoint_url", "Endpoint", "Another server; Google's unless given.").address(),
];

pub(super) const DATABRICKS: &[ConfigField] = &[
    text(
        "server_hostname",
        "Host",
        "The workspace, such as dbc-1234.cloud.databricks.com.",
    )
    .required()
    .address(),
    text(
        "http_path",
        "HTTP path",
        "Of the SQL warehouse, such as /sql/1.0/warehouses/abc.",
    )
    .required(),
    text("catalog", "Catalog", "The catalog that has the schema.").required(),
    text("schema", "Schema", "The schema that has the table.").required(),
    text("table_name", "Table", "The table, made if it is not there.").required(),
    password(
        "access_token",
        "Access token",
        "A personal access token; else a service principal's id and secret.",
    ),
    text(
        "client_id",
        "Client id",
        "A service principal's id, if there is no access token.",
    )
    .part(Part::Access),
    password("client_secret", "Client secret", "The service principal's secret."),
    flag(
        "use_variant_type",
        "VARIANT columns",
        "Properties are VARIANT rather than STRING; yes unless told otherwise.",
    )
    .part(Part::Shape)
    .usual("true"),
    flag(
        "use_automatic_schema_evolution",
        "New columns by themselves",
        "New columns are added; yes unless told otherwise.",
    )
    .part(Part::Shape)
    .usual("true"),
];

pub(super) const CLICKHOUSE: &[ConfigField] = &[
    text(
        "url",
        "URL",
        "Of the HTTP interface, such as https://clickhouse.example.com:8443.",
    )
    .required()
    .address(),
    USER,
    PASSWORD,
    text(
        "database",
        "Database",
        "The database that has the table; default unless given.",
    )
    .usual("default"),
    TABLE,
];
