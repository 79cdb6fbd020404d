//! Gives SQLite what queries of exports need beyond its own functions.

use hogql::Value;
use hogql::scalars::ALL;
use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::{Value as Stored, ValueRef};
use rusqlite::{Connection, ffi};

use crate::sqlite::interrupt::{Interrupt, failure};

/// For every connection that runs SQL written by [`hogql::Query::render`].
pub(crate) fn register(connection: &Connection, interrupt: &Interrupt) -> rusqlite::Result<()> {
    let is_pure = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    for scalar in ALL {
        let interrupt = interrupt.clone();
        connection.create_scalar_function(scalar.name, scalar.arity, is_pure, move |context| {
            interrupt.check()?;
            let arguments: Vec<_> = (0..context.len()).map(|index| argument(context, index)).collect();
            let result = scalar.call(&arguments);
            result.map(stored).map_err(|_| failure(ffi::SQLITE_TOOBIG))
        })?;
    }
    Ok(())
}

fn argument(context: &Context<'_>, index: usize) -> Value {
    match context.get_raw(index) {
        ValueRef::Integer(number) => Value::Int(number),
        ValueRef::Real(number) => Value::Float(number),
        ValueRef::Text(text) => std::str::from_utf8(text).map_or(Value::Null, |text| Value::Text(text.to_owned())),
        ValueRef::Null | ValueRef::Blob(_) => Value::Null,
    }
}

fn stored(value: Value) -> Stored {
    match value {
        Value::Text(text) => Stored::Text(text),
        Value::Int(number) | Value::Time(number) => Stored::Integer(number),
        Value::Float(number) => Stored::Real(number),
        Value::Bool(is_true) => Stored::Integer(is_true.into()),
        Value::Null => Stored::Null,
    }
}
