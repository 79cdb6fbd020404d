//! How large things may be that are kept as they were sent, and how many an organization may have.
//!
//! Lists show them, and the activity log keeps them: without limits, reading a page could cost the server all its memory.

use serde_json::{Map, Value};

use super::{App, schema, sql};
use crate::db::Session;
use crate::error::{Error, Result};
use crate::id::OrganizationId;

/// Of one structure of an app.
const LONGEST_STRUCTURE: usize = 64 << 10;
/// Of all values of a configuration, and without its attachments.
const LONGEST_CONFIG: usize = 512 << 10;
const LONGEST_VALUES: usize = 256 << 10;
/// A value takes much more memory than text.
const MOST_VALUES: usize = 2000;

const MOST_APPS: i64 = 200;
const MOST_CONFIGS: i64 = 1000;

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
            check("", field, part(app), LONGEST_STRUCTURE)?;
        }
    }
    if before.is_some_and(|before| before.config_schema == app.config_schema) {
        return Ok(());
    }
    schema::check_count(&app.config_schema)
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
    check(" without attachments", "config", &Value::Object(values), LONGEST_VALUES)?;
    let left = LONGEST_CONFIG - LONGEST_VALUES;
    check(" of attachments", "config", &Value::Object(files), left)
}

fn check(what: &str, field: &'static str, value: &Value, longest: usize) -> Result<()> {
    let wrong = |detail: String| Err(Error::invalid(field, "max_length", detail));
    if count(value) > MOST_VALUES {
        return wrong(format!("this may have at most {MOST_VALUES} values"));
    }
    if value.to_string().len() > longest {
        return wrong(format!("this may have at most {} kB{what}, as JSON", longest >> 10));
    }
    Ok(())
}

/// The value itself and all that are in it.
fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(fields) => fields.values().map(count).sum(),
        _ => 0,
    }
}

/// The organization is locked: nobody else adds one at the same time.
pub(super) async fn room_for_app(db: &mut Session, organization: OrganizationId) -> Result<()> {
    if sql::apps::count_own(db, organization).await? < MOST_APPS {
        return Ok(());
    }
    let detail = format!("an organization may have at most {MOST_APPS} apps: delete one first");
    Err(Error::refused("too_many_apps", detail))
}

pub(super) async fn room_for_config(db: &mut Session, organization: OrganizationId) -> Result<()> {
    if sql::configs::count(db, organization).await? < MOST_CONFIGS {
        return Ok(());
    }
    let detail = format!("an organization may have at most {MOST_CONFIGS} configurations of apps: delete one first");
    Err(Error::refused("too_many_configs", detail))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_long_or_has_many_values_is_refused() {
        let fits = |value: &Value| check("", "metrics", value, LONGEST_STRUCTURE).is_ok();
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
