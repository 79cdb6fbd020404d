//! Times in text, and parts of times. A time is its microseconds since 1970, in UTC.

pub(crate) const SECOND: i64 = 1_000_000;
pub(crate) const MINUTE: i64 = 60 * SECOND;
pub(crate) const HOUR: i64 = 60 * MINUTE;
pub(crate) const DAY: i64 = 24 * HOUR;
pub(crate) const WEEK: i64 = 7 * DAY;

/// The years 1901 to 2298: a year less at each end than ClickHouse can hold, so that an offset never leaves its range.
const YEARS: std::ops::RangeInclusive<i64> = 1901..=2298;
pub(crate) const EARLIEST: i64 = days_of(1901, 1, 1) * DAY;
pub(crate) const LATEST: i64 = days_of(2299, 1, 1) * DAY - 1;

/// What [`read_time`] reads but for the days a month does not have, as a regular expression.
pub(crate) const TIME_PATTERN: &str = "^((?:190[1-9]|19[1-9][0-9]|2[01][0-9]{2}|22[0-8][0-9]|229[0-8])-(?:0[1-9]|1[0-2])-\
    (?:0[1-9]|[12][0-9]|3[01])(?:[ T](?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:[.][0-9]{1,9})?\
    (?:Z|[+-](?:0[0-9]|1[0-3]):[0-5][0-9])?)?)$";

/// `2024-02-29`, `2024-02-29 12:00:00`, or the same with `T`, a fraction, `Z` or an offset such as `+01:00`.
pub(crate) fn read_time(text: &str) -> Option<i64> {
    let (date, clock) = match text.split_at_checked(10)? {
        (date, "") => (date, None),
        (date, rest) => (date, Some(rest.strip_prefix([' ', 'T'])?)),
    };
    let midnight = read_date(date)? * DAY;
    let time = clock.map_or(Some(midnight), |clock| Some(midnight + read_clock(clock)?));
    time.filter(|time| (EARLIEST..=LATEST).contains(time))
}

fn read_date(text: &str) -> Option<i64> {
    let mut parts = text.split('-');
    let year = digits(parts.next()?, 4)?;
    let month = digits(parts.next()?, 2)?;
    let day = digits(parts.next()?, 2)?;
    let days = days_of(year, month, day);
    let exists = parts.next().is_none() && YEARS.contains(&year) && date_of(days) == (year, month, day);
    exists.then_some(days)
}

/// The time of a day, less its offset from UTC.
fn read_clock(text: &str) -> Option<i64> {
    let (clock, rest) = text.split_at_checked(8).filter(|(clock, _)| clock.is_ascii())?;
    let time = read_hours(&clock[..5], 23).filter(|_| clock.as_bytes()[5] == b':')?;
    let seconds = digits(&clock[6..], 2).filter(|&seconds| seconds < 60)?;
    let end = rest.find(['Z', '+', '-']).unwrap_or(rest.len());
    let (fraction, offset) = rest.split_at(end);
    Some(time + seconds * SECOND + read_fraction(fraction)? - read_offset(offset)?)
}

/// `hh:mm`, in microseconds.
fn read_hours(text: &str, most: i64) -> Option<i64> {
    let (hours, minutes) = text.split_once(':')?;
    let hours = digits(hours, 2).filter(|&hours| hours <= most)?;
    let minutes = digits(minutes, 2).filter(|&minutes| minutes < 60)?;
    Some(hours * HOUR + minutes * MINUTE)
}

fn read_fraction(text: &str) -> Option<i64> {
    if text.is_empty() {
        return Some(0);
    }
    let given = text.strip_prefix('.')?;
    digits(given, given.len()).filter(|_| (1..=9).contains(&given.len()))?;
    digits(&format!("{given:0<6}")[..6], 6)
}

fn read_offset(text: &str) -> Option<i64> {
    match text.split_at_checked(1) {
        None | Some(("Z", "")) => Some(0),
        Some(("+", hours)) => read_hours(hours, 13),
        Some(("-", hours)) => read_hours(hours, 13).map(|offset| -offset),
        Some(_) => None,
    }
}

