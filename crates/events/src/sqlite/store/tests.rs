//! What waits to be written takes no more memory than was reserved.

use chrono::DateTime;
use serde_json::{Map, Value};

use super::*;
use crate::capture::{Envelope, Parameters, estimate, parse};

/// What the allocator adds, about.
const ALLOCATED: usize = 16;

fn text(text: &String) -> usize {
    text.capacity() + ALLOCATED
}

fn object(object: &Map<String, Value>) -> usize {
    // A node has eleven places, of which at least five are taken in all but the first.
    let nodes = object.len().div_ceil(5);
    let node = 11 * (size_of::<String>() + size_of::<Value>()) + 2 * ALLOCATED;
    let entries = object.iter().map(|(key, each)| text(key) + value(each));
    nodes * node + entries.sum::<usize>()
}

fn value(of: &Value) -> usize {
    match of {
        Value::String(of) => text(of),
        Value::Object(of) => object(of),
        Value::Array(of) => ALLOCATED + of.capacity() * size_of::<Value>() + of.iter().map(value).sum::<usize>(),
        _ => 0,
    }
}

fn memory(ready: &Ready) -> usize {
    let texts = [
        &ready.event,
        &ready.distinct_id,
        &ready.properties,
        &ready.elements_chain,
    ];
    let change = match &ready.effect {
        Effect::Person(change) => {
            let unset = change.unset.iter().map(|name| size_of::<String>() + text(name));
            let merge = change.merge.as_ref().map_or(0, |merge| text(&merge.distinct_id));
            object(&change.set) + object(&change.set_once) + unset.sum::<usize>() + merge
        }
        Effect::None => 0,
    };
    texts.into_iter().map(text).sum::<usize>() + change
}

#[test]
fn events_that_wait_for_the_writer_take_no_more_than_was_counted_for_them() {
    let numbers = (0..100)
        .map(|number| format!(r#""{number}":{number}"#))
        .collect::<Vec<_>>()
        .join(",");
    let events = [
        r#"{"event":"e","distinct_id":"0"}"#.to_owned(),
        r#"{"event":"$identify","distinct_id":"0","properties":{"$anon_distinct_id":"1"}}"#.to_owned(),
        r#"{"event":"e","distinct_id":"0","$set":{"a":1},"$set_once":{"b":1},"$unset":["c"]}"#.to_owned(),
        format!(r#"{{"event":"e","distinct_id":"0","$set":{{{numbers}}},"properties":{{{numbers}}}}}"#),
        format!(
            r#"{{"event":"e","distinct_id":"0","$set":{{"a":[{}{{}}]}}}}"#,
            r#"{"":1},"#.repeat(50)
        ),
        format!(
            r#"{{"event":"e","distinct_id":"0","properties":{{"a":"{}"}}}}"#,
            "x".repeat(10_000)
        ),
    ];
    for event in events {
        let body = format!(r#"{{"api_key":"a","batch":[{}]}}"#, vec![&*event; 1_200].join(","));
        let counted = estimate(body.as_bytes());
        let envelope = Envelope {
            parameters: &Parameters::default(),
            address: Some([192, 0, 2, 1].into()),
            unnamed: None,
            now: DateTime::UNIX_EPOCH,
        };
        let events = parse(body.into_bytes(), &envelope).unwrap().events;
        // The list of what was sent goes when the last part is made.
        let list = events.capacity() * size_of::<Incoming>();
        let parts = Ready::in_parts(events).unwrap();
        let places = parts
            .iter()
            .map(|part| part.capacity() * size_of::<Ready>() + ALLOCATED);
        let taken = list + places.sum::<usize>() + parts.iter().flatten().map(memory).sum::<usize>();
        assert!(taken <= counted, "{taken} of {counted}: {event:.60}");
        assert!(taken > counted / 10, "{taken} of {counted}: {event:.60}");
    }
}
