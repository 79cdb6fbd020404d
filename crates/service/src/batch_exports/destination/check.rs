//! Checks a configuration against its kind's table, key by key, and says everything that is wrong at once.

use serde_json::{Map, Value, json};

use super::tables::{COMPRESSIONS, FORMATS, KEYS};
use super::{ConfigField, Destination, FieldKind, Kind};
use crate::error::{Error, Invalid, Result};

/// A text that is longer is no name, key or address.
const MAX_TEXT: usize = 16_384;
/// Of a list of names of events. A longer name is cut when an event is captured, so there is none.
const MAX_NAMES: usize = 1000;
const MAX_NAME: usize = 200;
/// Of a whole configuration, as JSON: a page of a list holds many of them.
const MAX_CONFIG: usize = 128 << 10;

/// The destination that a whole configuration describes, secrets included. Nulls count as left out.
pub fn read(kind: Kind, config: &Map<String, Value>) -> Result<Destination> {
    let mut problems = unknown(kind, config);
    let mut clean = Map::new();
    for field in kind.fields() {
        match config.get(field.key) {
            None | Some(Value::Null) if field.is_required => problems.push(problem(
                field.key,
                "required",
                format!("Required by {}: {}", kind.name(), field.about),
            )),
            None | Some(Value::Null) => {}
            Some(value) => match coerce(field, field.key, value) {
                Ok(value) => drop(clean.insert(field.key.to_owned(), value)),
                Err(found) => problems.push(found),
            },
        }
    }
    // As it is stored, not as it is meant: a number may have any number of zeros before it.
    problems.extend(check_size(config));
    if problems.is_empty() {
        problems.extend(rules(kind, &clean));
    }
    if !problems.is_empty() {
        return Err(Error::Invalid(problems));
    }
    let whole = json!({ "type": kind, "config": clean });
    // Whatever the table lets through can be read: a test reads all of it.
    serde_json::from_value(whole).map_err(|_| {
        Error::Invalid(vec![Invalid {
            field: Some("destination__config".into()),
            code: "invalid_input",
            detail: format!("Invalid {} configuration.", kind.name()),
        }])
    })
}

/// Numbers and flags may come as text, as they do from forms and from older clients. `path` is where it stands.
fn coerce(field: &ConfigField, path: &str, value: &Value) -> Result<Value, Invalid> {
    let wrong = |expected: &str| Err(problem(path, "invalid_input", format!("Must be {expected}.")));
    match (field.kind, value) {
        (
            FieldKind::Text | FieldKind::Password | FieldKind::Lines | FieldKind::Document | FieldKind::RoleOrKeys,
            Value::String(text),
        ) => check_text(field, path, text).map(Value::from),
        (FieldKind::Text | FieldKind::Password | FieldKind::Lines, _) => wrong("text"),
        (FieldKind::Document, Value::Object(_)) => check_text(field, path, &value.to_string()).map(Value::from),
        (FieldKind::Document, _) => wrong("an object, or its JSON as a string"),
        (FieldKind::RoleOrKeys, Value::Object(inner)) => check_group(KEYS, path, inner).map(Value::from),
        (FieldKind::RoleOrKeys, _) => wrong("a role ARN, or an object with a key pair"),
        (FieldKind::Number(least, most), value) => {
            match whole(value).filter(|number| (least..=most).contains(number)) {
                Some(number) => Ok(number.into()),
                None => wrong(&format!("a whole number from {least} to {most}")),
            }
        }
        (FieldKind::Flag, Value::Bool(flag)) => Ok((*flag).into()),
        (FieldKind::Flag, Value::String(text)) if ["true", "false"].contains(&text.to_ascii_lowercase().as_str()) => {
            Ok(text.eq_ignore_ascii_case("true").into())
        }
        (FieldKind::Flag, _) => wrong("true or false"),
        (FieldKind::Choice(of), Value::String(text)) if of.contains(&text.as_str()) => Ok(value.clone()),
        (FieldKind::Choice(of), _) => Err(problem(
            path,
            "invalid_choice",
            format!("Must be one of {}.", of.join(", ")),
        )),
        (FieldKind::Texts, Value::Array(items)) if items.iter().all(Value::is_string) && items.len() <= MAX_NAMES => {
            check_names(path, items).map(|()| value.clone())
        }
        (FieldKind::Texts, _) => wrong("a list of at most 1,000 strings"),
        (FieldKind::Group(fields), Value::Object(inner)) => check_group(fields, path, inner).map(Value::from),
        (FieldKind::Group(_), _) => wrong("an object"),
    }
}

