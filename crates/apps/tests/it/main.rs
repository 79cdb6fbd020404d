//! Apps from archives, from a service on this machine, and from a folder. Nothing here dials anything but loopback.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod archives;
mod catalog;
mod download;
mod fairness;
mod hostile;
mod hosts;
mod latest;
mod local;
mod pack;
mod pins;
mod refusals;
mod remote_host;
mod running;
mod upgrades;
mod uses;