fn digits(text: &str, length: usize) -> Option<i64> {
    let is_plain = text.len() == length && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_plain { text.parse().ok() } else { None }
}

/// `2024-02-29 12:00:00.000000`
pub(crate) fn time_text(time: i64) -> String {
    let (year, month, day) = date_of(time.div_euclid(DAY));
    let in_day = time.rem_euclid(DAY);
    let (hour, minute, second) = (in_day / HOUR, in_day / MINUTE % 60, in_day / SECOND % 60);
    let micros = in_day % SECOND;
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{micros:06}")
}

pub(crate) fn year(time: i64) -> i64 {
    date_of(time.div_euclid(DAY)).0
}

pub(crate) fn month(time: i64) -> i64 {
    date_of(time.div_euclid(DAY)).1
}

pub(crate) fn day_of_month(time: i64) -> i64 {
    date_of(time.div_euclid(DAY)).2
}

pub(crate) fn start_of_month(time: i64) -> i64 {
    (time.div_euclid(DAY) - day_of_month(time) + 1) * DAY
}

/// Days from 1970-01-01 to a date. Years are counted from March, so that the leap day is the last of its year.
const fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let in_year = (153 * month + 2) / 5 + day - 1;
    let century = year.div_euclid(100);
    365 * year + year.div_euclid(4) - century + century.div_euclid(4) + in_year - 719_468
}

/// The date that is so many days after 1970-01-01.
fn date_of(days: i64) -> (i64, i64, i64) {
    const ERA: i64 = 146_097;
    let shifted = days + 719_468;
    let era = shifted.div_euclid(ERA);
    let in_era = shifted.rem_euclid(ERA);
    let year_of_era = (in_era - in_era / 1460 + in_era / 36_524 - in_era / (ERA - 1)) / 365;
    let in_year = in_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * in_year + 2) / 153;
    let day = in_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_written() {
        let cases = [
            ("1970-01-01", 0),
            ("1969-12-31 23:59:59.999999", -1),
            ("2024-02-29T12:00:00Z", 1_709_208_000_000_000),
            ("2024-02-29T12:00:00.5+01:30", 1_709_202_600_500_000),
            ("2024-02-29 12:00:00.123456789-00:30", 1_709_209_800_123_456),
        ];
        for (text, time) in cases {
            assert_eq!(read_time(text), Some(time), "{text}");
            assert_eq!(read_time(&time_text(time)), Some(time), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_not_read() {
        let cases = [
            "",
            "2024",
            "2023-02-29",
            "2024-13-01",
            "2024-00-01",
            "2024-01-00",
            "24-01-01",
            "2024-1-1",
            "2024-01-01 ",
            "2024-01-01T",
            "2024-01-01 24:00:00",
            "2024-01-01 12:00",
            "2024-01-01 12:60:00",
            "2024-01-01 12:00:60",
            "2024-01-01 12:00:00.",
            "2024-01-01 12:00:00.1234567890",
            "2024-01-01 12:00:00+1:00",
            "1900-01-01",
            "2024-01-01 12:00:00+14:00",
            "2299-01-01",
            "2024-01-01 12:00:00Zx",
            "2024-01-01é12:00:00",
            "+024-01-01",
            "2024-01-01 1é:00:00",
            "2024-01-01 12:00:00Z+01:00",
            "2024-01-01x12:00:00",
        ];
        for text in cases {
            assert_eq!(read_time(text), None, "{text}");
        }
    }

    #[test]
    fn every_day_is_written_as_it_is_counted() {
        let (mut month_before, mut day_before) = (12, 31);
        for days in EARLIEST / DAY..=LATEST / DAY {
            let (year, month, day) = date_of(days);
            assert_eq!(days_of(year, month, day), days);
            assert!(
                day == day_before + 1 || (day == 1 && month == month_before % 12 + 1),
                "{year}-{month}-{day}"
            );
            (month_before, day_before) = (month, day);
        }
    }
}
