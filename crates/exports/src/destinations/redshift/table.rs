//! The schema, the table and the ledger: made if they are missing, looked at if they are there.

use arrow_schema::{DataType, Field};
use service::Time;
use service::batch_exports::destination::PropertiesType;
use tokio_postgres::types::Type;

use super::column::{Column, Kind};
use super::values::spelled_time;
use crate::destinations::sql::{Name, Parameters, Session, Table};
use crate::{Delivery, Error};

/// Makes what is not there. Each statement commits on its own.
pub(super) async fn make_missing(
    session: &Session,
    table: &Table,
    delivery: &Delivery,
    json: PropertiesType,
) -> Result<(), Error> {
    let schema: Parameters<'_> = &[(&table.schema.bare(), Type::VARCHAR)];
    let look = "SELECT 1 FROM pg_catalog.pg_namespace WHERE lower(nspname) = lower($1)";
    if session.ask("find the schema", look, schema).await?.is_empty() {
        let sql = format!("CREATE SCHEMA IF NOT EXISTS {}", table.schema);
        if let Err(error) = session.run("create the schema", &sql).await {
            // Somebody may have made it at the same moment.
            let found = session.ask("find the schema", look, schema).await;
            if found.map_or(true, |found| found.is_empty()) {
                return Err(error);
            }
        }
    }
    make_table(session, "create the table", table, &create(table, delivery, json)?).await?;
    let ledger = table.ledger();
    make_table(
        session,
        "create the table hedgerow_ledger",
        &ledger,
        &create_ledger(&ledger),
    )
    .await
}

async fn make_table(session: &Session, doing: &str, table: &Table, sql: &str) -> Result<(), Error> {
    if !columns(session, table).await?.is_empty() {
        return Ok(());
    }
    let Err(error) = session.run(doing, sql).await else {
        return Ok(());
    };
    // IF NOT EXISTS does not help against somebody who makes it at the same moment.
    match columns(session, table).await {
        Ok(columns) if !columns.is_empty() => Ok(()),
        _ => Err(error),
    }
}

fn create(table: &Table, delivery: &Delivery, json: PropertiesType) -> Result<String, Error> {
    let mut columns = Vec::new();
    for field in delivery.schema.fields() {
        let name = Name::new("column", field.name())?;
        columns.push(format!("{name} {}", kind(field, delivery, json)));
    }
    Ok(format!("CREATE TABLE IF NOT EXISTS {table} ({})", columns.join(", ")))
}

/// The types of the documented table for events; everything else follows from what it holds.
fn kind(field: &Field, delivery: &Delivery, json: PropertiesType) -> &'static str {
    if !delivery.is_custom && delivery.model == hogql::Model::Events {
        match field.name().as_str() {
            "uuid" | "event" | "distinct_id" | "ip" | "site_url" => return "VARCHAR(200)",
            "team_id" => return "INTEGER",
            _ => {}
        }
    }
    match field.data_type() {
        DataType::Int64 => "BIGINT",
        DataType::Float64 => "DOUBLE PRECISION",
        DataType::Boolean => "BOOLEAN",
        DataType::Timestamp(..) => "TIMESTAMPTZ",
        _ if field.metadata().contains_key("json") && json == PropertiesType::Super => "SUPER",
        _ => "VARCHAR(65535)",
    }
}

fn create_ledger(ledger: &Table) -> String {
    format!(
        "CREATE TABLE IF NOT EXISTS {ledger} (export_id VARCHAR(36) NOT NULL, model VARCHAR(32) NOT NULL, \
         interval_start TIMESTAMPTZ NOT NULL, interval_end TIMESTAMPTZ NOT NULL, run_id VARCHAR(36) NOT NULL, \
         \"rows\" BIGINT NOT NULL, delivered_at TIMESTAMPTZ NOT NULL, \
         PRIMARY KEY (export_id, interval_start, interval_end, model))"
    )
}

/// The table's columns, in its order. Redshift keeps names in lower case unless it is set otherwise.
pub(super) async fn columns(session: &Session, table: &Table) -> Result<Vec<Column>, Error> {
    let sql = "SELECT CAST(column_name AS VARCHAR(128)), CAST(data_type AS VARCHAR(64)), \
               CAST(character_maximum_length AS VARCHAR(16)) FROM information_schema.columns \
               WHERE lower(table_schema) = lower($1) AND lower(table_name) = lower($2) ORDER BY ordinal_position";
    let names: Parameters<'_> = &[
        (&table.schema.bare(), Type::VARCHAR),
        (&table.name.bare(), Type::VARCHAR),
    ];
    let unread = |cause| Error::retryable("the database describes the table in an unexpected way", cause);
    let mut columns = Vec::new();
    for row in session.ask("describe the table", sql, names).await? {
        let kind: String = row.try_get(1).map_err(unread)?;
        let longest: Option<String> = row.try_get(2).map_err(unread)?;
        columns.push(Column {
            name: row.try_get(0).map_err(unread)?,
            kind: Kind::named(&kind, longest.and_then(|longest| longest.parse().ok())),
        });
    }
    Ok(columns)
}

/// Whether the ledger has this interval.
pub(super) async fn is_delivered(session: &Session, table: &Table, delivery: &Delivery) -> Result<bool, Error> {
    let sql = format!(
        "SELECT 1 FROM {} WHERE export_id = $1 AND model = $2 AND interval_start = CAST($3 AS TIMESTAMPTZ) \
         AND interval_end = CAST($4 AS TIMESTAMPTZ)",
        table.ledger()
    );
    let key = key(delivery);
    let found = session
        .ask("read the table hedgerow_ledger", &sql, &texts(&key))
        .await?;
    Ok(!found.is_empty())
}

/// What the ledger knows an interval by.
pub(super) fn key(delivery: &Delivery) -> Vec<String> {
    let time = |time: Time| spelled_time(time.timestamp_micros());
    vec![
        delivery.export.0.to_string(),
        delivery.model.name().to_owned(),
        time(delivery.start),
        time(delivery.end),
    ]
}

/// Texts as parameters.
pub(super) fn texts(values: &[String]) -> Vec<(&(dyn tokio_postgres::types::ToSql + Sync), Type)> {
    values.iter().map(|value| (value as _, Type::VARCHAR)).collect()
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use hogql::Model;
    use service::{ExportId, RunId};
    use uuid::Uuid;

    use super::*;

    /// What only Redshift itself can run, as its documentation has it.
    #[test]
    fn the_table_has_the_documented_columns() {
        let delivery = Delivery {
            export: ExportId(Uuid::nil()),
            run: RunId(Uuid::nil()),
            team: 1,
            model: Model::Events,
            start: DateTime::UNIX_EPOCH,
            end: DateTime::UNIX_EPOCH,
            schema: events::schema(&crate::layout::table(Model::Events)),
            is_custom: false,
            is_resend: false,
            resumed_after: crate::Receipt::default(),
            acknowledged: crate::Acknowledged::default(),
        };
        let table = Table::target("public", "events").unwrap();
        assert_eq!(
            create(&table, &delivery, PropertiesType::Super).unwrap(),
            "CREATE TABLE IF NOT EXISTS \"public\".\"events\" (\"uuid\" VARCHAR(200), \"event\" VARCHAR(200), \
             \"properties\" SUPER, \"elements\" VARCHAR(65535), \"set\" SUPER, \"set_once\" SUPER, \
             \"distinct_id\" VARCHAR(200), \"team_id\" INTEGER, \"ip\" VARCHAR(200), \"site_url\" VARCHAR(200), \
             \"timestamp\" TIMESTAMPTZ)"
        );
    }
}
