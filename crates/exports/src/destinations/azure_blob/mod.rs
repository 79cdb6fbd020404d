//! Azure Blob Storage: block blobs.

use object_store::azure::{AzureConfigKey, MicrosoftAzure, MicrosoftAzureBuilder};
use secrecy::{ExposeSecret, SecretString};
use service::batch_exports::destination::AzureBlob as Config;

use super::files::{Files, Guarded, Objects, Words, few_retries};
use crate::{Deliver, Error, ExportsDeps};

const PERMISSIONS: &str = "to read, write, delete and list blobs of it (the role Storage Blob Data Contributor, or a \
                           SAS token with the permissions racwdl)";

pub(super) fn open(config: &Config, deps: &ExportsDeps) -> Result<Box<dyn Deliver>, Error> {
    let words = Words {
        place: format!("the container \"{}\"", config.container_name),
        credentials: "connection_string, or account_name with account_key or sas_token",
        permissions: PERMISSIONS,
        region: None,
    };
    Files::open(Objects::new(store(config, deps)?, words), &config.files)
}

fn store(config: &Config, deps: &ExportsDeps) -> Result<MicrosoftAzure, Error> {
    let is_part_of_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'$');
    if config.container_name.is_empty() || !config.container_name.bytes().all(is_part_of_name) {
        return Err(
            Error::plain("enter a valid container name: use letters, digits and hyphens").in_key("container_name"),
        );
    }
    let account = Account::of(config)?;
    let builder = MicrosoftAzureBuilder::new()
        .with_container_name(&config.container_name)
        .with_account(&account.name)
        .with_endpoint(account.endpoint)
        .with_allow_http(true)
        .with_disable_tagging(true)
        .with_retry(few_retries())
        .with_http_connector(Guarded::new(&deps.http));
    // One of them, always: without them the store would ask the metadata address for a token.
    let builder = match (account.key, account.sas) {
        (Some(key), _) => builder.with_access_key(key),
        (None, Some(sas)) => builder.with_config(AzureConfigKey::SasKey, sas),
        (None, None) => return Err(Error::plain("an account key or a SAS token is required").in_key("account_key")),
    };
    let key = match (&config.connection_string, &config.account_key) {
        (Some(_), None) => "connection_string",
        _ => "account_key",
    };
    builder.build().map_err(|cause| {
        let sentence =
            "these settings do not form a valid connection to Azure; check the account's name, key and endpoint";
        Error::permanent(sentence, cause).in_key(key)
    })
}

/// Where the account is and how to sign in, from whichever settings say so.
#[derive(Default)]
struct Account {
    name: String,
    endpoint: String,
    key: Option<String>,
    sas: Option<String>,
}

impl Account {
    fn of(config: &Config) -> Result<Self, Error> {
        let exposed = |secret: &Option<SecretString>| secret.as_ref().map(|secret| secret.expose_secret().to_owned());
        let mut account = match &config.connection_string {
            Some(text) => Self::of_connection_string(text.expose_secret()),
            None => Self::default(),
        };
        if let Some(name) = &config.account_name {
            account.name.clone_from(name);
        }
        account.key = exposed(&config.account_key).or(account.key);
        account.sas = exposed(&config.sas_token).or(account.sas);
        if let Some(endpoint) = &config.endpoint_url {
            account.endpoint.clone_from(endpoint);
        }
        let is_name = |byte: u8| byte.is_ascii_alphanumeric();
        if account.name.is_empty() || !account.name.bytes().all(is_name) {
            let key = if config.account_name.is_some() {
                "account_name"
            } else {
                "connection_string"
            };
            let sentence = "the account name is missing or contains invalid characters";
            return Err(Error::plain(sentence).in_key(key));
        }
        if account.endpoint.is_empty() {
            account.endpoint = format!("https://{}.blob.core.windows.net", account.name);
        }
        account.endpoint.truncate(account.endpoint.trim_end_matches('/').len());
        Ok(account)
    }

    /// `Name=value` with `;` between, as the portal shows it.
    fn of_connection_string(text: &str) -> Self {
        let part = |wanted: &str| {
            let mut parts = text.split(';').filter_map(|part| part.trim().split_once('='));
            let found = parts.find(|(name, _)| name.eq_ignore_ascii_case(wanted));
            found.map(|(_, value)| value.to_owned())
        };
        let name = part("AccountName").unwrap_or_default();
        let endpoint = part("BlobEndpoint").or_else(|| {
            let suffix = part("EndpointSuffix")?;
            Some(format!("https://{name}.blob.{suffix}"))
        });
        // With a SAS alone the name is only in the host.
        let name = if name.is_empty() {
            first_label(endpoint.as_deref())
        } else {
            name
        };
        Self {
            name,
            endpoint: endpoint.unwrap_or_default(),
            key: part("AccountKey"),
            sas: part("SharedAccessSignature"),
        }
    }
}

fn first_label(endpoint: Option<&str>) -> String {
    let host = endpoint.and_then(|endpoint| endpoint.split_once("://"));
    let label = host.and_then(|(_, host)| host.split('.').next());
    label.unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_strings_are_read_as_the_portal_writes_them() {
        let account = Account::of_connection_string(
            "DefaultEndpointsProtocol=https;AccountName=shop;AccountKey=a+b/c==;EndpointSuffix=core.windows.net",
        );
        assert_eq!(account.name, "shop");
        assert_eq!(account.key.as_deref(), Some("a+b/c=="));
        assert_eq!(account.endpoint, "https://shop.blob.core.windows.net");
        let account = Account::of_connection_string(
            "BlobEndpoint=https://shop.blob.core.windows.net/;SharedAccessSignature=sv=2024&sig=x%3D",
        );
        assert_eq!(
            (account.name.as_str(), account.sas.as_deref()),
            ("shop", Some("sv=2024&sig=x%3D"))
        );
    }
}
