//! A calendar of what was delivered, what is missing and what failed, to pick a range from: one click for its start,
//! another for its end. Every cell is a link, so no script is needed.

use askama::Template;
use askama::filters::HtmlSafe;
use chrono::Datelike;
use service::Time;
use service::batch_exports::{Coverage, Covered, Interval, Span};

use super::calendar_style::{ALL, CellStyle, summary};
use super::figures;
use super::month::Month;
use crate::paging::with_query;

/// How times stand in addresses and fields.
pub(super) const FORMAT: &str = "%Y-%m-%dT%H:%M";
/// How many months of weeks are shown at once.
const MONTHS_OF_WEEKS: u32 = 6;

/// The range so far.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Picked {
    pub(super) start: Option<Time>,
    pub(super) end: Option<Time>,
}

/// Which part of the calendar is wanted, and where its links lead.
#[derive(Debug)]
pub(super) struct View<'a> {
    pub(super) interval: Interval,
    pub(super) month: Month,
    pub(super) picked: Picked,
    pub(super) path: &'a str,
    pub(super) is_resend: bool,
}

#[derive(Debug, Template)]
#[template(path = "organization/exports/calendar.html")]
pub(super) struct Calendar {
    title: String,
    previous: String,
    next: Option<String>,
    /// How the cells stand: `hours` in rows of days, `days` below their weekdays, or `weeks`.
    layout: &'static str,
    groups: Vec<Group>,
    legend: Vec<CellStyle>,
    has_data: bool,
}

#[derive(Debug)]
struct Group {
    title: String,
    /// Days of the week before the first.
    blanks: u32,
    cells: Vec<Cell>,
}

#[derive(Debug)]
struct Cell {
    /// None: there is nothing to pick.
    link: Option<String>,
    style: CellStyle,
    text: String,
    words: String,
    is_chosen: bool,
}

/// Its template escapes what it holds.
impl HtmlSafe for Calendar {}

impl View<'_> {
    /// The stretch of time that is shown.
    pub(super) fn span(&self) -> Span {
        let end = self.month.plus(1).start();
        if self.interval == Interval::Week {
            let first = self.month.minus(MONTHS_OF_WEEKS - 1).start();
            return Span {
                start: self.interval.floor(first),
                end: self.interval.ceil(end),
            };
        }
        Span {
            start: self.month.start(),
            end,
        }
    }

    /// What one cell stands for: of shorter intervals there are too many to see.
    fn unit(&self) -> Interval {
        match self.interval {
            Interval::FiveMinutes | Interval::FifteenMinutes => Interval::Day,
            other => other,
        }
    }

    pub(super) fn calendar(&self, covered: &[Covered], now: Time) -> Calendar {
        let unit = self.unit();
        let cells = covered.chunk_by(|one, other| unit.floor(one.span.start) == unit.floor(other.span.start));
        let cells = cells.filter_map(|part| Some((part.first()?.span.start, self.cell(part)?)));
        let step = if unit == Interval::Week { MONTHS_OF_WEEKS } else { 1 };
        let first = self.month.minus(step - 1);
        Calendar {
            title: if step == 1 {
                self.month.title()
            } else {
                format!("{} to {}", first.title(), self.month.title())
            },
            previous: self.at(self.month.minus(step)),
            next: (self.span().end <= now).then(|| self.at(self.month.plus(step))),
            layout: match unit {
                Interval::Day => "days",
                Interval::Week => "weeks",
                _ => "hours",
            },
            groups: groups(unit, cells),
            legend: ALL.into_iter().map(CellStyle::of).collect(),
            has_data: covered
                .iter()
                .any(|one| !matches!(one.coverage, Coverage::NoData | Coverage::NotDue)),
        }
    }

    fn cell(&self, part: &[Covered]) -> Option<Cell> {
        let (first, last) = (part.first()?.span, part.last()?.span);
        let worst = ALL
            .into_iter()
            .find(|kind| part.iter().any(|one| one.coverage == *kind))?;
        // What is not over yet cannot be asked for.
        let due = part.iter().rfind(|one| one.coverage != Coverage::NotDue);
        let is_pickable = !matches!(worst, Coverage::NotDue | Coverage::NoData);
        let span = Span {
            start: first.start,
            end: due.map_or(last.end, |one| one.span.end),
        };
        let is_chosen = self.has_chosen(first.start, last.end);
        let chosen = if is_chosen { ", selected" } else { "" };
        let interval = figures::interval(first.start, last.end);
        Some(Cell {
            link: is_pickable.then(|| self.pick(span)),
            style: CellStyle::of(worst),
            text: match self.unit() {
                Interval::Day => first.start.format("%-d").to_string(),
                Interval::Week => interval.clone(),
                _ => first.start.format("%H").to_string(),
            },
            words: format!("{interval}: {}{chosen}", summary(part)),
            is_chosen,
        })
    }

    fn has_chosen(&self, start: Time, end: Time) -> bool {
        match (self.picked.start, self.picked.end) {
            (Some(from), Some(until)) => start < until && end > from,
            (Some(from), None) => (start..end).contains(&from),
            _ => false,
        }
    }

    /// Where a click leads: the first says from when, the second until when, and another begins again.
    fn pick(&self, cell: Span) -> String {
        let picked = match (self.picked.start, self.picked.end) {
            (Some(start), None) if cell.end > start => (start, Some(cell.end)),
            (Some(start), None) => (cell.start, Some(self.unit().next(start))),
            _ => (cell.start, None),
        };
        self.link(self.month, Some(picked.0), picked.1)
    }

    fn at(&self, month: Month) -> String {
        self.link(month, self.picked.start, self.picked.end)
    }

    fn link(&self, month: Month, start: Option<Time>, end: Option<Time>) -> String {
        let text = |time: Option<Time>| time.map(|time| time.format(FORMAT).to_string()).unwrap_or_default();
        let (month, start, end) = (month.text(), text(start), text(end));
        let resend = if self.is_resend { "yes" } else { "" };
        let pairs = [
            ("month", month.as_str()),
            ("start", &start),
            ("end", &end),
            ("resend", resend),
        ];
        with_query(self.path, pairs)
    }
}

