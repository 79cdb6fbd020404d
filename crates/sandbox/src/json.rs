//! JSON that is passed on.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

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

/// How long a text is within JSON.
pub(crate) fn escaped(text: &[u8]) -> usize {
    let length = |byte: &u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 8 | 12 => 2,
        0..0x20 => 6,
        _ => 1,
    };
    text.iter().map(length).sum()
}
