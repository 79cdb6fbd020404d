//! What SQLite says in its own way.

use super::{Writer, not};
use crate::expr::{Expr, Extract, Operation};
use crate::function::Function;
use crate::model::{Column, Type};
use crate::scalars::UNITS;

impl Writer<'_> {
    pub(super) fn sqlite(&mut self, expr: &Expr) -> String {
        match expr {
            Expr::Property { column, path } => self.sqlite_property(*column, path),
            Expr::Raw { column, path } => {
                let (json, path) = self.sqlite_path(*column, path);
                format!("hogql_json({json} -> {path})")
            }
            Expr::Extract { what, column, path } => self.sqlite_extract(*what, *column, path),
            Expr::Compute(operation, left, right) => {
                let name = match operation {
                    Operation::Add => "add",
                    Operation::Subtract => "subtract",
                    Operation::Multiply => "multiply",
                    Operation::Divide => "divide",
                    Operation::Modulo => "modulo",
                };
                format!("hogql_{name}({}, {})", self.expr(left), self.expr(right))
            }
            Expr::Negate(expr) => format!("hogql_negate({})", self.expr(expr)),
            Expr::Like {
                expr,
                pattern,
                ignores_case,
                is_negated,
            } => {
                let expr = self.expr(expr);
                let expr = if *ignores_case { format!("lower({expr})") } else { expr };
                let pattern = if *ignores_case {
                    self.text(&pattern.to_ascii_lowercase())
                } else {
                    self.text(pattern)
                };
                format!("({}hogql_like({expr}, {pattern}))", not(*is_negated))
            }
            Expr::Call(function, arguments) => self.sqlite_call(*function, arguments),
            other => unreachable!("written for both engines: {other:?}"),
        }
    }

    fn sqlite_property(&mut self, column: Column, path: &[String]) -> String {
        let (json, path) = self.sqlite_path(column, path);
        format!(
            "CASE json_type({json}, {path}) WHEN 'text' THEN {json} ->> {path} WHEN 'true' THEN 'true' WHEN 'false' \
             THEN 'false' WHEN 'integer' THEN {json} -> {path} WHEN 'null' THEN NULL ELSE hogql_json({json} -> {path}) END"
        )
    }

    fn sqlite_extract(&mut self, what: Extract, column: Column, path: &[String]) -> String {
        let (json, path) = self.sqlite_path(column, path);
        let (kinds, value, empty) = match what {
            Extract::Text => ("'text'", format!("{json} ->> {path}"), "''"),
            Extract::Int => ("'integer'", format!("coalesce(hogql_int({json} -> {path}), 0)"), "0"),
            Extract::Float => (
                "'integer', 'real'",
                format!("coalesce(hogql_float({json} -> {path}), 0.0)"),
                "0.0",
            ),
            Extract::Bool => ("'true'", "1".to_owned(), "0"),
        };
        format!("CASE WHEN json_type({json}, {path}) IN ({kinds}) THEN {value} ELSE {empty} END")
    }

    /// The column, and a path for SQLite's JSON functions.
    fn sqlite_path(&mut self, column: Column, path: &[String]) -> (String, String) {
        ((self.column)(column), self.text(&json_path(path)))
    }

    fn sqlite_call(&mut self, function: Function, arguments: &[Expr]) -> String {
        let kind = arguments.first().and_then(Expr::kind);
        let written = self.exprs(arguments);
        let all = written.join(", ");
        match function {
            Function::ToString => match kind {
                Some(Type::Int) => format!("CAST({all} AS TEXT)"),
                Some(Type::Float) => format!("hogql_float_text({all})"),
                Some(Type::Time) => format!("hogql_time_text({all})"),
                Some(Type::Bool) => format!("CASE {all} WHEN 1 THEN 'true' WHEN 0 THEN 'false' END"),
                _ => all,
            },
            Function::ToInt => format!("hogql_int({all})"),
            Function::ToFloat => format!("hogql_float({all})"),
            Function::ToBool => format!("hogql_bool({all})"),
            Function::ToDateTime => as_time(kind, &all),
            Function::ToDate => start_of(Function::ToStartOfDay, &as_time(kind, &all)),
            Function::Lower => format!("lower({all})"),
            Function::Upper => format!("upper({all})"),
            Function::Trim => format!("trim({all})"),
            Function::Substring => format!("substr({all})"),
            Function::ReplaceAll => format!("hogql_replace({all})"),
            Function::Position => format!("hogql_position({all})"),
            Function::Coalesce => format!("coalesce({all})"),
            Function::NullIf => format!("nullif({all})"),
            Function::Least => format!("min({all})"),
            Function::Greatest => format!("max({all})"),
            Function::Concat => concat(&written),
            Function::Empty => format!("({all} = '')"),
            Function::NotEmpty => format!("({all} <> '')"),
            Function::Round if written.len() == 1 => format!("hogql_round({all}, 0)"),
            Function::Round => format!("hogql_round({all})"),
            Function::Length => format!("hogql_length({all})"),
            Function::StartsWith => format!("hogql_starts_with({all})"),
            Function::EndsWith => format!("hogql_ends_with({all})"),
            Function::Abs => format!("hogql_abs({all})"),
            Function::Floor => format!("hogql_floor({all})"),
            Function::Ceil => format!("hogql_ceil({all})"),
            Function::ToUnixTimestamp => format!("hogql_seconds({all})"),
            Function::ToStartOfMonth => format!("hogql_start_of_month({all})"),
            Function::ToYear => format!("hogql_year({all})"),
            Function::ToMonth => format!("hogql_month({all})"),
            Function::ToDayOfMonth => format!("hogql_day_of_month({all})"),
            Function::ToHour => format!("hogql_hour({all})"),
            Function::ToStartOfMinute
            | Function::ToStartOfHour
            | Function::ToStartOfDay
            | Function::ToStartOfWeek
            | Function::ToMonday => start_of(function, &all),
        }
    }
}

fn as_time(kind: Option<Type>, sql: &str) -> String {
    if kind == Some(Type::Time) {
        sql.to_owned()
    } else {
        format!("hogql_time({sql})")
    }
}

fn start_of(function: Function, sql: &str) -> String {
    let unit = UNITS.iter().find(|(unit, ..)| *unit == function);
    let (_, length, offset) = unit.expect("the functions that come here have a unit");
    format!("hogql_start_of({sql}, {length}, {offset})")
}

/// `$."key"."key"`: SQLite reads each key as a JSON string, so any key can be named.
fn json_path(path: &[String]) -> String {
    let mut written = "$".to_owned();
    for key in path {
        written.push('.');
        written.push_str(&serde_json::Value::from(key.as_str()).to_string());
    }
    written
}

/// SQLite takes a hundred arguments at most.
fn concat(texts: &[String]) -> String {
    let calls: Vec<_> = texts
        .chunks(100)
        .map(|texts| format!("hogql_concat({})", texts.join(", ")))
        .collect();
    match calls.as_slice() {
        [only] => only.clone(),
        _ => concat(&calls),
    }
}
