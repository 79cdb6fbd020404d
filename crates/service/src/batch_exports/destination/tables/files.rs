//! Destinations that take files.

use super::super::fields::{ConfigField, FieldKind, Part, choice, flag, number, password, text};

pub(in super::super) const FORMATS: &[&str] = &["JSONLines", "Parquet", "CSV"];
pub(in super::super) const COMPRESSIONS: &[&str] = &["gzip", "brotli", "zstd", "snappy", "lz4"];

const FILES: [ConfigField; 4] = [
    text(
        "prefix",
        "Prefix",
        "The folder for the files, such as hedgerow/{year}/{month}/{day}. Leave empty for the top level. {year}, {month}, {day}, \
         {hour}, {minute}, {second} and {table} are filled in. Use a different prefix for each export.",
    ),
    choice(
        "file_format",
        FORMATS,
        "Format",
        "The file format. JSON Lines is one JSON object per line.",
    )
    .usual("JSONLines"),
    choice(
        "compression",
        COMPRESSIONS,
        "Compression",
        "None by default. snappy and lz4 work with Parquet only.",
    ),
    number(
        "max_file_size_mb",
        "Max file size (MiB)",
        "Starts a new file at this size. Defaults to one file per interval.",
    )
    .part(Part::Shape),
];

pub(super) const S3: &[ConfigField] = &[
    text(
        "bucket_name",
        "Bucket",
        "The bucket name only, without s3:// or folders. The bucket must already exist.",
    )
    .required(),
    text(
        "region",
        "Region",
        "The bucket's region, such as eu-central-1. S3-compatible services mostly use us-east-1.",
    )
    .required(),
    FILES[0].required(),
    text(
        "aws_access_key_id",
        "Access key ID",
        "An access key that can put, get, list and delete objects, such as AKIAIOSFODNN7EXAMPLE.",
    )
    .required()
    .secret(),
    password(
        "aws_secret_access_key",
        "Secret access key",
        "The secret of this access key.",
    )
    .required(),
    FILES[1],
    FILES[2],
    FILES[3],
    choice(
        "encryption",
        &["AES256", "aws:kms"],
        "Encryption",
        "Server-side encryption. Defaults to the bucket's setting.",
    ),
    text(
        "kms_key_id",
        "KMS key ID",
        "The ID or ARN of the key for aws:kms. The access key must be allowed to use it.",
    )
    .part(Part::Shape)
    .only_with("encryption", "aws:kms"),
    text(
        "endpoint_url",
        "Endpoint",
        "Only for an S3-compatible service: its URL, such as https://s3.example.com.",
    )
    .address(),
    flag(
        "use_virtual_style_addressing",
        "Virtual-hosted-style URLs",
        "Only if the service requires it: the bucket name comes before the host, as in bucket.s3.example.com.",
    )
    .address(),
];

pub(super) const GCS: &[ConfigField] = &[
    text(
        "bucket_name",
        "Bucket",
        "The bucket for the files. It must already exist.",
    )
    .required(),
    ConfigField::new(
        "service_account_key",
        FieldKind::Document,
        "Service account key",
        "The service account key in JSON format, as downloaded from Google Cloud.",
    )
    .required()
    .secret(),
    FILES[0],
    FILES[1],
    FILES[2],
    FILES[3],
    text(
        "endpoint_url",
        "Endpoint",
        "Only for another server. Defaults to Google's.",
    )
    .address(),
];

pub(super) const AZURE_BLOB: &[ConfigField] = &[
    text(
        "container_name",
        "Container",
        "The container for the files. It must already exist.",
    )
    .required(),
    password(
        "connection_string",
        "Connection string",
        "As shown in the Azure portal. Or use an account name with a key or a SAS token.",
    )
    .address(),
    text(
        "account_name",
        "Account name",
        "The storage account, if you don't use a connection string.",
    )
    .part(Part::Access)
    .address(),
    password("account_key", "Account key", "An access key of the storage account."),
    password("sas_token", "SAS token", "A shared access signature, instead of a key."),
    FILES[0],
    FILES[1],
    FILES[2],
    FILES[3],
    text(
        "endpoint_url",
        "Endpoint",
        "Only for another server. Defaults to Azure's.",
    )
    .address(),
];

pub(super) const FILE: &[ConfigField] = &[
    text("folder", "Folder", "A folder below the server's export root."),
    FILES[0],
    FILES[1],
    FILES[2],
    FILES[3],
];
