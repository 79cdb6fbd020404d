//! What `PostHog`'s SDKs send, decoded: bytes in, a team's token and its events out. Nothing here waits or stores.

mod estimate;
mod event;
mod scan;
mod tidy;
mod time;
mod unpack;

#[cfg(test)]
mod tests;

use std::net::IpAddr;

use serde_json::Value;
use serde_json::error::Category;

use crate::{Incoming, MOST_EVENT_BYTES, Time};
pub use estimate::{estimate, estimate_values};
use event::{Body, Raw};
pub use scan::{Candidate, FIRST_SCANNED_BYTES, MOST_SCANNED_BYTES, Progress, TokenScan, most_scanned};
pub use unpack::{claimed_size, is_json, unpack};

/// How large a body may be as it comes over the wire.
pub const MOST_PACKED_BYTES: usize = 20 * 1024 * 1024;
/// How large it may be once it is unpacked.
pub const MOST_BYTES: usize = 64 * 1024 * 1024;
/// How many events one body may hold.
pub const MOST_EVENTS: usize = 100_000;

/// What the request says about its body.
#[derive(Debug, Clone, Copy)]
pub struct Envelope<'a> {
    /// The part of the address after `?`.
    pub parameters: &'a Parameters,
    /// Where the request came from.
    pub address: Option<IpAddr>,
    /// What events without a name are called; such are refused unless given.
    pub unnamed: Option<&'static str>,
    pub now: Time,
}

/// Events of one team, which is known by its token.
#[derive(Debug, Clone, PartialEq)]
pub struct Captured {
    pub token: String,
    pub events: Vec<Incoming>,
}

/// Why a body was not taken. All of it is refused, never a part.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("The request body is empty. Send an event or a batch of events as JSON.")]
    Empty,
    #[error("Invalid request body: {0}.")]
    Unreadable(String),
    #[error(
        "The request body is too large. Send at most {MOST_PACKED_BYTES} bytes, and {MOST_BYTES} when uncompressed."
    )]
    TooLarge,
    #[error("No api_key found at the start of this large body. Put it before the events, or send it as ?token=.")]
    TokenTooFar,
    #[error("Event {0} is too large. An event can have at most {MOST_EVENT_BYTES} bytes of properties.")]
    EventTooLarge(usize),
    #[error("A batch can have at most {MOST_EVENTS} events.")]
    TooMany,
    #[error("Unsupported compression. Use gzip, or none.")]
    UnknownPacking,
    #[error("Missing project API key. Send the team's token as api_key.")]
    NoToken,
    #[error("All events in a batch must have the same token.")]
    ManyTokens,
    #[error("Event {0} has no name. Set event.")]
    NoName(usize),
    #[error("Event {0} has no distinct_id.")]
    NoDistinctId(usize),
}

/// Reads the events of a body that was unpacked. How much memory that takes, [`estimate`] says.
pub fn parse(mut text: Vec<u8>, envelope: &Envelope<'_>) -> Result<Captured, Refusal> {
    tidy::replace_bad_escapes(&mut text);
    let text = String::from_utf8(text).unwrap_or_else(|bad| String::from_utf8_lossy(bad.as_bytes()).into_owned());
    let body: Body = serde_json::from_str(&text).map_err(|error| unreadable(&error))?;
    drop(text);
    let sent_at = body.sent_at.as_ref().and_then(time::read);
    let sent_at = sent_at.or(envelope.parameters.sent_at);
    let token = token(&body, &envelope.parameters.token)?;
    let making = event::Making { envelope, sent_at };
    let events = body.events.into_iter().enumerate();
    let events = events.map(|(index, raw)| making.incoming(raw, index));
    Ok(Captured {
        token,
        events: events.collect::<Result<_, _>>()?,
    })
}

/// Says where the text stops being what was asked for, and never repeats it.
fn unreadable(error: &serde_json::Error) -> Refusal {
    let said = error.to_string();
    if said.starts_with(event::TOO_MANY) {
        return Refusal::TooMany;
    }
    let (line, column) = (error.line(), error.column());
    let what = match error.classify() {
        _ if said.starts_with(event::NESTED) => event::NESTED,
        Category::Eof => "incomplete input",
        Category::Data => "invalid value in an event",
        Category::Syntax | Category::Io => "invalid JSON, or nested too deeply",
    };
    Refusal::Unreadable(format!("{what} at line {line}, column {column}"))
}

/// The body's own token wins, then that of its events, then that of the address.
fn token(body: &Body, of_query: &str) -> Result<String, Refusal> {
    let of_body = body.token.as_deref().filter(|token| !token.trim().is_empty());
    let mut of_events = body.events.iter().filter_map(Raw::token);
    let first = of_body.or_else(|| of_events.next());
    if of_body.is_none() && of_events.any(|token| Some(token) != first) {
        return Err(Refusal::ManyTokens);
    }
    let token = first.unwrap_or(of_query).trim().to_owned();
    if token.is_empty() {
        return Err(Refusal::NoToken);
    }
    Ok(token)
}

/// What the address may carry beside the body.
#[derive(Debug, Default)]
pub struct Parameters {
    data: String,
    token: String,
    sent_at: Option<Time>,
}

impl Parameters {
    /// From the part of the address after `?` and the header `Content-Encoding`. The bytes alone tell how they are
    /// packed, because senders and proxies often say it wrong; but a name must be one of those that are recognized.
    pub fn read(query: &str, encoding: &str) -> Result<Self, Refusal> {
        let mut parameters = Self::default();
        let mut is_known = unpack::is_known(encoding);
        for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
            match &*name {
                "data" => parameters.data = value.into_owned(),
                "compression" => is_known &= unpack::is_known(&value),
                "token" | "api_key" => parameters.token = value.into_owned(),
                "sent_at" | "_" => parameters.sent_at = time::read(&Value::String(value.into_owned())),
                _ => {}
            }
        }
        if is_known {
            Ok(parameters)
        } else {
            Err(Refusal::UnknownPacking)
        }
    }

    /// The token in the address. One in the body wins over it.
    pub fn token(&self) -> Option<&str> {
        Some(self.token.trim()).filter(|token| !token.is_empty())
    }

    /// What stands in the address in place of a body.
    pub fn take_data(&mut self) -> Option<Vec<u8>> {
        let data = std::mem::take(&mut self.data);
        (!data.is_empty()).then(|| data.into_bytes())
    }
}
