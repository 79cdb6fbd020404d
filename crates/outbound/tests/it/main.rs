//! The clients against servers on loopback. Nothing here dials anything else.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod dns;
mod http;
mod tls;
