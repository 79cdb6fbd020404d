//! The fields of a configuration: a field for each thing that the app asks for, and back from the form to values.

use askama::Template;
use askama::filters::HtmlSafe;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};
use service::pipeline::schema::Field;
use untrusted_json::has_reserved_name;

use crate::failure::Problems;

/// A form as it was sent, or as it would be if nobody changed anything.
#[derive(Debug, Clone, Default)]
pub(super) struct ConfigForm(Vec<(String, String)>);

impl ConfigForm {
    pub(super) fn sent(pairs: Vec<(String, String)>) -> Self {
        let plain = pairs.into_iter().map(|(name, text)| (name, text.replace("\r\n", "\n")));
        Self(plain.collect())
    }

    pub(super) fn with(mut self, name: &str, text: impl Into<String>) -> Self {
        self.0.push((name.to_owned(), text.into()));
        self
    }

    /// The values as they are kept. What may not be shown is not in it.
    pub(super) fn holding(mut self, fields: &[Field], values: &Map<String, Value>) -> Self {
        for field in fields.iter().filter(|field| !is_hidden(field)) {
            self = self.with(&name(field), shown(values.get(&field.key)));
        }
        self
    }

    pub(super) fn get(&self, name: &str) -> &str {
        let found = self.0.iter().find(|(key, _)| key == name);
        found.map_or("", |(_, text)| text)
    }

    /// What is to be changed. What is left as it was shown is left out, so that it stays what it is.
    pub(super) fn values(&self, fields: &[Field], before: &Map<String, Value>) -> Map<String, Value> {
        let mut values = Map::new();
        for field in fields {
            let text = self.get(&name(field));
            let change = if is_hidden(field) {
                self.hidden(field, text)
            } else {
                open(field, text, before.get(&field.key))
            };
            values.extend(change.map(|value| (field.key.clone(), value)));
        }
        // What the app no longer asks for would be in the way.
        let stale = before
            .keys()
            .filter(|key| !fields.iter().any(|field| field.key == **key));
        values.extend(stale.map(|key| (key.clone(), Value::Null)));
        values
    }

    fn hidden(&self, field: &Field, text: &str) -> Option<Value> {
        if !text.trim().is_empty() {
            return Some(match field.kind.as_str() {
                "attachment" => self.attachment(field, text),
                _ => Value::from(text),
            });
        }
        (self.get(&format!("forget__{}", field.key)) == "yes").then_some(Value::Null)
    }

    fn attachment(&self, field: &Field, text: &str) -> Value {
        let file_name = match self.get(&format!("file__{}", field.key)).trim() {
            "" => "file.txt",
            name => name,
        };
        let is_json = serde_json::from_str::<IgnoredAny>(text).is_ok();
        let content_type = if is_json { "application/json" } else { "text/plain" };
        json!({ "file_name": file_name, "content_type": content_type, "contents": STANDARD.encode(text) })
    }
}

/// None: it stays as it is.
fn open(field: &Field, text: &str, before: Option<&Value>) -> Option<Value> {
    if text == shown(before) {
        return None;
    }
    if text.trim().is_empty() {
        return Some(Value::Null);
    }
    // Who sent a structure over the API goes on getting one.
    let is_structure = before.is_some_and(|value| value.is_object() || value.is_array());
    let may_be_read = is_structure && !has_reserved_name(text.as_bytes());
    let parsed = || serde_json::from_str(text).unwrap_or_else(|_| Value::from(text));
    Some(if field.kind == "json" && may_be_read {
        parsed()
    } else {
        Value::from(text)
    })
}

fn shown(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => format!("{other:#}"),
    }
}

