//! Where a configuration sends its secrets, and whether a change sends them elsewhere.
//!
//! Secrets are never shown, so whoever changes where they go must know them. Otherwise any member could have them sent to a host of
//! their own.

use serde::de::IgnoredAny;
use serde_json::{Map, Value};
use url::{Host, Url};

use super::hosts::field_of;
use super::schema;
use super::types::App;
use crate::error::{Error, Invalid, Result};

/// How many parts of text are looked at. Beyond that any change counts as one of an address, so that nothing is hidden behind many parts.
const MAX_PARTS: usize = 2000;
/// What a text counts for that is JSON: those in it can be JSON, too, and so on.
const COST_OF_JSON: usize = 400;
/// Between several addresses in one text.
const SEPARATORS: [char; 3] = [',', ';', '\n'];

/// What decides where the app connects to: the values it is told, and the hosts it is limited to.
pub(super) struct Target {
    values: Map<String, Value>,
    allowed: Option<Vec<String>>,
}

impl Target {
    pub(super) fn new(app: &App, allowed: Option<Vec<String>>, values: Map<String, Value>) -> Self {
        let values = schema::with_defaults(&app.config_schema, values);
        Self { values, allowed }
    }

    /// Those who may change the code could send secrets anywhere: they are asked where a value looks like an address, so that nobody does
    /// it by mistake.
    pub(super) fn is_elsewhere(&self, after: &Self, app: &App, may_change_code: bool) -> bool {
        let suspected = if may_change_code { Vec::new() } else { free_fields(app) };
        self.is_wider(after) || self.is_other_host(after, app, &suspected)
    }

    /// Whether the list of hosts has something that it did not have.
    fn is_wider(&self, after: &Self) -> bool {
        match (&self.allowed, &after.allowed) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(before), Some(after)) => after.iter().any(|host| !before.contains(host)),
        }
    }

    /// `suspected` are fields that count as an address whatever their values look like.
    fn is_other_host(&self, after: &Self, app: &App, suspected: &[String]) -> bool {
        let lists = [&app.hosts, &self.allowed, &after.allowed]
            .into_iter()
            .flatten()
            .flatten();
        let named: Vec<&str> = lists.filter_map(|entry| field_of(entry)).collect();
        // Names that are listed in full leave nothing to choose.
        let is_fixed = |host: &String| !host.starts_with('*');
        let is_open = app.hosts.as_ref().is_none_or(|hosts| !hosts.iter().all(is_fixed));
        let new = after.values.keys().filter(|key| !self.values.contains_key(*key));
        let mut keys = self.values.keys().chain(new);
        let mut parts_left = MAX_PARTS;
        keys.any(|key| {
            let (before, after) = (self.values.get(key), after.values.get(key));
            // Secret or not: the address of a webhook often is.
            let mut looks_like_one = || {
                let mut values = [before, after].into_iter().flatten();
                is_called_address(key) || values.any(|value| is_address(value, &mut parts_left))
            };
            let mut is_address = || suspected.contains(key) || looks_like_one();
            before != after && (named.contains(&key.as_str()) || (is_open && is_address()))
        })
    }
}

/// The fields whose values are not chosen by whoever wrote the app. Code can make a URL of each of them, in more ways than can be recognized:
/// a word is the name of another customer in `https://${config.shop}.example.com`.
fn free_fields(app: &App) -> Vec<String> {
    let fields = schema::fields(&app.config_schema).into_iter();
    fields
        .filter(|field| field.kind != "choice")
        .map(|field| field.key)
        .collect()
}

/// Secrets that were not sent along are asked for again.
pub(super) fn need_again(app: &App, kept: &[String]) -> Result<()> {
    let fields = schema::fields(&app.config_schema);
    let needed = fields
        .iter()
        .filter(|field| field.is_secret && kept.contains(&field.key));
    let again = needed.map(|field| Invalid {
        field: Some(format!("config__{}", field.key).into()),
        code: "required",
        detail: format!(
            "this can change where the app connects to, so enter {} again",
            field.name
        ),
    });
    match again.collect::<Vec<_>>() {
        none if none.is_empty() => Ok(()),
        again => Err(Error::Invalid(again)),
    }
}

/// Parts of addresses need not look like one: `https://${config.subdomain}.example.com`.
fn is_called_address(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    let words = [
        "url", "uri", "host", "domain", "endpoint", "server", "address", "region", "account",
    ];
    words.iter().any(|word| key.contains(word))
}

/// Whether it is, or has in it, what looks or is called like an address, or has more parts than are left to look at.
fn is_address(value: &Value, parts_left: &mut usize) -> bool {
    match value {
        Value::String(text) if untrusted_json::has_reserved_name(text.as_bytes()) => true,
        Value::String(text) => match serde_json::from_str::<Value>(text) {
            Ok(structure @ (Value::Array(_) | Value::Object(_))) => match parts_left.checked_sub(COST_OF_JSON) {
                Some(left) => {
                    *parts_left = left;
                    is_address(&structure, parts_left)
                }
                None => true,
            },
            // What the app reads although we cannot: numbers without end, or depth.
            Err(_) if text.trim_start().starts_with(['{', '[']) && is_json(text) => true,
            _ => is_text_address(text, parts_left),
        },
        Value::Array(items) => items.iter().any(|item| is_address(item, parts_left)),
        Value::Object(fields) => fields.iter().any(|(key, value)| {
            is_called_address(key) || is_written_address(key, parts_left) || is_address(value, parts_left)
        }),
        Value::Number(number) => number.as_f64().is_some_and(is_address_in_a_url),
        _ => false,
    }
}

