//! Claims in a ledger: which attempt can commit an interval, and which one did.

use uuid::Uuid;

use crate::Delivery;

/// Beside the tables of exports: which intervals have arrived.
pub(crate) const LEDGER: &str = "hedgerow_deliveries";

/// One attempt at a delivery. Only the newest that claimed an interval can commit it.
#[derive(Debug, Clone)]
pub(crate) struct Claim {
    pub(crate) export: String,
    pub(crate) table: String,
    pub(crate) start: String,
    pub(crate) end: String,
    pub(crate) attempt: String,
    pub(crate) is_resend: bool,
}

impl Claim {
    pub(crate) fn new(delivery: &Delivery, table: &str) -> Self {
        Self {
            export: delivery.export.0.to_string(),
            table: table.to_owned(),
            start: delivery.start.to_rfc3339(),
            end: delivery.end.to_rfc3339(),
            attempt: attempt_name(),
            is_resend: delivery.is_resend,
        }
    }
}

/// What a ledger has of an interval.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LedgerEntry {
    /// The attempt that claimed it last.
    pub(crate) attempt: Option<String>,
    pub(crate) is_delivered: bool,
}

impl LedgerEntry {
    /// Of a ledger that names no attempts.
    pub(crate) fn delivered(is_delivered: bool) -> Self {
        Self {
            attempt: None,
            is_delivered,
        }
    }

    /// From the answer to a query of the attempt that claimed last and the one that committed.
    pub(crate) fn of(rows: Vec<Vec<Option<String>>>) -> Self {
        let mut cells = rows.into_iter().next().unwrap_or_default().into_iter();
        Self {
            attempt: cells.next().flatten(),
            is_delivered: cells.next().flatten().is_some(),
        }
    }
}

/// A name for an attempt that no other has.
pub(crate) fn attempt_name() -> String {
    Uuid::now_v7().simple().to_string()
}

/// Where the rows of an attempt wait.
pub(crate) fn stage_name(attempt: &str) -> String {
    format!("hedgerow_stage_{attempt}")
}

/// An attempt as a ledger holds it: what we wrote, or else nothing that may become part of a name.
pub(crate) fn is_attempt(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}
