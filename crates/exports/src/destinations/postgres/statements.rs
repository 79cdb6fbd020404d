//! The statements of a delivery, and which of them it takes.

use hogql::Model;
use sha2::{Digest, Sha256};

use crate::destinations::sql::{Name, Table};
use crate::{Delivery, Error};

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

/// Persons are brought up to date by their key; everything else is added.
pub(super) fn is_merged(delivery: &Delivery, has: impl Fn(&str) -> bool) -> bool {
    delivery.model == Model::Persons && has("team_id") && has("distinct_id")
}

/// How the rows of one delivery get into their table.
pub(super) struct Shape {
    table: Table,
    columns: Vec<Name>,
    path: Path,
}

enum Path {
    /// Straight in: nothing is seen before the commit anyway.
    Added,
    /// By a stage, from which older rows of the same ids are replaced.
    Replaced,
    /// By a stage, from which newer versions are taken.
    Merged,
}

const STAGE: &str = "pg_temp.hedgerow_stage";

impl Shape {
    /// `columns` are those that both the export and the table have.
    pub(super) fn new(
        table: &Table,
        delivery: &Delivery,
        columns: Vec<Name>,
        was_delivered: bool,
    ) -> Result<Self, Error> {
        let has = |name: &str| columns.iter().any(|column| column.bare() == name);
        let path = if is_merged(delivery, has) {
            Path::Merged
        } else if has("uuid") && delivery.is_resend {
            Path::Replaced
        } else if was_delivered {
            return Err(Error::plain(
                "the interval was delivered before, and without a uuid column its rows cannot be identified and \
                 replaced; add uuid to the query and to the table",
            ));
        } else {
            Path::Added
        };
        Ok(Self {
            table: table.clone(),
            columns,
            path,
        })
    }

    /// What makes the stage, if there is one.
    pub(super) fn stage(&self) -> Option<String> {
        let Self { table, path, .. } = self;
        let columns = self.list();
        // Of the table's own types, but without its constraints.
        (!matches!(path, Path::Added)).then(|| {
            format!(
                "CREATE TEMPORARY TABLE hedgerow_stage ON COMMIT DROP AS SELECT {columns} FROM {table} WITH NO DATA"
            )
        })
    }

    pub(super) fn copy(&self) -> String {
        let columns = self.list();
        match self.path {
            Path::Added => format!("COPY {} ({columns}) FROM STDIN (FORMAT binary)", self.table),
            Path::Replaced | Path::Merged => format!("COPY {STAGE} ({columns}) FROM STDIN (FORMAT binary)"),
        }
    }

    /// What brings the rows from the stage into the table.
    pub(super) fn unstage(&self) -> Option<String> {
        let Self { table, .. } = self;
        let columns = self.list();
        match self.path {
            Path::Added => None,
            Path::Replaced => Some(format!(
                "DELETE FROM {table} t USING {STAGE} s WHERE t.uuid = s.uuid{}; \
                 INSERT INTO {table} ({columns}) SELECT {columns} FROM {STAGE}",
                if self.has("team_id") {
                    " AND t.team_id = s.team_id"
                } else {
                    ""
                }
            )),
            Path::Merged => Some(self.merge()),
        }
    }

    /// In the order of the keys, so that two merges into one table do not lock each other out.
    fn merge(&self) -> String {
        let columns = self.list();
        let versions: Vec<_> = ["person_version", "person_distinct_id_version"]
            .into_iter()
            .filter(|name| self.has(name))
            .collect();
        let mut order = vec!["team_id".to_owned(), "distinct_id".to_owned()];
        order.extend(versions.iter().map(|name| format!("{name} DESC NULLS LAST")));
        let sets: Vec<_> = self
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
            self.table,
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
            self.table.ledger()
        )
    }

    fn has(&self, name: &str) -> bool {
        self.columns.iter().any(|column| column.bare() == name)
    }

    fn list(&self) -> String {
        let columns: Vec<_> = self.columns.iter().map(ToString::to_string).collect();
        columns.join(", ")
    }
}
