//! Months, as one leafs through a calendar.

use chrono::{Datelike, Months, NaiveDate, NaiveTime};
use service::Time;

/// The first day of a month.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Month(NaiveDate);

impl Month {
    /// What cannot be read is the month of `otherwise`.
    pub(super) fn read(text: &str, otherwise: Time) -> Self {
        let read = NaiveDate::parse_from_str(&format!("{text}-01"), "%Y-%m-%d").ok();
        let day = read.filter(|day| (1970..=9000).contains(&day.year()));
        let day = day.unwrap_or_else(|| otherwise.date_naive());
        Self(day.with_day(1).unwrap_or(day))
    }

    pub(super) fn start(self) -> Time {
        self.0.and_time(NaiveTime::MIN).and_utc()
    }

    pub(super) fn plus(self, months: u32) -> Self {
        Self(self.0.checked_add_months(Months::new(months)).unwrap_or(self.0))
    }

    pub(super) fn minus(self, months: u32) -> Self {
        Self(self.0.checked_sub_months(Months::new(months)).unwrap_or(self.0))
    }

    pub(super) fn title(self) -> String {
        self.0.format("%B %Y").to_string()
    }

    pub(super) fn text(self) -> String {
        self.0.format("%Y-%m").to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_no_month_is_the_present_one() {
        let now: Time = "2026-11-15T09:30:00Z".parse().expect("a time");
        for text in ["", "x", "2026-13", "99999-01", "2026-11"] {
            assert_eq!(Month::read(text, now).title(), "November 2026", "{text}");
        }
        assert_eq!(Month::read("2026-01", now).minus(1).text(), "2025-12");
    }
}
