//! Why a body is refused, and how large one may be.

use crate::{MAX_EVENT_BYTES, MAX_UNSET};

/// How large a body may be as it comes over the wire.
pub const MAX_PACKED_BYTES: usize = 20 * 1024 * 1024;
/// How large it may be once it is unpacked.
pub const MAX_BYTES: usize = 64 * 1024 * 1024;
/// How many events one body may hold.
pub const MAX_EVENTS: usize = 100_000;

/// Why a body was not taken. All of it is refused, never a part.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("The request body is empty. Send an event or a batch of events as JSON.")]
    Empty,
    #[error("Invalid request body: {0}.")]
    Unreadable(String),
    #[error("The request body is too large. Send at most {MAX_PACKED_BYTES} bytes, and {MAX_BYTES} when uncompressed.")]
    TooLarge,
    #[error("No api_key found at the start of this large body. Put it before the events, or send it as ?token=.")]
    TokenTooFar,
    #[error("Event {0} is too large: at most {MAX_EVENT_BYTES} bytes of properties, and {MAX_UNSET} names in $unset.")]
    EventTooLarge(usize),
    #[error("A batch can have at most {MAX_EVENTS} events.")]
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
