//! How large things may be that are kept as they were sent, and what they take in memory.

use serde_json::{Map, Value};
use untrusted_json::RESERVED;

use super::schema;
use super::types::{App, AppConfig, AppMetadata};
use crate::error::{Error, Result};

/// Of one structure of an app.
const MAX_STRUCTURE: usize = 64 << 10;
/// Of all values of a configuration, and without its attachments.
const MAX_CONFIG: usize = 512 << 10;
const MAX_VALUES_BYTES: usize = 256 << 10;
/// A value takes much more memory than text.
const MAX_VALUES: usize = 2000;

type Part = fn(&App) -> &Value;

const STRUCTURES: [(&str, Part); 4] = [
    ("config_schema", |app| &app.config_schema),
    ("capabilities", |app| &app.capabilities),
    ("metrics", |app| &app.metrics),
    ("public_jobs", |app| &app.public_jobs),
];

/// Whether an app is not too large, whoever said it: a client, or its code. What it had before is left alone.
pub(super) fn check_app(before: Option<&App>, app: &App) -> Result<()> {
    for (field, part) in STRUCTURES {
        if before.is_none_or(|before| part(before) != part(app)) {
            check("", field, part(app), MAX_STRUCTURE)?;
        }
    }
    if before.is_some_and(|before| before.config_schema == app.config_schema) {
        return Ok(());
    }
    schema::check_count(&app.config_schema)
}

/// The same for what other code says of an app, before it is kept in memory until it can be written.
pub(super) fn check_metadata(before: Option<&App>, metadata: &AppMetadata) -> Result<()> {
    let offered = [
        &metadata.config_schema,
        &metadata.capabilities,
        &metadata.metrics,
        &metadata.public_jobs,
    ];
    for ((field, part), offered) in STRUCTURES.into_iter().zip(offered) {
        if before.is_none_or(|before| part(before) != offered) {
            check("", field, offered, MAX_STRUCTURE)?;
        }
    }
    Ok(())
}

/// Everything that a configuration tells its app.
pub(super) fn check_config(schema: &Value, config: &Map<String, Value>) -> Result<()> {
    let fields = schema::fields(schema);
    let is_file = |key: &str| {
        fields
            .iter()
            .any(|field| field.key == key && field.kind == "attachment")
    };
    let (files, values): (Map<_, _>, Map<_, _>) = config.clone().into_iter().partition(|(key, _)| is_file(key));
    check(
        " without attachments",
        "config",
        &Value::Object(values),
        MAX_VALUES_BYTES,
    )?;
    let left = MAX_CONFIG - MAX_VALUES_BYTES;
    check(" of attachments", "config", &Value::Object(files), left)
}

fn check(what: &str, field: &'static str, value: &Value, longest: usize) -> Result<()> {
    let wrong = |detail: String| Err(Error::invalid(field, "max_length", detail));
    if count(value) > MAX_VALUES {
        return wrong(format!("this can have at most {MAX_VALUES} values"));
    }
    if has_reserved_name(value) {
        let detail = format!("names cannot start with {RESERVED}");
        return Err(Error::invalid(field, "invalid_input", detail));
    }
    if value.to_string().len() > longest {
        return wrong(format!("this can have at most {} KiB{what}, as JSON", longest >> 10));
    }
    Ok(())
}

/// What has one could not be read again.
fn has_reserved_name(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(has_reserved_name),
        Value::Object(fields) => fields
            .iter()
            .any(|(name, value)| name.starts_with(RESERVED) || has_reserved_name(value)),
        _ => false,
    }
}

/// The value itself and all that are in it.
fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(fields) => fields.values().map(count).sum(),
        _ => 0,
    }
}

/// What a value takes, about. A map has room for eleven entries in each node, and at least half of it is used.
fn size(value: &Value) -> usize {
    size_of::<Value>()
        + match value {
            Value::String(text) => size_of_text(text),
            Value::Array(items) => items.iter().map(size).sum(),
            Value::Object(fields) => size_of_map(fields),
            _ => 0,
        }
}

/// In JSON.
fn size_of_text(text: &str) -> usize {
    let escaped = |byte| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 2,
        0..0x20 => 6,
        _ => 1,
    };
    text.bytes().map(escaped).sum()
}

