//! JSON as two parsers cannot read differently: no name twice, no name that one of them reserves, no NUL, no unlimited depth.

use std::fmt;

use serde::Serialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::error::Category;
use serde_json::{Map, Number, Value};
use untrusted_json::RESERVED;

/// The one way views become bytes, so that tags can be compared.
pub(crate) fn to_json<V: Serialize>(view: &V) -> Vec<u8> {
    let mut body = Vec::with_capacity(128);
    write_json(&mut body, view);
    body
}

pub(crate) fn write_json<V: Serialize>(body: &mut Vec<u8>, view: &V) {
    serde_json::to_writer(body, view).expect("a view holds nothing that JSON cannot say");
}

/// Reads one JSON value, or says what is wrong. `serde_json` itself bounds the depth and the size of numbers.
pub(crate) fn parse(bytes: &[u8]) -> Result<Value, String> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = Strict.deserialize(&mut reader).map_err(|error| explained(&error))?;
    reader.end().map_err(|error| explained(&error))?;
    Ok(value)
}

/// In our own words: those of a library change with its version, and speak of Rust.
fn explained(error: &serde_json::Error) -> String {
    let place = format!("line {}, column {}", error.line(), error.column());
    let said = error.to_string();
    match error.classify() {
        // Ours, with the place behind it.
        Category::Data => said.split(" at line ").next().unwrap_or_default().to_owned(),
        Category::Eof => "incomplete input".to_owned(),
        _ if said.starts_with("recursion limit") => "nested too deeply".to_owned(),
        _ => format!("syntax error in {place}"),
    }
}

/// Up to here every whole number is one of its own as a float.
const EXACT: f64 = 9_007_199_254_740_992.0;

struct Strict;

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

fn text<E: serde::de::Error>(text: String) -> Result<String, E> {
    if text.contains('\0') {
        Err(E::custom("strings must not contain NUL characters"))
    } else {
        Ok(text)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    /// `8.0` is a whole number, as JSON Schema has it.
    #[expect(clippy::cast_possible_truncation, reason = "it has no fraction and is small")]
    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        if value.fract() == 0.0 && value.abs() <= EXACT {
            return Ok(Value::from(value as i64));
        }
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Value, E> {
        text(value.to_owned()).map(Value::String)
    }

    fn visit_string<E: serde::de::Error>(self, value: String) -> Result<Value, E> {
        text(value).map(Value::String)
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        while let Some(item) = items.next_element_seed(Self)? {
            array.push(item);
        }
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = entries.next_key::<String>()? {
            let name = text(name)?;
            if name.starts_with(RESERVED) {
                return Err(A::Error::custom(format!("names cannot start with {RESERVED}")));
            }
            let value = entries.next_value_seed(Self)?;
            if object.insert(name.clone(), value).is_some() {
                return Err(A::Error::custom(format!("duplicate key {name:?}")));
            }
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_json_reads_as_it_always_does() {
        let text = br#" {"a": [1, -2, 0.5, true, null, "x\u00e9"], "b": {"c": {}}} "#;
        assert_eq!(
            parse(text).expect("valid"),
            serde_json::from_slice::<Value>(text).expect("valid")
        );
    }

    #[test]
    fn whole_numbers_are_whole_however_they_are_written() {
        assert_eq!(parse(b"[8.0, -3e2, 0.0]"), Ok(serde_json::json!([8, -300, 0])));
        assert_eq!(parse(b"[8.5, 1e300]"), Ok(serde_json::json!([8.5, 1e300])));
    }

    #[test]
    fn what_parsers_disagree_on_is_refused() {
        let deep = "[".repeat(10_000);
        for text in [
            r#"{"a":1,"a":2}"#,
            r#"{"a":{"b":1,"b":1}}"#,
            r#""\u0000""#,
            r#"{"a":{"\u0024serde_json::private::RawValue":"[]"}}"#,
            "1e400",
            "\"\\ud800\"",
            "{} {}",
            "",
            &deep,
        ] {
            assert!(parse(text.as_bytes()).is_err(), "{}", &text[..text.len().min(30)]);
        }
    }
}
