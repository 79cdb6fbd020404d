//! For tests and benchmarks only: fresh databases, people to act as, a client without a port, made-up data.

pub mod databases;
pub mod kit;
pub mod seed;

pub use kit::{Kit, Reply};
