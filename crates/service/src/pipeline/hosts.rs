//! The hosts that an app can reach.
//!
//! An app says in `plugin.json` which hosts it reaches, and is held to it; an app for all organizations that says nothing reaches none.
//! Whoever configures an app can limit it further.

use serde_json::{Map, Value};
use url::Url;

use super::types::App;
use crate::error::{Error, Result};

/// More entries than any app needs.
const MAX: usize = 50;
const MAX_LENGTH: usize = 253;

/// One entry of a list: `api.example.com`, `*.example.com` for all names below it, or `config.url` for the host that the
/// configuration names in that field.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Entry {
    Exactly(String),
    Below(String),
    Configured(String),
}

impl Entry {
    fn parse(text: &str) -> Option<Self> {
        if let Some(key) = field_of(text) {
            return Some(Self::Configured(key.to_owned()));
        }
        // What has no dot behind it is meant to be a field.
        if text.strip_prefix("config.").is_some_and(|rest| !rest.contains('.')) {
            return None;
        }
        match text.strip_prefix("*.") {
            // `*.com` would be nearly everything.
            Some(rest) => normal(rest)
                .filter(|host| host.contains('.'))
                .map(|host| Self::Below(format!(".{host}"))),
            None => normal(text).map(Self::Exactly),
        }
    }
}

/// The field of the configuration that an entry points to. `config.example.com` is a host.
pub(super) fn field_of(entry: &str) -> Option<&str> {
    let key = entry.strip_prefix("config.")?;
    let is_key = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    (!key.is_empty() && key.len() <= MAX_LENGTH && key.bytes().all(is_key)).then_some(key)
}

/// A host as requests name it: lower case, in ASCII, without port or path.
fn normal(text: &str) -> Option<String> {
    let is_plain = |byte: u8| !matches!(byte, b'/' | b'@' | b'?' | b'#' | b'*' | b'\\') && !byte.is_ascii_whitespace();
    if text.is_empty() || text.len() > MAX_LENGTH || !text.bytes().all(is_plain) {
        return None;
    }
    let url = Url::parse(&format!("https://{text}/")).ok()?;
    let host = url.host_str()?.to_owned();
    url.port().is_none().then_some(host)
}

/// Makes sure that every entry of a list means something.
pub(super) fn check(field: &'static str, list: &[String]) -> Result<()> {
    if list.len() > MAX {
        return Err(Error::invalid(
            field,
            "max_length",
            format!("At most {MAX} hosts can be listed."),
        ));
    }
    match list.iter().find(|text| Entry::parse(text).is_none()) {
        None => Ok(()),
        Some(text) => Err(Error::invalid(
            field,
            "invalid_input",
            format!("{text:?} is not a valid host. Use a name such as api.example.com, *.example.com or config.url."),
        )),
    }
}

/// The hosts that one configuration of an app can reach. Each list that there is must have the host.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AllowedHosts(Vec<Vec<Entry>>);

impl AllowedHosts {
    /// `values` is what the configuration itself says: a default that its publisher changes must lead nowhere.
    pub(super) fn new(app: &App, limited_to: Option<&[String]>, values: &Map<String, Value>) -> Self {
        let lists = declared(app).into_iter().chain(limited_to);
        Self(lists.map(|list| entries(list, values)).collect())
    }

    /// Whether there is any list at all.
    pub fn is_limited(&self) -> bool {
        !self.0.is_empty()
    }

    /// `host` as a parsed URL names it.
    pub fn allows(&self, host: &str) -> bool {
        let is_meant = |entry: &Entry| match entry {
            Entry::Exactly(name) => host == name,
            Entry::Below(suffix) => host.len() > suffix.len() && host.ends_with(suffix.as_str()),
            Entry::Configured(_) => false,
        };
        self.0.iter().all(|list| list.iter().any(is_meant))
    }
}

/// The hosts that an app is held to; none: it is not.
fn declared(app: &App) -> Option<&[String]> {
    match &app.hosts {
        None if app.is_global => Some(&[]),
        declared => declared.as_deref(),
    }
}

