//! From a form to a configuration and back, by the table that also checks what the API is sent.

use serde_json::{Map, Value};
use service::batch_exports::destination::{self, ConfigField, FieldKind, Kind};

use super::export_form::ExportForm;

/// Where the service says that something is wrong with a configuration.
const CONFIG: &str = "destination__config";
/// Stands for what is not to be seen, or is not known yet.
const BLANK: &str = "…";

/// What a key is called in a form: what the service calls it when it refuses it.
pub(super) fn name_below(above: &str, key: &str) -> String {
    format!("{above}__{key}")
}

pub(super) fn name_of(key: &str) -> String {
    name_below(CONFIG, key)
}

/// Whether a key counts, given what it depends on.
pub(super) fn counts(field: &ConfigField, typed: &ExportForm) -> bool {
    field
        .only_with
        .is_none_or(|(key, value)| typed.get(&name_of(key)) == value)
}

/// The whole configuration that was typed.
pub(super) fn whole(kind: Kind, typed: &ExportForm) -> Map<String, Value> {
    Reader { typed, before: None }.object(kind.fields(), CONFIG)
}

/// Only what is another than before. Secrets that were not typed stay; what does not count any more goes.
pub(super) fn changed(
    kind: Kind,
    kept: &Map<String, Value>,
    typed: &ExportForm,
    before: &ExportForm,
) -> Map<String, Value> {
    let before = Some((kept, before));
    Reader { typed, before }.object(kind.fields(), CONFIG)
}

struct Reader<'a> {
    typed: &'a ExportForm,
    /// What is kept, and how the form shows it.
    before: Option<(&'a Map<String, Value>, &'a ExportForm)>,
}

impl Reader<'_> {
    fn object(&self, fields: impl Iterator<Item = &'static ConfigField>, above: &str) -> Map<String, Value> {
        let given = fields.filter_map(|field| {
            let value = self.value(field, &name_below(above, field.key))?;
            Some((field.key.to_owned(), value))
        });
        given.collect()
    }

    /// None: there is nothing to say of it. Null: it is taken away.
    fn value(&self, field: &'static ConfigField, name: &str) -> Option<Value> {
        if !counts(field, self.typed) {
            let (kept, before) = self.before?;
            let is_there = counts(field, before) && (field.is_secret || kept.contains_key(field.key));
            return is_there.then_some(Value::Null);
        }
        if let FieldKind::Group(inner) = field.kind {
            let object = self.object(inner.iter(), name);
            return (!object.is_empty()).then_some(object.into());
        }
        let value = read(field, self.typed.get(name));
        match self.before {
            Some((_, before)) if !field.is_secret => (value != read(field, before.get(name))).then_some(value),
            _ => (!value.is_null()).then_some(value),
        }
    }
}

/// Null: nothing was typed.
fn read(field: &ConfigField, text: &str) -> Value {
    match field.kind {
        FieldKind::Flag => (text == "yes").into(),
        FieldKind::Texts => {
            let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
            let lines: Vec<&str> = lines.collect();
            if lines.is_empty() { Value::Null } else { lines.into() }
        }
        FieldKind::Number(..) if !text.trim().is_empty() => {
            let number: Result<u32, _> = text.trim().parse();
            // What is no number is for the service to refuse.
            number.map_or_else(|_| text.into(), Value::from)
        }
        // A space at the end of a secret may belong to it.
        _ if field.is_secret && !text.is_empty() => text.into(),
        // What must be given is given, be it empty: the service says what it thinks of that.
        _ if field.is_required && !field.is_secret => text.trim().into(),
        _ if !text.trim().is_empty() => text.trim().into(),
        _ => Value::Null,
    }
}

/// Fills in what may be shown of a configuration, and what is usual where it says nothing.
pub(super) fn show(kind: Kind, config: &Map<String, Value>, typed: &mut ExportForm) {
    show_object(kind.fields(), CONFIG, config, typed);
}

fn show_object(
    fields: impl Iterator<Item = &'static ConfigField>,
    above: &str,
    config: &Map<String, Value>,
    typed: &mut ExportForm,
) {
    for field in fields {
        let name = name_below(above, field.key);
        let value = config.get(field.key);
        if let FieldKind::Group(inner) = field.kind {
            let empty = Map::new();
            let inside = value.and_then(Value::as_object).unwrap_or(&empty);
            show_object(inner.iter(), &name, inside, typed);
        } else {
            typed.set(name, text(value.unwrap_or(&usual(field))));
        }
    }
}

fn usual(field: &ConfigField) -> Value {
    match field.kind {
        FieldKind::Flag => (field.usual == "true").into(),
        _ => field.usual.into(),
    }
}

