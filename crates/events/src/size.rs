//! How long values are as JSON.

use std::io::{self, Write};

use serde_json::{Map, Value};

/// A bound that takes little time: no byte of text is longer than this when it is escaped.
const MAX_ESCAPED: usize = 6;
/// Numbers are shorter than this.
const MAX_NUMBER: usize = 32;

/// At most so long.
pub(crate) fn most_of_object(object: &Map<String, Value>) -> usize {
    object
        .iter()
        .map(|(key, value)| MAX_ESCAPED * key.len() + 4 + most(value))
        .sum::<usize>()
        + 2
}

fn most(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 5,
        Value::Number(_) => MAX_NUMBER,
        Value::String(text) => MAX_ESCAPED * text.len() + 2,
        Value::Array(items) => items.iter().map(|item| most(item) + 1).sum::<usize>() + 2,
        Value::Object(fields) => most_of_object(fields),
    }
}

/// About so long, if little of it is escaped.
pub(crate) fn text_of_object(object: &Map<String, Value>) -> usize {
    object.iter().map(|(key, value)| key.len() + 4 + text(value)).sum()
}

pub(crate) fn text(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(|item| text(item) + 1).sum(),
        Value::Object(fields) => text_of_object(fields),
        _ => 4,
    }
}

/// About so much memory, apart from the map itself.
pub(crate) fn memory_of_object(object: &Map<String, Value>) -> usize {
    // A map keeps its fields in nodes for eleven of them, of which half may be free.
    const NODE: usize = 640;
    const FIELDS: usize = 5;
    let fields = object.iter().map(|(key, value)| key.len() + memory(value));
    object.len().div_ceil(FIELDS) * NODE + fields.sum::<usize>()
}

fn memory(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(|item| size_of::<Value>() + memory(item)).sum(),
        Value::Object(fields) => memory_of_object(fields),
        _ => 0,
    }
}

/// How many values this is, at any depth. The parser goes no deeper than 127, and so does this.
pub(crate) fn values(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(values).sum::<usize>(),
        Value::Object(fields) => 1 + fields.values().map(values).sum::<usize>(),
        _ => 1,
    }
}

/// Whether these are longer than this together. Looks no further than that, and takes none for longer than it is.
pub(crate) fn are_longer<'a>(objects: impl IntoIterator<Item = &'a Map<String, Value>>, most: usize) -> bool {
    let mut left = most;
    !objects.into_iter().all(|object| object_fits(object, &mut left))
}

fn object_fits(object: &Map<String, Value>, left: &mut usize) -> bool {
    let mut fields = object.iter();
    take(2, left) && fields.all(|(key, value)| take(key.len() + 3, left) && fits(value, left))
}

fn fits(value: &Value, left: &mut usize) -> bool {
    match value {
        Value::Null | Value::Bool(_) => take(4, left),
        Value::Number(_) => take(1, left),
        Value::String(text) => take(text.len() + 2, left),
        Value::Array(items) => take(2, left) && items.iter().all(|item| fits(item, left)),
        Value::Object(fields) => object_fits(fields, left),
    }
}

fn take(bytes: usize, left: &mut usize) -> bool {
    let rest = left.checked_sub(bytes);
    *left = rest.unwrap_or(0);
    rest.is_some()
}

/// Exactly so long.
pub(crate) fn of_object(object: &Map<String, Value>) -> usize {
    struct Count(usize);
    impl Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    serde_json::to_writer(&mut count, object).expect("a map with text keys is JSON");
    count.0
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn several_are_measured_together() {
        let value = json!({"a": ["x".repeat(50), null, {"b": "x".repeat(50)}]});
        let Value::Object(object) = &value else {
            panic!("not an object")
        };
        assert!(are_longer([object], 100));
        assert!(!are_longer([object], 200));
        assert!(are_longer([object, object], 200));
    }

    #[test]
    fn values_are_counted_at_any_depth() {
        assert_eq!(values(&json!(1)), 1);
        assert_eq!(values(&json!({"a": [1, 2], "b": {"c": null}})), 6);
    }

    #[test]
    fn the_bound_is_one() {
        for value in [
            json!({}),
            json!({"a": "\u{1}\u{2}\"", "b": [1, -1.5e300, u64::MAX, null, true, false, [], {}], "": {"c": "\n"}}),
        ] {
            let Value::Object(object) = &value else {
                panic!("not an object")
            };
            assert_eq!(of_object(object), value.to_string().len());
            assert!(most_of_object(object) >= of_object(object), "{value}");
            assert!(!are_longer([object], of_object(object)), "{value}");
        }
    }
}
