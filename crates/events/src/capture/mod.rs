//! What `PostHog`'s SDKs send, decoded: bytes in, a team's token and its events out. Nothing here waits or stores.

mod envelope;
mod estimate;
mod event;
mod refusal;
mod sanitize;
mod scan;
mod time;
mod unpack;

#[cfg(test)]
mod tests;

use serde_json::error::Category;
use untrusted_json::{RESERVED, has_reserved_name};

use crate::Incoming;
pub use envelope::{Envelope, Parameters};
pub use estimate::{estimate, estimate_values};
use event::{Body, Raw};
pub use refusal::{MAX_BYTES, MAX_EVENTS, MAX_PACKED_BYTES, Refusal};
pub use scan::{Candidate, FIRST_SCANNED_BYTES, MAX_SCANNED_BYTES, Progress, TokenScan, most_scanned};
pub use time::is_sensible;
pub use unpack::{claimed_size, is_json, unpack};

/// Events of one team, which is known by its token.
#[derive(Debug, Clone, PartialEq)]
pub struct Captured {
    pub token: String,
    pub events: Vec<Incoming>,
}

/// Reads the events of a body that was unpacked. How much memory that takes, [`estimate`] says.
pub fn parse(mut text: Vec<u8>, envelope: &Envelope<'_>) -> Result<Captured, Refusal> {
    sanitize::replace_bad_escapes(&mut text);
    let text = String::from_utf8(text).unwrap_or_else(|bad| String::from_utf8_lossy(bad.as_bytes()).into_owned());
    if has_reserved_name(text.as_bytes()) {
        return Err(Refusal::Unreadable(format!("names cannot start with {RESERVED}")));
    }
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
