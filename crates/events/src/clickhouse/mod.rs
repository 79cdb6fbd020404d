//! ClickHouse, over HTTP, in Arrow.
//!
//! An append has the ingestion time of its call. It is answered when ClickHouse has stored it, and given up long before
//! [`SETTLED_AFTER`], so an interval is complete that long after its end. That supposes that the clocks of all processes
//! differ by less than ten seconds, and that the server ends an insert when `max_execution_time` tells it to.
//!
//! ClickHouse has no transactions, so persons are read, changed and written back. One task of a process does that, one
//! group of appends after the other. Two processes that change the same person at the same moment both start from the
//! same version, and the later write wins: a property that the other one set is lost, or one of two merges is. An event
//! never is. Ids of persons follow from team and distinct id, so both make the same person of a new name.

mod address;
mod append;
mod client;
mod codes;
mod costs;
mod groups;
mod insert;
mod lookup;
mod memory;
mod people;
mod rows;
mod scan;
mod slow_teams;
mod stream;
mod tables;
mod work_by_sender;
mod writer;

use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use hogql::Model;
use outbound::Http;
use uuid::Uuid;

use self::address::Tables;
use self::insert::Inserter;
use self::writer::Writer;
use crate::rows::Portion;
use crate::{Hold, Incoming, Result, Rows, Scan, Time, schema};

pub use client::{Client, Statement, identifier};

/// An insert is given up long before this; what was stored before an interval's end is visible this long after it.
pub const SETTLED_AFTER: TimeDelta = TimeDelta::seconds(30);

/// How long a scan may go on, and how long it may be silent.
const MAX_SCAN: u64 = 6 * 60 * 60;
const SILENCE: Duration = Duration::from_mins(5);

/// How much memory ClickHouse has for a query of a tenant, and for one that people wait for: it works on thousands of rows at a time, each
/// of which a query can make large.
const MAX_MEMORY: u64 = 4 << 30;
const MAX_MEMORY_OF_PREVIEW: u64 = 1 << 30;

/// The store. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ClickHouse(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    client: Client,
    tables: Arc<Tables>,
    makes_tables: bool,
    settings: Arc<[(String, String)]>,
    writer: Writer,
}

impl ClickHouse {
    /// `url`: `clickhouse://user:password@host:8123/database`. Makes the tables that are missing, unless they were named.
    pub async fn open(url: &str, http: Http) -> Result<Self> {
        let address = address::read(url, http)?;
        let (tables, settings): (_, Arc<[_]>) = (Arc::new(address.tables), address.settings.into());
        let inserter = Inserter {
            client: address.client.clone(),
            settings: settings.clone(),
        };
        let store = Self(Arc::new(Inner {
            writer: Writer::start(inserter, tables.clone()),
            client: address.client,
            tables,
            makes_tables: address.makes_tables,
            settings,
        }));
        if address.makes_tables {
            store.create_tables().await?;
        }
        Ok(store)
    }

    /// Makes the tables that are missing.
    pub async fn create_tables(&self) -> Result<()> {
        tables::create(&self.0.client, &self.0.tables).await
    }

    pub(crate) async fn append(&self, hold: Hold, team: i64, events: Vec<Incoming>, now: Time) -> Result<()> {
        if let Some(index) = events.iter().position(Incoming::is_too_large) {
            return Err(crate::Error::EventTooLarge(index));
        }
        self.0.writer.append(hold, team, events, now).await
    }

    pub(crate) fn scan(&self, scan: &Scan, portion: Portion) -> Rows {
        let schema = schema(&scan.query);
        let (sender, rows) = Rows::channel(schema.clone(), portion);
        let most_memory = scan.limit.map_or(MAX_MEMORY, |_| MAX_MEMORY_OF_PREVIEW);
        let statement = self
            .read(scan::rows(scan, &self.0.tables, portion))
            .within(SILENCE)
            .set("max_execution_time", MAX_SCAN)
            .set("max_block_size", portion.block)
            .set("max_memory_usage", most_memory)
            .set("output_format_arrow_string_as_string", 1);
        let client = self.0.client.clone();
        tokio::spawn(async move {
            let opened = tokio::select! {
                opened = client.open(statement) => opened,
                // The first rows may be long in coming; the server ends the query when the connection closes.
                () = sender.closed() => return,
            };
            let done = match opened {
                Ok(chunks) => stream::pump(chunks, schema, portion, &sender).await,
                Err(error) => Err(error),
            };
            if let Err(error) = done {
                // Nobody may be left to hear it.
                let _ = sender.send(Err(error)).await;
            }
        });
        rows
    }

