//! What SQLite does not do as ClickHouse does: functions to be registered on every connection that runs our SQL there.
//!
//! Each takes and gives texts, whole numbers, fractions and nulls. A null argument makes a null result.
//!
//! Functions over texts are here, too, where SQLite's own take longer than in proportion to their arguments: whoever writes
//! a query also writes the texts it runs over.

use crate::expr::Value;
use crate::text::{
    DAY, EARLIEST, HOUR, LATEST, MINUTE, WEEK, compact_json, day_of_month, float_text, is_like, month, pieces,
    read_float, read_int, read_time, start_of_month, time_text, year,
};

/// How many bytes a text may have that a query puts together. A query can do so a hundred times for each row.
pub const MAX_TEXT: usize = 4 << 20;

/// A query would put together a text of more than [`MAX_TEXT`] bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("A string that the query builds is too long.")]
pub struct TooLong;

/// A function of SQLite, deterministic.
#[derive(Debug, Clone, Copy)]
pub struct Scalar {
    pub name: &'static str,
    /// -1: any number of arguments.
    pub arity: i32,
    call: Call,
}

#[derive(Debug, Clone, Copy)]
enum Call {
    Plain(fn(&[Value]) -> Option<Value>),
    /// Its result may be longer than its arguments.
    Growing(fn(&[Value]) -> Result<Option<Value>, TooLong>),
}

impl Scalar {
    pub fn call(&self, arguments: &[Value]) -> Result<Value, TooLong> {
        let result = match self.call {
            Call::Plain(call) => call(arguments),
            Call::Growing(call) => call(arguments)?,
        };
        Ok(result.unwrap_or(Value::Null))
    }
}

/// All of them.
pub const ALL: &[Scalar] = &[
    scalar("hogql_json", 1, |arguments| {
        compact_json(text(arguments, 0)?).map(Value::Text)
    }),
    scalar("hogql_float_text", 1, |arguments| {
        Some(Value::Text(float_text(float(arguments, 0)?)))
    }),
    scalar("hogql_time_text", 1, |arguments| {
        Some(Value::Text(time_text(int(arguments, 0)?)))
    }),
    scalar("hogql_int", 1, to_int),
    scalar("hogql_float", 1, to_float),
    scalar("hogql_bool", 1, to_bool),
    scalar("hogql_time", 1, to_time),
    scalar("hogql_length", 1, |arguments| Some(count(text(arguments, 0)?))),
    scalar("hogql_starts_with", 2, |arguments| {
        Some(Value::Int(text(arguments, 0)?.starts_with(text(arguments, 1)?).into()))
    }),
    scalar("hogql_ends_with", 2, |arguments| {
        Some(Value::Int(text(arguments, 0)?.ends_with(text(arguments, 1)?).into()))
    }),
    scalar("hogql_like", 2, |arguments| {
        Some(Value::Int(
            is_like(text(arguments, 0)?, &pieces(text(arguments, 1)?)).into(),
        ))
    }),
    scalar("hogql_position", 2, |arguments| {
        let (text, part) = (text(arguments, 0)?, text(arguments, 1)?);
        let before = text.find(part).map(|at| text[..at].chars().count());
        Some(Value::Int(
            before.map_or(0, |before| i64::try_from(before + 1).unwrap_or(i64::MAX)),
        ))
    }),
    growing("hogql_replace", 3, replace),
    growing("hogql_concat", -1, concat),
    scalar("hogql_add", 2, |arguments| {
        compute(arguments, i64::wrapping_add, |left, right| left + right)
    }),
    scalar("hogql_subtract", 2, |arguments| {
        compute(arguments, i64::wrapping_sub, |left, right| left - right)
    }),
    scalar("hogql_multiply", 2, |arguments| {
        compute(arguments, i64::wrapping_mul, |left, right| left * right)
    }),
    scalar("hogql_divide", 2, |arguments| {
        finite(float(arguments, 0)? / float(arguments, 1)?)
    }),
    scalar("hogql_modulo", 2, modulo),
    scalar("hogql_negate", 1, |arguments| {
        change(arguments, i64::wrapping_neg, |number| -number)
    }),
    scalar("hogql_abs", 1, |arguments| {
        change(arguments, i64::wrapping_abs, f64::abs)
    }),
    scalar("hogql_floor", 1, |arguments| {
        change(arguments, |number| number, f64::floor)
    }),
    scalar("hogql_ceil", 1, |arguments| {
        change(arguments, |number| number, f64::ceil)
    }),
    scalar("hogql_round", 2, round),
    scalar("hogql_start_of", 3, start_of),
    scalar("hogql_start_of_month", 1, |arguments| {
        Some(Value::Int(start_of_month(int(arguments, 0)?)))
    }),
    scalar("hogql_year", 1, |arguments| Some(Value::Int(year(int(arguments, 0)?)))),
    scalar("hogql_month", 1, |arguments| {
        Some(Value::Int(month(int(arguments, 0)?)))
    }),
    scalar("hogql_day_of_month", 1, |arguments| {
        Some(Value::Int(day_of_month(int(arguments, 0)?)))
    }),
    scalar("hogql_hour", 1, |arguments| {
        Some(Value::Int(int(arguments, 0)?.rem_euclid(DAY) / HOUR))
    }),
    scalar("hogql_seconds", 1, |arguments| {
        Some(Value::Int(int(arguments, 0)?.div_euclid(1_000_000)))
    }),
];

/// How far `hogql_start_of` reaches, and from where its weeks count: 1970 began on a Thursday.
pub(crate) const UNITS: [(crate::Function, i64, i64); 5] = [
    (crate::Function::ToStartOfMinute, MINUTE, 0),
    (crate::Function::ToStartOfHour, HOUR, 0),
    (crate::Function::ToStartOfDay, DAY, 0),
    (crate::Function::ToStartOfWeek, WEEK, 3 * DAY),
    (crate::Function::ToMonday, WEEK, 4 * DAY),
];

