//! Tables as `BigQuery` describes them.

use hogql::Type;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::destinations::answers::{Bounded, MAX_ROWS};
use crate::destinations::staging::Column;

/// When the row arrived, by `BigQuery`'s own clock.
pub(super) const INGESTED: &str = "bq_ingested_timestamp";

/// What a table is, or is to be.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Table {
    #[serde(default)]
    schema: Fields,
    /// The column by whose day rows are kept together.
    #[serde(skip)]
    partition: Option<&'static str>,
    /// Removed by `BigQuery` if nobody does.
    #[serde(skip)]
    pub(super) is_temporary: bool,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct Fields {
    #[serde(default)]
    fields: Bounded<Field, MAX_ROWS>,
}

#[derive(Debug, Clone, Deserialize)]
struct Field {
    name: String,
    #[serde(rename = "type")]
    kind: String,
}

impl Table {
    fn new(fields: Vec<Field>) -> Self {
        Self {
            schema: Fields {
                fields: Bounded(fields),
            },
            partition: None,
            is_temporary: false,
        }
    }

    pub(super) fn of_one_text() -> Self {
        let mut table = Self::new(vec![field("C0", "STRING")]);
        table.is_temporary = true;
        table
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.schema.fields.0.iter().any(|field| field.name == name)
    }

    pub(super) fn is_json(&self, name: &str) -> bool {
        let found = self.schema.fields.0.iter().find(|field| field.name == name);
        found.is_some_and(|field| field.kind == "JSON")
    }

    /// As the interface takes it, without its name.
    pub(super) fn description(&self) -> Value {
        let field = |field: &Field| json!({ "name": field.name, "type": field.kind, "mode": "NULLABLE" });
        let fields: Vec<Value> = self.schema.fields.0.iter().map(field).collect();
        let mut table = json!({ "schema": { "fields": fields } });
        if let Some(column) = self.partition {
            table["timePartitioning"] = json!({ "type": "DAY", "field": column });
        }
        table
    }
}

/// The export's table.
pub(super) fn table(columns: &[Column], uses_json: bool, is_custom: bool) -> Table {
    let kind = |column: &Column| match column.kind {
        Type::Json if uses_json => "JSON",
        _ => stage_kind(column),
    };
    let mut fields: Vec<Field> = columns.iter().map(|column| field(&column.name, kind(column))).collect();
    if !is_custom {
        fields.push(field(INGESTED, "TIMESTAMP"));
    }
    let mut table = Table::new(fields);
    let has_time = columns
        .iter()
        .any(|column| column.name == "timestamp" && column.kind == Type::Time);
    table.partition = has_time.then_some("timestamp");
    table
}

/// Where the rows of an attempt wait.
pub(super) fn stage(columns: &[Column]) -> Table {
    let mut table = Table::new(
        columns
            .iter()
            .map(|column| field(&column.stage, stage_kind(column)))
            .collect(),
    );
    table.is_temporary = true;
    table
}

pub(super) fn ledger() -> Table {
    let texts = [
        "export_id",
        "table_name",
        "interval_start",
        "interval_end",
        "attempt",
        "committed_attempt",
    ];
    let mut fields: Vec<Field> = texts.map(|name| field(name, "STRING")).into();
    fields.extend([field("committed_at", "TIMESTAMP"), field("row_count", "INTEGER")]);
    Table::new(fields)
}

fn field(name: &str, kind: &str) -> Field {
    Field {
        name: name.to_owned(),
        kind: kind.to_owned(),
    }
}

fn stage_kind(column: &Column) -> &'static str {
    match column.kind {
        Type::Text | Type::Json => "STRING",
        Type::Int => "INTEGER",
        Type::Float => "FLOAT",
        Type::Bool => "BOOLEAN",
        Type::Time => "TIMESTAMP",
    }
}
