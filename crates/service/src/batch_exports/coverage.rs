//! How time is covered: what was delivered, what is missing, what is to come.

use chrono::TimeDelta;

use super::interval::Span;
use super::types::{RunStatus, Stretch};
use super::{backfills, cases, sql};
use crate::Service;
use crate::access::Caller;
use crate::clock::Time;
use crate::error::{Error, Result};
use crate::id::ExportId;

/// As much as is looked at in one go: half a year and a little.
const MAX: TimeDelta = TimeDelta::days(200);

/// How one interval stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coverage {
    Delivered,
    /// A run waits, goes on, or is tried again automatically.
    InProgress,
    /// A run failed for good, or took too long.
    Failed,
    /// Nobody delivered it, and nobody is going to unless asked.
    Gap,
    /// Not over yet, or the schedule's own next step.
    NotDue,
    /// Before the first row there is.
    NoData,
}

/// One interval of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Covered {
    pub span: Span,
    pub coverage: Coverage,
}

/// Where there is something to deliver, for backfills as for the eye.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    /// The first row. None: there is none.
    earliest: Option<Time>,
    latest: Time,
}

impl Service {
    /// Every interval of an export in a span, in order of time. `earliest`: the ingestion time of the first row there is.
    pub async fn coverage<P>(
        &self,
        caller: &Caller<P>,
        id: ExportId,
        span: Span,
        earliest: Option<Time>,
    ) -> Result<Vec<Covered>> {
        if span.end - span.start > MAX {
            let detail = format!("Choose at most {} days.", MAX.num_days());
            return Err(Error::refused("invalid_input", detail));
        }
        let mut db = self.core.store.read().await?;
        let export = cases::find(&mut db, caller, id).await?;
        let stretches = sql::runs::stretches(&mut db, id, span).await?;
        let bounds = Bounds {
            earliest,
            latest: backfills::latest(&export, self.core.clock.now()),
        };
        Ok(covered(span.cut(export.interval), &stretches, bounds))
    }
}

/// Goes along parts and stretches at once: both are in order of time.
fn covered(parts: impl Iterator<Item = Span>, stretches: &[Stretch], bounds: Bounds) -> Vec<Covered> {
    let mut ahead = stretches.iter().peekable();
    let mut here: Vec<&Stretch> = Vec::new();
    let judged = parts.map(|part| {
        while let Some(next) = ahead.next_if(|next| next.span.start < part.end) {
            here.push(next);
        }
        here.retain(|stretch| stretch.span.end > part.start);
        Covered {
            span: part,
            coverage: judge(part, &here, bounds),
        }
    });
    judged.collect()
}

/// An interval may have been delivered in parts, by runs under another interval.
fn judge(part: Span, here: &[&Stretch], bounds: Bounds) -> Coverage {
    let completed = here.iter().filter(|stretch| stretch.status == RunStatus::Completed);
    let delivered: Vec<Span> = completed.map(|stretch| stretch.span).collect();
    let any = |is: fn(RunStatus) -> bool| here.iter().any(|stretch| is(stretch.status));
    if part.without(&delivered).is_empty() {
        Coverage::Delivered
    } else if any(|status| !status.is_over()) {
        Coverage::InProgress
    } else if any(|status| matches!(status, RunStatus::Failed | RunStatus::TimedOut)) {
        Coverage::Failed
    } else if part.end > bounds.latest {
        Coverage::NotDue
    } else if bounds.earliest.is_none_or(|earliest| part.end <= earliest) {
        Coverage::NoData
    } else {
        Coverage::Gap
    }
}

#[cfg(test)]
mod tests {
    use super::super::Interval;
    use super::*;

    fn span(start: &str, end: &str) -> Span {
        let time = |text: &str| format!("2026-11-15T{text}:00Z").parse().expect("a time");
        Span {
            start: time(start),
            end: time(end),
        }
    }

    fn stretch(start: &str, end: &str, status: RunStatus) -> Stretch {
        Stretch {
            span: span(start, end),
            status,
        }
    }

    #[test]
    fn every_interval_has_one_of_the_states() {
        let stretches = [
            stretch("02:00", "03:00", RunStatus::Completed),
            stretch("03:00", "04:00", RunStatus::Failed),
            stretch("04:00", "05:00", RunStatus::Cancelled),
            stretch("05:00", "06:00", RunStatus::FailedRetryable),
            stretch("06:00", "07:00", RunStatus::TimedOut),
        ];
        let day = span("00:00", "09:00");
        let bounds = Bounds {
            earliest: Some(span("01:30", "02:00").start),
            latest: span("08:00", "09:00").start,
        };
        let found = covered(day.cut(Interval::Hour), &stretches, bounds);
        let states: Vec<Coverage> = found.iter().map(|covered| covered.coverage).collect();
        assert_eq!(
            states,
            [
                Coverage::NoData,
                Coverage::Gap,
                Coverage::Delivered,
                Coverage::Failed,
                Coverage::Gap,
                Coverage::InProgress,
                Coverage::Failed,
                Coverage::Gap,
                Coverage::NotDue,
            ]
        );
    }

    #[test]
    fn runs_under_another_interval_count_for_what_they_cover() {
        let bounds = Bounds {
            earliest: Some(span("00:00", "01:00").start),
            latest: span("12:00", "13:00").start,
        };
        let long = [stretch("00:00", "03:00", RunStatus::Completed)];
        let hours = covered(span("00:00", "04:00").cut(Interval::Hour), &long, bounds);
        let delivered = hours.iter().filter(|hour| hour.coverage == Coverage::Delivered);
        assert_eq!((hours.len(), delivered.count()), (4, 3));
        let halves = [
            stretch("00:00", "00:30", RunStatus::Completed),
            stretch("00:30", "01:00", RunStatus::Completed),
            stretch("01:00", "01:30", RunStatus::Completed),
        ];
        let hours = covered(span("00:00", "02:00").cut(Interval::Hour), &halves, bounds);
        assert_eq!(hours[0].coverage, Coverage::Delivered);
        assert_eq!(hours[1].coverage, Coverage::Gap, "half of it is missing");
    }

    #[test]
    fn without_data_there_is_no_gap() {
        let bounds = Bounds {
            earliest: None,
            latest: span("12:00", "13:00").start,
        };
        let found = covered(span("00:00", "02:00").cut(Interval::Hour), &[], bounds);
        assert!(found.iter().all(|covered| covered.coverage == Coverage::NoData));
    }
}