const fn scalar(name: &'static str, arity: i32, call: fn(&[Value]) -> Option<Value>) -> Scalar {
    Scalar {
        name,
        arity,
        call: Call::Plain(call),
    }
}

const fn growing(name: &'static str, arity: i32, call: fn(&[Value]) -> Result<Option<Value>, TooLong>) -> Scalar {
    Scalar {
        name,
        arity,
        call: Call::Growing(call),
    }
}

/// No part is found in place of an empty one.
fn replace(arguments: &[Value]) -> Result<Option<Value>, TooLong> {
    let (Some(text), Some(part), Some(by)) = (text(arguments, 0), text(arguments, 1), text(arguments, 2)) else {
        return Ok(None);
    };
    if part.is_empty() {
        return Ok(Some(Value::Text(text.to_owned())));
    }
    if by.len() > part.len() {
        let growth = text.matches(part).count().saturating_mul(by.len() - part.len());
        check_length(text.len().saturating_add(growth))?;
    }
    Ok(Some(Value::Text(text.replace(part, by))))
}

/// A null adds nothing.
fn concat(arguments: &[Value]) -> Result<Option<Value>, TooLong> {
    let texts = (0..arguments.len()).filter_map(|index| text(arguments, index));
    check_length(texts.clone().map(str::len).sum())?;
    Ok(Some(Value::Text(texts.collect())))
}

fn check_length(bytes: usize) -> Result<(), TooLong> {
    if bytes > MAX_TEXT { Err(TooLong) } else { Ok(()) }
}

fn text(arguments: &[Value], index: usize) -> Option<&str> {
    match arguments.get(index)? {
        Value::Text(text) => Some(text),
        _ => None,
    }
}

fn int(arguments: &[Value], index: usize) -> Option<i64> {
    match arguments.get(index)? {
        Value::Int(number) => Some(*number),
        _ => None,
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "ClickHouse rounds to the nearest fraction too"
)]
fn float(arguments: &[Value], index: usize) -> Option<f64> {
    match arguments.get(index)? {
        Value::Int(number) => Some(*number as f64),
        Value::Float(number) => Some(*number),
        _ => None,
    }
}

fn finite(number: f64) -> Option<Value> {
    number.is_finite().then_some(Value::Float(number))
}

fn count(text: &str) -> Value {
    Value::Int(i64::try_from(text.chars().count()).unwrap_or(i64::MAX))
}

fn compute(arguments: &[Value], ints: fn(i64, i64) -> i64, floats: fn(f64, f64) -> f64) -> Option<Value> {
    match arguments {
        [Value::Int(left), Value::Int(right)] => Some(Value::Int(ints(*left, *right))),
        _ => finite(floats(float(arguments, 0)?, float(arguments, 1)?)),
    }
}

fn change(arguments: &[Value], ints: fn(i64) -> i64, floats: fn(f64) -> f64) -> Option<Value> {
    match arguments {
        [Value::Int(number)] => Some(Value::Int(ints(*number))),
        _ => finite(floats(float(arguments, 0)?)),
    }
}

fn modulo(arguments: &[Value]) -> Option<Value> {
    match int(arguments, 1)? {
        0 => None,
        divisor => Some(Value::Int(int(arguments, 0)?.wrapping_rem(divisor))),
    }
}

/// Half goes to the even neighbour, as in ClickHouse.
fn round(arguments: &[Value]) -> Option<Value> {
    let digits = i32::try_from(int(arguments, 1)?).ok()?;
    match arguments.first()? {
        Value::Int(number) => Some(Value::Int(*number)),
        _ if digits == 0 => finite(float(arguments, 0)?.round_ties_even()),
        _ => {
            let scale = 10_f64.powi(digits);
            finite((float(arguments, 0)? * scale).round_ties_even() / scale)
        }
    }
}

fn start_of(arguments: &[Value]) -> Option<Value> {
    let (time, unit, offset) = (int(arguments, 0)?, int(arguments, 1)?, int(arguments, 2)?);
    Some(Value::Int(time - (time - offset).checked_rem_euclid(unit)?))
}

fn to_int(arguments: &[Value]) -> Option<Value> {
    match arguments.first()? {
        Value::Text(text) => read_int(text).map(Value::Int),
        Value::Float(number) => whole(*number).map(Value::Int),
        other => Some(other.clone()),
    }
}

/// Cut towards zero, if it fits.
#[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
fn whole(number: f64) -> Option<i64> {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    (-LIMIT..LIMIT).contains(&number).then_some(number as i64)
}

fn to_float(arguments: &[Value]) -> Option<Value> {
    match arguments.first()? {
        Value::Text(text) => read_float(text).map(Value::Float),
        _ => float(arguments, 0).map(Value::Float),
    }
}

fn to_bool(arguments: &[Value]) -> Option<Value> {
    let is_true = match arguments.first()? {
        Value::Text(text) if text == "1" || text.eq_ignore_ascii_case("true") => true,
        Value::Text(text) if text == "0" || text.eq_ignore_ascii_case("false") => false,
        _ => float(arguments, 0)? != 0.0,
    };
    Some(Value::Int(is_true.into()))
}

/// Text is read, a number counts seconds.
fn to_time(arguments: &[Value]) -> Option<Value> {
    let time = match arguments.first()? {
        Value::Text(text) => read_time(text)?,
        _ => int(arguments, 0)?.checked_mul(1_000_000)?,
    };
    (EARLIEST..=LATEST).contains(&time).then_some(Value::Int(time))
}
