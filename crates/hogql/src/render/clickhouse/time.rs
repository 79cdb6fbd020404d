//! Times, in ClickHouse. Its own functions give narrower types for which some years do not exist, so most is arithmetic.

use super::super::Writer;
use crate::function::Function;
use crate::model::Type;
use crate::scalars::UNITS;
use crate::text::{DAY, EARLIEST, LATEST, TIME_PATTERN};

pub(super) fn time(sql: &str) -> String {
    format!("toDateTime64({sql}, 6, 'UTC')")
}

pub(super) fn micros(sql: &str) -> String {
    format!("toUnixTimestamp64Micro({})", time(sql))
}

fn from_micros(sql: &str) -> String {
    format!("fromUnixTimestamp64Micro({sql}, 'UTC')")
}

impl Writer<'_> {
    /// A time as it is, from its text, or from its seconds.
    pub(super) fn as_time(&mut self, kind: Option<Type>, sql: &str) -> String {
        match kind {
            Some(Type::Time) => time(sql),
            Some(Type::Text) => {
                let read = format!("parseDateTime64BestEffortOrNull(extract({sql}, '{TIME_PATTERN}'), 6, 'UTC')");
                self.once(&read, |name| {
                    let micros = format!("toUnixTimestamp64Micro({name})");
                    format!("if({micros} >= {EARLIEST} AND {micros} <= {LATEST}, {name}, NULL)")
                })
            }
            _ => {
                let (earliest, latest) = (EARLIEST / 1_000_000, LATEST / 1_000_000);
                self.once(sql, |name| {
                    let time = from_micros(&format!("toInt64({name} * 1000000)"));
                    format!("if({name} >= {earliest} AND {name} <= {latest}, {time}, NULL)")
                })
            }
        }
    }

    pub(super) fn start_of(&mut self, function: Function, sql: &str) -> String {
        let unit = UNITS.iter().find(|(unit, ..)| *unit == function);
        let (_, length, offset) = unit.expect("the functions that come here have a unit");
        let start = |name: &str| from_micros(&format!("{name} - positiveModulo({name} - {offset}, {length})"));
        self.once(&micros(sql), start)
    }

    pub(super) fn start_of_month(&mut self, sql: &str) -> String {
        self.once(&micros(sql), |name| {
            let days = format!("toInt64(toDayOfMonth({}) - 1)", from_micros(name));
            from_micros(&format!("{name} - positiveModulo({name}, {DAY}) - {days} * {DAY}"))
        })
    }
}
