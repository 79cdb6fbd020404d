//! The last runs of an export as a larger picture: a bar each, oldest first, as high as it has rows.

use askama::Template;
use askama::filters::HtmlSafe;
use service::batch_exports::Run;

use super::{figures, status};
use crate::organization::recent_runs::{RecentRuns, RunState};
use crate::show;

/// How many runs fit side by side, also on a phone once the picture is made smaller.
pub(super) const SHOWN: i64 = 60;

const STEP: i64 = 12;
const TOP: i64 = 14;
const HEIGHT: i64 = 84;
/// Also of what has no rows: whoever has no bar is not seen.
const LOWEST: i64 = 4;
/// How far above its bar a mark begins.
const MARK: i64 = 11;

#[derive(Debug, Template)]
#[template(path = "organization/exports/runs_chart.html")]
pub(super) struct RunsChart {
    width: i64,
    height: i64,
    bars: Vec<Bar>,
    /// The same for those who do not see it.
    words: String,
    most: String,
    /// The marks, explained: only those that are there.
    kinds: Vec<Kind>,
}

#[derive(Debug)]
struct Kind {
    class: &'static str,
    word: &'static str,
    is_hollow: bool,
    mark: Option<Mark>,
}

/// What stands above a bar that did not get through: color alone must not tell.
#[derive(Debug, Clone, Copy)]
struct Mark {
    class: &'static str,
    /// From the upper left.
    path: &'static str,
}

impl Mark {
    const fn of(standing: RunState) -> Option<Self> {
        match standing {
            RunState::Failed => Some(Self {
                class: "run-cross",
                path: "l7 7m0-7l-7 7",
            }),
            RunState::Stopped => Some(Self {
                class: "run-dash",
                path: "m0 4h7",
            }),
            RunState::Done | RunState::InProgress => None,
        }
    }
}

#[derive(Debug)]
struct Bar {
    x: i64,
    y: i64,
    height: i64,
    class: &'static str,
    is_hollow: bool,
    /// Where it stands.
    mark: Option<(i64, Mark)>,
    words: String,
}

/// Its template escapes what it holds.
impl HtmlSafe for RunsChart {}

impl RunsChart {
    /// None if there were no runs. `runs` come newest first, as the service lists them.
    pub(super) fn new(runs: &[Run]) -> Option<Self> {
        let words = RecentRuns::words_of(runs)?;
        let most = runs.iter().filter_map(|run| run.records_completed).max();
        let most = most.unwrap_or_default().max(1);
        let bars = (0..)
            .zip(runs.iter().rev())
            .map(|(place, run)| Bar::new(place, run, most));
        let standings: Vec<RunState> = runs.iter().map(|run| RunState::of(run.status)).collect();
        let kinds = RunState::ALL.into_iter().filter(|kind| standings.contains(kind));
        Some(Self {
            width: i64::try_from(runs.len()).unwrap_or(SHOWN) * STEP,
            bars: bars.collect(),
            height: TOP + HEIGHT,
            words,
            most: figures::rows(most),
            kinds: kinds.map(Kind::from).collect(),
        })
    }
}

impl From<RunState> for Kind {
    fn from(standing: RunState) -> Self {
        Self {
            class: standing.class(),
            word: standing.word(),
            is_hollow: standing.is_hollow(),
            mark: Mark::of(standing),
        }
    }
}

impl Bar {
    fn new(place: i64, run: &Run, most: i64) -> Self {
        let standing = RunState::of(run.status);
        let rows = run.records_completed.unwrap_or_default();
        let height = (HEIGHT * rows.min(most) / most).max(LOWEST);
        Self {
            x: place * STEP,
            y: TOP + HEIGHT - height,
            height,
            class: standing.class(),
            is_hollow: standing.is_hollow(),
            mark: Mark::of(standing).map(|mark| (TOP + HEIGHT - height - MARK, mark)),
            words: words(run),
        }
    }
}

fn words(run: &Run) -> String {
    let interval = figures::interval(run.data_interval_start, run.data_interval_end);
    let mut parts = vec![status::tag(run.status).word.to_lowercase()];
    parts.extend(run.records_completed.map(figures::rows));
    parts.extend(duration(run).map(|took| format!("in {took}")));
    parts.extend(run.latest_error.as_deref().map(show::sentence));
    format!("{interval}: {}", parts.join(", "))
}

/// How long the last attempt took, if it is over.
pub(super) fn duration(run: &Run) -> Option<String> {
    let (start, end) = (run.started_at?, run.finished_at?);
    Some(figures::took(end - start))
}
