//! The operator's setting: which server, which database, which tables.

use std::collections::BTreeMap;

use outbound::Http;
use percent_encoding::percent_decode_str;
use url::Url;

use super::client::Client;
use crate::{Error, Result};

/// Settings of ClickHouse that a cluster may need and that travel with every statement.
const PASSED_ON: [&str; 3] = [
    "insert_quorum",
    "select_sequential_consistency",
    "insert_quorum_parallel",
];

/// Names of tables, as the SQL will quote them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tables {
    pub events: String,
    pub persons: String,
    pub distinct_ids: String,
}

#[derive(Debug)]
pub(super) struct Address {
    pub client: Client,
    pub tables: Tables,
    /// Tables that the operator named are the operator's: nothing is made.
    pub makes_tables: bool,
    pub settings: Vec<(String, String)>,
}

/// `clickhouse://user:password@host:8123/database?events_table=…&persons_table=…&distinct_ids_table=…&secure=true`.
pub(super) fn read(text: &str, http: Http) -> Result<Address> {
    let url = Url::parse(text).map_err(|_| Error::Address("is not a valid URL"))?;
    if url.scheme() != "clickhouse" {
        return Err(Error::Address("must start with clickhouse://"));
    }
    let host = url.host_str().filter(|host| !host.is_empty());
    let host = host.ok_or(Error::Address("has no host"))?;
    let mut options: BTreeMap<String, String> = url.query_pairs().into_owned().collect();
    let is_secure = flag(options.remove("secure").as_deref(), false)?;
    let (scheme, port) = if is_secure { ("https", 8443) } else { ("http", 8123) };
    let base = format!("{scheme}://{host}:{}/", url.port().unwrap_or(port));
    let base = Url::parse(&base).map_err(|_| Error::Address("is not a valid URL"))?;
    let decoded = |text: &str| {
        let decoded = percent_decode_str(text).decode_utf8();
        Ok::<_, Error>(decoded.map_err(|_| Error::Address("is not UTF-8"))?.into_owned())
    };
    let user = match url.username() {
        "" => "default".to_owned(),
        user => decoded(user)?,
    };
    let password = decoded(url.password().unwrap_or_default())?;
    let database = match decoded(url.path().trim_matches('/'))? {
        database if database.is_empty() => "default".to_owned(),
        database => database,
    };
    let named = ["events_table", "persons_table", "distinct_ids_table"];
    let has_named = named.iter().any(|name| options.contains_key(*name));
    let mut table = |name: &str, usual: &str| options.remove(name).unwrap_or_else(|| usual.to_owned());
    let tables = Tables {
        events: table("events_table", "hedgerow_events"),
        persons: table("persons_table", "hedgerow_persons"),
        distinct_ids: table("distinct_ids_table", "hedgerow_distinct_ids"),
    };
    let makes_tables = flag(options.remove("create_tables").as_deref(), !has_named)?;
    if options.keys().any(|name| !PASSED_ON.contains(&name.as_str())) {
        return Err(Error::Address(
            "has an unknown option; use events_table, persons_table, distinct_ids_table, create_tables, secure, \
             insert_quorum, insert_quorum_parallel or select_sequential_consistency",
        ));
    }
    Ok(Address {
        client: Client::new(http, base, &user, &password, &database)?,
        tables,
        makes_tables,
        settings: options.into_iter().collect(),
    })
}

fn flag(given: Option<&str>, usual: bool) -> Result<bool> {
    match given {
        None => Ok(usual),
        Some("true" | "1") => Ok(true),
        Some("false" | "0") => Ok(false),
        Some(_) => Err(Error::Address("has an option that must be true or false")),
    }
}
