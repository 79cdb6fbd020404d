//! The API from outside, in process: every test on SQLite and on PostgreSQL.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod access;
mod activity;
mod bodies;
mod concurrency;
mod document;
mod keys;
mod members;
mod organizations;
mod requests;
mod teams;

use serde_json::Value;
use testkit::Reply;

/// The fields of a page's results, in order.
fn column<'a>(reply: &'a Reply, field: &str) -> Vec<&'a Value> {
    reply.body["results"]
        .as_array()
        .expect("a page")
        .iter()
        .map(|item| &item[field])
        .collect()
}
