//! What an app asks to be told: the fields of its configurations, and whether values fit them.

use std::collections::BTreeSet;

use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use crate::error::{Error, Invalid, Result};

const MAX_FIELDS: usize = 200;
const KINDS: [&str; 4] = ["string", "choice", "json", "attachment"];

/// One thing that a configuration is told.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    pub key: String,
    pub name: String,
    pub kind: String,
    pub default: Value,
    pub hint: String,
    pub choices: Vec<String>,
    pub is_required: bool,
    pub is_secret: bool,
    /// Whether browsers are told, too.
    pub is_for_sites: bool,
    /// Only asked for while these others have these values.
    pub visible_if: Vec<(String, Value)>,
    pub required_if: Vec<(String, Value)>,
}

/// The fields with a key; the others are text between them.
pub fn fields(schema: &Value) -> Vec<Field> {
    let entries: Vec<(Option<&str>, &Value)> = match schema {
        Value::Array(list) => list.iter().map(|entry| (None, entry)).collect(),
        // The old form: an object keyed by field.
        Value::Object(map) => map.iter().map(|(key, entry)| (Some(key.as_str()), entry)).collect(),
        _ => Vec::new(),
    };
    entries
        .into_iter()
        .filter_map(|(key, entry)| field(key, entry))
        .collect()
}

/// What a schema says of one field; null if it does not have it.
pub(super) fn entry(schema: &Value, key: &str) -> Value {
    let found = match schema {
        Value::Array(list) => list.iter().find(|entry| entry.get("key").is_some_and(|own| own == key)),
        schema => schema.get(key),
    };
    found.cloned().unwrap_or_default()
}

fn field(key: Option<&str>, entry: &Value) -> Option<Field> {
    let text = |name: &str| entry.get(name).and_then(Value::as_str);
    let is = |name: &str| entry.get(name).and_then(Value::as_bool).unwrap_or_default();
    let key = key.or_else(|| text("key")).filter(|key| !key.is_empty())?;
    let choices = entry.get("choices").and_then(Value::as_array).into_iter().flatten();
    Some(Field {
        key: key.to_owned(),
        name: text("name").unwrap_or(key).to_owned(),
        kind: text("type").unwrap_or("string").to_owned(),
        default: entry.get("default").cloned().unwrap_or_default(),
        hint: text("hint").unwrap_or_default().to_owned(),
        choices: choices.filter_map(Value::as_str).map(str::to_owned).collect(),
        is_required: is("required"),
        is_secret: is("secret"),
        is_for_sites: is("site"),
        visible_if: conditions(entry.get("visible_if")),
        required_if: conditions(entry.get("required_if")),
    })
}

/// `[["stage", "S3"], …]`
fn conditions(value: Option<&Value>) -> Vec<(String, Value)> {
    let pairs = value.and_then(Value::as_array).into_iter().flatten();
    let pair = |pair: &Value| Some((pair.get(0)?.as_str()?.to_owned(), pair.get(1)?.clone()));
    pairs.filter_map(pair).collect()
}

/// Whether this can be a schema at all.
pub fn check(schema: &Value) -> Result<()> {
    let wrong = |detail: String| Err(Error::invalid("config_schema", "invalid_input", detail));
    match schema {
        Value::Null => {}
        Value::Array(list) if list.iter().all(Value::is_object) => {}
        Value::Object(map) if map.values().all(Value::is_object) => {}
        _ => return wrong("Must be a list of fields, each an object with key, name and type.".to_owned()),
    }
    check_count(schema)?;
    let fields = fields(schema);
    for (place, field) in fields.iter().enumerate() {
        if !KINDS.contains(&field.kind.as_str()) {
            let known = KINDS.join(", ");
            return wrong(format!(
                "{}: invalid type {}: use one of {known}",
                field.key, field.kind
            ));
        }
        if fields[..place].iter().any(|earlier| earlier.key == field.key) {
            return wrong(format!("{}: duplicate key", field.key));
        }
    }
    Ok(())
}

/// Whoever wrote it, a client or the code itself: every value of a configuration is compared with all fields.
pub(super) fn check_count(schema: &Value) -> Result<()> {
    let count = match schema {
        Value::Array(list) => list.len(),
        Value::Object(map) => map.len(),
        _ => 0,
    };
    if count > MAX_FIELDS {
        let detail = format!("there can be at most {MAX_FIELDS} fields");
        return Err(Error::invalid("config_schema", "invalid_input", detail));
    }
    Ok(())
}

/// What a configuration is told, secrets apart.
pub(super) type Split = (Map<String, Value>, Map<String, Value>);

