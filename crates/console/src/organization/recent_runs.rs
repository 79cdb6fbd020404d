//! The last runs of an export as a small picture: a bar each, oldest first.

use std::fmt::Write;

use askama::Template;
use askama::filters::HtmlSafe;
use service::batch_exports::{Run, RunStatus};

use crate::show;

const STEP: usize = 7;
const HEIGHT: usize = 18;

#[derive(Debug, Clone, Template)]
#[template(path = "recent_runs.html")]
pub(super) struct RecentRuns {
    width: usize,
    height: usize,
    bars: Vec<Bar>,
    /// The same for those who do not see it.
    words: String,
    /// What the bars stand for.
    standings: Vec<RunState>,
}

#[derive(Debug, Clone)]
struct Bar {
    x: usize,
    y: usize,
    height: usize,
    class: &'static str,
    is_hollow: bool,
}

impl Bar {
    const fn new(place: usize, standing: RunState) -> Self {
        Self {
            x: place * STEP,
            y: HEIGHT - standing.height(),
            height: standing.height(),
            class: standing.class(),
            is_hollow: standing.is_hollow(),
        }
    }
}

/// Its template escapes what it holds.
impl HtmlSafe for RecentRuns {}

/// How a run stands, in as many kinds as one can tell apart at a glance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RunState {
    Done,
    Failed,
    InProgress,
    Stopped,
}

impl RunState {
    pub(super) const ALL: [Self; 4] = [Self::Done, Self::Failed, Self::InProgress, Self::Stopped];

    pub(super) fn of(status: RunStatus) -> Self {
        match status {
            RunStatus::Completed => Self::Done,
            RunStatus::Failed | RunStatus::FailedRetryable | RunStatus::TimedOut | RunStatus::FailedBilling => {
                Self::Failed
            }
            RunStatus::Starting | RunStatus::Running => Self::InProgress,
            RunStatus::Cancelled | RunStatus::Terminated | RunStatus::ContinuedAsNew => Self::Stopped,
        }
    }

    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Done => "succeeded",
            Self::Failed => "failed",
            Self::InProgress => "running",
            Self::Stopped => "cancelled",
        }
    }

    pub(super) const fn class(self) -> &'static str {
        match self {
            Self::Done => "run-done",
            Self::Failed => "run-failed",
            Self::InProgress => "run-under-way",
            Self::Stopped => "run-stopped",
        }
    }

    /// Color alone must not tell: what failed stands out, and what was called off is as high as if it were done, but
    /// hollow.
    const fn height(self) -> usize {
        match self {
            Self::Failed => HEIGHT,
            Self::Done | Self::Stopped => 12,
            Self::InProgress => 8,
        }
    }

    pub(super) const fn is_hollow(self) -> bool {
        matches!(self, Self::Stopped)
    }
}

impl RecentRuns {
    /// None if there were no runs. `runs` come newest first, as the service lists them.
    pub(super) fn new(runs: &[Run]) -> Option<Self> {
        let standings: Vec<RunState> = runs.iter().rev().map(|run| RunState::of(run.status)).collect();
        Self::of(standings)
    }

    /// What the picture says, without it.
    pub(super) fn words_of(runs: &[Run]) -> Option<String> {
        let standings: Vec<RunState> = runs.iter().map(|run| RunState::of(run.status)).collect();
        (!standings.is_empty()).then(|| words(&standings))
    }

    fn of(standings: Vec<RunState>) -> Option<Self> {
        if standings.is_empty() {
            return None;
        }
        let bars = standings.iter().enumerate();
        Some(Self {
            width: standings.len() * STEP,
            height: HEIGHT,
            bars: bars.map(|(place, &standing)| Bar::new(place, standing)).collect(),
            words: words(&standings),
            standings,
        })
    }
}

/// What the bars of the pictures on a page mean: only those that are there.
#[derive(Debug, Clone, Template)]
#[template(path = "runs_legend.html")]
pub(super) struct Legend {
    height: usize,
    kinds: Vec<(Bar, &'static str)>,
}

/// Its template escapes what it holds.
impl HtmlSafe for Legend {}

impl Legend {
    /// None if there is no picture.
    pub(super) fn of<'a>(pictures: impl IntoIterator<Item = &'a RecentRuns>) -> Option<Self> {
        let shown: Vec<RunState> = pictures
            .into_iter()
            .flat_map(|picture| picture.standings.clone())
            .collect();
        let kinds = RunState::ALL.into_iter().filter(|kind| shown.contains(kind));
        (!shown.is_empty()).then(|| Self {
            height: HEIGHT,
            kinds: kinds.map(|kind| (Bar::new(0, kind), kind.word())).collect(),
        })
    }
}

fn words(standings: &[RunState]) -> String {
    let count = i64::try_from(standings.len()).unwrap_or(i64::MAX);
    let mut text = format!("Last {}", show::counted(count, "run"));
    let mut separator = ": ";
    for kind in RunState::ALL {
        let number = standings.iter().filter(|&&standing| standing == kind).count();
        if number > 0 {
            // Writing to a text cannot fail.
            let _ = write!(text, "{separator}{number} {}", kind.word());
            separator = ", ";
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_told_in_words_too() {
        let picture = RecentRuns::of(vec![RunState::Done, RunState::Failed, RunState::Done]).unwrap();
        assert_eq!(picture.words, "Last 3 runs: 2 succeeded, 1 failed");
        let places: Vec<_> = picture.bars.iter().map(|bar| (bar.x, bar.y + bar.height)).collect();
        assert_eq!(places, [(0, HEIGHT), (7, HEIGHT), (14, HEIGHT)]);
        assert!(RecentRuns::of(Vec::new()).is_none());
    }

    #[test]
    fn kinds_differ_without_their_colors() {
        let looks = RunState::ALL.map(|kind| (kind.height(), kind.is_hollow()));
        for (place, look) in looks.iter().enumerate() {
            assert!(!looks[place + 1..].contains(look), "{looks:?}");
        }
    }

    #[test]
    fn the_legend_names_what_is_there_and_nothing_else() {
        let pictures = [
            RecentRuns::of(vec![RunState::Stopped]).unwrap(),
            RecentRuns::of(vec![RunState::Done, RunState::Stopped]).unwrap(),
        ];
        let legend = Legend::of(&pictures).unwrap();
        let words: Vec<&str> = legend.kinds.iter().map(|(_, word)| *word).collect();
        assert_eq!(words, ["succeeded", "cancelled"]);
        assert!(Legend::of([]).is_none());
    }
}
