//! What `PostHog`'s SDKs send, decoded: bytes in, a team's token and its events out. Nothing here waits or stores.

mod event;
mod tidy;
mod time;
mod unpack;

#[cfg(test)]
mod tests;

use std::net::IpAddr;

use serde_json::Value;

use crate::{Incoming, Time};
use event::{Body, Raw};
pub use unpack::unpacked_size;

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
    pub query: &'a str,
    /// The header `Content-Encoding`.
    pub encoding: &'a str,
    /// Where the request came from.
    pub address: Option<IpAddr>,
    /// What events without a name are called; such are refused unless given.
    pub unnamed: Option<&'static str>,
    /// How large it may become when it is unpacked, up to [`MOST_BYTES`].
    pub most_bytes: usize,
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
    #[error("the body is empty: send an event, or a batch of them, as JSON")]
    Empty,
    #[error("the body cannot be read: {0}")]
    Unreadable(String),
    #[error("a body has at most {MOST_PACKED_BYTES} bytes, and {MOST_BYTES} when it is unpacked")]
    TooLarge,
    #[error("a batch has at most {MOST_EVENTS} events")]
    TooMany,
    #[error("this packing is not known: use gzip, or none")]
    UnknownPacking,
    #[error("send the project's token as api_key")]
    NoToken,
    #[error("all events of a batch must have the same token")]
    ManyTokens,
    #[error("event {0} has no name: set event")]
    NoName(usize),
    #[error("event {0} has no distinct_id")]
    NoDistinctId(usize),
}

/// Decodes one request. The bytes alone tell how they are packed: senders and proxies often say it wrong.
pub fn decode(body: Vec<u8>, envelope: &Envelope<'_>) -> Result<Captured, Refusal> {
    let query = Query::read(envelope.query);
    if !unpack::is_known(envelope.encoding) || !unpack::is_known(&query.compression) {
        return Err(Refusal::UnknownPacking);
    }
    let packed = if query.data.is_empty() {
        body
    } else {
        query.data.into_bytes()
    };
    let mut text = unpack::json(packed, envelope.most_bytes.min(MOST_BYTES))?;
    tidy::replace_bad_escapes(&mut text);
    let text = String::from_utf8(text).unwrap_or_else(|bad| String::from_utf8_lossy(bad.as_bytes()).into_owned());
    let body: Body = serde_json::from_str(&text).map_err(|error| unreadable(&error))?;
    let sent_at = body.sent_at.as_ref().and_then(time::read).or(query.sent_at);
    let token = token(&body, query.token)?;
    let making = event::Making { envelope, sent_at };
    let events = body.events.into_iter().enumerate();
    let events = events.map(|(index, raw)| making.incoming(raw, index));
    Ok(Captured {
        token,
        events: events.collect::<Result<_, _>>()?,
    })
}

/// Says where, and in the parser's own words what: they never repeat the body.
fn unreadable(error: &serde_json::Error) -> Refusal {
    if error.to_string().starts_with(event::TOO_MANY) {
        return Refusal::TooMany;
    }
    Refusal::Unreadable(error.to_string())
}

/// The body's own token wins, then that of its events, then that of the address.
fn token(body: &Body, of_query: String) -> Result<String, Refusal> {
    let of_body = body.token.as_deref().filter(|token| !token.trim().is_empty());
    let mut of_events = body.events.iter().filter_map(Raw::token);
    let first = of_body.or_else(|| of_events.next());
    if of_body.is_none() && of_events.any(|token| Some(token) != first) {
        return Err(Refusal::ManyTokens);
    }
    let token = first.map_or(of_query, ToOwned::to_owned).trim().to_owned();
    if token.is_empty() {
        return Err(Refusal::NoToken);
    }
    Ok(token)
}

/// What the address may carry beside the body.
#[derive(Debug, Default)]
struct Query {
    data: String,
    compression: String,
    token: String,
    sent_at: Option<Time>,
}

impl Query {
    fn read(text: &str) -> Self {
        let mut query = Self::default();
        for (name, value) in url::form_urlencoded::parse(text.as_bytes()) {
            match &*name {
                "data" => query.data = value.into_owned(),
                "compression" => query.compression = value.into_owned(),
                "token" | "api_key" => query.token = value.into_owned(),
                "sent_at" | "_" => query.sent_at = time::read(&Value::String(value.into_owned())),
                _ => {}
            }
        }
        query
    }
}