/// What a value means: `"5432"`, `5432` and nothing at all may be the same.
pub(in super::super) fn meant(field: &ConfigField, value: Option<&Value>) -> Value {
    let usual = Value::from(field.usual);
    match (field.kind, value) {
        (_, Some(value)) if !value.is_null() => coerce(field, field.key, value).unwrap_or_else(|_| value.clone()),
        (FieldKind::Flag, _) => (field.usual == "true").into(),
        _ if field.usual.is_empty() => Value::Null,
        _ => coerce(field, field.key, &usual).unwrap_or(usual),
    }
}

fn check_text(field: &ConfigField, path: &str, text: &str) -> Result<String, Invalid> {
    if text.len() > MAX_TEXT {
        let detail = format!("Must have at most {MAX_TEXT} bytes.");
        return Err(problem(path, "max_length", detail));
    }
    if text.contains('\0') {
        return Err(problem(
            path,
            "invalid_input",
            "Must not contain NUL characters.".to_owned(),
        ));
    }
    if !field.may_be_empty() && text.trim().is_empty() {
        return Err(problem(
            path,
            "blank",
            format!("This field must not be blank: {}", field.about),
        ));
    }
    Ok(text.to_owned())
}

fn check_names(path: &str, names: &[Value]) -> Result<(), Invalid> {
    let is_long = |name: &str| name.chars().nth(MAX_NAME).is_some();
    if names.iter().filter_map(Value::as_str).any(is_long) {
        let detail = format!("Each name must have at most {MAX_NAME} characters.");
        return Err(problem(path, "max_length", detail));
    }
    Ok(())
}

fn check_group(fields: &[ConfigField], path: &str, given: &Map<String, Value>) -> Result<Map<String, Value>, Invalid> {
    for key in given.keys() {
        if !fields.iter().any(|field| field.key == key) {
            let known: Vec<&str> = fields.iter().map(|field| field.key).collect();
            let detail = format!("Unknown key. Must be one of {}.", known.join(", "));
            return Err(problem(&format!("{path}__{key}"), "invalid_input", detail));
        }
    }
    let mut clean = Map::new();
    for field in fields {
        let path = format!("{path}__{}", field.key);
        match given.get(field.key) {
            None | Some(Value::Null) if field.is_required => {
                return Err(problem(
                    &path,
                    "required",
                    format!("This field is required: {}", field.about),
                ));
            }
            None | Some(Value::Null) => {}
            Some(value) => drop(clean.insert(field.key.to_owned(), coerce(field, &path, value)?)),
        }
    }
    Ok(clean)
}

fn whole(value: &Value) -> Option<u32> {
    match value {
        Value::Number(number) => number.as_u64()?.try_into().ok(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    }
}

/// Rules about several keys.
fn rules(kind: Kind, config: &Map<String, Value>) -> Vec<Invalid> {
    let text = |key: &str| config.get(key).and_then(Value::as_str);
    let has = |key: &str| text(key).is_some_and(|text| !text.is_empty());
    let mut problems = Vec::new();
    let mut need = |is_met: bool, key: &str, code: &'static str, detail: &str| {
        if !is_met {
            problems.push(problem(key, code, detail.to_owned()));
        }
    };
    match kind {
        Kind::S3 => {
            let needs_key = text("encryption") == Some("aws:kms") && !has("kms_key_id");
            need(
                !needs_key,
                "kms_key_id",
                "required",
                "A key ID is required for aws:kms.",
            );
        }
        Kind::AzureBlob => {
            let has_account = has("account_name") && (has("account_key") || has("sas_token"));
            let detail = "Provide a connection string, or an account name with an account key or a SAS token.";
            need(
                has("connection_string") || has_account,
                "connection_string",
                "required",
                detail,
            );
        }
        Kind::Snowflake if text("authentication_type") == Some("keypair") => {
            let detail = "A private key is required for key pair authentication.";
            need(has("private_key"), "private_key", "required", detail);
        }
        Kind::Snowflake => {
            let detail = "A password is required for password authentication.";
            need(has("password"), "password", "required", detail);
        }
        Kind::Redshift if text("mode") == Some("COPY") => {
            let detail = "COPY requires a bucket to copy from.";
            need(config.contains_key("copy_inputs"), "copy_inputs", "required", detail);
        }
        Kind::Databricks => {
            let is_met = has("access_token") || (has("client_id") && has("client_secret"));
            let detail = "Provide an access token, or a service principal's client_id and client_secret.";
            need(is_met, "access_token", "required", detail);
        }
        _ => {}
    }
    problems.extend(check_compression(
        text("file_format").unwrap_or(FORMATS[0]),
        text("compression"),
    ));
    problems
}

