//! What all operations share: who asks, what was sent, how it is answered, and what happens around it.

pub(crate) mod access;
pub(crate) mod answer_memory;
pub(crate) mod bodies;
pub(crate) mod body;
pub(crate) mod body_memory;
pub(crate) mod conditional;
pub(crate) mod context;
pub(crate) mod error;
pub(crate) mod halt;
pub(crate) mod host;
pub(crate) mod idempotency;
pub(crate) mod json;
pub(crate) mod limits;
pub(crate) mod meters;
pub(crate) mod middleware;
pub(crate) mod operation;
pub(crate) mod page;
pub(crate) mod path;
pub(crate) mod query;
pub(crate) mod rendering;
pub(crate) mod repeat;
pub(crate) mod reply;
pub(crate) mod schema;
