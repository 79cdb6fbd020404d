//! How often an export runs: boundaries in time that every interval is cut at.

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};

use crate::clock::Time;
use crate::db::columns::{parse_by_name, read_as_text};

/// Aligned to UTC; weeks start on Monday.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(inline)]
pub enum Interval {
    #[serde(rename = "hour")]
    Hour,
    #[serde(rename = "day")]
    Day,
    #[serde(rename = "week")]
    Week,
    #[serde(rename = "every 5 minutes")]
    FiveMinutes,
    #[serde(rename = "every 15 minutes")]
    FifteenMinutes,
}

/// `[start, end)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, sqlx::FromRow)]
pub struct Span {
    #[sqlx(rename = "data_interval_start")]
    pub start: Time,
    #[sqlx(rename = "data_interval_end")]
    pub end: Time,
}

/// 1970 began on a Thursday; the Monday before it is where weeks are counted from.
const MONDAY: i64 = -3 * 86_400;

impl Interval {
    pub const ALL: [Self; 5] = [
        Self::Hour,
        Self::Day,
        Self::Week,
        Self::FiveMinutes,
        Self::FifteenMinutes,
    ];

    /// No interval is longer, and so no run covers more than this.
    pub(super) const MAX: TimeDelta = TimeDelta::weeks(1);

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
            Self::FiveMinutes => "every 5 minutes",
            Self::FifteenMinutes => "every 15 minutes",
        }
    }

    pub fn length(self) -> TimeDelta {
        match self {
            Self::Hour => TimeDelta::hours(1),
            Self::Day => TimeDelta::days(1),
            Self::Week => TimeDelta::weeks(1),
            Self::FiveMinutes => TimeDelta::minutes(5),
            Self::FifteenMinutes => TimeDelta::minutes(15),
        }
    }

    /// For how long one run may go on.
    pub fn run_timeout(self) -> TimeDelta {
        match self {
            Self::FiveMinutes | Self::FifteenMinutes => TimeDelta::minutes(20),
            Self::Hour => TimeDelta::hours(6),
            Self::Day => TimeDelta::days(1),
            Self::Week => TimeDelta::days(3),
        }
    }

    /// The last boundary that is not after `time`.
    pub fn floor(self, time: Time) -> Time {
        let (origin, length) = (MONDAY * 1_000_000, self.length().num_microseconds().unwrap_or(i64::MAX));
        let since = (time.timestamp_micros() - origin).div_euclid(length) * length;
        DateTime::<Utc>::from_timestamp_micros(origin + since).unwrap_or(time)
    }

    /// The first boundary after `time`.
    pub fn next(self, time: Time) -> Time {
        self.floor(time) + self.length()
    }

    /// The first boundary that is not before `time`.
    pub fn ceil(self, time: Time) -> Time {
        let floor = self.floor(time);
        if floor == time { time } else { floor + self.length() }
    }
}

impl Span {
    /// Its parts, cut at the boundaries of an interval.
    pub fn cut(self, at: Interval) -> impl Iterator<Item = Self> {
        let mut start = self.start;
        std::iter::from_fn(move || {
            let part = Self {
                start,
                end: at.next(start).min(self.end),
            };
            start = part.end;
            (part.start < part.end).then_some(part)
        })
    }

    /// How many intervals it touches.
    pub(super) fn count(self, interval: Interval) -> i64 {
        let (start, end) = (interval.floor(self.start), interval.ceil(self.end));
        let length = interval.length().num_seconds();
        ((end - start).num_seconds() / length).max(0)
    }

    /// What is left of it without `taken`, which is in order of time.
    pub fn without(self, taken: &[Self]) -> Vec<Self> {
        let (mut left, mut start) = (Vec::new(), self.start);
        for other in taken {
            if other.start > start {
                left.push(Self {
                    start,
                    end: other.start.min(self.end),
                });
            }
            start = start.max(other.end);
            if start >= self.end {
                return left;
            }
        }
        left.push(Self { start, end: self.end });
        left
    }
}

/// The same time in as few spans as it takes, in order.
pub(super) fn joined(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_by_key(|span| (span.start, span.end));
    let mut joined: Vec<Span> = Vec::new();
    for span in spans {
        match joined.last_mut() {
            Some(last) if span.start <= last.end => last.end = last.end.max(span.end),
            _ => joined.push(span),
        }
    }
    joined
}

