//! How numbers, times and patterns are written, the same on every engine.

mod json;
mod number;
mod pattern;
mod time;

pub(crate) use json::compact_json;
pub(crate) use number::{float_text, read_float, read_int};
pub(crate) use pattern::{Piece, is_like, pieces};
pub(crate) use time::{
    DAY, EARLIEST, HOUR, LATEST, MINUTE, TIME_PATTERN, WEEK, day_of_month, month, read_time, start_of_month, time_text,
    year,
};
