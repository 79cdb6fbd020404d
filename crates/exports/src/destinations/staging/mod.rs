//! What the warehouses share: rows as Parquet files on their way to a stage, the ledger's key, signed tokens, and the
//! steps of a test.

mod backoff;
mod columns;
mod jwt;
mod spool;
mod steps;

pub(super) use backoff::Backoff;
pub(super) use columns::{Column, columns};
pub(super) use jwt::private_key;
pub(super) use spool::{FILE_SIZE, Spool};
pub(super) use steps::Steps;

use hogql::Model;
use uuid::Uuid;

use crate::{Delivery, Error};

/// Beside the tables of exports: which intervals have arrived.
pub(super) const LEDGER: &str = "hedgerow_deliveries";

/// One attempt at a delivery. Only the newest that claimed an interval can commit it.
#[derive(Debug, Clone)]
pub(super) struct Claim {
    pub(super) export: String,
    pub(super) table: String,
    pub(super) start: String,
    pub(super) end: String,
    pub(super) attempt: String,
    pub(super) is_resend: bool,
}

impl Claim {
    pub(super) fn new(delivery: &Delivery, table: &str) -> Self {
        Self {
            export: delivery.export.0.to_string(),
            table: table.to_owned(),
            start: delivery.start.to_rfc3339(),
            end: delivery.end.to_rfc3339(),
            attempt: Uuid::now_v7().simple().to_string(),
            is_resend: delivery.is_resend,
        }
    }
}

/// Where the rows of an attempt wait.
pub(super) fn stage_name(attempt: &str) -> String {
    format!("hedgerow_stage_{attempt}")
}

/// An attempt as a ledger holds it: what we wrote, or else nothing that may become part of a name.
pub(super) fn is_attempt(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// How rows get from the stage into the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WriteMode {
    /// Added as they are.
    Append,
    /// What has the same `uuid` is taken away first.
    ReplaceByUuid,
    /// One row for each person, the newest.
    Persons,
}

impl WriteMode {
    /// The way for a delivery, given the columns that go into the table.
    pub(super) fn of(delivery: &Delivery, columns: &[Column]) -> Result<Self, Error> {
        let has = |name: &str| columns.iter().any(|column| column.name == name);
        if delivery.model == Model::Persons && PERSON_COLUMNS.into_iter().all(has) {
            return Ok(Self::Persons);
        }
        if delivery.model == Model::Persons && !delivery.is_custom {
            return Err(Error::plain(
                "the table lacks columns that persons need; choose the name of a table that doesn't exist yet",
            ));
        }
        match (delivery.is_resend, has("uuid")) {
            (false, _) => Ok(Self::Append),
            (true, true) => Ok(Self::ReplaceByUuid),
            (true, false) => Err(Error::plain(
                "rows without a uuid cannot be replaced; add uuid to the query, or use \
                 another table",
            )),
        }
    }
}

/// What tells persons and their versions apart.
pub(super) const PERSON_COLUMNS: [&str; 4] = ["team_id", "distinct_id", "person_version", "person_distinct_id_version"];
