//! How far a run has got, as far as that is known.

use chrono::TimeDelta;
use service::Time;
use service::batch_exports::{Run, RunStatus};

use super::{figures, runs_chart};
use crate::show;

/// What a page says of it, a line each.
pub(super) struct Progress {
    pub(super) facts: Vec<(&'static str, String)>,
    /// Rows done, and rows in total.
    pub(super) meter: Option<(i64, i64)>,
}

impl Progress {
    pub(super) fn new(run: &Run, now: Time) -> Self {
        let is_running = run.status == RunStatus::Running;
        let mut facts = vec![("Rows", rows(run)), ("Size", size(run))];
        if is_running {
            facts.push(("Speed", speed(run)));
            facts.push(("Time left", time_left(run)));
        }
        if let Some(start) = run.started_at {
            facts.push((
                "Started",
                format!("{} at {} UTC", show::ago(start, now), figures::clock(start)),
            ));
        }
        if let Some(took) = runs_chart::duration(run) {
            facts.push(("Duration", took));
        }
        facts.push(("Attempts", run.attempt.to_string()));
        let total = run.records_total_count.filter(|total| is_running && *total > 0);
        Self {
            facts,
            meter: total.map(|total| (run.records_read.unwrap_or_default().min(total), total)),
        }
    }
}

fn rows(run: &Run) -> String {
    let is_over = run.status.is_over();
    let delivered = run.records_completed.map(figures::number);
    if is_over {
        return delivered.unwrap_or_else(|| "None".to_owned());
    }
    let Some(read) = run.records_read else {
        return "None yet".to_owned();
    };
    let read = figures::number(read);
    let delivered = delivered.unwrap_or_else(|| "0".to_owned());
    match run.records_total_count {
        Some(total) => format!("{read} of {} read, {delivered} delivered", figures::number(total)),
        None => format!("{read} read so far, {delivered} delivered"),
    }
}

fn size(run: &Run) -> String {
    match run.bytes_exported {
        Some(bytes) if run.status.is_over() => figures::bytes(bytes),
        Some(bytes) => format!("{} so far", figures::bytes(bytes)),
        None => "Nothing yet".to_owned(),
    }
}

fn speed(run: &Run) -> String {
    match rate(run) {
        Some(rate) => format!("{} per second", figures::rows(rate)),
        None => "Calculating…".to_owned(),
    }
}

fn time_left(run: &Run) -> String {
    let Some(total) = run.records_total_count else {
        return "Unknown: rows are not counted in advance".to_owned();
    };
    let left = total - run.records_read.unwrap_or_default();
    match rate(run) {
        Some(rate) if rate > 0 => format!("About {}", figures::took(TimeDelta::seconds((left / rate).max(1)))),
        _ => "Calculating…".to_owned(),
    }
}

/// Rows a second, as of its last heartbeat.
fn rate(run: &Run) -> Option<i64> {
    let milliseconds = (run.updated_at - run.started_at?).num_milliseconds();
    let rows = run.records_read?;
    (milliseconds >= 1000).then(|| rows.saturating_mul(1000) / milliseconds)
}