/// A value as a form holds it.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Bool(is_on) => if *is_on { "yes" } else { "" }.to_owned(),
        Value::Array(items) => items.iter().map(text).collect::<Vec<_>>().join("\n"),
        // A pair of keys, which the form does not show.
        Value::Null | Value::Object(_) => String::new(),
    }
}

/// The same configuration with nothing in it that must not be seen, and with blanks for what is still to be said.
pub(super) fn example(kind: Kind, config: Map<String, Value>) -> Map<String, Value> {
    let (mut open, secret) = destination::split(kind, config);
    for field in kind.fields().filter(|field| !field.may_be_empty()) {
        let value = open.entry(field.key).or_insert(BLANK.into());
        if value == "" {
            *value = BLANK.into();
        }
    }
    destination::merge(open, veiled(secret))
}

/// A change, fit to be seen.
pub(super) fn seen(kind: Kind, change: Map<String, Value>) -> Map<String, Value> {
    let (open, secret) = destination::split(kind, change);
    destination::merge(open, veiled(secret))
}

fn veiled(secret: Map<String, Value>) -> Map<String, Value> {
    let veil = |value: Value| match value {
        Value::Object(inner) => veiled(inner).into(),
        Value::Null => Value::Null,
        _ => BLANK.into(),
    };
    secret.into_iter().map(|(key, value)| (key, veil(value))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn typed(pairs: &[(&str, &str)]) -> ExportForm {
        let mut typed = ExportForm::fresh(Kind::Redshift);
        for (key, text) in pairs {
            typed.set(name_of(key), *text);
        }
        typed
    }

    fn object(value: &Value) -> Map<String, Value> {
        value.as_object().expect("an object").clone()
    }

    #[test]
    fn a_form_becomes_what_the_api_is_sent() {
        let form = typed(&[
            ("user", "u"),
            ("password", " p "),
            ("host", " cluster.example.com "),
            ("database", "d"),
            ("port", "many"),
            ("include_events", "a\n\n b \n"),
            ("mode", "COPY"),
            ("copy_inputs__s3_bucket", "b"),
            ("copy_inputs__bucket_credentials__aws_access_key_id", "k"),
        ]);
        let expected = json!({
            "user": "u", "password": " p ", "host": "cluster.example.com", "database": "d", "port": "many",
            "schema": "public", "table_name": "events", "properties_data_type": "varchar", "mode": "COPY",
            "copy_inputs": {
                "s3_bucket": "b", "region_name": "", "s3_key_prefix": "/", "authorization": "",
                "bucket_credentials": { "aws_access_key_id": "k" },
            },
            "include_events": ["a", "b"],
        });
        assert_eq!(Value::from(whole(Kind::Redshift, &form)), expected);
        let inserting = typed(&[("mode", "INSERT"), ("copy_inputs__s3_bucket", "b")]);
        assert!(!whole(Kind::Redshift, &inserting).contains_key("copy_inputs"));
    }

    #[test]
    fn a_form_that_was_left_alone_changes_nothing() {
        let kept = object(&json!({ "host": "h", "port": "5439", "database": "d", "exclude_events": ["a", "b"] }));
        let mut before = ExportForm::default();
        show(Kind::Redshift, &kept, &mut before);
        assert!(changed(Kind::Redshift, &kept, &before, &before).is_empty());
        let mut after = before.clone();
        after.set(name_of("exclude_events"), "");
        after.set(name_of("password"), "new");
        after.set(name_of("schema"), "other");
        let change = changed(Kind::Redshift, &kept, &after, &before);
        let expected = json!({ "exclude_events": null, "password": "new", "schema": "other" });
        assert_eq!(Value::from(change), expected);
    }

    #[test]
    fn what_does_not_count_any_more_is_taken_away() {
        let kept = object(&json!({ "account": "a", "authentication_type": "keypair" }));
        let mut before = ExportForm::default();
        show(Kind::Snowflake, &kept, &mut before);
        let mut after = before.clone();
        after.set(name_of("authentication_type"), "password");
        after.set(name_of("password"), "p");
        let change = changed(Kind::Snowflake, &kept, &after, &before);
        let expected = json!({
            "authentication_type": "password", "password": "p", "private_key": null, "private_key_passphrase": null,
        });
        assert_eq!(Value::from(change), expected);
    }

    #[test]
    fn an_example_holds_no_secret() {
        let config = object(&json!({
            "user": "u", "password": "p", "host": "", "database": "d",
            "copy_inputs": { "s3_bucket": "b", "bucket_credentials": { "aws_access_key_id": "k" } },
        }));
        let expected = json!({
            "user": "…", "password": "…", "host": "…", "database": "d",
            "copy_inputs": { "s3_bucket": "b", "bucket_credentials": { "aws_access_key_id": "…" } },
        });
        assert_eq!(Value::from(example(Kind::Redshift, config)), expected);
    }
}
