//! How the figures of runs are put into words: how much, how long, and which time.

use chrono::{NaiveTime, TimeDelta};
use service::Time;

use crate::show;

/// `1234567` as `1,234,567`.
pub(super) fn number(number: i64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) && !text.ends_with('-') {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

pub(super) fn rows(count: i64) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} row{plural}", number(count))
}

/// A size in the largest unit that leaves a number before the point, with one digit behind it.
pub(super) fn bytes(count: i64) -> String {
    const UNITS: [&str; 4] = ["kB", "MB", "GB", "TB"];
    if count < 1000 {
        return show::counted(count, "byte");
    }
    let (mut tenths, mut unit) = (count / 100, 0);
    while tenths >= 10_000 && unit + 1 < UNITS.len() {
        (tenths, unit) = (tenths / 1000, unit + 1);
    }
    format!("{}.{} {}", number(tenths / 10), tenths % 10, UNITS[unit])
}

/// How long something took or will take, in what people count in.
pub(super) fn took(time: TimeDelta) -> String {
    match time.num_seconds() {
        ..1 => format!("{} ms", time.num_milliseconds().max(0)),
        seconds @ 1..90 => show::counted(seconds, "second"),
        seconds @ 90..5400 => show::counted(seconds / 60, "minute"),
        seconds => show::counted(seconds / 3600, "hour"),
    }
}

/// A stretch of time as one would say it. Days stand for themselves, and a day ends at 24:00.
pub(super) fn interval(start: Time, end: Time) -> String {
    let last_day = end - TimeDelta::microseconds(1);
    let is_within_a_day = start.date_naive() == last_day.date_naive();
    let is_of_days = start.time() == NaiveTime::MIN && end.time() == NaiveTime::MIN;
    match (is_of_days, is_within_a_day) {
        (true, true) => show::day(start),
        (true, false) => format!("{} to {}", show::day(start), show::day(last_day)),
        (false, true) => format!("{}, {} to {}", show::day(start), clock(start), closing(end)),
        (false, false) => format!(
            "{}, {} to {}, {}",
            show::day(start),
            clock(start),
            show::day(end),
            clock(end)
        ),
    }
}

pub(super) fn clock(time: Time) -> String {
    time.format("%H:%M").to_string()
}

fn closing(end: Time) -> String {
    if end.time() == NaiveTime::MIN {
        "24:00".to_owned()
    } else {
        clock(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn between(start: &str, end: &str) -> String {
        let time = |text: &str| text.parse().expect("a time");
        interval(time(start), time(end))
    }

    #[test]
    fn figures_can_be_read_at_a_glance() {
        assert_eq!(number(7), "7");
        assert_eq!(number(1_234_567), "1,234,567");
        assert_eq!(number(-123), "-123");
        assert_eq!(rows(1), "1 row");
        assert_eq!(bytes(999), "999 bytes");
        assert_eq!(bytes(1500), "1.5 kB");
        assert_eq!(bytes(12_340_000), "12.3 MB");
        assert_eq!(bytes(9_870_000_000_000_000), "9,870.0 TB");
    }

    #[test]
    fn times_are_told_in_what_people_count_in() {
        assert_eq!(took(TimeDelta::milliseconds(412)), "412 ms");
        assert_eq!(took(TimeDelta::milliseconds(-3)), "0 ms");
        assert_eq!(took(TimeDelta::milliseconds(1000)), "1 second");
        assert_eq!(took(TimeDelta::seconds(89)), "89 seconds");
        assert_eq!(took(TimeDelta::seconds(150)), "2 minutes");
        assert_eq!(took(TimeDelta::hours(5)), "5 hours");
    }

    #[test]
    fn intervals_are_told_by_what_they_are() {
        assert_eq!(between("2026-11-15T00:00:00Z", "2026-11-16T00:00:00Z"), "15 Nov 2026");
        assert_eq!(
            between("2026-11-09T00:00:00Z", "2026-11-16T00:00:00Z"),
            "9 Nov 2026 to 15 Nov 2026"
        );
        assert_eq!(
            between("2026-11-15T09:00:00Z", "2026-11-15T10:00:00Z"),
            "15 Nov 2026, 09:00 to 10:00"
        );
        assert_eq!(
            between("2026-11-15T23:00:00Z", "2026-11-16T00:00:00Z"),
            "15 Nov 2026, 23:00 to 24:00"
        );
        assert_eq!(
            between("2026-11-15T23:00:00Z", "2026-11-16T01:00:00Z"),
            "15 Nov 2026, 23:00 to 16 Nov 2026, 01:00"
        );
    }
}
