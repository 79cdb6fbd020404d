//! The owner's table: made if it is missing, looked at if it is there.

use arrow_schema::{DataType, Field, SchemaRef};
use events::clickhouse::{Statement, identifier};
use hogql::Model;

use super::session::Session;
use crate::{Delivery, Error};

/// What a delivery has to know of the table.
#[derive(Debug, Clone)]
pub(super) struct Target {
    /// Parts can be moved in from a table of the same structure.
    pub takes_parts: bool,
    /// Rows of one key become one, at any time.
    pub is_replacing: bool,
    has_uuid: bool,
}

impl Target {
    /// Whether rows that were delivered before can be told from others. Persons are replaced by their version anyway.
    pub(super) fn can_replace(&self, delivery: &Delivery) -> bool {
        let is_sent = delivery.schema.column_with_name("uuid").is_some();
        self.deletes_first(delivery) || !is_sent && delivery.model == Model::Persons
    }

    pub(super) fn deletes_first(&self, delivery: &Delivery) -> bool {
        self.has_uuid && delivery.schema.column_with_name("uuid").is_some()
    }
}

/// Finds the table, or makes it.
pub(super) async fn prepare(session: &Session, table: &str, delivery: &Delivery) -> Result<Target, Error> {
    if let Some(target) = find(session, table).await? {
        return Ok(target);
    }
    session.sql("create the table", create(table, delivery)).await?;
    find(session, table).await?.ok_or_else(|| {
        Error::plain("the table was created, but the user cannot see it; grant SHOW TABLES and SHOW COLUMNS on it")
    })
}

pub(super) async fn find(session: &Session, table: &str) -> Result<Option<Target>, Error> {
    let sql = "SELECT engine, (SELECT count() FROM system.columns WHERE database = currentDatabase() \
               AND table = {table:String} AND name = 'uuid') FROM system.tables \
               WHERE database = currentDatabase() AND name = {table:String}";
    let rows = session
        .rows("describe the table", Statement::new(sql).bind("table", table))
        .await?;
    let target = |row: &Vec<String>| Target {
        // A replicated one would need a stage with a path of its own in the keeper; it is copied into instead.
        takes_parts: ["MergeTree", "ReplacingMergeTree"].contains(&row[0].as_str()),
        is_replacing: row[0] == "ReplacingMergeTree",
        has_uuid: row.get(1).is_some_and(|count| count != "0"),
    };
    Ok(rows.first().map(target))
}

fn create(table: &str, delivery: &Delivery) -> String {
    let columns = columns(&delivery.schema, !delivery.is_custom);
    // By ingestion time: what happened may carry any date, and a block must not belong to many partitions.
    let rest = match delivery.model {
        _ if delivery.is_custom => "MergeTree ORDER BY tuple()",
        Model::Events => "MergeTree PARTITION BY toYYYYMM(_inserted_at) ORDER BY (team_id, timestamp, uuid)",
        Model::Persons => "ReplacingMergeTree(person_version) ORDER BY (team_id, distinct_id)",
    };
    format!(
        "CREATE TABLE IF NOT EXISTS {} ({columns}) ENGINE = {rest}",
        identifier(table)
    )
}

/// A stage beside a table that takes no parts, from which rows are copied.
pub(super) fn loose_stage(stage: &str, schema: &SchemaRef) -> String {
    let columns = columns(schema, false);
    format!(
        "CREATE TABLE {} ({columns}) ENGINE = MergeTree ORDER BY tuple()",
        identifier(stage)
    )
}

fn columns(schema: &SchemaRef, is_known: bool) -> String {
    let column = |field: &Field| {
        let kind = match field.data_type() {
            _ if is_known && ["uuid", "person_id"].contains(&field.name().as_str()) => "UUID",
            DataType::Int64 => "Int64",
            DataType::Float64 => "Float64",
            DataType::Boolean => "Bool",
            DataType::Timestamp(..) => "DateTime64(6, 'UTC')",
            _ => "String",
        };
        // The columns of a query may be null; ours are not.
        let kind = if is_known {
            kind.to_owned()
        } else {
            format!("Nullable({kind})")
        };
        format!("{} {kind}", identifier(field.name()))
    };
    let columns: Vec<_> = schema.fields().iter().map(|field| column(field)).collect();
    columns.join(", ")
}

/// The names of columns, quoted.
pub(super) fn names(schema: &SchemaRef) -> String {
    let names: Vec<_> = schema.fields().iter().map(|field| identifier(field.name())).collect();
    names.join(", ")
}
