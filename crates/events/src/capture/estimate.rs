//! How much memory a body needs once it is parsed, told from its text alone, before anything is built from it.
//!
//! Memory per byte differs a hundredfold: `{"":1}` takes a whole node of a tree. So what counts is the number of objects,
//! entries and elements, and a body that needs too much is refused before it is parsed.

use untrusted_json::end_of_string;

use super::event::Raw;
use crate::Incoming;

/// The first node of an object: eleven keys and values, and what the allocator adds.
const OBJECT: usize = 640;
/// An entry of an object, in nodes that are a little more than half full.
const ENTRY: usize = 104;
/// The first allocation of an array.
const ARRAY: usize = 128;
/// An element of an array that doubles when it is full.
const ELEMENT: usize = 64;
/// What a string costs beside its bytes.
const STRING: usize = 28;
/// An event beside its fields: as it was sent, and as it is stored. The lists of both double when they are full.
const EVENT: usize = 2 * size_of::<Raw>() + 3 * size_of::<Incoming>();
/// Events stand at most this deep.
const EVENT_DEPTH: usize = 3;
/// Bytes of text stand in strings, and once more in the row that is stored.
const TEXT: usize = 2;
/// Text that is no UTF-8 is copied, and may grow.
const BAD_TEXT: usize = 4;

/// An upper bound of the bytes that parsing this text allocates, beside the text itself, if objects may be events.
pub fn estimate(json: &[u8]) -> usize {
    let count = Count::of(json);
    count.bytes(json).saturating_add(count.events.saturating_mul(EVENT))
}

/// The same, if none of it is an event.
pub fn estimate_values(json: &[u8]) -> usize {
    Count::of(json).bytes(json)
}

#[derive(Debug, Default)]
struct Count {
    strings: usize,
    objects: usize,
    events: usize,
    arrays: usize,
    entries: usize,
    commas: usize,
}

impl Count {
    fn of(json: &[u8]) -> Self {
        let mut count = Self::default();
        let mut depth = 0_usize;
        let mut at = 0;
        while let Some(byte) = json.get(at) {
            at += 1;
            match byte {
                b'"' => {
                    count.strings += 1;
                    at = end_of_string(json, at);
                }
                b'{' => {
                    depth += 1;
                    count.objects += 1;
                    count.events += usize::from(depth <= EVENT_DEPTH);
                }
                b'[' => {
                    depth += 1;
                    count.arrays += 1;
                }
                b'}' | b']' => depth = depth.saturating_sub(1),
                b':' => count.entries += 1,
                b',' => count.commas += 1,
                _ => {}
            }
        }
        count
    }

    /// What all of it takes but for events.
    fn bytes(&self, json: &[u8]) -> usize {
        let text = if std::str::from_utf8(json).is_ok() {
            TEXT
        } else {
            BAD_TEXT
        };
        // Each comma comes before an element, or before an entry that is not its object's first.
        let elements = (self.commas + self.objects + self.arrays).saturating_sub(self.entries);
        [
            (self.objects, OBJECT),
            (self.entries, ENTRY),
            (self.arrays, ARRAY),
            (elements, ELEMENT),
            (self.strings, STRING),
            (json.len(), text),
        ]
        .into_iter()
        .fold(0, |sum: usize, (count, each)| {
            sum.saturating_add(count.saturating_mul(each))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_of_the_usual_kind_needs_some_times_its_text() {
        let properties: Vec<String> = (0..30)
            .map(|number| format!(r#""property_{number}":"value {number}""#))
            .collect();
        let event = format!(
            r#"{{"event":"seen","distinct_id":"ann","properties":{{{}}}}}"#,
            properties.join(",")
        );
        let times = estimate(event.as_bytes()) / event.len();
        assert!((2..16).contains(&times), "{times}");
    }

    #[test]
    fn small_values_count_for_what_they_become() {
        let of = |each: &str| {
            let text = format!("[{}]", vec![each; 10_000].join(","));
            estimate(text.as_bytes()) / 10_000
        };
        assert!(of(r#"{"":1}"#) >= 632 + 32, "an object is a node of a tree");
        assert!(of("1") >= 32 && of("[]") >= 32, "a value has its place in a list");
        assert!(of("\"a\"") >= 32 + 24, "a string is allocated");
    }

    #[test]
    fn what_is_no_event_counts_for_less() {
        let text = format!("[{}{{}}]", "{},".repeat(1_000));
        let values = estimate_values(text.as_bytes());
        assert!(
            (1_000 * OBJECT..1_100 * (OBJECT + 2 * ELEMENT)).contains(&values),
            "{values}"
        );
        assert_eq!(estimate(text.as_bytes()), values + 1_001 * EVENT);
    }

    #[test]
    fn what_stands_in_a_string_is_no_structure() {
        let plain = estimate(br#"{"a":"xxxxxxxxxx"}"#);
        assert_eq!(estimate(br#"{"a":"{{[[,,::\""}"#), plain);
        assert_eq!(estimate(br#"{"a":"\\\\\\\\\""}"#), plain);
        for unfinished in [r#"{"a"#, r#"{"a\"#, r#"""#, "", "}}}]]"] {
            assert!(estimate(unfinished.as_bytes()) < 4 * OBJECT, "{unfinished}");
        }
    }
}