/// What may be shown, and what may not. A value that was encrypted once is never shown again: where the schema no longer calls
/// its field a secret, or has no such field, the value is dropped.
pub fn split(schema: &Value, open: Map<String, Value>, mut secrets: Map<String, Value>) -> Split {
    let fields = fields(schema);
    let is_secret = |key: &str| fields.iter().any(|field| field.is_secret && field.key == key);
    secrets.retain(|key, _| is_secret(key));
    let (newly_secret, open): (Map<_, _>, Map<_, _>) = open.into_iter().partition(|(key, _)| is_secret(key));
    secrets.extend(newly_secret);
    (open, secrets)
}

/// Which fields two schemas do not both call a secret. Values of other fields stay where they are.
#[derive(Debug)]
pub(super) struct SecretChange {
    pub(super) added: Vec<String>,
    pub(super) removed: Vec<String>,
}

impl SecretChange {
    pub(super) fn between(before: &Value, after: &Value) -> Self {
        let (before, after) = (secret_keys(before), secret_keys(after));
        Self {
            added: after.difference(&before).cloned().collect(),
            removed: before.difference(&after).cloned().collect(),
        }
    }

    pub(super) fn is_any(&self) -> bool {
        !self.added.is_empty() || !self.removed.is_empty()
    }
}

/// Which of some fields the secrets of configurations have. Many may wait with one of these, so each name is in it once.
#[derive(Debug, Default)]
pub(super) struct KnownSecrets {
    fields: Vec<String>,
    configs: Vec<(Beginning, FieldBits)>,
}

/// What secrets begin with when they are encrypted, which no two have alike: which key it was, and the nonce.
type Beginning = [u8; 28];
/// One bit for each field.
type FieldBits = [u128; 2];

impl KnownSecrets {
    /// Of these fields, as far as there is room for them.
    pub(super) fn of(mut fields: Vec<String>) -> Self {
        fields.truncate(size_of::<FieldBits>() * 8);
        Self {
            fields,
            configs: Vec::new(),
        }
    }

    /// Whether there is no field to look for.
    pub(super) fn is_of_none(&self) -> bool {
        self.fields.is_empty()
    }

    pub(super) fn add(&mut self, encrypted: &[u8], secrets: &Map<String, Value>) {
        if let Some(beginning) = encrypted.first_chunk() {
            let kept = self.bits(|field| secrets.contains_key(field));
            self.configs.push((*beginning, kept));
        }
    }

    /// The beginnings of those that have none of these fields, in hexadecimal digits.
    pub(super) fn without(&self, fields: &[String]) -> Vec<String> {
        // Others may have changed the schema since: nothing is known of a field that was not looked for.
        if !fields.iter().all(|field| self.fields.contains(field)) {
            return Vec::new();
        }
        let wanted = self.bits(|field| fields.contains(field));
        let has_none = |kept: &FieldBits| kept.iter().zip(wanted).all(|(kept, wanted)| kept & wanted == 0);
        let without = self.configs.iter().filter(|(_, kept)| has_none(kept));
        without.map(|(beginning, _)| hex::encode(beginning)).collect()
    }

    fn bits(&self, is_in: impl Fn(&String) -> bool) -> FieldBits {
        let mut bits = FieldBits::default();
        for (place, _) in self.fields.iter().enumerate().filter(|(_, field)| is_in(field)) {
            bits[place / 128] |= 1_u128 << (place % 128);
        }
        bits
    }
}

fn secret_keys(schema: &Value) -> BTreeSet<String> {
    let secret = fields(schema).into_iter().filter(|field| field.is_secret);
    secret.map(|field| field.key).collect()
}

/// The values with defaults filled in, as the app gets them.
pub fn with_defaults(schema: &Value, mut config: Map<String, Value>) -> Map<String, Value> {
    for field in fields(schema) {
        if !config.contains_key(&field.key) && !field.default.is_null() {
            config.insert(field.key, field.default);
        }
    }
    config
}

/// Makes sure that values fit. While it is off, a configuration may still lack some.
pub fn check_config(schema: &Value, config: &Map<String, Value>, is_enabled: bool) -> Result<()> {
    let fields = fields(schema);
    let mut wrong = unknown(&fields, config);
    for field in &fields {
        match config.get(&field.key).filter(|value| !is_blank(value)) {
            Some(value) => wrong.extend(misfit(field, value)),
            None if is_enabled && field.is_missed_in(config) => {
                wrong.push(invalid(&field.key, "required", format!("{} is required.", field.name)));
            }
            None => {}
        }
    }
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(Error::Invalid(wrong))
    }
}

