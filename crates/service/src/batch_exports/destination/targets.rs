//! Where configurations lead: the URLs and hosts that users name in them.

use secrecy::{ExposeSecret, SecretString};

use super::kinds::{ClickHouse, Databricks, Destination, Gcs, Http, Postgres, S3, Snowflake};

/// A place on the network that a destination names, as the address policy looks at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    Url { field: &'static str, url: String },
    Host { field: &'static str, host: String },
}

impl Destination {
    /// The places on the network that the user named.
    pub fn targets(&self) -> Vec<Target> {
        let url = |field, url: &str| Target::Url {
            field,
            url: url.to_owned(),
        };
        let host = |field, host: &str| Target::Host {
            field,
            host: host.to_owned(),
        };
        match self {
            Self::AzureBlob(azure) => {
                let inside = azure.connection_string.as_ref().and_then(blob_endpoint);
                let inside = inside.map(|text| url("connection_string", &text));
                let beside = azure.endpoint_url.iter().map(|text| url("endpoint_url", text));
                inside.into_iter().chain(beside).collect()
            }
            Self::BigQuery(bigquery) => {
                let token = url("token_uri", bigquery.token_uri.expose_secret());
                let beside = bigquery.endpoint_url.iter().map(|text| url("endpoint_url", text));
                std::iter::once(token).chain(beside).collect()
            }
            Self::S3(S3 { endpoint_url, .. })
            | Self::Gcs(Gcs { endpoint_url, .. })
            | Self::Snowflake(Snowflake { endpoint_url, .. }) => {
                endpoint_url.iter().map(|text| url("endpoint_url", text)).collect()
            }
            Self::Http(Http { url: text, .. }) | Self::ClickHouse(ClickHouse { url: text, .. }) => {
                vec![url("url", text)]
            }
            Self::Postgres(Postgres { host: name, .. }) => vec![host("host", name)],
            Self::Redshift(redshift) => {
                let bucket = redshift
                    .copy_inputs
                    .as_ref()
                    .and_then(|inputs| inputs.endpoint_url.as_ref());
                let bucket = bucket.map(|text| url("copy_inputs__endpoint_url", text));
                std::iter::once(host("host", &redshift.host)).chain(bucket).collect()
            }
            // It may name a port, too.
            Self::Databricks(Databricks { server_hostname, .. }) => {
                vec![url("server_hostname", &format!("https://{server_hostname}"))]
            }
            Self::File(_) | Self::NoOp(_) => Vec::new(),
        }
    }
}

/// Where a connection string leads, if it says so.
fn blob_endpoint(connection: &SecretString) -> Option<String> {
    let mut parts = connection
        .expose_secret()
        .split(';')
        .filter_map(|part| part.split_once('='));
    let (_, endpoint) = parts.find(|(key, _)| key.trim().eq_ignore_ascii_case("BlobEndpoint"))?;
    Some(endpoint.trim().to_owned())
}
