//! Which kinds go together.

use super::error::{ParseError, Result, refuse};
use crate::expr::{Comparison, Expr, Value};
use crate::function::Function;
use crate::model::Type;
use crate::text::{float_text, read_time};

/// Whether values are only told apart, or put in order too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    Equality,
    Order,
}

pub(super) fn named(kind: Option<Type>) -> &'static str {
    match kind {
        Some(Type::Text) => "a string",
        Some(Type::Json) => "JSON",
        Some(Type::Int) => "an integer",
        Some(Type::Float) => "a number",
        Some(Type::Bool) => "true or false",
        Some(Type::Time) => "a time",
        None => "NULL",
    }
}

fn is_number(kind: Type) -> bool {
    matches!(kind, Type::Int | Type::Float)
}

pub(super) fn comparison(comparison: Comparison, left: Expr, right: Expr) -> Result<Expr> {
    let by = match comparison {
        Comparison::Equal | Comparison::NotEqual => By::Equality,
        _ => By::Order,
    };
    let (left, right) = match (left.kind(), right.kind()) {
        (None, _) | (_, None) => return Err(refuse("Nothing equals NULL. Use IS NULL or IS NOT NULL.")),
        (Some(left_kind), Some(right_kind)) => match &left {
            // A value is fitted to what it is compared with, on whichever side it stands.
            Expr::Value(_) if !matches!(right, Expr::Value(_)) => (fitted(left, right_kind, by)?, right),
            _ => {
                let right = fitted(right, left_kind, by)?;
                (left, right)
            }
        },
    };
    Ok(Expr::Compare(comparison, Box::new(left), Box::new(right)))
}

/// An expression to be compared with one of this kind. Literals are read as that kind where it can be done once for all.
pub(super) fn fitted(expr: Expr, with: Type, by: By) -> Result<Expr> {
    let Some(kind) = expr.kind() else {
        return Err(refuse("Nothing equals NULL. Use IS NULL or IS NOT NULL."));
    };
    match (&expr, with) {
        (_, Type::Json) => Err(refuse("JSON cannot be compared. Compare one of its properties.")),
        (_, Type::Bool) if by == By::Order => Err(refuse("Booleans cannot be ordered.")),
        (Expr::Value(Value::Text(text)), Type::Time) => time(text),
        (Expr::Value(value), Type::Text) if kind != Type::Text => match (by, value_text(value)) {
            (By::Equality, Some(text)) => Ok(Expr::Value(Value::Text(text))),
            _ => Err(mismatch(kind, with)),
        },
        _ if kind == with || (is_number(kind) && is_number(with)) => Ok(expr),
        _ => Err(mismatch(kind, with)),
    }
}

/// What a number or a boolean looks like as a property.
fn value_text(value: &Value) -> Option<String> {
    match value {
        Value::Int(number) => Some(number.to_string()),
        Value::Float(number) => Some(float_text(*number)),
        Value::Bool(is_true) => Some(is_true.to_string()),
        Value::Text(_) | Value::Time(_) | Value::Null => None,
    }
}

fn mismatch(one: Type, other: Type) -> ParseError {
    let hint = match (one, other) {
        (Type::Text, kind) | (kind, Type::Text) if is_number(kind) => {
            " Properties are strings. Wrap them in toFloat(…) or toInt(…)."
        }
        (Type::Text, Type::Time) | (Type::Time, Type::Text) => " Wrap the string in toDateTime(…).",
        (Type::Text, Type::Bool) | (Type::Bool, Type::Text) => " Wrap the string in toBool(…).",
        _ => "",
    };
    refuse(format!(
        "Cannot compare {} with {}.{hint}",
        named(Some(one)),
        named(Some(other))
    ))
}

pub(super) fn time(text: &str) -> Result<Expr> {
    let shown: String = text.chars().take(40).collect();
    let time = read_time(text).ok_or_else(|| {
        refuse(format!(
            "'{shown}' is not a valid time. Use 2024-02-29 or 2024-02-29 12:00:00, between 1901 and 2298, in UTC."
        ))
    })?;
    Ok(Expr::Value(Value::Time(time)))
}

/// Results that stand for one another get one kind: a whole number among fractions becomes one, a text among times is
/// read as one. A null fits everywhere.
pub(super) fn unified(exprs: Vec<Expr>) -> Result<Vec<Expr>> {
    let kinds: Vec<Type> = exprs.iter().filter_map(Expr::kind).collect();
    let Some(&first) = kinds.first() else {
        return Ok(exprs);
    };
    let common = if kinds.contains(&Type::Time) {
        Type::Time
    } else if is_number(first) && kinds.contains(&Type::Float) {
        Type::Float
    } else {
        first
    };
    exprs.into_iter().map(|expr| turned(expr, common)).collect()
}

fn turned(expr: Expr, common: Type) -> Result<Expr> {
    match (&expr, expr.kind()) {
        (_, None) => Ok(expr),
        (Expr::Value(Value::Text(text)), _) if common == Type::Time => time(text),
        (_, Some(Type::Int)) if common == Type::Float => Ok(fraction(expr)),
        (_, Some(kind)) if kind == common => Ok(expr),
        (_, Some(kind)) => Err(refuse(format!(
            "One of the results is {}, another {}. Convert them to the same type, for example with toString(…).",
            named(Some(common)),
            named(Some(kind))
        ))),
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "toFloat of the same number would lose as much"
)]
fn fraction(expr: Expr) -> Expr {
    match expr {
        Expr::Value(Value::Int(number)) => Expr::Value(Value::Float(number as f64)),
        other => Expr::Call(Function::ToFloat, vec![other]),
    }
}

pub(super) fn number(expr: Expr, by_whom: &str) -> Result<Expr> {
    match expr.kind() {
        Some(Type::Int | Type::Float) => Ok(expr),
        Some(Type::Text) => Err(refuse(format!(
            "{by_whom} takes numbers, and properties are strings. Wrap them in toFloat(…) or toInt(…)."
        ))),
        kind => Err(refuse(format!("{by_whom} takes numbers, not {}.", named(kind)))),
    }
}
