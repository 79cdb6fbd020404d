//! When an event happened, by the server's clock.

use chrono::{DateTime, NaiveDate, NaiveDateTime, SubsecRound, TimeDelta, Utc};
use serde_json::Value;

use crate::Time;

/// Clocks and time zones are off by less than this; what lies further ahead is a mistake.
const FURTHEST_AHEAD: TimeDelta = TimeDelta::hours(23);
/// What both engines can store.
const EARLIEST: NaiveDate = NaiveDate::from_ymd_opt(1900, 1, 1).expect("a date");
/// Numbers above are milliseconds: in seconds this is the year 5138.
const MAX_SECONDS: i64 = 100_000_000_000;

/// What a sender knows about the time of an event.
#[derive(Debug, Clone, Copy)]
pub(super) struct SenderTime {
    pub(super) timestamp: Option<Time>,
    /// How many milliseconds ago it happened.
    pub(super) offset: Option<i64>,
    /// The sender's own clock when it sent.
    pub(super) sent_at: Option<Time>,
}

impl SenderTime {
    /// The time by our clock; `now` where the sender says nothing that makes sense.
    pub(super) fn by(self, now: Time) -> Time {
        let seen = match (self.timestamp, self.offset) {
            (Some(timestamp), _) => Some(match self.sent_at {
                Some(sent_at) => now + (timestamp - sent_at),
                None => timestamp,
            }),
            (None, Some(ago)) => TimeDelta::try_milliseconds(ago).and_then(|ago| now.checked_sub_signed(ago)),
            (None, None) => None,
        };
        seen.filter(|time| is_sensible(*time, now))
            .unwrap_or(now)
            .trunc_subsecs(6)
    }
}

/// Whether an event can have happened then: all engines and destinations can store the time, and it is not ahead of our clock.
pub fn is_sensible(time: Time, now: Time) -> bool {
    time <= now + FURTHEST_AHEAD && time.date_naive() >= EARLIEST
}

/// ISO 8601 in its usual forms, UTC unless it says otherwise; or a number of milliseconds or seconds since 1970.
pub(super) fn read(value: &Value) -> Option<Time> {
    let time = match value {
        Value::String(text) => from_text(text.trim()),
        Value::Number(number) => from_number(number.as_i64().or_else(|| whole(number.as_f64()?))?),
        _ => None,
    }?;
    // Far from the ends of what can be told, so that differences and sums can be told, too.
    let is_near = (1..=9999).contains(&chrono::Datelike::year(&time));
    is_near.then_some(time)
}

fn from_text(text: &str) -> Option<Time> {
    const LOCAL: [&str; 2] = ["%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M:%S%.f"];
    if let Ok(time) = DateTime::parse_from_rfc3339(text) {
        return Some(time.to_utc());
    }
    if let Ok(number) = text.parse() {
        return from_number(number);
    }
    let local = LOCAL
        .iter()
        .find_map(|format| NaiveDateTime::parse_from_str(text, format).ok());
    let midnight = || text.parse::<NaiveDate>().ok()?.and_hms_opt(0, 0, 0);
    let with_zone = || text.parse::<DateTime<Utc>>().ok();
    local.or_else(midnight).map(|time| time.and_utc()).or_else(with_zone)
}

fn from_number(number: i64) -> Option<Time> {
    if number.abs() > MAX_SECONDS {
        DateTime::from_timestamp_millis(number)
    } else {
        DateTime::from_timestamp(number, 0)
    }
}

/// A number with a fraction, without it.
#[expect(
    clippy::cast_possible_truncation,
    reason = "what is out of range becomes a time that is refused"
)]
fn whole(number: f64) -> Option<i64> {
    number.is_finite().then_some(number as i64)
}
