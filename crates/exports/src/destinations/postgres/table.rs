//! The schema, the table and the ledger: made if they are missing, looked at if they are there.

use arrow_schema::{DataType, Field};
use tokio_postgres::types::Type;

use super::statements::{BEGIN, MAKING_LOCK};
use crate::destinations::sql::{Name, Session, Table, is_merged};
use crate::{Delivery, Error};

/// A column as the database describes it.
#[derive(Debug, Clone)]
pub(super) struct Column {
    pub(super) name: String,
    /// Of a domain, that of the type below it.
    pub(super) kind: Type,
    /// Texts of any other kind, such as citext and enumerations, are sent as texts.
    pub(super) is_text: bool,
    /// In characters.
    pub(super) longest: Option<usize>,
}

/// Makes what is not there, in a transaction of its own: otherwise two first deliveries would wait for one another.
///
/// Nothing is made, and no right to make anything is needed, if all of it is there.
pub(super) async fn make_missing(session: &Session, table: &Table, delivery: &Delivery) -> Result<(), Error> {
    if exists(session, table).await? && exists(session, &table.ledger()).await? {
        return Ok(());
    }
    session.run("start a transaction", BEGIN).await?;
    let lock = "SELECT pg_catalog.pg_advisory_xact_lock($1)";
    session
        .ask("wait for another delivery", lock, &[(&MAKING_LOCK, Type::INT8)])
        .await?;
    make(session, table, delivery).await?;
    session.run("create the tables", "COMMIT").await
}

/// Makes what is not there, within the transaction that is open.
pub(super) async fn make(session: &Session, table: &Table, delivery: &Delivery) -> Result<(), Error> {
    make_schema(session, table).await?;
    if !exists(session, table).await? {
        session.run("create the table", &create(table, delivery)?).await?;
    }
    let ledger = table.ledger();
    if !exists(session, &ledger).await? {
        session
            .run("create the table hedgerow_ledger", &create_ledger(&ledger))
            .await?;
    }
    Ok(())
}

async fn make_schema(session: &Session, table: &Table) -> Result<(), Error> {
    let sql = "SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = $1";
    let found = session
        .ask("find the schema", sql, &[(&table.schema.bare(), Type::TEXT)])
        .await?;
    if found.is_empty() {
        let sql = format!("CREATE SCHEMA IF NOT EXISTS {}", table.schema);
        session.run("create the schema", &sql).await?;
    }
    Ok(())
}

async fn exists(session: &Session, table: &Table) -> Result<bool, Error> {
    let sql = "SELECT 1 FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
               WHERE n.nspname = $1 AND c.relname = $2";
    let found = session
        .ask(
            "find the table",
            sql,
            &[(&table.schema.bare(), Type::TEXT), (&table.name.bare(), Type::TEXT)],
        )
        .await?;
    Ok(!found.is_empty())
}

fn create(table: &Table, delivery: &Delivery) -> Result<String, Error> {
    let mut columns = Vec::new();
    for field in delivery.schema.fields() {
        let name = Name::new("column", field.name())?;
        columns.push(format!("{name} {}", kind(field, delivery)));
    }
    if is_merged(delivery, |name| delivery.schema.index_of(name).is_ok()) {
        columns.push("PRIMARY KEY (team_id, distinct_id)".to_owned());
    }
    Ok(format!("CREATE TABLE {table} ({})", columns.join(", ")))
}

/// The types of the documented table for events; everything else follows from what it holds.
fn kind(field: &Field, delivery: &Delivery) -> &'static str {
    if !delivery.is_custom && delivery.model == hogql::Model::Events {
        match field.name().as_str() {
            "uuid" | "event" | "distinct_id" | "ip" | "site_url" => return "VARCHAR(200)",
            "elements" => return "JSONB",
            "team_id" => return "INTEGER",
            _ => {}
        }
    }
    match field.data_type() {
        DataType::Int64 => "BIGINT",
        DataType::Float64 => "DOUBLE PRECISION",
        DataType::Boolean => "BOOLEAN",
        DataType::Timestamp(..) => "TIMESTAMPTZ",
        _ if field.metadata().contains_key("json") => "JSONB",
        _ => "TEXT",
    }
}

fn create_ledger(ledger: &Table) -> String {
    format!(
        "CREATE TABLE {ledger} (export_id UUID NOT NULL, model TEXT NOT NULL, interval_start TIMESTAMPTZ NOT NULL, \
         interval_end TIMESTAMPTZ NOT NULL, run_id UUID NOT NULL, rows BIGINT NOT NULL, \
         delivered_at TIMESTAMPTZ NOT NULL, PRIMARY KEY (export_id, interval_start, interval_end, model))"
    )
}

/// The columns that can be written, in the table's order.
pub(super) async fn columns(session: &Session, table: &Table) -> Result<Vec<Column>, Error> {
    let sql = "SELECT a.attname::text, coalesce(nullif(t.typbasetype, 0), t.oid), t.typcategory IN ('S', 'E'), \
               CASE WHEN t.typtype = 'd' THEN t.typtypmod ELSE a.atttypmod END \
               FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid \
               JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
               JOIN pg_catalog.pg_type t ON t.oid = a.atttypid \
               WHERE n.nspname = $1 AND c.relname = $2 AND a.attnum > 0 AND NOT a.attisdropped \
               AND a.attgenerated = '' ORDER BY a.attnum";
    let names: &[_] = &[
        (&table.schema.bare() as _, Type::TEXT),
        (&table.name.bare() as _, Type::TEXT),
    ];
    let rows = session.ask("describe the table", sql, names).await?;
    let unread = |cause| Error::retryable("the database describes the table in an unexpected way", cause);
    let mut columns = Vec::new();
    for row in rows {
        let kind: u32 = row.try_get(1).map_err(unread)?;
        let kind = Type::from_oid(kind).unwrap_or(Type::UNKNOWN);
        let modifier: i32 = row.try_get(3).map_err(unread)?;
        // PostgreSQL keeps the length of a varchar with four bytes of its own added.
        let has_length = matches!(kind, Type::VARCHAR | Type::BPCHAR) && modifier >= 4;
        columns.push(Column {
            name: row.try_get(0).map_err(unread)?,
            is_text: row.try_get(2).map_err(unread)?,
            longest: has_length.then(|| usize::try_from(modifier - 4).unwrap_or_default()),
            kind,
        });
    }
    Ok(columns)
}

/// Whether the ledger has this interval.
pub(super) async fn is_delivered(session: &Session, table: &Table, delivery: &Delivery) -> Result<bool, Error> {
    let sql = format!(
        "SELECT 1 FROM {} WHERE export_id = CAST($1 AS UUID) AND model = $2 AND interval_start = $3 AND interval_end = $4",
        table.ledger()
    );
    let parameters: &[_] = &[
        (&delivery.export.0.to_string() as _, Type::TEXT),
        (&delivery.model.name() as _, Type::TEXT),
        (&delivery.start as _, Type::TIMESTAMPTZ),
        (&delivery.end as _, Type::TIMESTAMPTZ),
    ];
    Ok(!session
        .ask("read the table hedgerow_ledger", &sql, parameters)
        .await?
        .is_empty())
}
