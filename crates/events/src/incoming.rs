//! An event before it is stored, and how large it may be.

use serde_json::{Map, Value};
use uuid::Uuid;

use crate::{Time, size};

/// Something that happened, as a program told it, before it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Incoming {
    /// None: the sender named none, and one is made.
    pub uuid: Option<Uuid>,
    pub event: String,
    pub distinct_id: String,
    /// With `$set` and `$set_once` inside, wherever the sender put them.
    pub properties: Map<String, Value>,
    /// When it happened, already set right for a sender whose clock is off.
    pub timestamp: Time,
}

/// How large an event may be, as JSON, but what belongs to language models: SDKs send up to 8 MiB of that in one event.
pub const MAX_EVENT_BYTES: usize = 1024 * 1024;
const MAX_AI_EVENT_BYTES: usize = 8 * 1024 * 1024 + 64 * 1024;
/// How many properties of a person an event may remove. No person has more.
pub const MAX_UNSET: usize = 10_000;

pub(crate) fn most_bytes(event: &str) -> usize {
    if event.starts_with("$ai_") {
        MAX_AI_EVENT_BYTES
    } else {
        MAX_EVENT_BYTES
    }
}

impl Incoming {
    /// Whether it is larger than a store takes. Most are seen to be small without being written, and the largest to be
    /// large.
    pub fn is_too_large(&self) -> bool {
        let (properties, most) = (&self.properties, most_bytes(&self.event));
        let is_too_long = || size::are_longer([properties], most) || size::of_object(properties) > most;
        self.count_unset() > MAX_UNSET || (size::most_of_object(properties) > most && is_too_long())
    }

    fn count_unset(&self) -> usize {
        match self.properties.get("$unset") {
            Some(Value::Array(names)) => names.len(),
            Some(Value::Object(names)) => names.len(),
            _ => 0,
        }
    }
}
