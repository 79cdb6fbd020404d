//! The published schema of an input is the very thing that checks it: what the OpenAPI spec says, holds.

use std::any::TypeId;
use std::borrow::Cow;
use std::sync::{LazyLock, PoisonError, RwLock};

use hashbrown::HashMap;
use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{ValidationError, Validator};
use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use schemars::{JsonSchema, Schema};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use serde_path_to_error::Segment;
use service::Invalid;

use crate::http::error::Problem;

/// Of what has more values than this, only the first error is reported. The validator finds all of them before it reports one, and each takes
/// more memory than the value that it is about.
const MAX_VALUES: usize = 10_000;

/// Checks values against the schema of one type.
pub(crate) struct Checker {
    pub(crate) schema: Value,
    validator: Validator,
}

impl Checker {
    /// What is wrong with a value.
    fn errors(&self, value: &Value) -> Vec<Invalid> {
        if count(value) > MAX_VALUES {
            let first = self.validator.validate(value).err();
            return first.iter().map(invalid).collect();
        }
        let mut problems: Vec<Invalid> = Vec::new();
        for problem in self.validator.iter_errors(value).map(|error| invalid(&error)) {
            if problems.len() == Invalid::MAX {
                break;
            }
            // One error can break several rules of a field; the first says enough.
            if problem.field.is_none() || problems.iter().all(|known| known.field != problem.field) {
                problems.push(problem);
            }
        }
        problems
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

/// The schema of an input: everything inline, and `null` only where it means something.
pub(crate) fn of_input<T: JsonSchema>() -> Schema {
    let mut settings = SchemaSettings::draft2020_12().for_deserialize();
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    LeftOutNotNull.transform(&mut schema);
    schema
}

/// In an input an `Option` is a field that may be left out; to send `null` instead is an error.
struct LeftOutNotNull;

impl Transform for LeftOutNotNull {
    fn transform(&mut self, schema: &mut Schema) {
        // Where null means something, the type says so.
        if schema.remove("x-nullable").is_some() {
            return;
        }
        if let Some(Value::Array(types)) = schema.get_mut("type") {
            types.retain(|name| name != "null");
            if let [only] = types.as_slice() {
                let only = only.clone();
                schema.insert("type".to_owned(), only);
            }
        }
        // Numbers have no largest here: one that is too large is cut.
        if schema
            .get("format")
            .and_then(Value::as_str)
            .is_some_and(|format| format.starts_with("int"))
        {
            schema.remove("format");
        }
        if let Some(Value::Array(choices)) = schema.get_mut("enum") {
            choices.retain(|choice| !choice.is_null());
        }
        if let Some(Value::Array(options)) = schema.get_mut("anyOf") {
            options.retain(|option| option != &serde_json::json!({ "type": "null" }));
            if let [Value::Object(only)] = options.as_slice() {
                let only = only.clone();
                schema.remove("anyOf");
                for (name, value) in only {
                    schema.insert(name, value);
                }
            }
        }
        transform_subschemas(self, schema);
    }
}

/// The checker of a type, made the first time it is needed.
pub(crate) fn checker<T: JsonSchema + 'static>() -> &'static Checker {
    static KNOWN: LazyLock<RwLock<HashMap<TypeId, &'static Checker>>> = LazyLock::new(RwLock::default);
    let id = TypeId::of::<T>();
    if let Some(checker) = KNOWN.read().unwrap_or_else(PoisonError::into_inner).get(&id) {
        return checker;
    }
    let schema = of_input::<T>().to_value();
    let validator = jsonschema::options()
        .should_validate_formats(true)
        .build(&schema)
        .expect("a schema made from a Rust type is a valid schema");
    // There are as many as there are input types, and they are needed to the end.
    let checker: &'static Checker = Box::leak(Box::new(Checker { schema, validator }));
    KNOWN
        .write()
        .unwrap_or_else(PoisonError::into_inner)
        .insert(id, checker);
    checker
}

/// Turns a value into its type, or says everything that is wrong with it.
pub(crate) fn read<T: JsonSchema + DeserializeOwned + 'static>(mut value: Value) -> Result<T, Problem> {
    let checker = checker::<T>();
    trim(&mut value, &checker.schema);
    let problems = checker.errors(&value);
    if !problems.is_empty() {
        return Err(Problem::Validation(problems));
    }
    // The schema knows no largest number, but types do.
    let mut track = serde_path_to_error::Track::new();
    let reader = serde_path_to_error::Deserializer::new(&value, &mut track);
    let read = T::deserialize(reader);
    read.map_err(|_| {
        let mut problem = out_of_range(&value, &track.path());
        problem.field = problem
            .field
            .or_else(|| offending_field::<T>(value, &checker.schema).map(Cow::Owned));
        Problem::Validation(vec![problem])
    })
}

/// The field without which all would be well, for types that do not say where they stopped: flattened ones. The value is
/// read once for each field that is tried, and those that nobody asked for can be many.
fn offending_field<T: DeserializeOwned>(value: Value, schema: &Value) -> Option<String> {
    let Value::Object(mut fields) = value else { return None };
    fields.retain(|name, _| schema["properties"].get(name).is_some());
    let names: Vec<String> = fields.keys().cloned().collect();
    names.into_iter().find(|name| {
        let taken = fields.remove(name);
        let is_fine_without = T::deserialize(&fields).is_ok();
        fields.extend(taken.map(|taken| (name.clone(), taken)));
        is_fine_without
    })
}

/// What a type refuses although its schema does not.
fn out_of_range(value: &Value, path: &serde_path_to_error::Path) -> Invalid {
    let mut names: Vec<String> = Vec::new();
    let mut found = Some(value);
    for segment in path {
        match segment {
            Segment::Map { key } => {
                found = found.and_then(|value| value.get(key));
                names.push(key.clone());
            }
            Segment::Seq { index } => {
                found = found.and_then(|value| value.get(index));
                names.push(index.to_string());
            }
            Segment::Enum { .. } | Segment::Unknown => {}
        }
    }
    let detail = if names.is_empty() || found.is_some_and(Value::is_number) {
        "Invalid value, or number out of range. See the schema at /api/schema/."
    } else {
        "Invalid value. See the schema at /api/schema/."
    };
    Invalid {
        field: (!names.is_empty()).then(|| Cow::Owned(names.join("__"))),
        code: "invalid_input",
        detail: detail.to_owned(),
    }
}

/// White space around a text is not part of it, but a password is what was typed, and so is a file.
fn trim(value: &mut Value, schema: &Value) {
    let Value::Object(fields) = value else { return };
    for (name, field) in fields {
        let Some(known) = schema["properties"].get(name.as_str()) else {
            continue;
        };
        if let Value::String(text) = field
            && known["format"] != "password"
        {
            let trimmed = text.trim();
            if trimmed.len() < text.len() {
                *text = trimmed.to_owned();
            }
        }
    }
}

fn invalid(error: &ValidationError<'_>) -> Invalid {
    let path = error.instance_path().to_string();
    let mut names: Vec<String> = path.split('/').skip(1).map(unescaped).collect();
    let (code, detail) = match error.kind() {
        ValidationErrorKind::Required { property } => {
            names.extend(property.as_str().map(str::to_owned));
            ("required", "This field is required.".to_owned())
        }
        ValidationErrorKind::Type { .. } if error.instance().is_null() => {
            ("null", "This field must not be null. Omit it instead.".to_owned())
        }
        ValidationErrorKind::Type { kind } => ("invalid_input", format!("Must be {}.", type_name(kind))),
        ValidationErrorKind::Enum { options } => ("invalid_choice", format!("Must be one of {}.", choices(options))),
        ValidationErrorKind::MaxLength { limit } => ("max_length", format!("Must have at most {limit} characters.")),
        ValidationErrorKind::MinLength { .. } if error.instance().as_str() == Some("") => {
            ("blank", "This field must not be blank.".to_owned())
        }
        ValidationErrorKind::MinLength { limit } => ("min_length", format!("Must have at least {limit} characters.")),
        ValidationErrorKind::MaxItems { limit } => ("max_length", format!("Must have at most {limit} items.")),
        ValidationErrorKind::MinItems { limit } => ("min_length", format!("Must have at least {limit} items.")),
        ValidationErrorKind::Minimum { limit } => ("min_value", format!("Must be at least {limit}.")),
        ValidationErrorKind::Maximum { limit } => ("max_value", format!("Must be at most {limit}.")),
        ValidationErrorKind::Pattern { .. } => (
            "invalid_input",
            "Must be a single line without control characters.".to_owned(),
        ),
        ValidationErrorKind::Format { format } => ("invalid_input", format!("Must be a valid {format}.")),
        _ => (
            "invalid_input",
            "Invalid value. See the schema at /api/schema/.".to_owned(),
        ),
    };
    let field = (!names.is_empty()).then(|| Cow::Owned(names.join("__")));
    Invalid { field, code, detail }
}

/// JSON pointers write `~` and `/` in names in their own way.
fn unescaped(name: &str) -> String {
    name.replace("~1", "/").replace("~0", "~")
}

fn type_name(kind: &TypeKind) -> String {
    let name = |name: &str| match name {
        "integer" => "a whole number".to_owned(),
        "number" => "a number".to_owned(),
        "boolean" => "true or false".to_owned(),
        "string" => "a text".to_owned(),
        "array" => "a list".to_owned(),
        "object" => "an object".to_owned(),
        other => other.to_owned(),
    };
    match kind {
        TypeKind::Single(only) => name(&only.to_string()),
        TypeKind::Multiple(several) => several
            .iter()
            .map(|each| name(&each.to_string()))
            .collect::<Vec<_>>()
            .join(" or "),
    }
}

/// The first few, in full; a list of hundreds helps nobody.
fn choices(options: &Value) -> String {
    const SHOWN: usize = 12;
    let all = options.as_array().map(Vec::as_slice).unwrap_or_default();
    let shown: Vec<String> = all.iter().take(SHOWN).map(ToString::to_string).collect();
    let more = if all.len() > SHOWN { ", …" } else { "" };
    format!("{}{more}", shown.join(", "))
}

/// Reads the texts of a query or form as the types its schema gives them.
pub(crate) fn coerce(texts: impl Iterator<Item = (String, String)>, schema: &Value) -> Value {
    let mut fields = Map::new();
    for (name, text) in texts {
        let value = match schema["properties"][name.as_str()]["type"].as_str() {
            Some("integer") => whole_number(&text).map_or(Value::String(text), Value::from),
            Some("boolean") => text.parse::<bool>().map_or(Value::String(text), Value::from),
            _ => Value::String(text),
        };
        fields.entry(name).or_insert(value);
    }
    Value::Object(fields)
}

/// A number beyond all bounds is as good as the largest.
fn whole_number(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let bound = if digits.len() < text.len() { i64::MIN } else { i64::MAX };
    Some(text.parse().unwrap_or(bound))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use serde::{Deserialize, Deserializer};
    use serde_json::json;

    use super::*;

    thread_local! {
        static READS: Cell<usize> = const { Cell::new(0) };
    }

    fn counted<'de, D: Deserializer<'de>>(reader: D) -> Result<Option<i64>, D::Error> {
        READS.set(READS.get() + 1);
        Option::deserialize(reader)
    }

    #[derive(Deserialize, JsonSchema)]
    struct Input {
        name: Option<String>,
        #[serde(flatten)]
        rest: Rest,
    }

    #[derive(Deserialize, JsonSchema)]
    struct Rest {
        #[serde(default, deserialize_with = "counted")]
        order: Option<i64>,
    }

    #[test]
    fn what_is_out_of_range_is_found_among_fields_that_nobody_asked_for() {
        let input = |order: Value| {
            let mut fields: Map<String, Value> = (0..500).map(|number| (format!("a{number}"), json!(1))).collect();
            fields.extend([("name".to_owned(), json!("x")), ("order".to_owned(), order)]);
            read::<Input>(Value::Object(fields))
        };
        let fine = input(json!(7)).ok().map(|input| (input.name, input.rest.order));
        assert_eq!(fine, Some((Some("x".to_owned()), Some(7))));
        READS.set(0);
        let Err(Problem::Validation(found)) = input(json!(u64::MAX)) else {
            panic!("it is too large")
        };
        assert_eq!(found[0].field.as_deref(), Some("order"));
        assert!(READS.get() <= 3, "read {} times", READS.get());
    }
}
