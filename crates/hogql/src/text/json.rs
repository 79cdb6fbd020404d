//! JSON in one way of writing.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::float_text;

/// JSON without spaces, its members in their order, its numbers and texts written as ClickHouse writes them. None of what
/// is not JSON.
pub(crate) fn compact_json(text: &str) -> Option<String> {
    let mut written = String::with_capacity(text.len());
    let mut reader = serde_json::Deserializer::from_str(text);
    Writer(&mut written).deserialize(&mut reader).ok()?;
    reader.end().ok()?;
    Some(written)
}

/// Writes each value down as it is read.
struct Writer<'a>(&'a mut String);

impl<'de> DeserializeSeed<'de> for Writer<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Writer<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.0.push_str("null");
        Ok(())
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.0.push_str(if value { "true" } else { "false" });
        Ok(())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.0.push_str(&value.to_string());
        Ok(())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        self.0.push_str(&value.to_string());
        Ok(())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        self.0.push_str(&float_text(value));
        Ok(())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<(), E> {
        write_text(value, self.0);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let mut before = '[';
        loop {
            let end = self.0.len();
            self.0.push(before);
            if items.next_element_seed(Writer(self.0))?.is_none() {
                self.0.truncate(end);
                break;
            }
            before = ',';
        }
        self.0.push_str(if before == '[' { "[]" } else { "]" });
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let mut before = '{';
        while let Some(key) = members.next_key::<String>()? {
            self.0.push(before);
            write_text(&key, self.0);
            self.0.push(':');
            members.next_value_seed(Writer(self.0))?;
            before = ',';
        }
        self.0.push_str(if before == '{' { "{}" } else { "}" });
        Ok(())
    }
}

/// As serde does, but for the two line separators that JavaScript once took for line ends.
fn write_text(text: &str, to: &mut String) {
    let quoted = serde_json::Value::from(text).to_string();
    to.push_str(&quoted.replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029"));
}

#[cfg(test)]
mod tests {
    use super::compact_json;

    #[test]
    fn json_is_written_in_one_way() {
        let cases = [
            (
                r#" { "b" : 1000.0 , "a": [ 1e30, 1.50, -3 ], "c": {} } "#,
                r#"{"b":1000,"a":[1e30,1.5,-3],"c":{}}"#,
            ),
            (
                r#"["\u00e9\/\n\u2028", null, true, [], 18446744073709551615]"#,
                "[\"é/\\n\\u2028\",null,true,[],18446744073709551615]",
            ),
        ];
        for (text, written) in cases {
            assert_eq!(compact_json(text).as_deref(), Some(written));
        }
        assert_eq!(compact_json("{"), None);
        assert_eq!(compact_json("1 2"), None);
    }
}
