//! Destinations that take files.

use super::super::fields::{ConfigField, FieldKind, Part, choice, flag, number, password, text};

pub(in super::super) const FORMATS: &[&str] = &["JSONLines", "Parquet", "CSV"];
pub(in super::super) const COMPRESSIONS: &[&str] = &["gzip", "brotli", "zstd", "snappy", "lz4"];

const FILES: [ConfigField; 4] = [
    text(
        "prefix",
        "Prefix",
        "The folder for the files, such as hedgerow/{year}/{month}/{day}; empty for the top. {year}, {month}, {day}, {hour}, \
         {minute}, {second} and {table} are filled in. Give each export its own.",
    ),
    choice(
        "file_format",
        FORMATS,
        "Format",
        "How rows are written. JSONLines is one JSON object a line.",
    )
    .usual("JSONLines"),
    choice(
        "compression",
        COMPRESSIONS,
        "Compression",
        "How files are packed; not at all unless given. snappy and lz4 work with Parquet only.",
    ),
    number(
        "max_file_size_mb",
        "Largest file, in MiB",
        "Begin another file when one is this large; one file for each interval unless given.",
    )
    .part(Part::Shape),
];

pub(super) const S3: &[ConfigField] = &[
    text(
        "bucket_name",
        "Bucket",
        "The bucket's name alone, without s3:// and folders. It must be there already.",
    )
    .required(),
    text(
        "region",
        "Region",
        "The bucket's region, such as eu-central-1; for servers other than Amazon's mostly us-east-1.",
    )
    .required(),
    FILES[0].required(),
    text(
        "aws_access_key_id",
        "Access key id",
        "Of an access key that may put, get, list and delete objects there, such as AKIAIOSFODNN7EXAMPLE.",
    )
    .required()
    .secret(),
    password(
        "aws_secret_access_key",
        "Secret access key",
        "The secret that goes with the access key id.",
    )
    .required(),
    FILES[1],
    FILES[2],
    FILES[3],
    choice(
        "encryption",
        &["AES256", "aws:kms"],
        "Encryption",
        "How files are encrypted at rest; as the bucket does by itself unless given.",
    ),
    text(
        "kms_key_id",
        "KMS key id",
        "The id or ARN of the key for aws:kms; the access key must be allowed to use it.",
    )
    .part(Part::Shape)
    .only_with("encryption", "aws:kms"),
    text(
        "endpoint_url",
        "Endpoint",
        "Only for a server that is not Amazon's: its address, such as https://s3.example.com.",
    )
    .address(),
    flag(
        "use_virtual_style_addressing",
        "Virtual-hosted addresses",
        "Only if the server asks for it: the bucket's name stands before the host, as in bucket.s3.example.com.",
    )
    .address(),
];

pub(super) const GCS: &[ConfigField] = &[
    text("bucket_name", "Bucket", "The bucket that files go to.").required(),
    ConfigField::new(
        "service_account_key",
        FieldKind::Document,
        "Service account key",
        "The JSON of a service account's key, as Google lets you download it.",
    )
    .required()
    .secret(),
    FILES[0],
    FILES[1],
    FILES[2],
    FILES[3],
    text("endpoint_url", "Endpoint", "Another server; Google's unless given.").address(),
];

pub(super) const AZURE_BLOB: &[ConfigField] = &[
    text("container_name", "Container", "The container that files go to.").required(),
    password(
        "connection_string",
        "Connection string",
        "As the portal shows it; else an account name with a key or a SAS token.",
    )
    .address(),
    text(
        "account_name",
        "Account name",
        "The storage account, if there is no connection string.",
    )
    .part(Part::Access)
    .address(),
    password("account_key", "Account key", "A key of the account."),
    password("sas_token", "SAS token", "A shared access signature, instead of a key."),
    FILES[0],
    FILES[1],
    FILES[2],
    FILES[3],
    text("endpoint_url", "Endpoint", "Another server; Azure's unless given.").address(),
];

pub(super) const FILE: &[ConfigField] = &[
    text("folder", "Folder", "A folder below the server's export root."),
    FILES[0],
    FILES[1],
    FILES[2],
    FILES[3],
];