    pub(crate) async fn count(&self, scan: Scan) -> Result<u64> {
        let statement = self.read(scan::count(&scan, &self.0.tables)).within(SILENCE);
        let text = self.0.client.text(statement).await?;
        text.trim().parse().map_err(|_| crate::Error::CutOff)
    }

    pub(crate) async fn earliest(&self, team: i64, model: Model) -> Result<Option<Time>> {
        let statement = self.read(scan::earliest(team, model, &self.0.tables)).within(SILENCE);
        scan::time(&self.0.client.text(statement).await?)
    }

    /// If the operator created the tables, no claim is recorded, and any instance is accepted.
    pub(crate) async fn claim(&self, instance: Uuid) -> Result<Uuid> {
        if !self.0.makes_tables {
            return Ok(instance);
        }
        tables::claim(&self.0.client, instance).await
    }

    pub(crate) async fn highest_team(&self) -> Result<i64> {
        let tables = &self.0.tables;
        let mut highest = 0;
        for table in [&tables.events, &tables.persons, &tables.distinct_ids] {
            // Zero where there are no rows.
            let sql = format!("SELECT max(team_id) FROM {}", identifier(table));
            let text = self
                .0
                .client
                .text(self.read(Statement::new(sql)).within(SILENCE))
                .await?;
            highest = highest.max(text.trim().parse().map_err(|_| crate::Error::CutOff)?);
        }
        Ok(highest)
    }

    /// Has the server copy all tables to a place that it knows, such as `Disk('backups', 'name.zip')`.
    pub async fn copy_to(&self, place: &str) -> Result<()> {
        self.run_for_hours(format!("BACKUP {} TO {place}", self.whole())).await
    }

    /// Has the server fill the tables, which must be empty, from such a copy.
    pub async fn restore_from(&self, place: &str) -> Result<()> {
        self.run_for_hours(format!("RESTORE {} FROM {place}", self.whole()))
            .await
    }

    fn whole(&self) -> String {
        let tables = &self.0.tables;
        let names = [&tables.events, &tables.persons, &tables.distinct_ids];
        let names: Vec<_> = names.map(|table| format!("TABLE {}", identifier(table))).into();
        names.join(", ")
    }

    async fn run_for_hours(&self, sql: String) -> Result<()> {
        let statement = Statement::new(sql).within(Duration::from_secs(MAX_SCAN));
        self.0.client.run(statement).await
    }

    /// Whether the server answers, knows us, and has the tables.
    pub(crate) async fn ping(&self) -> Result<()> {
        let sql = format!("SELECT 1 FROM {} LIMIT 0", identifier(&self.0.tables.events));
        let statement = Statement::new(sql).within(Duration::from_secs(5));
        self.0.client.run(statement).await
    }

    /// Deletes everything of a team, and waits until it is gone from every replica.
    pub(crate) async fn forget_team(&self, team: i64) -> Result<()> {
        let tables = &self.0.tables;
        for table in [&tables.events, &tables.persons, &tables.distinct_ids] {
            let sql = format!(
                "ALTER TABLE {} DELETE WHERE team_id = {{team:Int64}}",
                identifier(table)
            );
            let statement = Statement::new(sql).bind("team", team).set("mutations_sync", 2);
            self.0.client.run(statement.within(SILENCE)).await?;
        }
        self.0.writer.forget(team).await
    }

    /// A statement that cannot change anything, and that ends when nobody listens.
    fn read(&self, statement: Statement) -> Statement {
        let statement = statement
            .set("readonly", 2)
            .set("max_memory_usage", MAX_MEMORY)
            .set("cancel_http_readonly_queries_on_client_close", 1);
        self.0
            .settings
            .iter()
            .filter(|(name, _)| name.starts_with("select"))
            .fold(statement, |statement, (name, value)| statement.set(name, value))
    }
}
