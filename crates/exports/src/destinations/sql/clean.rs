//! Texts as PostgreSQL and Redshift take them: without NUL, in JSON without lone surrogates, and not too long.

use std::borrow::Cow;

/// Without NUL, which neither database can hold.
pub(crate) fn text(text: &str) -> Cow<'_, str> {
    if text.contains('\0') {
        text.replace('\0', "").into()
    } else {
        text.into()
    }
}

/// JSON without `\u0000` and without halves of surrogate pairs, in strings and in keys.
pub(crate) fn json(json: &str) -> Cow<'_, str> {
    let json = text(json);
    if !json.contains("\\u") {
        return json;
    }
    let mut clean = String::with_capacity(json.len());
    let mut rest = &*json;
    while let Some(at) = rest.find('\\') {
        clean.push_str(&rest[..at]);
        let taken = escape(&rest[at..], &mut clean);
        rest = &rest[at + taken..];
    }
    clean.push_str(rest);
    clean.into()
}

/// Copies the escape at the start of `rest` unless it stands for nothing, and says how long it is.
fn escape(rest: &str, clean: &mut String) -> usize {
    let (taken, is_kept) = match unit(rest) {
        Some(0xD800..=0xDBFF) => match rest.get(6..).and_then(unit) {
            Some(0xDC00..=0xDFFF) => (12, true),
            _ => (6, false),
        },
        Some(0 | 0xDC00..=0xDFFF) => (6, false),
        Some(_) => (6, true),
        // The character behind the backslash belongs to it: `\\u0000` is a backslash and five characters.
        None => (1 + rest[1..].chars().next().map_or(0, char::len_utf8), true),
    };
    if is_kept {
        clean.push_str(&rest[..taken]);
    }
    taken
}

/// What a `\uXXXX` at the start stands for.
fn unit(rest: &str) -> Option<u16> {
    let digits = rest.strip_prefix("\\u")?.get(..4)?;
    u16::from_str_radix(digits, 16).ok()
}

/// At most so many characters, and whether some were cut off.
pub(crate) fn characters(text: &str, most: usize) -> (&str, bool) {
    // As many bytes are never more characters.
    if text.len() <= most {
        return (text, false);
    }
    match text.char_indices().nth(most) {
        Some((at, _)) => (&text[..at], true),
        None => (text, false),
    }
}

/// At most so many bytes, cut between characters, and whether some were cut off.
pub(crate) fn bytes(text: &str, most: usize) -> (&str, bool) {
    (&text[..text.floor_char_boundary(most)], text.len() > most)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_postgresql_refuses_is_left_out_of_json() {
        for (dirty, clean) in [
            (r#"{"a":"x\u0000y"}"#, r#"{"a":"xy"}"#),
            (r#"{"a\u0000":"\ud800"}"#, r#"{"a":""}"#),
            (r#""\udc00\ud83e\udd94\ud83e""#, r#""\ud83e\udd94""#),
            (r#""\\u0000 \\\u0000 \u00e9 \" \n""#, r#""\\u0000 \\ \u00e9 \" \n""#),
            (r#""\ud800\u0041""#, r#""\u0041""#),
            (r#""\ud800\ud83e\udd94""#, r#""\ud83e\udd94""#),
            ("\"a\0b\"", "\"ab\""),
            (r#""plain é""#, r#""plain é""#),
        ] {
            assert_eq!(json(dirty), clean, "{dirty}");
        }
    }

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(characters("aéé", 2), ("aé", true));
        assert_eq!(characters("éé", 2), ("éé", false));
        assert_eq!(bytes("aéé", 4), ("aé", true));
        assert_eq!(bytes("aéé", 5), ("aéé", false));
    }

    proptest! {
        /// What was fine stays as it is, byte for byte; whatever comes, it ends and does not panic.
        #[test]
        fn valid_json_is_not_touched(text in "[^\0]*") {
            let valid = serde_json::to_string(&text).unwrap();
            let has_nul = text.contains('\0');
            prop_assert!(has_nul || json(&valid) == valid);
            json(&text);
            json(&format!("\\{text}"));
        }
    }
}
