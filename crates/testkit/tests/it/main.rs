//! What keeps the house in order, and the real parts of tests.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod directions;
mod parts;
mod tables;
