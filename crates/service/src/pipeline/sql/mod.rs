pub(super) mod apps;
pub(super) mod configs;
pub(super) mod hosts;
pub(super) mod logs;
pub(super) mod sites;
pub(super) mod storage;
pub(super) mod tasks;
pub(super) mod usage;
pub(super) mod uses;
pub(super) mod versions;

use crate::error::Error;

/// A word in a row that this version does not know: a newer one wrote it.
fn unknown(what: &'static str) -> Error {
    Error::Database(sqlx::Error::Decode(format!("an unknown {what}").into()))
}
