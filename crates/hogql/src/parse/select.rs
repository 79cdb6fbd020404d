//! The shape of the statement.

use sqlparser::ast::{
    GroupByExpr, Ident, Query as Statement, Select, SelectItem, SetExpr, SetOperator, TableFactor, TableWithJoins,
    WildcardAdditionalOptions,
};

use super::bounds;
use super::error::{ParseError, Result, refuse};
use super::expr::Reader;
use crate::expr::{Expr, Field, Query};
use crate::model::{Model, Type};

pub(super) fn query(statement: &Statement) -> Result<Query> {
    if statement.with.is_some() {
        return Err(refuse(
            "CTEs are not supported. Select from events or persons directly.",
        ));
    }
    let select = select_of(&statement.body)?;
    check_clauses_after(statement)?;
    check_clauses_of(select)?;
    let (model, table) = source(&select.from)?;
    let reader = Reader::new(model, table);
    let fields = fields(&reader, &select.projection)?;
    let filter = match (&select.prewhere, &select.selection) {
        (None, None) => None,
        (Some(only), None) | (None, Some(only)) => Some(reader.condition(only, 0)?),
        (Some(_), Some(_)) => {
            return Err(refuse(
                "PREWHERE is not supported. Combine both conditions in WHERE with AND.",
            ));
        }
    };
    Ok(Query { model, fields, filter })
}

fn select_of(body: &SetExpr) -> Result<&Select> {
    match body {
        SetExpr::Select(select) => Ok(select),
        SetExpr::SetOperation { op, .. } => Err(match op {
            SetOperator::Union => refuse("UNIONs are not supported. Create an export for each SELECT."),
            other => refuse(format!("{other} is not supported. The query must be one SELECT.")),
        }),
        SetExpr::Query(_) => Err(refuse(
            "Subqueries are not supported. Remove the brackets around the SELECT.",
        )),
        _ => Err(no_table()),
    }
}

fn check_clauses_after(statement: &Statement) -> Result<()> {
    let clauses = [
        (
            statement.order_by.is_some(),
            "ORDER BY",
            "Rows are exported in the order in which they arrived",
        ),
        (
            statement.limit_clause.is_some(),
            "LIMIT",
            "All rows of an interval are exported",
        ),
        (
            statement.fetch.is_some(),
            "FETCH",
            "All rows of an interval are exported",
        ),
        (!statement.locks.is_empty(), "FOR", "An export is read-only"),
        (
            statement.for_clause.is_some(),
            "FOR",
            "Set the format in the destination",
        ),
        (statement.settings.is_some(), "SETTINGS", "Remove it"),
        (
            statement.format_clause.is_some(),
            "FORMAT",
            "Set the format in the destination",
        ),
        (!statement.pipe_operators.is_empty(), "|>", "Remove it"),
    ];
    first_of(&clauses)
}

const EACH: &str = "An export has one row per event or person";

fn check_clauses_of(select: &Select) -> Result<()> {
    let groups = match &select.group_by {
        GroupByExpr::All(_) => true,
        GroupByExpr::Expressions(by, modifiers) => !by.is_empty() || !modifiers.is_empty(),
    };
    let clauses = [
        (select.distinct.is_some(), "DISTINCT", EACH),
        (groups, "GROUP BY", EACH),
        (select.having.is_some(), "HAVING", EACH),
        (select.top.is_some(), "TOP", "All rows of an interval are exported"),
        (
            select.into.is_some(),
            "INTO",
            "The export's destination determines where rows are delivered",
        ),
        (!select.lateral_views.is_empty(), "LATERAL VIEW", EACH),
        (
            !select.named_window.is_empty(),
            "WINDOW",
            "Each row is computed separately",
        ),
        (select.qualify.is_some(), "QUALIFY", "Each row is computed separately"),
        (
            !select.sort_by.is_empty(),
            "SORT BY",
            "Rows are exported in the order in which they arrived",
        ),
        (!select.connect_by.is_empty(), "CONNECT BY", EACH),
        (
            !select.cluster_by.is_empty() || !select.distribute_by.is_empty(),
            "CLUSTER BY",
            EACH,
        ),
        (select.exclude.is_some(), "EXCLUDE", "Name the columns"),
        (
            select.select_modifiers.is_some() || select.value_table_mode.is_some(),
            "This form of SELECT",
            "Remove it",
        ),
    ];
    first_of(&clauses)
}