/// 2130706433 and 127.1 are 127.0.0.1 there. Whole numbers below the first one are of a network that is none.
fn is_address_in_a_url(number: f64) -> bool {
    (16_777_216.0..4_294_967_296.0).contains(&number) || ((1.0..256.0).contains(&number) && number.fract() > 0.0)
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// As a whole, or in one of its parts.
fn is_text_address(text: &str, parts_left: &mut usize) -> bool {
    let mut is_written = |part: &str| is_written_address(part, parts_left);
    is_written(text) || (text.contains(SEPARATORS) && text.split(SEPARATORS).any(is_written))
}

/// A URL, a name with a dot, or an IP address, with or without a port. Whoever parses URLs leaves out tabs and line breaks.
fn is_written_address(text: &str, parts_left: &mut usize) -> bool {
    let Some(left) = parts_left.checked_sub(1) else {
        return true;
    };
    *parts_left = left;
    let text = text.replace(['\t', '\r', '\n'], "");
    let text = text.trim();
    let has_host = |text: &str| {
        Url::parse(text).is_ok_and(|url| match url.host() {
            Some(Host::Domain(name)) => name.contains('.') || name == "localhost",
            Some(_) => true,
            None => false,
        })
    };
    // A host has no spaces in it, but what follows it may.
    text.contains("://") || has_host(&format!("https://{text}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn is_address(value: &Value) -> bool {
        let mut parts_left = MAX_PARTS;
        super::is_address(value, &mut parts_left)
    }

    #[test]
    fn more_parts_than_are_looked_at_count_as_an_address() {
        let lines = |count: usize| json!("a\n".repeat(count));
        let commas = |count: usize| json!(",".repeat(count));
        let items = |count: usize| json!(vec!["a"; count]);
        let named = |count: usize| json!({ "a": vec![json!({ "b": "c" }); count] });
        let as_text = |count: usize| json!(items(count).to_string());
        for (few, many) in [
            (lines(900), lines(2000)),
            (commas(900), commas(200_000)),
            (items(900), items(2100)),
            (named(900), named(1100)),
            (as_text(900), as_text(2100)),
        ] {
            assert!(!is_address(&few) && is_address(&many), "{few}");
        }
        let mut parts_left = MAX_PARTS;
        let mut looked = || super::is_address(&lines(700), &mut parts_left);
        assert_eq!(
            [looked(), looked(), looked()],
            [false, false, true],
            "of all values together"
        );
    }

    /// Each level is parsed on the stack of the one above.
    #[test]
    fn json_within_texts_is_looked_into_a_few_times() {
        let nested = |count: usize| (0..count).fold(json!("a"), |inner, _| json!(json!([inner]).to_string()));
        assert!(!is_address(&nested(4)) && is_address(&nested(6)));
        assert!(is_address(&json!(r#"{"a":1e999,"b":"c"}"#)), "apps read this");
        let kept = json!(r#"{"\u0024serde_json::private::RawValue":"[]"}"#);
        assert!(is_address(&kept), "it would be parsed once more, however large it is");
    }

    #[test]
    fn what_looks_like_an_address_is_one() {
        for text in [
            "https://a.example/x",
            "http://inner",
            "a.example",
            "a.example:8443/x",
            "localhost:99",
            "10.0.0.1",
            "[::1]:5",
            "postgres://db",
            "a\t.example",
            "10.0\n.0.1",
            "local\r\nhost:99",
            "http\n:\t//inner",
            "127.0.0.1:99/ x",
            "127.0.0.1:99/\u{a0}x",
            "a.example? x",
            "a b@a.example",
        ] {
            assert!(is_address(&json!(text)), "{text}");
            for inside in [
                json!({ "to": [text] }),
                json!({ text: 1 }),
                json!([[text]]),
                json!(format!("5, {text}")),
            ] {
                assert!(is_address(&inside), "{inside}");
            }
            assert!(
                is_address(&json!(json!({ "to": text }).to_string())),
                "JSON as text: {text}"
            );
        }
        for value in [
            json!("fast"),
            json!("two words. And more"),
            json!(""),
            json!(5),
            json!(null),
            json!({ "mode": ["fast", 5, null], "name": "two words" }),
            json!("[1, 2]"),
        ] {
            assert!(!is_address(&value), "{value}");
        }
        for number in [
            json!(2_130_706_433_u32),
            json!(2_130_706_433.0),
            json!([u32::MAX]),
            json!(127.1),
            json!("[198.3367943]"),
        ] {
            assert!(is_address(&number), "{number}");
        }
        assert!(
            is_address(&json!({ "target": { "host": "inner" } })),
            "it is called one"
        );
        assert!(is_called_address("apiHost") && is_called_address("subdomain") && !is_called_address("mode"));
    }
}
