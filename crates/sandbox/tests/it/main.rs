//! Apps of our own, read and run in real child processes.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod browser;
mod budgets;
mod errors;
mod forms;
mod hostile;
mod kit;
mod layers;
mod outside;
mod refusals;
mod running;
mod spares;
