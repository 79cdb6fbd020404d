//! The statements of a delivery, and which of them it takes.

use crate::destinations::sql::{Table, TableWrite};
use crate::destinations::staging::WriteMode;

/// In milliseconds, as Redshift wants it.
pub(super) const LIMITS: &str = "SET statement_timeout TO 840000";
/// Redshift takes it for serializable, PostgreSQL at its word; with the lock either will do.
pub(super) const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";
const STAGE: &str = "hedgerow_stage";

/// Makes deliveries into one schema wait for each other. Redshift has no finer lock.
pub(super) fn lock(table: &Table) -> String {
    format!("LOCK TABLE {}", table.ledger())
}

/// How the rows of one delivery get into their table.
pub(super) struct Shape(pub(super) TableWrite);

impl Shape {
    /// What makes the stage, if there is one.
    pub(super) fn stage(&self) -> Option<String> {
        let (columns, table) = (self.0.list(), &self.0.table);
        self.0
            .is_staged()
            .then(|| format!("CREATE TEMPORARY TABLE {STAGE} AS SELECT {columns} FROM {table} WHERE 1 = 0"))
    }

    /// Where rows are written first, with its columns.
    pub(super) fn first(&self) -> String {
        let (columns, table) = (self.0.list(), &self.0.table);
        if self.0.is_staged() {
            format!("{STAGE} ({columns})")
        } else {
            format!("{table} ({columns})")
        }
    }

    /// Writes no row, and needs all rights that writing some does.
    pub(super) fn rehearsal(&self) -> String {
        format!(
            "INSERT INTO {} SELECT {} FROM {} WHERE 1 = 0",
            self.first(),
            self.0.list(),
            self.0.table
        )
    }

    /// What brings the rows from the stage into the table, one after the other.
    pub(super) fn unstage(&self) -> Vec<String> {
        let (columns, table) = (self.0.list(), &self.0.table);
        match self.0.mode {
            WriteMode::Append => Vec::new(),
            WriteMode::ReplaceByUuid => {
                let team = if self.0.has("team_id") {
                    self.same("team_id")
                } else {
                    "1 = 1".to_owned()
                };
                vec![
                    format!(
                        "DELETE FROM {table} USING {STAGE} WHERE {} AND {team}",
                        self.same("uuid")
                    ),
                    format!("INSERT INTO {table} ({columns}) SELECT {columns} FROM {STAGE}"),
                    format!("DROP TABLE {STAGE}"),
                ]
            }
            WriteMode::Persons => self.merge(),
        }
    }

    fn merge(&self) -> Vec<String> {
        let (columns, table) = (self.0.list(), &self.0.table);
        let key = format!("{} AND {}", self.same("team_id"), self.same("distinct_id"));
        let versions = self.0.versions();
        let newer: Vec<_> = versions
            .iter()
            .map(|name| format!("{table}.{name} < {STAGE}.{name}"))
            .collect();
        let order: Vec<_> = versions.iter().map(|name| format!("{name} DESC")).collect();
        let (newer, order) = if versions.is_empty() {
            ("1 = 1".to_owned(), "distinct_id".to_owned())
        } else {
            (newer.join(" OR "), order.join(", "))
        };
        vec![
            format!("DELETE FROM {STAGE} USING {table} WHERE {key} AND NOT ({newer})"),
            format!("DELETE FROM {table} USING {STAGE} WHERE {key}"),
            format!(
                "INSERT INTO {table} ({columns}) SELECT {columns} FROM (SELECT {columns}, ROW_NUMBER() OVER \
                 (PARTITION BY team_id, distinct_id ORDER BY {order}) AS hedgerow_order FROM {STAGE}) AS newest \
                 WHERE hedgerow_order = 1"
            ),
            format!("DROP TABLE {STAGE}"),
        ]
    }

    /// Forgets what was remembered of the interval, if it was, and remembers it again. Both take the same first four.
    pub(super) fn remember(&self) -> [String; 2] {
        let ledger = self.0.table.ledger();
        [
            format!(
                "DELETE FROM {ledger} WHERE export_id = $1 AND model = $2 AND interval_start = CAST($3 AS TIMESTAMPTZ) \
                 AND interval_end = CAST($4 AS TIMESTAMPTZ)"
            ),
            format!(
                "INSERT INTO {ledger} (export_id, model, interval_start, interval_end, run_id, \"rows\", delivered_at) \
                 VALUES ($1, $2, CAST($3 AS TIMESTAMPTZ), CAST($4 AS TIMESTAMPTZ), $5, CAST($6 AS BIGINT), \
                 CAST($7 AS TIMESTAMPTZ))"
            ),
        ]
    }

    fn same(&self, column: &str) -> String {
        format!("{}.{column} = {STAGE}.{column}", self.0.table)
    }
}
