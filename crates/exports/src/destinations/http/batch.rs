//! The body of a request, event by event.

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMicrosecondType;
use arrow_array::{Array, RecordBatch, StringArray, TimestampMicrosecondArray};
use arrow_schema::{DataType, Schema};
use bytes::Bytes;
use chrono::{DateTime, SecondsFormat};
use serde_json::{Map, Value};

use crate::Error;

const MAX_EVENTS: u64 = 5000;
const MAX_BYTES: usize = 20 * 1024 * 1024;

/// One request's worth of events.
pub(super) struct Batch {
    body: Vec<u8>,
    events: u64,
}

impl Batch {
    pub(super) fn new(token: &str) -> Self {
        let token = Value::from(token);
        let body = format!(r#"{{"api_key":{token},"historical_migration":true,"batch":["#).into_bytes();
        Self { body, events: 0 }
    }

    /// Adds an event, as JSON.
    pub(super) fn add(&mut self, event: &str) {
        if self.events > 0 {
            self.body.push(b',');
        }
        self.body.extend_from_slice(event.as_bytes());
        self.events += 1;
    }

    pub(super) fn events(&self) -> u64 {
        self.events
    }

    /// One large event may stand above the limit alone.
    pub(super) fn is_full(&self) -> bool {
        self.events >= MAX_EVENTS || self.body.len() >= MAX_BYTES - MAX_BYTES / 8
    }

    pub(super) fn close(mut self) -> Bytes {
        self.body.extend_from_slice(b"]}");
        self.body.into()
    }
}

/// Where in our batches the parts of an event are.
pub(super) struct Columns {
    uuid: usize,
    distinct_id: usize,
    timestamp: usize,
    event: usize,
    properties: Option<usize>,
    elements_chain: Option<usize>,
}

impl Columns {
    /// A query of the owner's must select what makes an event.
    pub(super) fn of(schema: &Schema) -> Result<Self, Error> {
        let is_text = |kind: &DataType| *kind == DataType::Utf8;
        let is_time = |kind: &DataType| matches!(kind, DataType::Timestamp(..));
        let find = |name: &str, fits: fn(&DataType) -> bool| {
            let (index, field) = schema.column_with_name(name)?;
            fits(field.data_type()).then_some(index)
        };
        let need = |name: &str, fits| {
            find(name, fits).ok_or_else(|| {
                Error::plain(format!(
                    "an event that is sent needs uuid, distinct_id, timestamp and event, and the query gives no fitting \
                     {name}; add it"
                ))
            })
        };
        Ok(Self {
            uuid: need("uuid", is_text)?,
            distinct_id: need("distinct_id", is_text)?,
            timestamp: need("timestamp", is_time)?,
            event: need("event", is_text)?,
            properties: find("properties", is_text),
            elements_chain: find("elements_chain", is_text),
        })
    }

    pub(super) fn read<'a>(&self, rows: &'a RecordBatch) -> Rows<'a> {
        let text = |index: usize| rows.column(index).as_string::<i32>();
        Rows {
            uuid: text(self.uuid),
            distinct_id: text(self.distinct_id),
            timestamp: rows.column(self.timestamp).as_primitive::<TimestampMicrosecondType>(),
            event: text(self.event),
            properties: self.properties.map(text),
            elements_chain: self.elements_chain.map(text),
        }
    }
}

pub(super) struct Rows<'a> {
    uuid: &'a StringArray,
    distinct_id: &'a StringArray,
    timestamp: &'a TimestampMicrosecondArray,
    event: &'a StringArray,
    properties: Option<&'a StringArray>,
    elements_chain: Option<&'a StringArray>,
}

impl Rows<'_> {
    pub(super) fn len(&self) -> usize {
        self.uuid.len()
    }

    /// One event, as JSON.
    pub(super) fn event(&self, row: usize) -> Result<String, Error> {
        let name = self.event.value(row);
        let chain = self.elements_chain.filter(|chain| chain.is_valid(row));
        let chain = chain.map(|chain| chain.value(row)).filter(|_| name == "$autocapture");
        let given = self.properties.filter(|given| given.is_valid(row));
        let properties = properties(given.map_or("", |given| given.value(row)), chain)?;
        let time = DateTime::from_timestamp_micros(self.timestamp.value(row)).unwrap_or_default();
        let time = time.to_rfc3339_opts(SecondsFormat::Micros, true);
        let (uuid, distinct_id) = (self.uuid.value(row), self.distinct_id.value(row));
        Ok(format!(
            r#"{{"uuid":{},"distinct_id":{},"timestamp":"{time}","event":{},"properties":{properties}}}"#,
            Value::from(uuid),
            Value::from(distinct_id),
            Value::from(name),
        ))
    }
}

/// The properties with ours behind them. They are left as they are, down to the digits of numbers, unless they have
/// keys of the same names.
fn properties(given: &str, chain: Option<&str>) -> Result<String, Error> {
    let mut ours = r#""$geoip_disable":true"#.to_owned();
    if let Some(chain) = chain {
        ours = format!(r#"{ours},"$elements_chain":{}"#, Value::from(chain));
    }
    let given = match given.trim() {
        "" => "{}",
        given => given,
    };
    let unread = |cause| Error::permanent("an event has properties that are not a JSON object", cause);
    if given.contains("$geoip_disable") || given.contains("$elements_chain") {
        let mut whole: Map<String, Value> = serde_json::from_str(given).map_err(unread)?;
        let added: Map<String, Value> = serde_json::from_str(&format!("{{{ours}}}")).map_err(unread)?;
        whole.extend(added);
        return Ok(Value::from(whole).to_string());
    }
    let inside = given.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    match inside.map(str::trim) {
        Some("") => Ok(format!("{{{ours}}}")),
        Some(inside) => Ok(format!("{{{inside},{ours}}}")),
        None => Err(Error::plain("an event has properties that are not a JSON object")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_keep_what_they_have() {
        for (given, chain, sent) in [
            ("", None, r#"{"$geoip_disable":true}"#),
            ("{ }", None, r#"{"$geoip_disable":true}"#),
            (
                r#"{"n":12345678901234567890123}"#,
                Some("a:\"x\""),
                r#"{"n":12345678901234567890123,"$geoip_disable":true,"$elements_chain":"a:\"x\""}"#,
            ),
            (r#"{"$geoip_disable":false}"#, None, r#"{"$geoip_disable":true}"#),
        ] {
            assert_eq!(properties(given, chain).unwrap(), sent);
        }
        assert!(properties("[1]", None).unwrap_err().is_permanent);
    }
}
