//! The statements of a delivery, and which of them it takes.

use sha2::{Digest, Sha256};

use crate::Delivery;
use crate::destinations::sql::TableWrite;
use crate::destinations::staging::WriteMode;

/// Read committed, whatever the user's default is: who has waited for the lock must see what the other one committed.
/// Everything is set for this transaction alone, so that it works through a pool.
pub(super) const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED; \
     SET LOCAL statement_timeout = '14min'; SET LOCAL lock_timeout = '60s'; \
     SET LOCAL idle_in_transaction_session_timeout = '30min'; SET LOCAL client_min_messages = 'warning'; \
     SET LOCAL tcp_keepalives_idle = 60; SET LOCAL tcp_keepalives_interval = 10; SET LOCAL tcp_keepalives_count = 6";

/// Held while tables are made. Any number that others are unlikely to use.
pub(super) const MAKING_LOCK: i64 = 0x4865_6467_6572_6f77;

/// Held while an interval is delivered, so that another worker waits and then finds it in the ledger.
pub(super) fn delivery_lock(delivery: &Delivery) -> i64 {
    let mut digest = Sha256::new();
    digest.update(delivery.export.0.as_bytes());
    digest.update(delivery.model.name());
    digest.update(delivery.start.timestamp_micros().to_be_bytes());
    digest.update(delivery.end.timestamp_micros().to_be_bytes());
    let digest = digest.finalize();
    i64::from_be_bytes(digest[..8].try_into().expect("a digest has more than eight bytes"))
}

const STAGE: &str = "pg_temp.hedgerow_stage";

/// How the rows of one delivery get into their table.
pub(super) struct Shape(pub(super) TableWrite);

impl Shape {
    /// What makes the stage, if there is one.
    pub(super) fn stage(&self) -> Option<String> {
        let (columns, table) = (self.0.list(), &self.0.table);
        // Of the table's own types, but without its constraints.
        self.0.is_staged().then(|| {
            format!(
                "CREATE TEMPORARY TABLE hedgerow_stage ON COMMIT DROP AS SELECT {columns} FROM {table} WITH NO DATA"
            )
        })
    }

    pub(super) fn copy(&self) -> String {
        let (columns, table) = (self.0.list(), &self.0.table);
        if self.0.is_staged() {
            format!("COPY {STAGE} ({columns}) FROM STDIN (FORMAT binary)")
        } else {
            format!("COPY {table} ({columns}) FROM STDIN (FORMAT binary)")
        }
    }

    /// What brings the rows from the stage into the table.
    pub(super) fn unstage(&self) -> Option<String> {
        let (columns, table) = (self.0.list(), &self.0.table);
        match self.0.mode {
            WriteMode::Append => None,
            WriteMode::ReplaceByUuid => Some(format!(
                "DELETE FROM {table} t USING {STAGE} s WHERE t.uuid = s.uuid{}; \
                 INSERT INTO {table} ({columns}) SELECT {columns} FROM {STAGE}",
                if self.0.has("team_id") {
                    " AND t.team_id = s.team_id"
                } else {
                    ""
                }
            )),
            WriteMode::Persons => Some(self.merge()),
        }
    }

    /// In the order of the keys, so that two merges into one table do not lock each other out.
    fn merge(&self) -> String {
        let (columns, versions) = (self.0.list(), self.0.versions());
        let mut order = vec!["team_id".to_owned(), "distinct_id".to_owned()];
        order.extend(versions.iter().map(|name| format!("{name} DESC NULLS LAST")));
        let sets: Vec<_> = self
            .0
            .columns
            .iter()
            .map(|name| format!("{name} = excluded.{name}"))
            .collect();
        let newer: Vec<_> = versions
            .iter()
            .map(|name| format!("t.{name} < excluded.{name}"))
            .collect();
        let newer = if newer.is_empty() {
            "true".to_owned()
        } else {
            newer.join(" OR ")
        };
        format!(
            "INSERT INTO {} AS t ({columns}) SELECT DISTINCT ON (team_id, distinct_id) {columns} FROM {STAGE} \
             ORDER BY {} \
             ON CONFLICT (team_id, distinct_id) DO UPDATE SET {} WHERE {newer}",
            self.0.table,
            order.join(", "),
            sets.join(", ")
        )
    }

    /// Remembers the interval; a resend overwrites what was remembered.
    pub(super) fn remember(&self) -> String {
        format!(
            "INSERT INTO {} (export_id, model, interval_start, interval_end, run_id, rows, delivered_at) \
             VALUES (CAST($1 AS UUID), $2, $3, $4, CAST($5 AS UUID), $6, pg_catalog.clock_timestamp()) \
             ON CONFLICT (export_id, interval_start, interval_end, model) \
             DO UPDATE SET run_id = excluded.run_id, rows = excluded.rows, delivered_at = excluded.delivered_at",
            self.0.table.ledger()
        )
    }
}
