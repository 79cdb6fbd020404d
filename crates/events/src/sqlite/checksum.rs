//! Every stored event has a checksum, so that damage to the file is noticed when the event is read, also where SQLite would not notice
//! it. The team is part of it: a page that ends up in another's table is not shown there.

use crc32fast::Hasher;
use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ffi};

use super::interrupt::failure;

/// What it is made of, in this order.
pub(super) const COLUMNS: &str = "uuid, event, distinct_id, properties, elements_chain, timestamp, created_at, person_id, \
     person_properties, person_properties_id, inserted_at";
const COUNT: usize = 11;

/// True of a row that is as it was stored, given the team, the checksum and the columns. Never false: another row is an error.
const IS_WHOLE: &str = "hedgerow_is_whole";

pub(super) type Values<'a> = [ValueRef<'a>; COUNT];

pub(super) fn checksum(team: i64, values: &Values<'_>) -> u32 {
    let mut hasher = Hasher::new();
    hasher.update(&team.to_le_bytes());
    for value in values {
        add(&mut hasher, *value);
    }
    hasher.finalize()
}

fn add(hasher: &mut Hasher, value: ValueRef<'_>) {
    match value {
        ValueRef::Null => hasher.update(&[0]),
        ValueRef::Integer(number) => hasher.update(&number.to_le_bytes()),
        ValueRef::Real(number) => hasher.update(&number.to_le_bytes()),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => hasher.update(bytes),
    }
}

/// The condition on a row of a team's table.
pub(super) fn condition(team: i64) -> String {
    format!("{IS_WHOLE}({team}, checksum, {COLUMNS})")
}

pub(super) fn register(connection: &Connection) -> rusqlite::Result<()> {
    let arguments = i32::try_from(COUNT + 2).expect("a few");
    connection.create_scalar_function(IS_WHOLE, arguments, FunctionFlags::SQLITE_UTF8, is_whole)
}

fn is_whole(context: &Context<'_>) -> rusqlite::Result<bool> {
    let (team, stored): (i64, i64) = (context.get(0)?, context.get(1)?);
    let values = std::array::from_fn(|place| context.get_raw(place + 2));
    if i64::from(checksum(team, &values)) == stored {
        Ok(true)
    } else {
        Err(failure(ffi::SQLITE_CORRUPT))
    }
}