parse_by_name!(Interval);
read_as_text!(Interval);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn time(text: &str) -> Time {
        text.parse().expect("a time")
    }

    fn span(start: &str, end: &str) -> Span {
        Span {
            start: time(start),
            end: time(end),
        }
    }

    #[test]
    fn boundaries_are_where_people_expect_them() {
        let moment = time("2026-11-15T09:31:07.5Z"); // a Sunday
        for (interval, floor, next) in [
            (Interval::FiveMinutes, "2026-11-15T09:30:00Z", "2026-11-15T09:35:00Z"),
            (Interval::FifteenMinutes, "2026-11-15T09:30:00Z", "2026-11-15T09:45:00Z"),
            (Interval::Hour, "2026-11-15T09:00:00Z", "2026-11-15T10:00:00Z"),
            (Interval::Day, "2026-11-15T00:00:00Z", "2026-11-16T00:00:00Z"),
            (Interval::Week, "2026-11-09T00:00:00Z", "2026-11-16T00:00:00Z"),
        ] {
            assert_eq!(
                (interval.floor(moment), interval.next(moment)),
                (time(floor), time(next)),
                "{interval:?}"
            );
        }
        let leap = time("2028-02-29T12:00:00Z");
        assert_eq!(Interval::Day.floor(leap), time("2028-02-29T00:00:00Z"));
        assert_eq!(Interval::Day.next(leap), time("2028-03-01T00:00:00Z"));
        let boundary = time("2026-11-09T00:00:00Z");
        assert_eq!(
            (Interval::Week.floor(boundary), Interval::Week.ceil(boundary)),
            (boundary, boundary)
        );
        assert_eq!(
            Interval::Day.floor(time("1969-12-31T23:00:00Z")),
            time("1969-12-31T00:00:00Z")
        );
    }

    #[test]
    fn no_interval_is_longer_than_the_longest() {
        let lengths = Interval::ALL.map(Interval::length);
        assert_eq!(lengths.iter().max(), Some(&Interval::MAX));
    }

    #[test]
    fn what_is_left_is_everything_that_was_not_taken() {
        let day = span("2026-11-15T00:00:00Z", "2026-11-16T00:00:00Z");
        let taken = [
            span("2026-11-14T23:00:00Z", "2026-11-15T01:00:00Z"),
            span("2026-11-15T02:00:00Z", "2026-11-15T03:00:00Z"),
            span("2026-11-15T23:00:00Z", "2026-11-17T00:00:00Z"),
        ];
        assert_eq!(
            day.without(&taken),
            [
                span("2026-11-15T01:00:00Z", "2026-11-15T02:00:00Z"),
                span("2026-11-15T03:00:00Z", "2026-11-15T23:00:00Z"),
            ]
        );
        assert_eq!(day.without(&[]), [day]);
        assert!(day.without(&[day]).is_empty());
    }

    proptest! {
        /// Parts touch, and together they are the whole: no gap, no overlap, whatever the interval.
        #[test]
        fn parts_make_up_the_whole(start in 0_i64..4_000_000_000, length in 1_i64..2_000_000, which in 0_usize..5) {
            let at = |seconds| DateTime::from_timestamp(seconds, 0).expect("a time");
            let whole = Span { start: at(start), end: at(start + length) };
            let parts: Vec<Span> = whole.cut(Interval::ALL[which]).collect();
            prop_assert_eq!(parts[0].start, whole.start);
            prop_assert_eq!(parts[parts.len() - 1].end, whole.end);
            prop_assert!(parts.windows(2).all(|pair| pair[0].end == pair[1].start));
            prop_assert!(parts.iter().all(|part| part.end - part.start <= Interval::ALL[which].length()));
        }
    }

    #[test]
    fn spans_that_touch_or_overlap_become_one() {
        let at = |minute: i64| chrono::DateTime::from_timestamp(minute * 60, 0).expect("a time");
        let span = |start, end| Span {
            start: at(start),
            end: at(end),
        };
        let spans = vec![
            span(20, 25),
            span(0, 5),
            span(5, 10),
            span(30, 60),
            span(40, 50),
            span(24, 26),
        ];
        assert_eq!(joined(spans), [span(0, 10), span(20, 26), span(30, 60)]);
        assert!(joined(Vec::new()).is_empty());
    }
}
