//! The statement of a scan.

use hogql::{Column, Dialect, Expr, Model, Query};
use rusqlite::Statement;
use rusqlite::types::Value;

use super::place::Place;
use super::{checksum, file};

/// SQLite makes all columns of a row before we see the first, so of more expressions than this it keeps count.
const MANY_EXPRESSIONS: usize = 8;

/// Every statement has one column of its own before those of the query.
const OWN: usize = 1;

/// When a row of persons changed: a distinct id without a time of its own changed with its person.
const CHANGED_AT: &str = "max(p.changed_at, coalesce(d.changed_at, p.changed_at))";

/// A SELECT list and a condition, and where each field of the query is in it.
pub(super) struct Select {
    /// Those of the query itself; the statement's own come after them.
    pub(super) parameters: Vec<Value>,
    pub(super) places: Vec<usize>,
    columns: String,
    filter: Option<String>,
    is_wide: bool,
}

impl Select {
    /// A field that is just a column is read as it is stored: ids become text on the way into Arrow, not by a call for
    /// every row.
    pub(super) fn new(query: &Query, team: i64) -> Self {
        let (mut plain, mut places, mut written) = (Vec::new(), Vec::new(), Vec::new());
        let plain_fields = query
            .fields
            .iter()
            .filter(|field| matches!(field.expr, Expr::Column(_)))
            .count();
        for field in &query.fields {
            if let Expr::Column(column) = field.expr {
                places.push(OWN + plain.len());
                plain.push(stored(query.model, team, column));
            } else {
                places.push(OWN + plain_fields + written.len());
                written.push(field.clone());
            }
        }
        let rest = Query {
            model: query.model,
            fields: written,
            filter: query.filter.clone(),
        };
        let rendered = rest.render(Dialect::Sqlite, &|column| in_expressions(query.model, team, column));
        if !rest.fields.is_empty() {
            plain.push(rendered.columns);
        }
        Self {
            is_wide: rest.fields.len() > MANY_EXPRESSIONS,
            parameters: rendered.parameters.into_iter().map(value).collect(),
            places,
            columns: plain.into_iter().flat_map(|column| [", ".to_owned(), column]).collect(),
            filter: rendered.filter,
        }
    }

    /// Gives a statement the parameters of the query.
    pub(super) fn bind(&self, statement: &mut Statement<'_>) -> rusqlite::Result<()> {
        for (place, value) in self.parameters.iter().enumerate() {
            statement.raw_bind_parameter(place + 1, value)?;
        }
        Ok(())
    }

    pub(super) fn has_filter(&self) -> bool {
        self.filter.is_some()
    }

    /// Events with a `seq` from one number up to before another, after which they are ordered.
    pub(super) fn events(&self, team: i64) -> String {
        self.whole(&self.events_with(&self.columns, team), " ORDER BY 1")
    }

    /// The `seq` of each of these, and nothing else.
    pub(super) fn event_numbers(&self, team: i64) -> String {
        self.events_with("", team)
    }

    /// A row for which the condition is much work may be the last of its slice, so it is told before.
    fn events_with(&self, columns: &str, team: i64) -> String {
        let (n, table, reached) = (self.parameters.len(), Place::of(team).table, file::REACHED);
        let is_whole = checksum::condition(team);
        let filter = match &self.filter {
            // A damaged row is not one that does not match.
            Some(filter) => format!("CASE WHEN {reached}(seq) AND {is_whole} THEN ({filter}) END"),
            None => is_whole,
        };
        let (from, until) = (n + 1, n + 2);
        format!("SELECT seq{columns} FROM {table} WHERE seq >= ?{from} AND seq < ?{until} AND {filter}")
    }

    /// The row of persons that changed at a time, of a person, with a distinct id.
    pub(super) fn person(&self, team: i64) -> String {
        let (columns, n) = (&self.columns, self.parameters.len());
        let filter = self
            .filter
            .as_ref()
            .map_or_else(String::new, |filter| format!(" AND ({filter})"));
        let statement = format!(
            "SELECT 1{columns} FROM person_distinct_id d \
             CROSS JOIN person p ON p.team_id = d.team_id AND p.person_id = d.person_id \
             WHERE d.team_id = {team} AND {CHANGED_AT} = ?{} AND d.person_id = ?{} AND d.distinct_id = ?{}{filter}",
            n + 1,
            n + 2,
            n + 3
        );
        self.whole(&statement, "")
    }

    /// The statement with an order, and if it is wide with each of the query's columns given to [`file::HELD`] as soon as
    /// it is made: SQLite puts an inner statement into the outer one, unless it is the inner that has an order.
    fn whole(&self, statement: &str, order: &str) -> String {
        if !self.is_wide {
            return format!("{statement}{order}");
        }
        let all = OWN + self.places.len();
        let names: Vec<_> = (0..all).map(|number| format!("c{number}")).collect();
        let held = |number: usize| match number {
            own if own < OWN => format!("c{own}"),
            number => format!("{}(c{number}, {})", file::HELD, number - OWN),
        };
        let columns: Vec<_> = (0..all).map(held).collect();
        format!(
            "WITH made ({}) AS NOT MATERIALIZED ({statement}) SELECT {} FROM made{order}",
            names.join(", "),
            columns.join(", ")
        )
    }
}

/// A column as it lies in the file.
fn stored(model: Model, team: i64, column: Column) -> String {
    let name = match (model, column) {
        (_, Column::TeamId) => return team.to_string(),
        (Model::Events, Column::InsertedAt) => "inserted_at",
        (Model::Events, Column::PersonProperties) => {
            "iif(person_properties_id IS NULL, person_properties, \
             (SELECT kept.properties FROM person_properties kept WHERE kept.id = person_properties_id))"
        }
        (Model::Events, column) => column.name(),
        (Model::Persons, Column::DistinctId) => "d.distinct_id",
        (Model::Persons, Column::PersonId) => "d.person_id",
        (Model::Persons, Column::PersonDistinctIdVersion) => "d.version",
        (Model::Persons, Column::InsertedAt) => CHANGED_AT,
        (Model::Persons, Column::PersonVersion) => "p.version",
        (Model::Persons, Column::Properties) => {
            "iif(p.properties_id IS NULL, p.properties, \
             (SELECT kept.properties FROM person_properties kept WHERE kept.id = p.properties_id))"
        }
        (Model::Persons, Column::CreatedAt) => "p.created_at",
        (Model::Persons, Column::IsDeleted) => "p.is_deleted",
        // A checked query has none of the other model's.
        (Model::Persons, _) => "NULL",
    };
    name.to_owned()
}

/// A column as expressions know it: ids are text there.
fn in_expressions(model: Model, team: i64, column: Column) -> String {
    let stored = stored(model, team, column);
    match column {
        Column::Uuid | Column::PersonId => format!("uuid_text({stored})"),
        _ => stored,
    }
}

fn value(value: hogql::Value) -> Value {
    match value {
        hogql::Value::Text(text) => Value::Text(text),
        hogql::Value::Int(number) | hogql::Value::Time(number) => Value::Integer(number),
        hogql::Value::Float(number) => Value::Real(number),
        hogql::Value::Bool(is) => Value::Integer(i64::from(is)),
        hogql::Value::Null => Value::Null,
    }
}
