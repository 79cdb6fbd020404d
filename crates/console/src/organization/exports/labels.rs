//! How exports are told.

use service::Time;
use service::batch_exports::{BatchExport, ExportSeen, Interval, Run};

use crate::organization::recent_runs::RunState;
use crate::show;

pub(super) fn interval(interval: Interval) -> &'static str {
    match interval {
        Interval::FiveMinutes => "Every 5 minutes",
        Interval::FifteenMinutes => "Every 15 minutes",
        Interval::Hour => "Every hour",
        Interval::Day => "Every day",
        Interval::Week => "Every week",
    }
}

pub(super) fn model(name: &str) -> &'static str {
    match name {
        "persons" => "Persons",
        _ => "Events",
    }
}

/// Runs begin and end in UTC, so that is what times are told in.
pub(super) fn minute(time: Time) -> String {
    time.format("%-d %b %Y, %H:%M UTC").to_string()
}

/// When an export runs first. None: it does not.
pub(super) fn first_run(export: &BatchExport, now: Time) -> Option<String> {
    let time = export.next_run_at?;
    let clock = time.format("%H:%M UTC");
    Some(if time.date_naive() == now.date_naive() {
        format!("The first run starts at {clock}.")
    } else {
        format!("The first run starts on {} at {clock}.", show::day(time))
    })
}

/// How an export stands, in a word and a color.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) word: &'static str,
    pub(crate) class: &'static str,
}

impl State {
    pub(crate) fn of(seen: &ExportSeen) -> Self {
        let (word, class) = if seen.export.paused {
            ("Paused", "tag-warning")
        } else if latest_failure(seen).is_some() {
            ("Failing", "tag-danger")
        } else if is_over(&seen.export) {
            ("Ended", "")
        } else {
            ("Active", "tag-good")
        };
        Self { word, class }
    }
}

/// Its end has come: no more runs are created automatically.
fn is_over(export: &BatchExport) -> bool {
    export.next_run_at.is_none()
}

/// The newest run that did not get through, as long as failures count: until a run gets through, or somebody begins again. The
/// overview asks the service for exports by the same count.
pub(crate) fn latest_failure(seen: &ExportSeen) -> Option<&Run> {
    let mut runs = seen.latest_runs.iter().filter(|_| seen.export.failures > 0);
    runs.find(|run| RunState::of(run.status) == RunState::Failed)
}
