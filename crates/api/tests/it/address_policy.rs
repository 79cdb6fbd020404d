//! N5: every address that a user can choose goes through the same policy, with the same result.

use serde_json::{Map, Value, json};
use service::batch_exports::destination::Kind;
use testkit::kit::RecordingResolver;
use testkit::{Kit, Reply, on_both};

use crate::configs::config;
use crate::domain;

/// Hosts that must not be dialed, however they are written. The last is a name, which is looked up first.
const HOSTS: [&str; 14] = [
    "127.0.0.1",
    "localhost",
    "10.0.0.1",
    "172.16.0.1",
    "192.168.1.1",
    "100.64.0.1",
    "169.254.169.254",
    "0.0.0.0",
    "0x7f000001",
    "2130706433",
    "[::1]",
    "[fd00::1]",
    "[::ffff:10.0.0.1]",
    "inside.example.com",
];

/// Where a user names an address: the key that says it, and how.
enum Site {
    Url(Kind, &'static str),
    Host(Kind, &'static str),
    /// Within `copy_inputs`.
    Bucket,
    /// Within a connection string.
    Connection,
    SamlMetadata,
    OidcIssuer,
}

const SITES: [Site; 15] = [
    Site::Url(Kind::S3, "endpoint_url"),
    Site::Url(Kind::Gcs, "endpoint_url"),
    Site::Url(Kind::AzureBlob, "endpoint_url"),
    Site::Url(Kind::Http, "url"),
    Site::Url(Kind::ClickHouse, "url"),
    Site::Url(Kind::Snowflake, "endpoint_url"),
    Site::Url(Kind::BigQuery, "endpoint_url"),
    Site::Url(Kind::BigQuery, "token_uri"),
    Site::Host(Kind::Postgres, "host"),
    Site::Host(Kind::Redshift, "host"),
    Site::Host(Kind::Databricks, "server_hostname"),
    Site::Bucket,
    Site::Connection,
    Site::SamlMetadata,
    Site::OidcIssuer,
];

async fn save(kit: &Kit, kind: Kind, config: Map<String, Value>) -> Reply {
    let body = json!({ "name": "x", "interval": "hour", "destination": { "type": kind.name(), "config": config } });
    kit.post(&kit.admin.key, &kit.at("batch_exports/"), body).await
}

/// Names a host at a site, and returns what was said about it. Public ones that the kind needs beside it are left out.
async fn name(kit: &Kit, site: &Site, host: &str, domain: &str) -> (String, String) {
    let url = format!("https://{host}/");
    let export = async |kind: Kind, key: &str, value: Value| {
        let mut config = config(kind);
        for other in ["endpoint_url", "token_uri"] {
            if let Some(place) = config.get_mut(other) {
                *place = json!("https://1.1.1.1/");
            }
        }
        if kind == Kind::Redshift && key != "copy_inputs" {
            config.remove("copy_inputs");
            config.insert("mode".to_owned(), json!("INSERT"));
        } else if kind == Kind::Redshift {
            config.insert("host".to_owned(), json!("1.1.1.1"));
        }
        config.insert(key.to_owned(), value);
        let reply = save(kit, kind, config).await;
        assert_eq!(reply.status, 400, "{} {key} {host}: {reply:?}", kind.name());
        assert!(
            reply.text("/attr").starts_with(&format!("destination__config__{key}")),
            "{reply:?}"
        );
        (format!("{} {key}", kind.name()), reply.text("/detail").to_owned())
    };
    match site {
        Site::Url(kind, key) => export(*kind, key, json!(url)).await,
        Site::Host(kind, key) => export(*kind, key, json!(host)).await,
        Site::Bucket => {
            let mut inputs = config(Kind::Redshift)["copy_inputs"].clone();
            inputs["endpoint_url"] = json!(url);
            export(Kind::Redshift, "copy_inputs", inputs).await
        }
        Site::Connection => {
            let text = format!("AccountName=acme;AccountKey=a2V5;BlobEndpoint={url}");
            export(Kind::AzureBlob, "connection_string", json!(text)).await
        }
        Site::SamlMetadata => {
            let reply = kit
                .post(
                    &kit.owner.key,
                    &format!("{domain}import_metadata/"),
                    json!({ "url": url }),
                )
                .await;
            assert_eq!((reply.status, reply.text("/attr")), (400, "url"), "{host}: {reply:?}");
            ("SAML metadata".to_owned(), reply.text("/detail").to_owned())
        }
        Site::OidcIssuer => {
            let settings = json!({ "oidc_issuer": url, "oidc_client_id": "us", "oidc_client_secret": "s" });
            let saved = kit.patch(&kit.owner.key, domain, settings).await;
            if saved.status == 400 {
                return ("OIDC issuer".to_owned(), saved.text("/detail").to_owned());
            }
            let report = kit.post(&kit.owner.key, &format!("{domain}test/"), json!({})).await;
            let steps = report.body["steps"].as_array().unwrap();
            let step = steps.iter().find(|step| step["name"] == "oidc_discovery").unwrap();
            assert_eq!(step["status"], "failed", "{host}: {step}");
            ("OIDC issuer".to_owned(), step["message"].as_str().unwrap().to_owned())
        }
    }
}

on_both! {
    async fn the_same_address_is_refused_wherever_it_can_be_named(kit: Kit) {
        let asked = RecordingResolver::default();
        let kit = kit.behind_a_lying_name_server(&asked);
        let domain = domain(&kit, json!({ "domain": "acme.example" })).await;
        let domain = kit.at(&format!("domains/{}/", domain.text("/id")));
        for site in &SITES {
            for host in HOSTS {
                let (site, said) = name(&kit, site, host, &domain).await;
                assert!(said.contains("HEDGEROW_ALLOW_PRIVATE_NETWORKS"), "{site} {host}: {said}");
                assert!(!said.contains(RecordingResolver::ADDRESS), "{site} {host}: {said}");
                let looked_up = asked.take();
                let is_name = host == "inside.example.com";
                assert_eq!(!looked_up.is_empty(), is_name, "{site} {host}: {looked_up:?}");
            }
        }
    }

    /// An app's source is at hosts that we know, whose names may still lead inside.
    async fn the_source_of_an_app_is_not_fetched_from_a_private_address(kit: Kit) {
        let asked = RecordingResolver::default();
        let kit = kit.behind_a_lying_name_server(&asked);
        for url in ["https://github.com/acme/app", "https://gitlab.com/acme/app"] {
            let body = json!({ "plugin_type": "custom", "url": url });
            let reply = kit.post(&kit.admin.key, &kit.at("pipeline_destinations/"), body).await;
            assert!((400..500).contains(&reply.status), "{url}: {reply:?}");
            assert!(!reply.body.to_string().contains(RecordingResolver::ADDRESS), "{url}: {reply:?}");
            assert!(!asked.take().is_empty(), "{url}: {reply:?}");
        }
        for host in HOSTS {
            let body = json!({ "plugin_type": "custom", "url": format!("https://{host}/acme/app") });
            let reply = kit.post(&kit.admin.key, &kit.at("pipeline_destinations/"), body).await;
            assert_eq!((reply.status, reply.text("/attr")), (400, "url"), "{host}: {reply:?}");
            assert_eq!(asked.take(), Vec::<String>::new(), "{host}");
        }
    }
}