/// Only the first says which fields there are: that can be much longer than the key that is wrong.
fn unknown(fields: &[Field], config: &Map<String, Value>) -> Vec<Invalid> {
    let is_unknown = |key: &&String| !fields.iter().any(|field| field.key == **key);
    let keys = config.keys().filter(is_unknown).take(Invalid::MAX);
    let detail = |place: usize| {
        if place > 0 {
            return "unknown field".to_owned();
        }
        let known: Vec<&str> = fields.iter().map(|field| field.key.as_str()).collect();
        let known = if known.is_empty() {
            "none".to_owned()
        } else {
            listed(&known)
        };
        format!("unknown field; the app has: {known}")
    };
    keys.enumerate()
        .map(|(place, key)| invalid(key, "unknown_field", detail(place)))
        .collect()
}

/// The first ones; a list of hundreds helps nobody.
fn listed(names: &[&str]) -> String {
    const SHOWN: usize = 50;
    let shown = names[..names.len().min(SHOWN)].join(", ");
    let more = if names.len() > SHOWN { ", …" } else { "" };
    format!("{shown}{more}")
}

impl Field {
    fn is_missed_in(&self, config: &Map<String, Value>) -> bool {
        let holds = |(key, wanted): &(String, Value)| config.get(key).unwrap_or(&Value::Null) == wanted;
        let is_visible = self.visible_if.iter().all(holds);
        let is_required = self.is_required || (!self.required_if.is_empty() && self.required_if.iter().all(holds));
        is_visible && is_required && is_blank(&self.default)
    }
}

fn is_blank(value: &Value) -> bool {
    value.is_null() || value.as_str().is_some_and(|text| text.trim().is_empty())
}

fn misfit(field: &Field, value: &Value) -> Option<Invalid> {
    match field.kind.as_str() {
        "choice"
            if !value
                .as_str()
                .is_some_and(|text| field.choices.iter().any(|one| one == text)) =>
        {
            let choices: Vec<&str> = field.choices.iter().map(String::as_str).collect();
            let detail = format!("Must be one of {}.", listed(&choices));
            Some(invalid(&field.key, "invalid_choice", detail))
        }
        "string" if value.is_object() || value.is_array() => {
            Some(invalid(&field.key, "invalid_input", "this must be a string".to_owned()))
        }
        "json" => {
            let fits = value
                .as_str()
                .is_none_or(|text| serde_json::from_str::<IgnoredAny>(text).is_ok());
            (!fits).then(|| invalid(&field.key, "invalid_input", "this must be valid JSON".to_owned()))
        }
        "attachment" if value.get("contents").and_then(Value::as_str).is_none() => {
            let detail = "Must be an object with file_name, content_type and contents (base64).".to_owned();
            Some(invalid(&field.key, "invalid_input", detail))
        }
        _ => None,
    }
}

