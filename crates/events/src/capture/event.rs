//! Bodies and events as senders write them, and what becomes of them.

use std::fmt;

use serde::de::{Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::envelope::Envelope;
use super::refusal::{MAX_EVENTS, Refusal};
use super::time;
use crate::names::cut;
use crate::{Incoming, Time};

/// How the parser's error begins when there are too many events.
pub(super) const TOO_MANY: &str = "too many events";
pub(super) const NESTED: &str = "nested batch";
/// What changes persons, at the top of an event or in its properties.
const PERSON_CHANGES: [&str; 3] = ["$set", "$set_once", "$unset"];

/// One event, a list of them, or an object with a list.
#[derive(Debug, Default)]
pub(super) struct Body {
    pub(super) token: Option<String>,
    pub(super) sent_at: Option<Value>,
    pub(super) events: Vec<Raw>,
}

/// An event as it was sent. What may be of several types is looked at later.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Raw {
    api_key: Option<Value>,
    token: Option<Value>,
    #[serde(rename = "$token")]
    dollar_token: Option<Value>,
    event: Option<Value>,
    distinct_id: Option<Value>,
    #[serde(rename = "$distinct_id")]
    dollar_distinct_id: Option<Value>,
    uuid: Option<Value>,
    timestamp: Option<Value>,
    offset: Option<Value>,
    sent_at: Option<Value>,
    properties: Option<Map<String, Value>>,
    #[serde(rename = "$set")]
    set: Option<Value>,
    #[serde(rename = "$set_once")]
    set_once: Option<Value>,
    #[serde(rename = "$unset")]
    unset: Option<Value>,
    batch: Option<Batch>,
}

impl Raw {
    pub(super) fn token(&self) -> Option<&str> {
        let in_properties = self.properties.as_ref().and_then(|all| all.get("token"));
        let given = [&self.api_key, &self.token, &self.dollar_token].map(Option::as_ref);
        let mut texts = given
            .into_iter()
            .chain([in_properties])
            .flatten()
            .filter_map(Value::as_str);
        texts.find(|token| !token.trim().is_empty())
    }
}

impl<'de> Deserialize<'de> for Body {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(BodyVisitor)
    }
}

struct BodyVisitor;

impl<'de> Visitor<'de> for BodyVisitor {
    type Value = Body;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an event, or a list of events")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Body, A::Error> {
        let Batch(events) = BatchVisitor.visit_seq(items)?;
        Ok(Body {
            events,
            ..Body::default()
        })
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<Body, A::Error> {
        let mut raw = Raw::deserialize(serde::de::value::MapAccessDeserializer::new(fields))?;
        Ok(match raw.batch.take() {
            Some(Batch(events)) => Body {
                token: raw.token().map(ToOwned::to_owned),
                sent_at: raw.sent_at,
                events,
            },
            None => Body {
                token: None,
                sent_at: raw.sent_at.take(),
                events: vec![raw],
            },
        })
    }
}

/// A list that ends before it takes all memory.
#[derive(Debug)]
struct Batch(Vec<Raw>);

impl<'de> Deserialize<'de> for Batch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(BatchVisitor)
    }
}

struct BatchVisitor;

impl<'de> Visitor<'de> for BatchVisitor {
    type Value = Batch;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of events")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Batch, A::Error> {
        let mut events = Vec::new();
        while events.len() < MAX_EVENTS {
            match items.next_element::<Raw>()? {
                Some(raw) if raw.batch.is_some() => return Err(A::Error::custom(NESTED)),
                Some(raw) => events.push(raw),
                None => return Ok(Batch(events)),
            }
        }
        match items.next_element::<IgnoredAny>()? {
            Some(_) => Err(A::Error::custom(TOO_MANY)),
            None => Ok(Batch(events)),
        }
    }
}

/// What all events of a body are made with.
pub(super) struct Making<'a> {
    pub(super) envelope: &'a Envelope<'a>,
    pub(super) sent_at: Option<Time>,
}

impl Making<'_> {
    pub(super) fn incoming(&self, mut raw: Raw, index: usize) -> Result<Incoming, Refusal> {
        let mut properties = raw.properties.take().unwrap_or_default();
        let distinct_id = distinct_id(&raw, &properties).ok_or(Refusal::NoDistinctId(index))?;
        let name = raw.event.as_ref().and_then(text).filter(|name| !name.trim().is_empty());
        let name = name.or_else(|| self.envelope.unnamed.map(ToOwned::to_owned));
        let event = cut(name.ok_or(Refusal::NoName(index))?);
        let timestamp = self.timestamp(&raw, &properties);
        let changes = [raw.set.take(), raw.set_once.take(), raw.unset.take()];
        for (name, change) in PERSON_CHANGES.into_iter().zip(changes) {
            put_change(&mut properties, name, change);
        }
        self.put_address(&mut properties);
        Ok(Incoming {
            uuid: raw
                .uuid
                .as_ref()
                .and_then(Value::as_str)
                .and_then(|text| Uuid::try_parse(text).ok()),
            event,
            distinct_id,
            properties,
            timestamp,
        })
    }

    fn timestamp(&self, raw: &Raw, properties: &Map<String, Value>) -> Time {
        // Set by those who send what happened long ago, by a clock that was right.
        let keeps_clock = properties.get("$ignore_sent_at") == Some(&Value::Bool(true));
        let sent_at = raw.sent_at.as_ref().and_then(time::read).or(self.sent_at);
        let sender_time = time::SenderTime {
            timestamp: raw.timestamp.as_ref().and_then(time::read),
            offset: raw.offset.as_ref().and_then(Value::as_i64),
            sent_at: sent_at.filter(|_| !keeps_clock),
        };
        sender_time.by(self.envelope.now)
    }

    /// Servers ask for no location, because the address would be their own.
    fn put_address(&self, properties: &mut Map<String, Value>) {
        let is_unwanted = properties.get("$geoip_disable") == Some(&Value::Bool(true));
        if let Some(address) = self.envelope.address.filter(|_| !is_unwanted)
            && !properties.contains_key("$ip")
        {
            properties.insert("$ip".to_owned(), address.to_string().into());
        }
    }
}

/// A key at the top level overrides the same key in the properties.
fn put_change(properties: &mut Map<String, Value>, name: &str, change: Option<Value>) {
    match (properties.get_mut(name), change) {
        (_, None | Some(Value::Null)) => {}
        (Some(Value::Object(inner)), Some(Value::Object(outer))) => inner.extend(outer),
        (_, Some(change)) => {
            properties.insert(name.to_owned(), change);
        }
    }
}

fn distinct_id(raw: &Raw, properties: &Map<String, Value>) -> Option<String> {
    let top = [raw.distinct_id.as_ref(), raw.dollar_distinct_id.as_ref()];
    let inner = ["distinct_id", "$distinct_id"].map(|name| properties.get(name));
    let mut given = top.into_iter().chain(inner).flatten().filter_map(text);
    given.find(|id| !id.is_empty()).map(cut)
}

/// Some programs send numbers, or worse; the origin product takes them as text.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}