fn first_of(clauses: &[(bool, &str, &str)]) -> Result<()> {
    match clauses.iter().find(|(is_there, ..)| *is_there) {
        Some((_, clause, why)) => Err(refuse(format!("{clause} is not supported. {why}."))),
        None => Ok(()),
    }
}

/// The model, and the name by which the query may call it.
fn source(from: &[TableWithJoins]) -> Result<(Model, Option<&Ident>)> {
    let [only] = from else {
        return Err(if from.is_empty() { no_table() } else { no_joins() });
    };
    if !only.joins.is_empty() {
        return Err(no_joins());
    }
    match &only.relation {
        TableFactor::Table {
            name,
            alias,
            args: None,
            with_hints,
            version: None,
            sample: None,
            json_path: None,
            ..
        } if with_hints.is_empty() => {
            let model = match name.to_string().as_str() {
                "events" => Model::Events,
                "persons" => Model::Persons,
                _ => return Err(no_table()),
            };
            Ok((model, alias.as_ref().map(|alias| &alias.name)))
        }
        TableFactor::Table { args: Some(_), .. } | TableFactor::TableFunction { .. } | TableFactor::Function { .. } => {
            Err(refuse(
                "The query must SELECT FROM events or persons. Table functions are not supported.",
            ))
        }
        TableFactor::Table { .. } => Err(refuse(
            "The query must SELECT FROM events or persons, without anything after it.",
        )),
        TableFactor::Derived { .. } => Err(refuse(
            "Subqueries are not supported. Select from events or persons directly.",
        )),
        TableFactor::NestedJoin { .. } => Err(no_joins()),
        _ => Err(no_table()),
    }
}

fn no_table() -> ParseError {
    refuse("The query must SELECT FROM events or persons.")
}

fn no_joins() -> ParseError {
    refuse("JOINs are not supported: events have the properties of their person in person_properties")
}

fn fields(reader: &Reader<'_>, items: &[SelectItem]) -> Result<Vec<Field>> {
    let mut fields = Vec::new();
    for item in items {
        match item {
            SelectItem::UnnamedExpr(expr) => {
                let expr = reader.expr(expr, 0)?;
                fields.push(field(expr.to_string(), expr));
            }
            SelectItem::ExprWithAlias { expr, alias } => fields.push(field(alias.value.clone(), reader.expr(expr, 0)?)),
            SelectItem::Wildcard(options) if is_plain(options) => {
                fields.extend(
                    reader
                        .model
                        .columns()
                        .map(|column| field(column.name().to_owned(), Expr::Column(column))),
                );
            }
            SelectItem::Wildcard(_) => return Err(refuse("EXCEPT and REPLACE are not supported. Name the columns.")),
            SelectItem::QualifiedWildcard(..) => {
                return Err(refuse("Use * for all columns, without a name before it."));
            }
            SelectItem::ExprWithAliases { .. } => return Err(refuse("A column can have one alias.")),
        }
    }
    bounds::check_fields(&fields)?;
    Ok(fields)
}

fn field(alias: String, expr: Expr) -> Field {
    let kind = expr.kind().unwrap_or(Type::Text);
    Field { alias, expr, kind }
}

fn is_plain(options: &WildcardAdditionalOptions) -> bool {
    options.opt_ilike.is_none()
        && options.opt_exclude.is_none()
        && options.opt_except.is_none()
        && options.opt_replace.is_none()
        && options.opt_rename.is_none()
        && options.opt_alias.is_none()
}
