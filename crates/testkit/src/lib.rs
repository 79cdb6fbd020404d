//! For tests and benchmarks only: fresh databases, people to act as, a client without a port, made-up data.

#![expect(clippy::missing_panics_doc, reason = "what goes wrong here is a test that fails")]

pub mod alone;
pub mod bench;
pub mod browser;
pub mod databases;
pub mod external;
pub mod kit;
pub mod seed;
pub mod stored;

pub use browser::Browser;
pub use kit::{Kit, Reply};