pub(super) fn size_of_map(fields: &Map<String, Value>) -> usize {
    const NODE: usize = 11 * (size_of::<String>() + size_of::<Value>());
    let entries = fields.iter().map(|(key, value)| size_of_text(key) + size(value));
    fields.len().div_ceil(6) * NODE + entries.sum::<usize>()
}

fn size_of_list(texts: Option<&Vec<String>>) -> usize {
    let each = |text: &String| size_of::<String>() + size_of_text(text);
    texts.into_iter().flatten().map(each).sum()
}

/// What an app takes in a list.
pub(super) fn app_size(app: &App) -> i64 {
    let structures: usize = STRUCTURES.iter().map(|(_, part)| size(part(app))).sum();
    let texts = [&app.url, &app.icon, &app.tag].map(|text| text.as_ref().map_or(0, |text| size_of_text(text)));
    let size =
        structures + size_of_text(&app.description) + texts.iter().sum::<usize>() + size_of_list(app.hosts.as_ref());
    i64::try_from(size).unwrap_or(i64::MAX)
}

/// The same for a configuration.
pub(super) fn config_size(config: &AppConfig) -> i64 {
    let secrets = config.secrets.as_ref().map_or(0, Vec::len);
    let size = size_of_map(&config.config) + secrets + size_of_list(config.allowed_hosts.as_ref());
    i64::try_from(size).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::error::Invalid;

    #[test]
    fn what_is_long_or_has_many_values_is_refused() {
        let fits = |value: &Value| check("", "metrics", value, MAX_STRUCTURE).is_ok();
        assert!(fits(&json!({ "a": "x".repeat(60_000) })) && fits(&json!(vec![0; 1999])));
        for large in [
            json!({ "a": "x".repeat(70_000) }),
            json!({ "x".repeat(70_000): 1 }),
            json!(vec![0; 2000]),
            json!({ "a": vec![vec![0; 100]; 20] }),
        ] {
            assert!(!fits(&large), "{} bytes", large.to_string().len());
        }
    }

    #[test]
    fn what_code_says_is_refused_by_the_name_of_its_field() {
        let metadata = |field: &str, value: Value| {
            let mut metadata =
                json!({ "description": "", "config_schema": [], "capabilities": {}, "metrics": {}, "public_jobs": {} });
            metadata[field] = value;
            serde_json::from_value::<AppMetadata>(metadata).expect("metadata")
        };
        for (field, _) in STRUCTURES {
            assert!(check_metadata(None, &metadata(field, json!(vec![0; 1999]))).is_ok());
            let refused = check_metadata(None, &metadata(field, json!(vec![0; 2000])));
            let is_named = |wrong: &[Invalid]| wrong.iter().all(|one| one.field.as_deref() == Some(field));
            assert!(
                matches!(&refused, Err(Error::Invalid(wrong)) if is_named(wrong)),
                "{refused:?}"
            );
        }
    }

    #[test]
    fn small_values_count_as_what_they_take() {
        let maps = json!(vec![json!({ "": 0 }); 1000]);
        assert!(
            maps.to_string().len() < 10_000 && size(&maps) > 500_000,
            "{}",
            size(&maps)
        );
        let control = json!("\u{1}\n\"é".repeat(1000));
        assert_eq!(size(&control) - size_of::<Value>(), control.to_string().len() - 2);
        let text = json!("x".repeat(100_000));
        assert!((100_000..101_000).contains(&size(&text)));
        assert!((64_000..70_000).contains(&size(&json!(vec![0; 2000]))) || size_of::<Value>() != 32);
    }

    #[test]
    fn attachments_have_room_of_their_own() {
        let schema = json!([{ "key": "file", "type": "attachment" }, { "key": "text" }]);
        let sized = |key: &str, length: usize| {
            let config = json!({ key: { "contents": "x".repeat(length) } });
            check_config(&schema, config.as_object().expect("an object")).is_ok()
        };
        assert!(sized("file", 250_000) && sized("text", 250_000));
        assert!(!sized("file", 300_000) && !sized("text", 300_000));
    }
}
