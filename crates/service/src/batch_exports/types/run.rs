//! Runs: one interval of one export each, and the states it goes through.

use serde::{Deserialize, Serialize};

use crate::activity::Recorded;
use crate::batch_exports::interval::Span;
use crate::clock::Time;
use crate::db::columns::{parse_by_name, read_as_text};
use crate::error::{Error, Result};
use crate::id::{BackfillId, ExportId, OrganizationId, RunId, WorkerId};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(inline)]
pub enum RunStatus {
    /// Waiting for a worker.
    Starting,
    Running,
    Completed,
    /// Failed permanently. The cause must be fixed.
    Failed,
    /// Failed, and is retried automatically.
    FailedRetryable,
    Cancelled,
    TimedOut,
    // Names that the interface has and that nothing here leads to.
    Terminated,
    ContinuedAsNew,
    FailedBilling,
}

/// A run: one interval of a batch export.
#[derive(Debug, Clone, Serialize, PartialEq, sqlx::FromRow)]
pub struct Run {
    pub id: RunId,
    #[serde(skip)]
    pub organization_id: OrganizationId,
    #[sqlx(rename = "batch_export_id")]
    pub batch_export: ExportId,
    #[sqlx(rename = "backfill_id")]
    pub backfill: Option<BackfillId>,
    pub data_interval_start: Time,
    pub data_interval_end: Time,
    #[sqlx(try_from = "String")]
    pub status: RunStatus,
    pub records_completed: Option<i64>,
    pub records_total_count: Option<i64>,
    /// Rows handed to the destination in this attempt, acknowledged or not.
    pub records_read: Option<i64>,
    pub bytes_exported: Option<i64>,
    pub latest_error: Option<String>,
    pub created_at: Time,
    pub finished_at: Option<Time>,
    pub updated_at: Time,
    /// Delivered before, and asked for again.
    #[serde(skip)]
    pub is_resend: bool,
    #[serde(skip)]
    pub(crate) worker: Option<WorkerId>,
    /// How often it was taken, in all.
    #[serde(skip)]
    pub attempt: i64,
    /// How often it was taken since it was last asked for.
    #[serde(skip)]
    pub tries: i64,
    #[serde(skip)]
    pub(crate) queued_at: Time,
    /// When the attempt in progress began, or the last one.
    #[serde(skip)]
    pub started_at: Option<Time>,
    /// When somebody should take it. None: it is over.
    #[serde(skip)]
    pub due_at: Option<Time>,
    /// Runs to the same destination take turns.
    #[serde(skip)]
    pub destination_key: String,
}

/// Which runs to list; all of them when empty.
#[derive(Debug, Clone, Default)]
pub struct RunFilter {
    pub status: Option<RunStatus>,
    /// Intervals that end after this.
    pub after: Option<Time>,
    /// Intervals that begin before this.
    pub before: Option<Time>,
    pub backfill: Option<BackfillId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// Rows that the destination has acknowledged for good, and the bytes they took.
    pub records: u64,
    pub bytes: u64,
    /// Rows that were read and handed to the destination; before its commit nothing of them may be visible there.
    pub read: u64,
    /// How many there are in all, if that is known.
    pub total: Option<u64>,
}

/// What is needed of a run to say how time is covered.
#[derive(Debug, Clone, Copy, sqlx::FromRow)]
pub(in super::super) struct Stretch {
    #[sqlx(flatten)]
    pub(in super::super) span: Span,
    #[sqlx(try_from = "String")]
    pub(in super::super) status: RunStatus,
}

/// A run that may be forgotten.
#[derive(Debug, Clone, Copy, sqlx::FromRow)]
pub(in super::super) struct Old {
    #[sqlx(flatten)]
    pub(in super::super) span: Span,
    #[sqlx(try_from = "String")]
    pub(in super::super) status: RunStatus,
    #[sqlx(rename = "backfill_id")]
    pub(in super::super) backfill: Option<BackfillId>,
}

