//! JSON that is passed on.

use std::fmt;

use serde::de::{DeserializeOwned, Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use untrusted_json::RESERVED;

/// JSON as text. As values it can take a hundred times as much memory, and most of it nobody looks into.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Json(Box<RawValue>);

impl Json {
    pub fn null() -> Self {
        Self(RawValue::NULL.to_owned())
    }

    /// None: this is no JSON.
    pub fn from_text(text: String) -> Option<Self> {
        RawValue::from_string(text).ok().map(Self)
    }

    pub fn text(&self) -> &str {
        self.0.get()
    }

    pub fn is_null(&self) -> bool {
        self.text() == "null"
    }
}

impl From<Value> for Json {
    fn from(value: Value) -> Self {
        Self::from_text(value.to_string()).unwrap_or_else(Self::null)
    }
}

/// Written in the same way, not only the same.
impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

/// What an app may say of itself: so many values. A value takes much more memory than its text.
pub(crate) const MAX_VALUES: usize = 5000;

/// Six for each of 5,000 files, two for each of 5,000 imports, 10,000 global names, and three around them.
const MAX_VALUES_OF_CODE: usize = 50_003;

/// How many values a text is, an array or object and all that is in it. None of them is kept.
pub(crate) fn count_values(text: &str) -> Result<usize, serde_json::Error> {
    serde_json::from_str::<Count>(text).map(|Count(count)| count)
}

/// Values from a process, if they are not too many: it counts them itself, but may be under the control of its app. It may have added some:
/// a field of the old form gets its key.
pub(crate) fn few_values<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    at_most(2 * MAX_VALUES, deserializer)
}

/// The same for code: an app has files, imports and global names without many more values.
pub(crate) fn values_of_code<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    at_most(MAX_VALUES_OF_CODE, deserializer)
}

fn at_most<'de, D, T>(most: usize, deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    let json = Json::deserialize(deserializer)?;
    if count_values(json.text()).map_err(D::Error::custom)? > most {
        return Err(D::Error::custom("too many values"));
    }
    serde_json::from_str(json.text()).map_err(D::Error::custom)
}

struct Count(usize);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Counting)
    }
}

struct Counting;

impl<'de> Visitor<'de> for Counting {
    type Value = Count;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Count, E> {
        Ok(Count(1))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Count, E> {
        Ok(Count(1))
    }

    fn visit_u64<E>(self, _: u64) -> Result<Count, E> {
        Ok(Count(1))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Count, E> {
        Ok(Count(1))
    }

    fn visit_str<E>(self, _: &str) -> Result<Count, E> {
        Ok(Count(1))
    }

    fn visit_unit<E>(self) -> Result<Count, E> {
        Ok(Count(1))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Count, A::Error> {
        let mut count = 1;
        while let Some(Count(inner)) = items.next_element()? {
            count += inner;
        }
        Ok(Count(count))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Count, A::Error> {
        let mut count = 1;
        while let Some((name, Count(inner))) = entries.next_entry::<String, Count>()? {
            if name.starts_with(RESERVED) {
                return Err(A::Error::custom(format!("names cannot start with {RESERVED}")));
            }
            count += inner;
        }
        Ok(Count(count))
    }
}

/// How long a text is within JSON.
pub(crate) fn escaped(text: &[u8]) -> usize {
    let length = |byte: &u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 8 | 12 => 2,
        0..0x20 => 6,
        _ => 1,
    };
    text.iter().map(length).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_with_all_that_is_in_them() {
        for (text, count) in [
            ("null", 1),
            ("\"a,b\"", 1),
            ("[]", 1),
            ("[1, -1, 0.5, true, \"x\"]", 6),
            ("{\"a\": {\"\": 0}, \"a\": [[]]}", 5),
        ] {
            assert_eq!(count_values(text).unwrap(), count, "{text}");
        }
        assert!(count_values("[1,]").is_err() && count_values("{} {}").is_err());
        assert!(count_values(r#"[{"\u0024serde_json::private::RawValue": "[]"}]"#).is_err());
    }
}