/// The hosts that an app declares, as this configuration resolves them; `*` is any. A field that it has no value for stays as it is named.
pub(super) fn named_hosts(app: &App, values: &Map<String, Value>) -> Vec<String> {
    let Some(list) = declared(app) else {
        return vec!["*".to_owned()];
    };
    let resolved = |entry: &String| {
        let value = field_of(entry).and_then(|key| values.get(key)?.as_str());
        value.and_then(configured).unwrap_or_else(|| entry.clone())
    };
    let mut hosts: Vec<String> = list.iter().map(resolved).collect();
    hosts.sort();
    hosts.dedup();
    hosts
}

/// The entries of a list, with those that point to the configuration replaced by what it says.
fn entries(list: &[String], values: &Map<String, Value>) -> Vec<Entry> {
    let resolved = |entry: Entry| match entry {
        Entry::Configured(key) => configured(values.get(&key)?.as_str()?).map(Entry::Exactly),
        entry => Some(entry),
    };
    list.iter()
        .filter_map(|text| Entry::parse(text))
        .filter_map(resolved)
        .collect()
}

/// The host in a value that is a URL, or a host itself.
fn configured(value: &str) -> Option<String> {
    let value = value.trim();
    match Url::parse(value) {
        Ok(url) if url.has_host() => url.host_str().map(str::to_owned),
        _ => normal(value),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn allowed(list: &[&str], values: &Value) -> AllowedHosts {
        let list: Vec<String> = list.iter().map(|&text| text.to_owned()).collect();
        AllowedHosts(vec![entries(&list, values.as_object().expect("an object"))])
    }

    #[test]
    fn a_name_is_that_name_alone_and_a_star_is_all_below() {
        let hosts = allowed(
            &["API.example.com", "*.cdn.example.net", "b\u{fc}cher.example"],
            &json!({}),
        );
        for host in [
            "api.example.com",
            "a.cdn.example.net",
            "a.b.cdn.example.net",
            "xn--bcher-kva.example",
        ] {
            assert!(hosts.allows(host), "{host}");
        }
        for host in [
            "example.com",
            "x.api.example.com",
            "cdn.example.net",
            "evilcdn.example.net",
            "api.example.com.evil.example",
            "",
        ] {
            assert!(!hosts.allows(host), "{host}");
        }
    }

    #[test]
    fn a_host_can_come_from_the_configuration() {
        for url in [
            "https://hooks.example.com:8443/x?y",
            "hooks.example.com",
            "HTTPS://hooks.EXAMPLE.com",
        ] {
            let hosts = allowed(&["config.url"], &json!({ "url": url }));
            assert!(
                hosts.allows("hooks.example.com") && !hosts.allows("example.com"),
                "{url}"
            );
        }
        for value in [json!(null), json!(1), json!(""), json!("https://"), json!("a b")] {
            assert!(
                !allowed(&["config.url"], &json!({ "url": value })).allows("hooks.example.com"),
                "{value}"
            );
        }
    }

    #[test]
    fn a_host_that_begins_like_a_field_is_a_host() {
        let hosts = allowed(
            &["config.googleapis.com"],
            &json!({ "googleapis.com": "https://evil.example" }),
        );
        assert!(hosts.allows("config.googleapis.com") && !hosts.allows("evil.example"));
    }

    #[test]
    fn each_list_must_have_the_host() {
        let mut both = allowed(&["a.example", "b.example"], &json!({}));
        both.0.extend(allowed(&["b.example", "c.example"], &json!({})).0);
        assert!(both.allows("b.example") && !both.allows("a.example") && !both.allows("c.example"));
        assert!(AllowedHosts::default().allows("anything.example"));
        assert!(
            !allowed(&[], &json!({})).allows("a.example"),
            "an empty list allows nothing"
        );
    }

    #[test]
    fn what_is_no_host_is_refused() {
        for text in [
            "",
            "*",
            "*.",
            "*.com",
            "https://a.example",
            "a.example/x",
            "a.example:8443",
            "a@b.example",
            "config.",
            "config.my-url",
            "a b",
            "*.*.example.com",
        ] {
            assert!(check("allowed_hosts", &[text.to_owned()]).is_err(), "{text}");
        }
        for text in [
            "a.example",
            "*.a.example",
            "127.0.0.1",
            "[::1]",
            "localhost",
            "config.url",
            "config.my_url2",
            "config.example.com",
        ] {
            assert!(check("allowed_hosts", &[text.to_owned()]).is_ok(), "{text}");
        }
        assert!(check("allowed_hosts", &vec!["a.example".to_owned(); MAX + 1]).is_err());
    }
}
