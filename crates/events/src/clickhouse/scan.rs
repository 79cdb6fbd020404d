//! Reading: selection, order and projection are the engine's work.

use hogql::{Column, Dialect, Model, Rendered, Value};

use super::address::Tables;
use super::client::{Statement, identifier};
use crate::rows::Portion;
use crate::{Result, Scan, Time};

/// Where the rows of a model come from, under the aliases that [`column`] names.
fn source(model: Model, tables: &Tables, start: Option<Time>) -> String {
    match model {
        Model::Events => format!("{} AS e", identifier(&tables.events)),
        Model::Persons => persons(tables, start),
    }
}

/// A row for each distinct id with the person it belongs to, both in their newest version. Only persons that changed
/// since the start are put together: an interval is small, and the tables are not.
fn persons(tables: &Tables, start: Option<Time>) -> String {
    let (persons, distinct_ids) = (identifier(&tables.persons), identifier(&tables.distinct_ids));
    let changed = |id: &str| match start {
        None => String::new(),
        Some(_) => format!(
            " AND {id} IN (SELECT id FROM {persons} WHERE team_id = {{team:Int64}} AND inserted_at >= {START}
              UNION ALL SELECT person_id FROM {distinct_ids} WHERE team_id = {{team:Int64}} AND inserted_at >= {START})"
        ),
    };
    format!(
        "(SELECT d.team_id AS team_id, d.distinct_id AS distinct_id, d.person_id AS person_id, d.version AS \
         distinct_id_version, p.properties AS properties, p.version AS version, p.is_deleted AS is_deleted, p.created_at \
         AS created_at, greatest(d.inserted_at, p.inserted_at) AS inserted_at
         FROM (SELECT * FROM {distinct_ids} FINAL WHERE team_id = {{team:Int64}}{}) AS d
         INNER JOIN (SELECT * FROM {persons} FINAL WHERE team_id = {{team:Int64}}{}) AS p ON p.id = d.person_id) AS e",
        changed("person_id"),
        changed("id"),
    )
}

const START: &str = "fromUnixTimestamp64Micro({start:Int64}, 'UTC')";
const END: &str = "fromUnixTimestamp64Micro({end:Int64}, 'UTC')";

/// A column as the tables keep it.
fn column(model: Model, column: Column) -> String {
    let name = match (model, column) {
        (_, Column::Uuid) => return "toString(e.uuid)".to_owned(),
        (_, Column::PersonId) => return "toString(e.person_id)".to_owned(),
        (_, Column::InsertedAt) => "inserted_at",
        (Model::Persons, Column::PersonDistinctIdVersion) => "distinct_id_version",
        (Model::Persons, Column::PersonVersion) => "version",
        (_, column) => column.name(),
    };
    format!("e.{name}")
}

/// The same, without what may be long of an event that is large.
fn column_within(model: Model, whole_row: usize, of: Column) -> String {
    let column = column(model, of);
    let is_long = matches!(
        of,
        Column::Properties | Column::PersonProperties | Column::ElementsChain
    );
    if !is_long || model != Model::Events || whole_row == usize::MAX {
        return column;
    }
    let bytes = "length(e.properties) + length(e.person_properties) + length(e.elements_chain)";
    format!("if({bytes} > {whole_row}, NULL, {column})")
}

/// The statement that gives a scan's rows as an `ArrowStream`.
pub(super) fn rows(scan: &Scan, tables: &Tables, portion: Portion) -> Statement {
    let model = scan.query.model;
    let within = |of| column_within(model, portion.whole_row, of);
    let rendered = scan.query.render(Dialect::ClickHouse, &within);
    let order = match model {
        // Bare, ids would be in the order of their second half, which for those with a time in them is none.
        Model::Events => "e.inserted_at, toString(e.uuid)",
        Model::Persons => "e.inserted_at, e.distinct_id",
    };
    let sql = format!(
        "SELECT {} FROM {} WHERE {} ORDER BY {order}{} FORMAT ArrowStream",
        rendered.columns,
        source(model, tables, scan.start),
        condition(scan, &rendered),
        limit(scan),
    );
    bound(sql, scan, rendered)
}

/// The statement that counts a scan's rows, no more than its limit.
pub(super) fn count(scan: &Scan, tables: &Tables) -> Statement {
    let model = scan.query.model;
    let rendered = scan.query.render(Dialect::ClickHouse, &|of| column(model, of));
    let sql = format!(
        "SELECT count() FROM (SELECT 1 FROM {} WHERE {}{})",
        source(model, tables, scan.start),
        condition(scan, &rendered),
        limit(scan),
    );
    bound(sql, scan, rendered)
}

/// The statement for the earliest ingestion time of a team, in microseconds; no row if there is none.
pub(super) fn earliest(team: i64, model: Model, tables: &Tables) -> Statement {
    let sql = format!(
        "SELECT toUnixTimestamp64Micro(min(e.inserted_at)) FROM {} WHERE e.team_id = {{team:Int64}} HAVING count() > 0",
        source(model, tables, None)
    );
    Statement::new(sql).bind("team", team)
}

/// Reads a time that a statement gave in microseconds.
pub(super) fn time(text: &str) -> Result<Option<Time>> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let micros = text.parse().ok().and_then(Time::from_timestamp_micros);
    micros.map(Some).ok_or(crate::Error::CutOff)
}

fn limit(scan: &Scan) -> String {
    let limit = scan.limit.map_or("", |_| " LIMIT {limit:UInt64}");
    let offset = if scan.skip > 0 { " OFFSET {skip:UInt64}" } else { "" };
    format!("{limit}{offset}")
}

fn condition(scan: &Scan, rendered: &Rendered) -> String {
    let mut all = vec!["e.team_id = {team:Int64}".to_owned(), format!("e.inserted_at < {END}")];
    if scan.start.is_some() {
        all.push(format!("e.inserted_at >= {START}"));
    }
    all.extend(rendered.filter.as_ref().map(|filter| format!("({filter})")));
    all.join(" AND ")
}

fn bound(sql: String, scan: &Scan, rendered: Rendered) -> Statement {
    let mut statement = Statement::new(sql)
        .bind("team", scan.team)
        .bind("end", scan.end.timestamp_micros());
    if let Some(start) = scan.start {
        statement = statement.bind("start", start.timestamp_micros());
    }
    if let Some(limit) = scan.limit {
        statement = statement.bind("limit", limit);
    }
    if scan.skip > 0 {
        statement = statement.bind("skip", scan.skip);
    }
    for (at, value) in rendered.parameters.into_iter().enumerate() {
        let name = format!("p{}", at + 1);
        statement = match value {
            Value::Text(text) => statement.bind(name, text),
            Value::Int(number) | Value::Time(number) => statement.bind(name, number),
            Value::Float(number) => statement.bind(name, number),
            // These two are written out, never bound.
            Value::Bool(_) | Value::Null => statement,
        };
    }
    statement
}
