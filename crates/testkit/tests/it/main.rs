//! What keeps the house in order.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod directions;
mod tables;
