//! One row of a file into an event.

use chrono::{DateTime, NaiveDateTime, Utc};
use serde::Deserialize;
use serde_json::{Map, Value};
use untrusted_json::{RESERVED, has_reserved_name};
use uuid::Uuid;

use crate::names::cut;
use crate::{Incoming, Time};

/// An item as `/batch/` takes it, or a line that an export wrote. What else is in it does not matter.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Item {
    pub(super) event: Option<String>,
    pub(super) distinct_id: Option<Value>,
    pub(super) properties: Option<Value>,
    pub(super) timestamp: Option<String>,
    pub(super) uuid: Option<String>,
    pub(super) elements_chain: Option<String>,
    #[serde(rename = "$set")]
    pub(super) set: Option<Value>,
    #[serde(rename = "$set_once")]
    pub(super) set_once: Option<Value>,
    #[serde(rename = "$unset")]
    pub(super) unset: Option<Value>,
}

impl Item {
    pub(super) fn into_incoming(self, now: Time) -> Result<Incoming, String> {
        let mut properties = self.properties.map_or_else(|| Ok(Map::new()), object)?;
        let beside = [("$set", self.set), ("$set_once", self.set_once), ("$unset", self.unset)];
        for (key, value) in beside {
            if let Some(value) = value.filter(|value| !value.is_null()) {
                properties.entry(key).or_insert(value);
            }
        }
        if let Some(chain) = self.elements_chain.filter(|chain| !chain.is_empty()) {
            properties.insert("$elements_chain".to_owned(), Value::String(chain));
        }
        let event = self.event.filter(|event| !event.is_empty()).ok_or("missing event")?;
        let told = self.distinct_id.as_ref().or_else(|| properties.get("distinct_id"));
        let distinct_id = told.and_then(name).ok_or("missing distinct_id")?;
        let incoming = Incoming {
            uuid: self.uuid.as_deref().map(uuid).transpose()?,
            event: cut(event),
            distinct_id: cut(distinct_id),
            timestamp: self.timestamp.as_deref().map_or(Ok(now), time)?,
            properties,
        };
        if incoming.is_too_large() {
            return Err("event too large".to_owned());
        }
        Ok(incoming)
    }
}

/// Properties are an object, or the text of one.
fn object(value: Value) -> Result<Map<String, Value>, String> {
    match value {
        Value::Object(object) => Ok(object),
        Value::Null => Ok(Map::new()),
        Value::String(text) if text.is_empty() => Ok(Map::new()),
        Value::String(text) => {
            expect_no_reserved_name(text.as_bytes())?;
            serde_json::from_str(&text).map_err(|_| "properties must be a JSON object".to_owned())
        }
        _ => Err("properties must be an object".to_owned()),
    }
}

pub(super) fn expect_no_reserved_name(json: &[u8]) -> Result<(), String> {
    if has_reserved_name(json) {
        return Err(format!("names cannot start with {RESERVED}"));
    }
    Ok(())
}

fn name(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn uuid(text: &str) -> Result<Uuid, String> {
    text.parse().map_err(|_| "invalid uuid".to_owned())
}

/// With a zone, or, as databases write it, without one and in UTC.
fn time(text: &str) -> Result<Time, String> {
    let zoned = DateTime::parse_from_rfc3339(text).map(|time| time.with_timezone(&Utc));
    let parsed = zoned.or_else(|_| {
        let naive = NaiveDateTime::parse_from_str(&text.replacen('T', " ", 1), "%Y-%m-%d %H:%M:%S%.f");
        naive.map(|time| time.and_utc())
    });
    parsed.map_err(|_| "invalid timestamp; use a format such as 2026-01-31T12:00:00Z".to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(item: Value) -> Result<Incoming, String> {
        serde_json::from_value::<Item>(item)
            .unwrap()
            .into_incoming(DateTime::UNIX_EPOCH)
    }

    #[test]
    fn an_item_of_a_batch_is_an_event() {
        let event = read(json!({
            "event": "page", "distinct_id": "ada", "timestamp": "2026-01-31T12:00:00.123456+01:00",
            "uuid": "0190163e-6a84-7c3f-9d2b-5f1e2a3b4c5d", "properties": {"a": 1}, "$set": {"b": 2},
        }))
        .unwrap();
        assert_eq!(
            event.uuid,
            Some("0190163e-6a84-7c3f-9d2b-5f1e2a3b4c5d".parse().unwrap())
        );
        assert_eq!(event.timestamp.to_rfc3339(), "2026-01-31T11:00:00.123456+00:00");
        assert_eq!(Value::Object(event.properties), json!({"a": 1, "$set": {"b": 2}}));
    }

    #[test]
    fn what_an_export_wrote_can_be_read_again() {
        let event = read(json!({
            "uuid": "0190163e-6a84-7c3f-9d2b-5f1e2a3b4c5d", "event": "page", "distinct_id": "ada",
            "timestamp": "2026-01-31 12:00:00.5", "_inserted_at": "2026-01-31 12:00:01", "created_at": null,
            "properties": "{\"a\":1}", "elements_chain": "a:", "person_id": "x", "person_properties": {},
        }))
        .unwrap();
        assert_eq!(event.timestamp.to_rfc3339(), "2026-01-31T12:00:00.500+00:00");
        assert_eq!(
            Value::Object(event.properties),
            json!({"a": 1, "$elements_chain": "a:"})
        );
    }

    #[test]
    fn a_sender_may_be_a_number_or_named_in_the_properties() {
        assert_eq!(read(json!({"event": "x", "distinct_id": 7})).unwrap().distinct_id, "7");
        assert_eq!(
            read(json!({"event": "x", "properties": {"distinct_id": "b"}}))
                .unwrap()
                .distinct_id,
            "b"
        );
    }

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        for (item, word) in [
            (json!({"distinct_id": "a"}), "event"),
            (json!({"event": "x"}), "distinct_id"),
            (json!({"event": "x", "distinct_id": "a", "uuid": "b"}), "uuid"),
            (
                json!({"event": "x", "distinct_id": "a", "timestamp": "today"}),
                "timestamp",
            ),
            (
                json!({"event": "x", "distinct_id": "a", "properties": [1]}),
                "properties",
            ),
        ] {
            assert!(read(item.clone()).unwrap_err().contains(word), "{item}");
        }
    }
}