/// Hours stand in a row for each day; days below their weekdays; weeks as they come.
fn groups(unit: Interval, cells: impl Iterator<Item = (Time, Cell)>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut day = None;
    for (start, cell) in cells {
        let begins = groups.is_empty() || (unit == Interval::Hour && day != Some(start.date_naive()));
        if begins {
            day = Some(start.date_naive());
            groups.push(Group {
                title: start.format("%a %-d").to_string(),
                blanks: start.weekday().num_days_from_monday(),
                cells: Vec::new(),
            });
        }
        if let Some(group) = groups.last_mut() {
            group.cells.push(cell);
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> Time {
        text.parse().expect("a time")
    }

    fn view(interval: Interval, picked: Picked) -> View<'static> {
        View {
            interval,
            month: Month::read("2026-11", Time::UNIX_EPOCH),
            picked,
            path: "/new/",
            is_resend: false,
        }
    }

    /// Everything that is shown, delivered.
    fn delivered(view: &View<'_>) -> Vec<Covered> {
        let parts = view.span().cut(view.interval);
        let covered = parts.map(|span| Covered {
            span,
            coverage: Coverage::Delivered,
        });
        covered.collect()
    }

    #[test]
    fn a_month_has_a_cell_for_each_interval_or_each_day() {
        let now = time("2027-01-01T00:00:00Z");
        for (interval, layout, rows, cells) in [
            (Interval::Hour, "hours", 30, 24),
            (Interval::Day, "days", 1, 30),
            (Interval::FiveMinutes, "days", 1, 30),
            (Interval::Week, "weeks", 1, 27),
        ] {
            let view = view(interval, Picked::default());
            let calendar = view.calendar(&delivered(&view), now);
            assert_eq!((calendar.layout, calendar.groups.len()), (layout, rows), "{interval:?}");
            assert_eq!(calendar.groups[0].cells.len(), cells, "{interval:?}");
            assert_eq!(
                calendar.groups[0].blanks == 6,
                interval != Interval::Week,
                "1 November 2026 is a Sunday"
            );
        }
    }

    #[test]
    fn one_click_begins_and_the_next_one_ends() {
        let (first, third) = (time("2026-11-01T00:00:00Z"), time("2026-11-03T00:00:00Z"));
        let link = |picked: Picked, day: usize| {
            let view = view(Interval::Day, picked);
            let calendar = view.calendar(&delivered(&view), time("2027-01-01T00:00:00Z"));
            calendar.groups[0].cells[day - 1]
                .link
                .clone()
                .expect("it can be picked")
        };
        assert_eq!(
            link(Picked::default(), 1),
            "/new/?month=2026-11&start=2026-11-01T00%3A00"
        );
        let begun = Picked {
            start: Some(first),
            end: None,
        };
        let whole = "/new/?month=2026-11&start=2026-11-01T00%3A00&end=2026-11-04T00%3A00";
        assert_eq!(link(begun, 3), whole);
        let backwards = Picked {
            start: Some(third),
            end: None,
        };
        assert_eq!(link(backwards, 1), whole, "the other way round");
        let done = Picked {
            start: Some(first),
            end: Some(third),
        };
        assert_eq!(link(done, 5), "/new/?month=2026-11&start=2026-11-05T00%3A00");
    }

    #[test]
    fn a_day_of_short_intervals_is_as_bad_as_its_worst() {
        let view = view(Interval::FifteenMinutes, Picked::default());
        let mut covered = delivered(&view);
        covered[3].coverage = Coverage::Gap;
        covered[95].coverage = Coverage::NotDue;
        let cell = view.cell(&covered[..96]).expect("a day");
        assert_eq!(cell.words, "1 Nov 2026: 1 gap, 94 delivered, 1 not due");
        assert_eq!((cell.style.word, cell.text.as_str()), ("gap", "1"));
        let link = cell.link.expect("it can be picked");
        assert!(link.ends_with("start=2026-11-01T00%3A00"), "{link}");
    }
}