fn invalid(key: &str, code: &'static str, detail: String) -> Invalid {
    Invalid {
        field: Some(format!("config__{key}").into()),
        code,
        detail,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Map<String, Value> {
        match value {
            Value::Object(map) => map,
            other => panic!("{other} is no object"),
        }
    }

    fn codes(result: Result<()>) -> Vec<(String, &'static str)> {
        match result {
            Err(Error::Invalid(wrong)) => wrong
                .into_iter()
                .map(|one| (one.field.unwrap_or_default().into_owned(), one.code))
                .collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn both_forms_are_read() {
        let list = json!([{ "markdown": "Hello" }, { "key": "url", "type": "string", "required": true }]);
        let keyed = json!({ "url": { "type": "string", "required": true } });
        assert_eq!(fields(&list), fields(&keyed));
        assert!(check(&list).is_ok() && check(&keyed).is_ok());
    }

    #[test]
    fn what_is_no_schema_is_refused() {
        for bad in [
            json!("x"),
            json!([1]),
            json!([{ "key": "a", "type": "number" }]),
            json!([{ "key": "a" }, { "key": "a" }]),
        ] {
            assert!(check(&bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn values_have_to_fit_and_required_ones_to_be_there_while_it_is_on() {
        let schema = json!([
            { "key": "url", "type": "string", "required": true },
            { "key": "mode", "type": "choice", "choices": ["a", "b"] },
            { "key": "map", "type": "json" },
        ]);
        let config = object(json!({ "mode": "c", "map": "{", "other": 1 }));
        assert_eq!(
            codes(check_config(&schema, &config, true)),
            [
                ("config__other".to_owned(), "unknown_field"),
                ("config__url".to_owned(), "required"),
                ("config__mode".to_owned(), "invalid_choice"),
                ("config__map".to_owned(), "invalid_input"),
            ]
        );
        assert!(check_config(&schema, &Map::new(), false).is_ok());
        assert!(check_config(&schema, &object(json!({ "url": "x" })), true).is_ok());
    }

    #[test]
    fn of_many_unknown_keys_the_first_says_which_there_are() {
        let schema: Value = (0..200)
            .map(|number| json!({ "key": format!("f{number:03}") }))
            .collect();
        let config: Map<String, Value> = (0..2000).map(|number| (format!("u{number}"), json!(1))).collect();
        let Err(Error::Invalid(wrong)) = check_config(&schema, &config, false) else {
            panic!("they are unknown")
        };
        assert_eq!(wrong.len(), Invalid::MAX);
        assert!(wrong[0].detail.ends_with("f049, …"), "{}", wrong[0].detail);
        assert!(wrong[1..].iter().all(|one| one.detail == "unknown field"));
        let choices: Vec<String> = (0..200).map(|number| number.to_string()).collect();
        let schema = json!([{ "key": "a", "type": "choice", "choices": choices }]);
        let Err(Error::Invalid(wrong)) = check_config(&schema, &object(json!({ "a": "x" })), false) else {
            panic!("it is none of the choices")
        };
        assert!(wrong[0].detail.ends_with("48, 49, …."), "{}", wrong[0].detail);
    }

    #[test]
    fn a_field_that_is_not_asked_for_is_not_required() {
        let schema = json!([
            { "key": "stage", "type": "choice", "choices": ["S3", "GCS"], "required": true },
            { "key": "bucket", "type": "string", "required": true, "visible_if": [["stage", "S3"]] },
            { "key": "key", "type": "string", "required_if": [["stage", "GCS"]] },
        ]);
        assert!(check_config(&schema, &object(json!({ "stage": "S3", "bucket": "b" })), true).is_ok());
        let config = object(json!({ "stage": "GCS" }));
        assert_eq!(
            codes(check_config(&schema, &config, true)),
            [("config__key".to_owned(), "required")]
        );
    }

    #[test]
    fn secrets_are_told_by_the_schema() {
        let schema = json!([{ "key": "token", "secret": true }, { "key": "url", "default": "u" }]);
        let config = with_defaults(&schema, object(json!({ "token": "t" })));
        assert_eq!(config["url"], "u");
        let (open, secret) = split(&schema, config, Map::new());
        assert_eq!((open.len(), secret["token"].as_str()), (1, Some("t")));
    }

    #[test]
    fn known_secrets_tell_who_has_a_field_and_keep_no_names_for_that() {
        let fields: Vec<String> = (0..200).map(|number| format!("{number:03}")).collect();
        let all: Map<String, Value> = fields.iter().map(|field| (field.clone(), json!("x"))).collect();
        let mut known = KnownSecrets::of(fields.clone());
        known.add(&[1; 60], &all);
        known.add(&[2; 60], &object(json!({ "000": "x", "127": "x", "other": "x" })));
        known.add(&[3; 60], &object(json!({ "128": "x", "199": "x" })));
        let first = |without: Vec<String>| without.iter().map(|one| one[..2].to_owned()).collect::<Vec<_>>();
        assert_eq!(first(known.without(&fields[..1])), ["03"]);
        assert_eq!(first(known.without(&fields[127..128])), ["03"]);
        assert_eq!(first(known.without(&fields[128..])), ["02"]);
        assert_eq!(first(known.without(&fields[1..2])), ["02", "03"]);
        assert_eq!(known.without(&fields[1..2])[0], "02".repeat(28));
        assert!(known.without(&["001".to_owned(), "other".to_owned()]).is_empty());
        assert!(
            size_of_val(&known.configs[0]) <= 64,
            "for each of a thousand configurations"
        );
    }

    #[test]
    fn what_was_encrypted_never_becomes_open_whatever_the_schema_says() {
        let kept = object(json!({ "token": "hush" }));
        for schema in [
            json!([]),
            json!({}),
            Value::Null,
            json!([{ "key": "token" }]),
            json!([{ "key": "token", "secret": false, "type": "choice", "choices": ["hush"] }]),
            json!([{ "key": "renamed", "secret": true }]),
            json!({ "token": { "secret": "true" } }),
        ] {
            let (open, secrets) = split(&schema, Map::new(), kept.clone());
            assert!(open.is_empty() && secrets.is_empty(), "{schema}: {open:?} {secrets:?}");
        }
        let retyped = json!([{ "key": "token", "secret": true, "type": "json" }]);
        assert_eq!(split(&retyped, Map::new(), kept.clone()), (Map::new(), kept));
    }
}
