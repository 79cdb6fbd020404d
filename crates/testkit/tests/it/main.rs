//! Rules of the code base, and the external services of tests.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod directions;
mod external;
mod layers;
mod tables;
