//! The statement of a scan.

use hogql::{Column, Dialect, Expr, Model, Query};
use rusqlite::types::Value;

use super::file;

/// SQLite makes all columns of a row before we see the first, so of more expressions than this it keeps count.
const MANY_EXPRESSIONS: usize = 8;

/// A SELECT list and a condition, and where each field of the query is in it.
pub(super) struct Select {
    /// Those of the query itself; the statement's own come after them.
    pub(super) parameters: Vec<Value>,
    pub(super) places: Vec<usize>,
    columns: String,
    filter: String,
    /// How many columns of the statement's own come before those of the query.
    own: usize,
    is_wide: bool,
}

impl Select {
    /// `own` columns of the statement come before those of the query.
    ///
    /// A field that is just a column is read as it is stored: ids become text on the way into Arrow, not by a call for
    /// every row.
    pub(super) fn new(query: &Query, team: i64, own: usize) -> Self {
        let (mut plain, mut places, mut written) = (Vec::new(), Vec::new(), Vec::new());
        let plain_fields = query
            .fields
            .iter()
            .filter(|field| matches!(field.expr, Expr::Column(_)))
            .count();
        for field in &query.fields {
            if let Expr::Column(column) = field.expr {
                places.push(own + plain.len());
                plain.push(stored(query.model, team, column));
            } else {
                places.push(own + plain_fields + written.len());
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
            own,
            is_wide: rest.fields.len() > MANY_EXPRESSIONS,
            parameters: rendered.parameters.into_iter().map(value).collect(),
            places,
            columns: plain.into_iter().flat_map(|column| [", ".to_owned(), column]).collect(),
            filter: rendered
                .filter
                .map_or_else(String::new, |filter| format!(" AND ({filter})")),
        }
    }

    pub(super) fn has_filter(&self) -> bool {
        !self.filter.is_empty()
    }

    /// Events with a `seq` from one number up to before another, after which they are ordered.
    pub(super) fn events(&self, team: i64) -> String {
        let (columns, filter, n) = (&self.columns, &self.filter, self.parameters.len());
        let table = file::table(team);
        self.ordered(&format!(
            "SELECT seq{columns} FROM {table} WHERE seq >= ?{} AND seq < ?{}{filter}",
            n + 1,
            n + 2
        ))
    }

    /// Persons after a place (a time and a distinct id) and before a time.
    pub(super) fn persons(&self, team: i64) -> String {
        let (columns, filter, n) = (&self.columns, &self.filter, self.parameters.len());
        self.ordered(&format!(
            "SELECT d.changed_at, d.distinct_id{columns} FROM person_distinct_id d \
             CROSS JOIN person p ON p.team_id = d.team_id AND p.person_id = d.person_id \
             WHERE d.team_id = {team} AND (d.changed_at, d.distinct_id) > (?{}, ?{}) AND d.changed_at < ?{}{filter}",
            n + 1,
            n + 2,
            n + 3
        ))
    }

    /// The statement in order of its own columns, and if it is wide with each of the others given to [`file::HELD`] as soon
    /// as it is made: SQLite puts an inner statement into the outer one, unless it is the inner that has an order.
    fn ordered(&self, statement: &str) -> String {
        let order = if self.own == 1 { "1" } else { "1, 2" };
        if !self.is_wide {
            return format!("{statement} ORDER BY {order}");
        }
        let all = self.own + self.places.len();
        let names: Vec<_> = (0..all).map(|number| format!("c{number}")).collect();
        let held = |number: usize| match number {
            own if own < self.own => format!("c{own}"),
            number => format!("{}(c{number}, {})", file::HELD, number - self.own),
        };
        let columns: Vec<_> = (0..all).map(held).collect();
        format!(
            "WITH made ({}) AS NOT MATERIALIZED ({statement}) SELECT {} FROM made ORDER BY {order}",
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
        (Model::Events, column) => column.name(),
        (Model::Persons, Column::DistinctId) => "d.distinct_id",
        (Model::Persons, Column::PersonId) => "d.person_id",
        (Model::Persons, Column::PersonDistinctIdVersion) => "d.version",
        (Model::Persons, Column::InsertedAt) => "d.changed_at",
        (Model::Persons, Column::PersonVersion) => "p.version",
        (Model::Persons, Column::Properties) => "p.properties",
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
