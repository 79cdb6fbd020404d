//! Operators, branches and paths into JSON that are written as functions.

use super::error::{Result, refuse};
use super::expr::{Connect, case, computation, like, negated, not};
use super::kinds::{self, comparison};
use super::names::check_path;
use super::refused_calls::{unknown, wrong_count};
use crate::expr::{Comparison, Expr, Extract, Operation, Value};
use crate::model::{Column, Type};

/// Operators, conditions and paths that are written as functions.
pub(super) fn named_form(name: &str, arguments: Vec<Expr>) -> Result<Expr> {
    let name = name.to_ascii_lowercase();
    match name.as_str() {
        "if" | "multiif" => branches(&name, arguments),
        "and" => connected(&name, arguments, Expr::And),
        "or" => connected(&name, arguments, Expr::Or),
        "jsonextractraw" => below(arguments).map(|(column, path)| Expr::Raw { column, path }),
        "jsonextractstring" => extract(Extract::Text, arguments),
        "jsonextractint" => extract(Extract::Int, arguments),
        "jsonextractfloat" => extract(Extract::Float, arguments),
        "jsonextractbool" => extract(Extract::Bool, arguments),
        "not" | "isnull" | "isnotnull" | "negate" => {
            let [only] = <[Expr; 1]>::try_from(arguments).map_err(|_| wrong_count(&name, 1))?;
            prefixed(&name, only)
        }
        "in" | "notin" => Err(refuse("Write the values of IN in brackets: event IN ('a', 'b').")),
        _ => match two_sided(&name) {
            Some(form) => {
                let [left, right] = <[Expr; 2]>::try_from(arguments).map_err(|_| wrong_count(&name, 2))?;
                form(left, right)
            }
            None => Err(unknown(&name)),
        },
    }
}

type TwoSided = fn(Expr, Expr) -> Result<Expr>;

fn two_sided(name: &str) -> Option<TwoSided> {
    Some(match name {
        "equals" => |left, right| comparison(Comparison::Equal, left, right),
        "notequals" => |left, right| comparison(Comparison::NotEqual, left, right),
        "less" => |left, right| comparison(Comparison::Less, left, right),
        "lessorequals" => |left, right| comparison(Comparison::LessOrEqual, left, right),
        "greater" => |left, right| comparison(Comparison::Greater, left, right),
        "greaterorequals" => |left, right| comparison(Comparison::GreaterOrEqual, left, right),
        "plus" => |left, right| computation(Operation::Add, left, right),
        "minus" => |left, right| computation(Operation::Subtract, left, right),
        "multiply" => |left, right| computation(Operation::Multiply, left, right),
        "divide" => |left, right| computation(Operation::Divide, left, right),
        "modulo" => |left, right| computation(Operation::Modulo, left, right),
        "like" => |left, right| like(left, &right, false, false),
        "notlike" => |left, right| like(left, &right, false, true),
        "ilike" => |left, right| like(left, &right, true, false),
        "notilike" => |left, right| like(left, &right, true, true),
        _ => return None,
    })
}

fn prefixed(name: &str, only: Expr) -> Result<Expr> {
    match name {
        "not" => condition(only).map(not),
        "negate" => negated(only),
        _ if only.kind().is_none() => Err(refuse("NULL is always NULL.")),
        _ => Ok(Expr::IsNull {
            expr: Box::new(only),
            is_negated: name == "isnotnull",
        }),
    }
}

fn connected(name: &str, arguments: Vec<Expr>, connect: Connect) -> Result<Expr> {
    if arguments.len() < 2 {
        return Err(wrong_count(name, 2));
    }
    let mut conditions = arguments.into_iter().map(condition);
    let first = conditions.next().unwrap_or_else(|| Err(wrong_count(name, 2)))?;
    conditions.try_fold(first, |left, right| Ok(connect(Box::new(left), Box::new(right?))))
}

fn condition(expr: Expr) -> Result<Expr> {
    match expr.kind() {
        Some(Type::Bool) => Ok(expr),
        kind => Err(refuse(format!(
            "A condition must be true or false, not {}.",
            kinds::named(kind)
        ))),
    }
}

/// `if(condition, then, else)` and `multiIf(condition, then, …, else)`
fn branches(name: &str, mut arguments: Vec<Expr>) -> Result<Expr> {
    let count = arguments.len();
    if count < 3 || count.is_multiple_of(2) || (name == "if" && count != 3) {
        return Err(refuse(format!(
            "{name} takes pairs of a condition and a result, then a default result."
        )));
    }
    let otherwise = arguments.pop();
    let (mut conditions, mut results) = (Vec::new(), Vec::new());
    for (index, argument) in arguments.into_iter().enumerate() {
        if index.is_multiple_of(2) {
            conditions.push(condition(argument)?);
        } else {
            results.push(argument);
        }
    }
    case(None, conditions, results, otherwise)
}

fn extract(what: Extract, arguments: Vec<Expr>) -> Result<Expr> {
    below(arguments).map(|(column, path)| Expr::Extract { what, column, path })
}

/// `properties, 'a', 'b'`: a JSON column or something below it, and keys.
fn below(arguments: Vec<Expr>) -> Result<(Column, Vec<String>)> {
    let mut arguments = arguments.into_iter();
    let (column, mut path) = match arguments.next() {
        Some(Expr::Column(column)) if column.kind() == Type::Json => (column, Vec::new()),
        Some(Expr::Property { column, path } | Expr::Raw { column, path }) => (column, path),
        _ => {
            return Err(refuse(
                "JSON functions take properties or person_properties, then quoted keys.",
            ));
        }
    };
    for argument in arguments {
        match argument {
            Expr::Value(Value::Text(key)) => path.push(key),
            _ => {
                return Err(refuse(
                    "The keys of a JSON function must be quoted. Array items are not supported.",
                ));
            }
        }
    }
    if path.is_empty() {
        return Err(refuse("A JSON function takes at least one key."));
    }
    Ok((column, check_path(path)?))
}