/// What is shown of the values: neither secrets nor files.
pub(super) fn open_values(fields: &[Field], values: &Map<String, Value>) -> Map<String, Value> {
    let is_open = |key: &String| !fields.iter().any(|field| field.key == *key && is_hidden(field));
    let open = values.iter().filter(|(key, _)| is_open(key));
    open.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// As the service names it when it is wrong.
pub(super) fn name(field: &Field) -> String {
    format!("config__{}", field.key)
}

/// Kept, but not shown: secrets, and files, which are long.
fn is_hidden(field: &Field) -> bool {
    field.is_secret || field.kind == "attachment"
}

#[derive(Debug, PartialEq, Eq)]
enum Shape {
    Line,
    Secret,
    Choice,
    Lines,
    File,
}

/// A field of the form.
#[derive(Debug, Template)]
#[template(path = "organization/apps/config_fields.html")]
pub(super) struct FieldView {
    id: String,
    key: String,
    label: String,
    remark: &'static str,
    hints: Vec<String>,
    shape: Shape,
    value: String,
    file_name: String,
    choices: Vec<String>,
    is_kept: bool,
    is_focused: bool,
    problem: Option<String>,
}

/// Its template escapes what it holds.
impl HtmlSafe for FieldView {}

impl FieldView {
    /// A field for each, in the app's order. `kept` are the keys of which something is kept that is not shown.
    pub(super) fn all(fields: &[Field], typed: &ConfigForm, kept: &[String], problems: &Problems) -> Vec<Self> {
        let each = fields.iter().zip(1..);
        each.map(|(field, place): (&Field, usize)| {
            let is_kept = is_hidden(field) && kept.contains(&field.key);
            Self {
                id: format!("field-{place}"),
                key: field.key.clone(),
                label: field.name.clone(),
                remark: if field.is_required {
                    "required when enabled"
                } else {
                    "optional"
                },
                hints: hints(field, fields, is_kept),
                shape: shape(field),
                // A secret that was typed is not shown again.
                value: if is_hidden(field) {
                    String::new()
                } else {
                    typed.get(&name(field)).to_owned()
                },
                file_name: typed.get(&format!("file__{}", field.key)).to_owned(),
                choices: field.choices.clone(),
                is_kept,
                is_focused: problems.first_field() == Some(name(field).as_str()),
                problem: problems.of(&name(field)),
            }
        })
        .collect()
    }

    fn described_by(&self) -> String {
        let problem = self.problem.as_ref().map(|_| format!("{}-problem", self.id));
        let hint = (!self.hints.is_empty()).then(|| format!("{}-hint", self.id));
        [problem, hint].into_iter().flatten().collect::<Vec<_>>().join(" ")
    }
}

fn shape(field: &Field) -> Shape {
    match field.kind.as_str() {
        "attachment" => Shape::File,
        _ if field.is_secret => Shape::Secret,
        "choice" => Shape::Choice,
        "json" => Shape::Lines,
        _ => Shape::Line,
    }
}

fn hints(field: &Field, fields: &[Field], is_kept: bool) -> Vec<String> {
    let mut hints = Vec::new();
    if !field.hint.is_empty() {
        hints.push(field.hint.clone());
    }
    if is_kept {
        hints.push("A value is saved but not shown. Leave empty to keep it.".to_owned());
    } else if field.kind == "attachment" {
        hints.push("Paste the file's text. Use the API to upload binary files.".to_owned());
    }
    let default = shown(Some(&field.default));
    if !default.is_empty() && !field.is_secret {
        hints.push(format!("Defaults to {default}"));
    }
    let called = |key: &str| {
        let other = fields.iter().find(|other| other.key == key);
        other.map_or_else(|| key.to_owned(), |other| other.name.clone())
    };
    let condition = |(key, value): &(String, Value)| format!("{} is {}", called(key), shown(Some(value)));
    if !field.visible_if.is_empty() {
        let all: Vec<String> = field.visible_if.iter().map(condition).collect();
        hints.push(format!("Only used when {}.", all.join(" and ")));
    }
    if !field.required_if.is_empty() {
        let all: Vec<String> = field.required_if.iter().map(condition).collect();
        hints.push(format!("Required when {}.", all.join(" and ")));
    }
    hints
}

#[cfg(test)]
mod tests {
    use service::pipeline::schema::fields;

    use super::*;

    fn object(value: Value) -> Map<String, Value> {
        serde_json::from_value(value).unwrap()
    }

    fn asked() -> Vec<Field> {
        fields(&json!([
            { "key": "url", "type": "string" },
            { "key": "token", "type": "string", "secret": true },
            { "key": "map", "type": "json" },
            { "key": "file", "type": "attachment" },
        ]))
    }

    #[test]
    fn what_nobody_touches_stays_what_it_is() {
        let before = object(json!({ "url": 5, "map": { "a": 1 }, "file": { "contents": "eA==" } }));
        let typed = ConfigForm::default().holding(&asked(), &before);
        assert_eq!(typed.get("config__url"), "5");
        assert_eq!(typed.get("config__file"), "", "files are not shown");
        assert_eq!(typed.values(&asked(), &before), Map::new());
    }

    #[test]
    fn only_what_changes_is_sent() {
        let before = object(json!({ "url": "a", "map": { "a": 1 }, "gone": true }));
        let typed = ConfigForm::default()
            .with("config__url", "")
            .with("config__map", "{\"a\": 2}")
            .with("config__token", "t")
            .with("config__file", "x")
            .with("file__file", "x.txt");
        let file = json!({ "file_name": "x.txt", "content_type": "text/plain", "contents": "eA==" });
        let expected = json!({ "url": null, "map": { "a": 2 }, "token": "t", "file": file, "gone": null });
        assert_eq!(Value::Object(typed.values(&asked(), &before)), expected);
    }

    #[test]
    fn a_secret_goes_only_if_somebody_says_so() {
        let typed = ConfigForm::default()
            .with("config__token", "")
            .with("forget__token", "yes");
        assert_eq!(
            Value::Object(typed.values(&asked(), &Map::new())),
            json!({ "token": null })
        );
        let typed = ConfigForm::sent(vec![("config__token".to_owned(), String::new())]);
        assert!(typed.values(&asked(), &Map::new()).is_empty());
    }
}
