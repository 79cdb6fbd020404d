//! How quick an organization is, and the passes over those who wait.

use std::time::Duration;

/// How long its calls usually take at least, of an organization that is slower than others that are slow, and of the slowest.
const SLOWER: Duration = Duration::from_secs(2);
pub(super) const SLOWEST: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    Events,
    Task,
}

/// What is known of an organization. The first go before the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum SpeedClass {
    Quick,
    /// Nothing is known, or nothing that still counts.
    New,
    Slow,
    Slower,
    Slowest,
}

impl SpeedClass {
    /// Of an organization whose calls are slow, and take so long.
    pub(super) fn of_slow(usual: Duration) -> Self {
        if usual >= SLOWEST {
            Self::Slowest
        } else if usual >= SLOWER {
            Self::Slower
        } else {
            Self::Slow
        }
    }

    pub(super) fn is_slow(self) -> bool {
        self >= Self::Slow
    }
}

/// Who is looked for in one pass over those who wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pass {
    Anyone,
    /// Those of a person who has little in progress beside others, unless they are slow.
    Underserved,
    /// Those who had nothing in progress for longer than a round of short turns.
    Overdue,
    /// Slow ones who had nothing in progress for a while. They have a few permits of their own.
    OverdueSlow,
    NotSlow,
    Only(SpeedClass),
}

/// One pass of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Look {
    pub(crate) pass: Pass,
    /// Whether it looks for tasks, too, and not for events alone.
    pub(crate) takes_tasks: bool,
}

impl Pass {
    pub(crate) const COUNT: usize = 10;

    /// Each pass goes its own rounds: otherwise one would begin again and again where another has ended.
    pub(crate) fn number(self) -> usize {
        match self {
            Self::Anyone => 0,
            Self::Underserved => 1,
            Self::Overdue => 2,
            Self::OverdueSlow => 3,
            Self::NotSlow => 4,
            Self::Only(standing) => 5 + standing as usize,
        }
    }
}
