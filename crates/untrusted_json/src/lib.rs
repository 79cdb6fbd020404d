//! What untrusted JSON must not have before it becomes values: names that `serde_json` reserves.
//!
//! It reads an object whose first name is one of these as if the JSON in its string stood there. However much that is, it was counted
//! as one string; it can be nested to any depth, until the stack overflows; and if it is no JSON, what was stored can never be read
//! again. It is a feature that other libraries turn on, so we cannot turn it off.

use memchr::{memchr, memchr2, memmem};

/// How such names begin.
pub const RESERVED: &str = "$serde_json::private::";

/// Whether an object in this text has such a name, however it is written.
pub fn has_reserved_name(json: &[u8]) -> bool {
    // Most texts are done with here: a character of such a name can only be written as itself or as four digits.
    let is_suspicious = [RESERVED.as_bytes(), b"\\u00"].map(|part| memmem::find(json, part).is_some());
    is_suspicious.contains(&true) && names(json).any(|name| is_reserved(&json[name]))
}

/// Where names stand in a text, with their quotes.
fn names(json: &[u8]) -> impl Iterator<Item = std::ops::Range<usize>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let start = at + memchr(b'"', json.get(at..)?)?;
            at = end_of_string(json, start + 1);
            let next = json[at..].iter().find(|byte| !byte.is_ascii_whitespace());
            if next == Some(&b':') {
                return Some(start..at);
            }
        }
    })
}

/// Where the text goes on after a string whose quote was seen.
pub fn end_of_string(json: &[u8], mut at: usize) -> usize {
    while let Some(found) = memchr2(b'"', b'\\', json.get(at..).unwrap_or_default()) {
        at += found;
        if json[at] == b'"' {
            return at + 1;
        }
        at += 2;
    }
    json.len()
}

fn is_reserved(name: &[u8]) -> bool {
    if name.contains(&b'\\') {
        serde_json::from_slice::<String>(name).is_ok_and(|name| name.starts_with(RESERVED))
    } else {
        name[1..].starts_with(RESERVED.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reserved_name_is_found_however_it_is_written() {
        let all = [
            r#"{"$serde_json::private::RawValue":"[]"}"#,
            r#"{"a":{"b":[1,{"c":"\\","$serde_json::private::Number" : 1}]}}"#,
            r#"{"\u0024serde_json::private::RawValue":"[]"}"#,
            r#"{"$serde_json::priv\u0061te::RawValue":"[]"}"#,
            r#"{"\u0024\u0073erde_json\u003a:private::RawValue":"[]"}"#,
        ];
        for text in all {
            assert!(has_reserved_name(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn other_names_and_values_are_not() {
        let none = [
            r#"{"a":"$serde_json::private::RawValue"}"#,
            r#"{"a":"\u0024serde_json::private::RawValue"}"#,
            r#"{"$serde_json":"\u0024","serde_json::private::":1}"#,
            r#"["$serde_json::private::RawValue"]"#,
            r#""$serde_json::private::"#,
            "",
        ];
        for text in none {
            assert!(!has_reserved_name(text.as_bytes()), "{text}");
        }
    }
}
