//! Events in the JSON shape of PostHog's plugin API, and webhooks as apps compose them.
//!
//! Properties are passed on as text: what a client sent to a team is never parsed into values here.

use std::collections::BTreeMap;
use std::fmt;

use events::Stored;
use sandbox::{FetchRequest, Json};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use crate::host::outgoing;

/// The longest text that may be an address, with its quotes.
const MAX_ADDRESS: usize = 64;

/// An event as apps see it.
#[derive(Serialize)]
pub(crate) struct EventPayload<'a> {
    uuid: &'a str,
    event: &'a str,
    distinct_id: &'a str,
    team_id: i64,
    ip: Option<&'a RawValue>,
    properties: &'a RawValue,
    timestamp: String,
    elements_chain: &'a str,
    person: Person<'a>,
    #[serde(rename = "$set", skip_serializing_if = "Option::is_none")]
    set: Option<&'a RawValue>,
    #[serde(rename = "$set_once", skip_serializing_if = "Option::is_none")]
    set_once: Option<&'a RawValue>,
}

#[derive(Serialize)]
struct Person<'a> {
    uuid: Option<&'a str>,
    properties: &'a RawValue,
    team_id: i64,
}

impl<'a> EventPayload<'a> {
    pub(crate) fn new(event: &'a Stored, team_id: i64) -> Self {
        let Picked { ip, set, set_once } = serde_json::from_str(event.properties.get()).unwrap_or_default();
        Self {
            uuid: &event.uuid,
            event: &event.event,
            distinct_id: &event.distinct_id,
            team_id,
            ip: ip.filter(|ip| is_address(ip)),
            properties: &event.properties,
            timestamp: event.timestamp.to_rfc3339_opts(chrono::SecondsFormat::Millis, true),
            elements_chain: &event.elements_chain,
            person: Person {
                uuid: event.person_id.as_deref(),
                properties: &event.person_properties,
                team_id,
            },
            set,
            set_once,
        }
    }
}

/// Whether it may be one: clients send what they like, and it is handed over twice.
fn is_address(ip: &RawValue) -> bool {
    ip.get().starts_with('"') && ip.get().len() <= MAX_ADDRESS
}

/// Those of the properties that stand beside them as well.
#[derive(Default)]
struct Picked<'a> {
    ip: Option<&'a RawValue>,
    set: Option<&'a RawValue>,
    set_once: Option<&'a RawValue>,
}

impl<'de> Deserialize<'de> for Picked<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Picking)
    }
}

struct Picking;

impl<'de> Visitor<'de> for Picking {
    type Value = Picked<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Picked<'de>, A::Error> {
        let mut picked = Picked::default();
        while let Some((name, value)) = entries.next_entry::<String, &'de RawValue>()? {
            match name.as_str() {
                "$ip" => picked.ip = Some(value),
                "$set" => picked.set = Some(value),
                "$set_once" => picked.set_once = Some(value),
                _ => {}
            }
        }
        Ok(picked)
    }
}

/// `{url, body, headers, method}`; a POST of JSON unless it says otherwise.
pub(crate) fn composed(webhook: &Json) -> Result<http::Request<Vec<u8>>, String> {
    #[derive(Deserialize)]
    struct Composed<'a> {
        #[serde(borrow)]
        url: &'a RawValue,
        #[serde(borrow, default)]
        method: Option<&'a RawValue>,
        #[serde(borrow, default)]
        headers: Option<&'a RawValue>,
        #[serde(borrow, default)]
        body: Option<&'a RawValue>,
    }
    const WRONG: &str = "composeWebhook must return an object with a url, or null";
    let composed: Composed<'_> = serde_json::from_str(webhook.text()).map_err(|_| WRONG)?;
    let text = |raw: &RawValue| serde_json::from_str::<String>(raw.get()).ok();
    let headers = composed.headers.and_then(headers);
    let json = || vec![("Content-Type".to_owned(), "application/json".to_owned())];
    outgoing(FetchRequest {
        url: text(composed.url).ok_or(WRONG)?,
        method: composed.method.and_then(text).unwrap_or_else(|| "POST".to_owned()),
        headers: headers.unwrap_or_else(json),
        body: composed
            .body
            .map(|body| text(body).unwrap_or_else(|| body.get().to_owned()).into_bytes()),
    })
}

/// None: these are none.
fn headers(raw: &RawValue) -> Option<Vec<(String, String)>> {
    let all: BTreeMap<String, &RawValue> = serde_json::from_str(raw.get()).ok()?;
    let text = |(name, raw): (String, &RawValue)| Some((name, serde_json::from_str(raw.get()).ok()?));
    Some(all.into_iter().filter_map(text).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn json(value: Value) -> Json {
        value.into()
    }

    #[test]
    fn only_an_address_is_handed_over_twice() {
        let long = format!("\"{}\"", "1".repeat(100));
        for (ip, is_given) in [("\"127.0.0.1\"", true), ("[[],[]]", false), (long.as_str(), false)] {
            let event = Stored {
                uuid: String::new(),
                event: String::new(),
                distinct_id: String::new(),
                properties: RawValue::from_string(format!("{{\"$ip\":{ip}}}")).expect("JSON"),
                timestamp: chrono::DateTime::UNIX_EPOCH,
                ingested_at: chrono::DateTime::UNIX_EPOCH,
                elements_chain: String::new(),
                person_id: None,
                person_properties: RawValue::from_string("{}".to_owned()).expect("JSON"),
                is_whole: true,
            };
            let given = serde_json::to_value(EventPayload::new(&event, 1)).expect("JSON");
            assert_eq!(given["ip"].is_string(), is_given, "{ip}");
            assert_eq!(given["properties"]["$ip"].to_string(), ip);
        }
    }

    #[test]
    fn a_webhook_is_a_post_of_json_unless_it_says_otherwise() {
        let request = composed(&json(json!({ "url": "http://127.0.0.1/x", "body": { "a": 1 } }))).expect("fine");
        assert_eq!(request.method(), "POST");
        assert_eq!(request.headers()["content-type"], "application/json");
        assert_eq!(request.body(), br#"{"a":1}"#);
        let put = json!({ "url": "http://127.0.0.1/x", "method": "PUT", "headers": { "X-A": "b" }, "body": "text" });
        let request = composed(&json(put)).expect("fine");
        assert_eq!(
            (request.method().as_str(), &request.headers()["x-a"]),
            ("PUT", &"b".parse().expect("a value"))
        );
        assert!(composed(&json(json!({ "body": "x" }))).is_err());
        assert!(composed(&json(json!({ "url": "http://127.0.0.1/", "method": "NOT A METHOD" }))).is_err());
    }
}
