pub(super) mod backfills;
pub(super) mod delivered;
pub(super) mod exports;
pub(super) mod logs;
pub(super) mod runs;

use crate::error::Error;

/// A word in a row that this version does not know: a newer one wrote it.
fn unknown(what: &'static str) -> Error {
    Error::Database(sqlx::Error::Decode(format!("an unknown {what}").into()))
}
