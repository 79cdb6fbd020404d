//! The statements of a delivery, and which of them it takes.

use hogql::Model;

use crate::destinations::sql::{Name, Table};
use crate::{Delivery, Error};

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
pub(super) struct Shape {
    table: Table,
    columns: Vec<Name>,
    path: Path,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Path {
    Added,
    /// By a stage; older rows of the same ids go first.
    Replaced,
    /// By a stage, of which what is not newer is left out.
    Merged,
}

impl Shape {
    /// `columns` are those that both the export and the table have.
    pub(super) fn new(
        table: &Table,
        delivery: &Delivery,
        columns: Vec<Name>,
        was_delivered: bool,
    ) -> Result<Self, Error> {
        let has = |name: &str| columns.iter().any(|column| column.bare() == name);
        let is_merged = delivery.model == Model::Persons && has("team_id") && has("distinct_id");
        let path = match () {
            () if is_merged => Path::Merged,
            () if delivery.is_resend && has("uuid") => Path::Replaced,
            () if was_delivered => {
                return Err(Error::plain(
                    "the interval was delivered before, and without a uuid column its rows cannot be identified \
                     and replaced; add uuid to the query and to the table",
                ));
            }
            () => Path::Added,
        };
        Ok(Self {
            table: table.clone(),
            columns,
            path,
        })
    }

    /// What makes the stage, if there is one.
    pub(super) fn stage(&self) -> Option<String> {
        let (columns, table) = (self.list(), &self.table);
        (self.path != Path::Added)
            .then(|| format!("CREATE TEMPORARY TABLE {STAGE} AS SELECT {columns} FROM {table} WHERE 1 = 0"))
    }

    /// Where rows are written first, with its columns.
    pub(super) fn first(&self) -> String {
        match self.path {
            Path::Added => format!("{} ({})", self.table, self.list()),
            Path::Replaced | Path::Merged => format!("{STAGE} ({})", self.list()),
        }
    }

    /// Writes no row, and needs all rights that writing some does.
    pub(super) fn rehearsal(&self) -> String {
        format!(
            "INSERT INTO {} SELECT {} FROM {} WHERE 1 = 0",
            self.first(),
            self.list(),
            self.table
        )
    }

    /// What brings the rows from the stage into the table, one after the other.
    pub(super) fn unstage(&self) -> Vec<String> {
        let (columns, table) = (self.list(), &self.table);
        match self.path {
            Path::Added => Vec::new(),
            Path::Replaced => {
                let team = if self.has("team_id") {
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
            Path::Merged => self.merge(),
        }
    }

    fn merge(&self) -> Vec<String> {
        let (columns, table) = (self.list(), &self.table);
        let key = format!("{} AND {}", self.same("team_id"), self.same("distinct_id"));
        let versions: Vec<_> = ["person_version", "person_distinct_id_version"]
            .into_iter()
            .filter(|name| self.has(name))
            .collect();
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
        let ledger = self.table.ledger();
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
        format!("{}.{column} = {STAGE}.{column}", self.table)
    }

    fn has(&self, name: &str) -> bool {
        self.columns.iter().any(|column| column.bare() == name)
    }

    fn list(&self) -> String {
        let columns: Vec<_> = self.columns.iter().map(ToString::to_string).collect();
        columns.join(", ")
    }
}
