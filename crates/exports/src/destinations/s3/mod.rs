//! S3 and whatever speaks like it.

use std::sync::Arc;

use object_store::StaticCredentialProvider;
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey, AwsCredential};
use secrecy::{ExposeSecret, SecretString};
use service::batch_exports::destination::S3 as Config;
use url::Url;

use super::files::{Files, Guarded, Objects, Words, few_retries};
use crate::{Deliver, Error, ExportsDeps};

const PERMISSIONS: &str = "s3:PutObject, s3:GetObject, s3:DeleteObject, s3:AbortMultipartUpload on its objects, and \
                           s3:ListBucket on itself (with aws:kms also kms:GenerateDataKey and kms:Decrypt on the key)";

pub(super) fn open(config: &Config, deps: &ExportsDeps) -> Result<Box<dyn Deliver>, Error> {
    Files::open(bucket(config, deps)?, &config.files)
}

/// The bucket alone, for those who put other files there.
pub(super) fn bucket(config: &Config, deps: &ExportsDeps) -> Result<Objects, Error> {
    let words = Words {
        place: format!("the bucket \"{}\"", config.bucket_name),
        credentials: "aws_access_key_id and aws_secret_access_key",
        permissions: PERMISSIONS,
        region: Some(config.region.clone()),
    };
    Ok(Objects::new(store(config, deps)?, words))
}

fn store(config: &Config, deps: &ExportsDeps) -> Result<AmazonS3, Error> {
    let is_part_of_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    // Both become parts of a host's name.
    if config.bucket_name.is_empty() || !config.bucket_name.bytes().all(is_part_of_name) {
        return Err(
            Error::plain("enter a valid bucket name: use letters, digits, dots, hyphens and underscores")
                .in_key("bucket_name"),
        );
    }
    if config.region.is_empty() || !config.region.bytes().all(|byte| is_part_of_name(byte) && byte != b'.') {
        return Err(Error::plain("enter a valid region, such as eu-central-1").in_key("region"));
    }
    let mut builder = AmazonS3Builder::new()
        .with_bucket_name(&config.bucket_name)
        .with_region(&config.region)
        // Given, always: without them the store would look for a role at the metadata address.
        .with_credentials(Arc::new(StaticCredentialProvider::new(credential(config)?)))
        .with_virtual_hosted_style_request(config.use_virtual_style_addressing)
        // Which addresses may be reached in the clear is for the policy to say.
        .with_allow_http(true)
        .with_retry(few_retries())
        .with_http_connector(Guarded::new(&deps.http));
    if let Some(endpoint) = &config.endpoint_url {
        builder = builder.with_endpoint(endpoint_of(endpoint, config)?);
    }
    builder = match config.encryption.as_deref() {
        Some("AES256") => {
            let key: AmazonS3ConfigKey = "aws_server_side_encryption".parse().map_err(unbuilt)?;
            builder.with_config(key, "AES256")
        }
        Some("aws:kms") => builder.with_sse_kms_encryption(config.kms_key_id.clone().unwrap_or_default()),
        _ => builder,
    };
    builder.build().map_err(unbuilt)
}

fn credential(config: &Config) -> Result<AwsCredential, Error> {
    let secret = |given: &Option<SecretString>| given.as_ref().map(|secret| secret.expose_secret().to_owned());
    let missing = || Error::plain("aws_access_key_id and aws_secret_access_key are required");
    Ok(AwsCredential {
        key_id: secret(&config.aws_access_key_id).ok_or_else(missing)?,
        secret_key: secret(&config.aws_secret_access_key).ok_or_else(missing)?,
        token: None,
    })
}

/// With virtual addressing the bucket stands before the host.
fn endpoint_of(endpoint: &str, config: &Config) -> Result<String, Error> {
    let not_a_url =
        |cause| Error::permanent("enter a valid URL, such as https://s3.example.com", cause).in_key("endpoint_url");
    let mut url = Url::parse(endpoint).map_err(not_a_url)?;
    if config.use_virtual_style_addressing {
        let host = format!("{}.{}", config.bucket_name, url.host_str().unwrap_or_default());
        url.set_host(Some(&host)).map_err(not_a_url)?;
    }
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

fn unbuilt(cause: object_store::Error) -> Error {
    Error::permanent(
        "the settings do not form a valid connection to S3; check region, endpoint_url and encryption",
        cause,
    )
}