/// All keys together: each may be long, but not all of them.
fn check_size(config: &Map<String, Value>) -> Option<Invalid> {
    let bytes = serde_json::to_vec(config).map_or(0, |json| json.len());
    (bytes > MAX_CONFIG).then(|| Invalid {
        field: Some("destination__config".into()),
        code: "max_length",
        detail: format!("The configuration must have at most {} KiB, as JSON.", MAX_CONFIG >> 10),
    })
}

fn check_compression(format: &str, compression: Option<&str>) -> Option<Invalid> {
    let allowed: &[&str] = match format {
        "Parquet" => COMPRESSIONS,
        _ => &["gzip", "brotli", "zstd"],
    };
    let given = compression?;
    (!allowed.contains(&given)).then(|| {
        let detail = format!(
            "Compression {given} is not supported for file format {format}. Supported compressions: {allowed:?}."
        );
        problem("compression", "invalid_choice", detail)
    })
}

/// Only the first says which keys there are: that is longer than the key that is wrong.
fn unknown(kind: Kind, config: &Map<String, Value>) -> Vec<Invalid> {
    let is_unknown = |key: &&String| !kind.fields().any(|field| field.key == *key);
    let keys = config.keys().filter(is_unknown).take(Invalid::MAX);
    let detail = |place: usize| {
        if place > 0 {
            return format!("Unknown key for {}.", kind.name());
        }
        let known: Vec<&str> = kind.fields().map(|field| field.key).collect();
        format!("Unknown key for {}. Must be one of {}.", kind.name(), known.join(", "))
    };
    keys.enumerate()
        .map(|(place, key)| problem(key, "invalid_input", detail(place)))
        .collect()
}

