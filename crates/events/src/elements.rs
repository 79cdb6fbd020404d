//! What was clicked: the chain of elements that autocapture sends, in the one text form in which it is stored.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

const MAX_TEXT: usize = 400;
const MAX_HREF: usize = 2048;
/// Pages have far fewer; what is beyond them is left out.
const MAX_ELEMENTS: usize = 500;
const MAX_CLASSES: usize = 100;

/// Takes the chain out of an event's properties, where newer programs put the text and older ones a list.
pub(crate) fn take_chain(properties: &mut Map<String, Value>) -> String {
    let text = properties.remove("$elements_chain");
    let list = properties.remove("$elements");
    match (text, list) {
        (Some(Value::String(chain)), _) => chain,
        (_, Some(Value::Array(list))) => list
            .iter()
            .filter_map(Value::as_object)
            .take(MAX_ELEMENTS)
            .map(element)
            .collect::<Vec<_>>()
            .join(";"),
        _ => String::new(),
    }
}

/// `tag.class.class:key="value"key="value"`, both in order.
fn element(told: &Map<String, Value>) -> String {
    let mut text = told
        .get("tag_name")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    for class in classes(told) {
        text.push('.');
        text.push_str(&class.replace('"', ""));
    }
    text.push(':');
    let attributes = attributes(told).into_iter();
    text + &attributes
        .map(|(key, value)| [&escaped(&key), "=\"", &escaped(&value), "\""].concat())
        .collect::<String>()
}

fn classes(told: &Map<String, Value>) -> Vec<&str> {
    let mut classes: Vec<&str> = match told.get("attr__class").or_else(|| told.get("classes")) {
        Some(Value::String(classes)) => classes.split_whitespace().take(MAX_CLASSES).collect(),
        Some(Value::Array(classes)) => classes.iter().filter_map(Value::as_str).take(MAX_CLASSES).collect(),
        _ => Vec::new(),
    };
    classes.sort_unstable();
    classes
}

fn attributes(told: &Map<String, Value>) -> BTreeMap<String, String> {
    let mut attributes: BTreeMap<String, String> = told
        .iter()
        .filter(|(key, _)| key.starts_with("attr__"))
        .map(|(key, value)| (key.clone(), plain(value)))
        .collect();
    for (key, from, longest) in [
        ("text", "$el_text", MAX_TEXT),
        ("href", "attr__href", MAX_HREF),
        ("attr_id", "attr__id", MAX_HREF),
    ] {
        if let Some(value) = told.get(from) {
            attributes.insert(key.to_owned(), plain(value).chars().take(longest).collect());
        }
    }
    for (key, from) in [("nth-child", "nth_child"), ("nth-of-type", "nth_of_type")] {
        attributes.insert(key.to_owned(), told.get(from).map_or_else(|| "0".to_owned(), plain));
    }
    attributes
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn escaped(text: &str) -> String {
    text.replace('"', "\\\"")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn taken(properties: Value) -> (String, Value) {
        let Value::Object(mut properties) = properties else {
            panic!("not an object")
        };
        let chain = take_chain(&mut properties);
        (chain, Value::Object(properties))
    }

    #[test]
    fn a_chain_moves_out_of_the_properties() {
        let told = json!({"$elements_chain": "a:text=\"x\"", "b": 1});
        assert_eq!(taken(told), ("a:text=\"x\"".to_owned(), json!({"b": 1})));
    }

    #[test]
    fn a_list_becomes_a_chain() {
        let told = json!({"$elements": [
            {"tag_name": "a", "$el_text": "say \"hi\"", "attr__class": "small big", "attr__href": "/x", "nth_child": 2, "nth_of_type": 1},
            {"tag_name": "body"},
        ]});
        let chain = "a.big.small:attr__class=\"small big\"attr__href=\"/x\"href=\"/x\"nth-child=\"2\"nth-of-type=\"1\"\
                     text=\"say \\\"hi\\\"\";body:nth-child=\"0\"nth-of-type=\"0\"";
        assert_eq!(taken(told), (chain.to_owned(), json!({})));
    }

    #[test]
    fn an_element_has_only_so_many_classes_and_a_chain_so_many_elements() {
        let text = "b ".repeat(10_000);
        let list: Value = text.split_whitespace().collect();
        for element in [json!({ "classes": list }), json!({ "attr__class": text })] {
            let (chain, _) = taken(json!({ "$elements": [element] }));
            let (classes, _) = chain.split_once(':').unwrap();
            assert_eq!(classes, ".b".repeat(MAX_CLASSES));
        }
        let list = Value::Array(vec![json!({ "tag_name": "p" }); 10_000]);
        let (chain, _) = taken(json!({ "$elements": list }));
        assert_eq!(chain.split(';').count(), MAX_ELEMENTS);
    }

    #[test]
    fn most_events_have_none() {
        assert_eq!(taken(json!({"a": 1})), (String::new(), json!({"a": 1})));
    }
}