/// Before which times runs may be forgotten.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Limits {
    /// When they were made.
    pub(in super::super) made: Time,
    /// Where their intervals begin, if they failed: unpausing looks for later ones.
    pub(in super::super) failed: Time,
    /// Where their intervals begin: the last ones say where the schedule goes on.
    pub(in super::super) start: Time,
}

impl RunStatus {
    pub const ALL: [Self; 10] = [
        Self::Starting,
        Self::Running,
        Self::Completed,
        Self::Failed,
        Self::FailedRetryable,
        Self::Cancelled,
        Self::TimedOut,
        Self::Terminated,
        Self::ContinuedAsNew,
        Self::FailedBilling,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "Starting",
            Self::Running => "Running",
            Self::Completed => "Completed",
            Self::Failed => "Failed",
            Self::FailedRetryable => "FailedRetryable",
            Self::Cancelled => "Cancelled",
            Self::TimedOut => "TimedOut",
            Self::Terminated => "Terminated",
            Self::ContinuedAsNew => "ContinuedAsNew",
            Self::FailedBilling => "FailedBilling",
        }
    }

    /// Nothing more happens unless somebody asks for it.
    pub fn is_over(self) -> bool {
        !matches!(self, Self::Starting | Self::Running | Self::FailedRetryable)
    }

    /// The only place that says which states may follow which.
    pub fn may_become(self, next: Self) -> bool {
        match next {
            // Running: taken, also from a worker that is not heard of any more.
            Self::Running | Self::Cancelled => !self.is_over(),
            Self::Completed | Self::Failed | Self::FailedRetryable | Self::TimedOut => self == Self::Running,
            // Asked for again.
            Self::Starting => self.is_over(),
            Self::Terminated | Self::ContinuedAsNew | Self::FailedBilling => false,
        }
    }
}

parse_by_name!(RunStatus);
read_as_text!(RunStatus);

impl Run {
    pub fn span(&self) -> Span {
        Span {
            start: self.data_interval_start,
            end: self.data_interval_end,
        }
    }

    /// Moves on to another state, if that may follow.
    pub(in super::super) fn become_(&mut self, next: RunStatus, now: Time) -> Result<()> {
        if !self.status.may_become(next) {
            return Err(Error::Conflict {
                code: "conflict",
                detail: format!(
                    "A run with status {} cannot become {}.",
                    self.status.as_str(),
                    next.as_str()
                ),
            });
        }
        self.status = next;
        self.updated_at = now;
        self.finished_at = next.is_over().then_some(now);
        if next.is_over() {
            (self.due_at, self.worker) = (None, None);
        }
        Ok(())
    }

    /// Asks for it again from the start.
    pub(in super::super) fn queue(&mut self, now: Time) -> Result<()> {
        let was_delivered = self.status == RunStatus::Completed;
        self.become_(RunStatus::Starting, now)?;
        self.is_resend |= was_delivered;
        (self.records_completed, self.records_read) = (None, None);
        (self.bytes_exported, self.latest_error) = (None, None);
        (self.tries, self.queued_at, self.started_at, self.due_at) = (0, now, None, Some(now));
        Ok(())
    }
}

impl Recorded for Run {
    const SCOPE: &'static str = "BatchExportRun";

    fn organization(&self) -> Option<OrganizationId> {
        Some(self.organization_id)
    }

    fn item(&self) -> String {
        self.id.to_string()
    }

    fn name(&self) -> String {
        let format = |time: Time| time.format("%Y-%m-%d %H:%M").to_string();
        format!(
            "{} to {}",
            format(self.data_interval_start),
            format(self.data_interval_end)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_over_stays_over_unless_it_is_asked_for_again() {
        for status in RunStatus::ALL.into_iter().filter(|status| status.is_over()) {
            for next in RunStatus::ALL {
                assert_eq!(
                    status.may_become(next),
                    next == RunStatus::Starting,
                    "{status:?} {next:?}"
                );
            }
        }
        assert!(
            RunStatus::Running.may_become(RunStatus::Running),
            "a dead worker's run is taken over"
        );
        assert!(RunStatus::FailedRetryable.may_become(RunStatus::Cancelled));
        assert!(!RunStatus::Starting.may_become(RunStatus::Completed));
    }
}
