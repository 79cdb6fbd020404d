#![expect(clippy::unwrap_used, reason = "these are tests")]

mod bounds;
mod claims;
mod clickhouse;
mod crash;
mod embedded;
mod folder;
mod hogql;
mod import;
mod seam;
mod suite;
