//! The last runs of an export as a small picture: a bar each, oldest first.

use std::fmt::Write;

use askama::Template;
use askama::filters::HtmlSafe;
use service::batch_exports::{Run, RunStatus};

use crate::show;

const STEP: usize = 7;
const HEIGHT: usize = 18;

#[derive(Debug, Clone, Template)]
#[template(path = "runs_picture.html")]
pub(super) struct RunsPicture {
    width: usize,
    height: usize,
    bars: Vec<Bar>,
    /// The same for those who do not see it.
    words: String,
}

#[derive(Debug, Clone)]
struct Bar {
    x: usize,
    y: usize,
    height: usize,
    class: &'static str,
}

/// Its template escapes what it holds.
impl HtmlSafe for RunsPicture {}

/// How a run stands, in as many kinds as one can tell apart at a glance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    Done,
    Failed,
    UnderWay,
    Stopped,
}

impl Standing {
    pub(super) const ALL: [Self; 4] = [Self::Done, Self::Failed, Self::UnderWay, Self::Stopped];

    pub(super) fn of(status: RunStatus) -> Self {
        match status {
            RunStatus::Completed => Self::Done,
            RunStatus::Failed | RunStatus::FailedRetryable | RunStatus::TimedOut | RunStatus::FailedBilling => {
                Self::Failed
            }
            RunStatus::Starting | RunStatus::Running => Self::UnderWay,
            RunStatus::Cancelled | RunStatus::Terminated | RunStatus::ContinuedAsNew => Self::Stopped,
        }
    }

    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::UnderWay => "under way",
            Self::Stopped => "cancelled",
        }
    }

    pub(super) const fn class(self) -> &'static str {
        match self {
            Self::Done => "run-done",
            Self::Failed => "run-failed",
            Self::UnderWay => "run-under-way",
            Self::Stopped => "run-stopped",
        }
    }

    /// Colour alone must not tell: what failed stands out.
    const fn height(self) -> usize {
        match self {
            Self::Failed => HEIGHT,
            Self::Done => 12,
            Self::UnderWay => 8,
            Self::Stopped => 4,
        }
    }
}

impl RunsPicture {
    /// None if there were no runs. `runs` come newest first, as the service lists them.
    pub(super) fn new(runs: &[Run]) -> Option<Self> {
        let standings: Vec<Standing> = runs.iter().rev().map(|run| Standing::of(run.status)).collect();
        Self::of(&standings)
    }

    /// What the picture says, without it.
    pub(super) fn words_of(runs: &[Run]) -> Option<String> {
        let standings: Vec<Standing> = runs.iter().map(|run| Standing::of(run.status)).collect();
        (!standings.is_empty()).then(|| words(&standings))
    }

    fn of(standings: &[Standing]) -> Option<Self> {
        if standings.is_empty() {
            return None;
        }
        let bars = standings.iter().enumerate().map(|(place, standing)| Bar {
            x: place * STEP,
            y: HEIGHT - standing.height(),
            height: standing.height(),
            class: standing.class(),
        });
        Some(Self {
            width: standings.len() * STEP,
            height: HEIGHT,
            bars: bars.collect(),
            words: words(standings),
        })
    }
}

fn words(standings: &[Standing]) -> String {
    let count = i64::try_from(standings.len()).unwrap_or(i64::MAX);
    let mut text = format!("The last {}", show::counted(count, "run"));
    let mut separator = ": ";
    for kind in Standing::ALL {
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
        let picture = RunsPicture::of(&[Standing::Done, Standing::Failed, Standing::Done]).unwrap();
        assert_eq!(picture.words, "The last 3 runs: 2 done, 1 failed");
        let places: Vec<_> = picture.bars.iter().map(|bar| (bar.x, bar.y + bar.height)).collect();
        assert_eq!(places, [(0, HEIGHT), (7, HEIGHT), (14, HEIGHT)]);
        assert!(RunsPicture::of(&[]).is_none());
    }
}
