//! Destinations that have tables.

use super::super::fields::{ConfigField, FieldKind, Part, choice, flag, password, port, text};

const TABLE: ConfigField = text(
    "table_name",
    "Table",
    "Created if it doesn't exist. Defaults to events.",
)
.usual("events");
const USER: ConfigField = text("user", "User", "Database user.").required().secret();
const PASSWORD: ConfigField = password("password", "Password", "The user's password.").required();
const DATABASE: ConfigField = text("database", "Database", "The database that contains the table.").required();
const SCHEMA: ConfigField = text(
    "schema",
    "Schema",
    "The schema that contains the table. Defaults to public.",
)
.usual("public");

pub(super) const POSTGRES: &[ConfigField] = &[
    USER,
    PASSWORD,
    text("host", "Host", "The server's hostname or IP address.")
        .required()
        .address(),
    port("port", "Port", "The server's port. Defaults to 5432.").usual("5432"),
    DATABASE,
    SCHEMA,
    TABLE,
    flag(
        "has_self_signed_cert",
        "Allow self-signed certificates",
        "The connection is encrypted, but the server's certificate is not verified.",
    )
    .part(Part::Access)
    // Whoever is in between would get the password.
    .address(),
];

/// Below `copy_inputs`.
const COPY_INPUTS: &[ConfigField] = &[
    text(
        "s3_bucket",
        "Staging bucket",
        "Files are staged there until Redshift has loaded them.",
    )
    .required(),
    text("region_name", "Staging bucket region", "Such as eu-central-1.").required(),
    text(
        "s3_key_prefix",
        "Staging bucket prefix",
        "The folder for staged files. Defaults to /.",
    )
    .usual("/"),
    ConfigField::new(
        "authorization",
        FieldKind::RoleOrKeys,
        "IAM role for COPY",
        "The ARN of a role that the cluster can assume to read the bucket. The API also accepts an access key.",
    )
    .required(),
    ConfigField::new(
        "bucket_credentials",
        FieldKind::Group(KEYS),
        "Staging bucket credentials",
        "The access key that writes to the staging bucket.",
    )
    .required(),
    text(
        "endpoint_url",
        "Staging bucket endpoint",
        "The URL of an S3-compatible service. Defaults to Amazon S3.",
    ),
];

/// Secret wherever they are: see `split.rs`.
pub(in super::super) const KEYS: &[ConfigField] = &[
    text(
        "aws_access_key_id",
        "Staging bucket access key ID",
        "The access key that writes to the staging bucket.",
    )
    .required()
    .secret(),
    password(
        "aws_secret_access_key",
        "Staging bucket secret access key",
        "The secret of this access key.",
    )
    .required(),
];

pub(super) const REDSHIFT: &[ConfigField] = &[
    USER,
    PASSWORD,
    text("host", "Host", "The hostname of the cluster or workgroup.")
        .required()
        .address(),
    port("port", "Port", "The cluster's port. Defaults to 5439.").usual("5439"),
    DATABASE,
    SCHEMA,
    TABLE,
    choice(
        "properties_data_type",
        &["varchar", "super"],
        "Properties type",
        "The type of JSON columns. Defaults to varchar.",
    )
    .usual("varchar"),
    choice(
        "mode",
        &["INSERT", "COPY"],
        "Load method",
        "INSERT, or COPY from a staging bucket, which is faster for large amounts of data.",
    )
    .usual("INSERT"),
    ConfigField::new(
        "copy_inputs",
        FieldKind::Group(COPY_INPUTS),
        "COPY settings",
        "The staging bucket for COPY.",
    )
    .part(Part::Shape)
    .address()
    .only_with("mode", "COPY"),
];

pub(super) const SNOWFLAKE: &[ConfigField] = &[
    text("account", "Account", "The account identifier, such as myorg-myaccount.")
        .required()
        .address(),
    USER,
    DATABASE,
    text("warehouse", "Warehouse", "The warehouse that runs the queries.").required(),
    text("schema", "Schema", "The schema that contains the table.").required(),
    TABLE,
    choice(
        "authentication_type",
        &["password", "keypair"],
        "Authentication type",
        "Password or key pair. Defaults to password.",
    )
    .part(Part::Access)
    .usual("password"),
    password("password", "Password", "The user's password.").only_with("authentication_type", "password"),
    ConfigField::new(
        "private_key",
        FieldKind::Lines,
        "Private key",
        "The user's private key, in PEM format (PKCS #8).",
    )
    .secret()
    .only_with("authentication_type", "keypair"),
    password(
        "private_key_passphrase",
        "Private key passphrase",
        "Only if the private key is encrypted.",
    )
    .only_with("authentication_type", "keypair"),
    text("role", "Role", "The role to use. Defaults to the user's default role.").part(Part::Access),
    text(
        "endpoint_url",
        "Endpoint",
        "Another URL of the account, such as a private link.",
    )
    .address(),
];

pub(super) const BIGQUERY: &[ConfigField] = &[
    text("project_id", "Project ID", "The project that contains the dataset.").required(),
    text("dataset_id", "Dataset ID", "The dataset that contains the table.").required(),
    text("table_id", "Table", TABLE.about).usual("events"),
    ConfigField::new(
        "private_key",
        FieldKind::Lines,
        "Private key",
        "private_key from the service account key.",
    )
    .required()
    .secret(),
    text(
        "private_key_id",
        "Private key ID",
        "private_key_id from the service account key.",
    )
    .required()
    .secret(),
    text("token_uri", "Token URI", "token_uri from the service account key.")
        .required()
        .secret()
        .address(),
    text(
        "client_email",
        "Client email",
        "client_email from the service account key.",
    )
    .required()
    .secret(),
    flag(
        "use_json_type",
        "JSON columns",
        "Stores properties as JSON instead of STRING.",
    )
    .part(Part::Shape),
    text(
        "endpoint_url",
        "Endpoint",
        "Only for another server. Defaults to Google's.",
    )
    .address(),
];

pub(super) const DATABRICKS: &[ConfigField] = &[
    text(
        "server_hostname",
        "Host",
        "The workspace's hostname, such as dbc-1234.cloud.databricks.com.",
    )
    .required()
    .address(),
    text(
        "http_path",
        "HTTP path",
        "The HTTP path of the SQL warehouse, such as /sql/1.0/warehouses/abc.",
    )
    .required(),
    text("catalog", "Catalog", "The catalog that contains the schema.").required(),
    text("schema", "Schema", "The schema that contains the table.").required(),
    text("table_name", "Table", "Created if it doesn't exist.").required(),
    password(
        "access_token",
        "Access token",
        "A personal access token. Or use a service principal's client ID and secret.",
    ),
    text(
        "client_id",
        "Client ID",
        "The service principal's ID, if you don't use an access token.",
    )
    .part(Part::Access),
    password("client_secret", "Client secret", "The service principal's secret."),
    flag(
        "use_variant_type",
        "VARIANT columns",
        "Stores properties as VARIANT instead of STRING. On by default.",
    )
    .part(Part::Shape)
    .usual("true"),
    flag(
        "use_automatic_schema_evolution",
        "Automatic schema evolution",
        "Adds new columns automatically. On by default.",
    )
    .part(Part::Shape)
    .usual("true"),
];

pub(super) const CLICKHOUSE: &[ConfigField] = &[
    text(
        "url",
        "URL",
        "The URL of the HTTP interface, such as https://clickhouse.example.com:8443.",
    )
    .required()
    .address(),
    USER,
    PASSWORD,
    text(
        "database",
        "Database",
        "The database that contains the table. Defaults to \"default\".",
    )
    .usual("default"),
    TABLE,
];