fn problem(key: &str, code: &'static str, detail: String) -> Invalid {
    Invalid {
        field: Some(format!("destination__config__{key}").into()),
        code,
        detail,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(kind: Kind, config: &Value) -> Vec<(String, &'static str)> {
        match read(kind, config.as_object().expect("an object")) {
            Err(Error::Invalid(found)) => found
                .into_iter()
                .map(|each| (each.field.unwrap_or_default().into_owned(), each.code))
                .collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn everything_that_is_wrong_is_named() {
        let found = problems(Kind::S3, &json!({ "bucket_name": 7, "region": "x", "bucket": "y" }));
        let named = |key: &str, code| (format!("destination__config__{key}"), code);
        assert_eq!(
            found,
            [
                named("bucket", "invalid_input"),
                named("bucket_name", "invalid_input"),
                named("prefix", "required"),
                named("aws_access_key_id", "required"),
                named("aws_secret_access_key", "required"),
            ]
        );
        let keys = json!({ "aws_access_key_id": "k", "aws_secret_access_key": "s" });
        let whole = |over: Value| {
            let mut whole = json!({ "bucket_name": "b", "region": "r", "prefix": "" });
            for part in [keys.clone(), over] {
                whole
                    .as_object_mut()
                    .expect("an object")
                    .extend(part.as_object().expect("an object").clone());
            }
            whole
        };
        let found = problems(Kind::S3, &whole(json!({ "compression": "lz4" })));
        assert_eq!(found, [named("compression", "invalid_choice")]);
        let config = whole(json!({ "file_format": "Parquet", "compression": "lz4", "max_file_size_mb": "5" }));
        let Destination::S3(s3) = read(Kind::S3, config.as_object().expect("an object")).expect("it is fine") else {
            panic!("another kind")
        };
        assert_eq!(s3.files.max_file_size_mb, Some(5));
    }

    #[test]
    fn of_many_unknown_keys_the_first_says_which_there_are() {
        let config: Map<String, Value> = (0..5000).map(|number| (format!("u{number}"), json!(1))).collect();
        let Err(Error::Invalid(found)) = read(Kind::S3, &config) else {
            panic!("they are unknown")
        };
        let is_unknown = |each: &&Invalid| each.detail.starts_with("Unknown key");
        assert_eq!(found.iter().filter(is_unknown).count(), Invalid::MAX);
        assert!(found[0].detail.contains("bucket_name") && found[1].detail == "Unknown key for S3.");
    }

    #[test]
    fn what_is_wrong_inside_a_group_is_named_with_its_path() {
        let redshift = |copy_inputs: Value| json!({ "user": "u", "password": "p", "host": "h", "database": "d", "mode": "COPY", "copy_inputs": copy_inputs });
        let named = |key: &str, code| vec![(format!("destination__config__copy_inputs__{key}"), code)];
        let inputs = json!({ "s3_bucket": "b", "region_name": "r", "authorization": "arn:aws:iam::1:role/r" });
        let found = problems(Kind::Redshift, &redshift(inputs.clone()));
        assert_eq!(found, named("bucket_credentials", "required"));
        let with = |key: &str, value: Value| {
            let mut inputs = inputs.clone();
            inputs["bucket_credentials"] = json!({ "aws_access_key_id": "k", "aws_secret_access_key": "s" });
            inputs[key] = value;
            redshift(inputs)
        };
        let found = problems(Kind::Redshift, &with("s3_bucket", json!(" ")));
        assert_eq!(found, named("s3_bucket", "blank"));
        let found = problems(
            Kind::Redshift,
            &with("bucket_credentials", json!({ "aws_access_key_id": "k" })),
        );
        assert_eq!(found, named("bucket_credentials__aws_secret_access_key", "required"));
        let found = problems(Kind::Redshift, &with("bucket", json!("b")));
        assert_eq!(found, named("bucket", "invalid_input"));
        let keys = json!({ "aws_access_key_id": "k", "aws_secret_access_key": "s" });
        let whole = with("authorization", keys);
        assert!(read(Kind::Redshift, whole.as_object().expect("an object")).is_ok());
    }

    #[test]
    fn names_of_events_are_as_long_as_those_of_events() {
        let fits = |config: &Value| read(Kind::NoOp, config.as_object().expect("an object")).is_ok();
        for key in ["include_events", "exclude_events"] {
            // Characters, not bytes.
            assert!(fits(&json!({ key: ["ü".repeat(200)] })));
            let found = problems(Kind::NoOp, &json!({ key: ["x", "ü".repeat(201)] }));
            assert_eq!(found, [(format!("destination__config__{key}"), "max_length")]);
            assert!(fits(&json!({ key: vec!["x"; 1000] })));
            let found = problems(Kind::NoOp, &json!({ key: vec!["x"; 1001] }));
            assert_eq!(found, [(format!("destination__config__{key}"), "invalid_input")]);
        }
    }

    #[test]
    fn all_of_a_configuration_is_only_so_long() {
        let names = vec!["x".repeat(100); 1000];
        let config = json!({ "include_events": names });
        assert!(read(Kind::NoOp, config.as_object().expect("an object")).is_ok());
        let found = problems(Kind::NoOp, &json!({ "include_events": names, "exclude_events": names }));
        assert_eq!(found, [("destination__config".to_owned(), "max_length")]);
        let port = json!({ "port": format!("{}5432", "0".repeat(MAX_CONFIG)) });
        assert!(problems(Kind::Postgres, &port).contains(&("destination__config".to_owned(), "max_length")));
    }

    #[test]
    fn a_document_is_as_long_as_a_text() {
        let field = Kind::Gcs
            .fields()
            .find(|field| matches!(field.kind, FieldKind::Document))
            .expect("it has one");
        let document = |length: usize| coerce(field, field.key, &json!({ "type": "x".repeat(length) }));
        assert!(document(16_000).is_ok());
        assert_eq!(document(17_000).expect_err("long").code, "max_length");
    }

    #[test]
    fn every_kind_reads_what_its_table_requires() {
        for kind in Kind::ALL {
            let mut config = Map::new();
            for field in kind.fields() {
                let value = match field.kind {
                    FieldKind::Text | FieldKind::Password | FieldKind::Lines | FieldKind::RoleOrKeys => json!("x"),
                    FieldKind::Number(least, _) => json!(least),
                    FieldKind::Flag => json!(true),
                    FieldKind::Document => json!({}),
                    FieldKind::Choice(of) => json!(of[0]),
                    FieldKind::Texts => json!(["a"]),
                    FieldKind::Group(_) => json!({
                        "s3_bucket": "b", "region_name": "r", "authorization": "arn:aws:iam::1:role/r",
                        "bucket_credentials": { "aws_access_key_id": "k", "aws_secret_access_key": "s" },
                    }),
                };
                config.insert(field.key.to_owned(), value);
            }
            let destination = read(kind, &config).unwrap_or_else(|error| panic!("{}: {error}", kind.name()));
            assert_eq!(destination.kind(), kind);
        }
    }
}
