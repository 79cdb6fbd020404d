//! Runs: one interval of one export each, and the states it goes through.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::interval::Span;
use super::logs::{self, Level};
use super::{cases, sql};
use crate::Service;
use crate::access::{Caller, ChangeExports, ReadExports};
use crate::activity::{Entry, Recorded};
use crate::clock::Time;
use crate::db::WriteTx;
use crate::error::{Error, Result};
use crate::id::{BackfillId, ExportId, OrganizationId, RunId, WorkerId};
use crate::page::{Page, Window};

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
#[derive(Debug, Clone, Serialize, PartialEq)]
pub struct Run {
    pub id: RunId,
    #[serde(skip)]
    pub organization_id: OrganizationId,
    pub batch_export: ExportId,
    pub backfill: Option<BackfillId>,
    pub data_interval_start: Time,
    pub data_interval_end: Time,
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
    /// When the attempt under way began, or the last one.
    #[serde(skip)]
    pub started_at: Option<Time>,
    /// When somebody should take it. None: it is over.
    #[serde(skip)]
    pub due_at: Option<Time>,
    /// Runs to the same place take turns.
    #[serde(skip)]
    pub place: String,
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

impl FromStr for RunStatus {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|known| known.as_str() == text).ok_or(())
    }
}

impl Run {
    pub fn span(&self) -> Span {
        Span {
            start: self.data_interval_start,
            end: self.data_interval_end,
        }
    }

    /// Moves on to another state, if that may follow.
    pub(super) fn become_(&mut self, next: RunStatus, now: Time) -> Result<()> {
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
    pub(super) fn queue(&mut self, now: Time) -> Result<()> {
        let was_delivered = self.status == RunStatus::Completed;
        self.become_(RunStatus::Starting, now)?;
        self.is_resend |= was_delivered;
        (self.records_completed, self.records_read) = (None, None);
        (self.bytes_exported, self.latest_error) = (None, None);
        (self.tries, self.queued_at, self.started_at, self.due_at) = (0, now, None, Some(now));
        Ok(())
    }
}

impl Service {
    /// Newest first.
    pub async fn runs(
        &self,
        caller: &Caller<ReadExports>,
        export: ExportId,
        filter: &RunFilter,
        window: Window,
    ) -> Result<Page<Run>> {
        let mut db = self.core.store.read().await?;
        cases::find(&mut db, caller, export).await?;
        sql::runs::page(&mut db, export, filter, window).await
    }

    /// So many of the newest, newest first. However many there are, none of the others is looked at.
    pub async fn newest_runs(&self, caller: &Caller<ReadExports>, export: ExportId, most: i64) -> Result<Vec<Run>> {
        let mut db = self.core.store.read().await?;
        cases::find(&mut db, caller, export).await?;
        sql::runs::newest(&mut db, export, most).await
    }

    pub async fn run(&self, caller: &Caller<ReadExports>, export: ExportId, id: RunId) -> Result<Run> {
        let mut db = self.core.store.read().await?;
        cases::find(&mut db, caller, export).await?;
        sql::runs::find(&mut db, export, id)
            .await?
            .ok_or(Error::NotFound("run"))
    }

    /// Delivers an interval again, from the start. What is already there is replaced, not doubled.
    pub async fn retry_run(&self, caller: &Caller<ChangeExports>, export: ExportId, id: RunId) -> Result<Run> {
        self.change_run(caller, export, id, "retried", |run, now| {
            let detail = format!(
                "Cannot retry a run with status '{}' because it has not finished.",
                run.status.as_str()
            );
            run.queue(now).map_err(|_| refused(detail))
        })
        .await
    }

    /// Whoever carries it out notices at its next sign of life, and takes back what it sent.
    pub async fn cancel_run(&self, caller: &Caller<ChangeExports>, export: ExportId, id: RunId) -> Result<Run> {
        self.change_run(caller, export, id, "cancelled", |run, now| {
            let detail = format!("Cannot cancel a run with status '{}'.", run.status.as_str());
            run.become_(RunStatus::Cancelled, now).map_err(|_| refused(detail))
        })
        .await
    }

    async fn change_run(
        &self,
        caller: &Caller<ChangeExports>,
        export: ExportId,
        id: RunId,
        deed: &'static str,
        change: impl FnOnce(&mut Run, Time) -> Result<()>,
    ) -> Result<Run> {
        let mut db = self.write().await?;
        // The export first, as everybody who changes its runs does.
        cases::lock(&mut db, caller, export, &crate::no_precondition).await?;
        let mut run = sql::runs::lock(&mut db, id)
            .await?
            .filter(|run| run.batch_export == export);
        let run = run.as_mut().ok_or(Error::NotFound("run"))?;
        let now = db.now;
        change(run, now)?;
        if run.status == RunStatus::Starting {
            check_that_nothing_else_covers(&mut db, run).await?;
        }
        sql::runs::save(&mut db, run).await?;
        logs::write(&mut db, run, Level::Info, &format!("The run was {deed}.")).await?;
        let entry = Entry::happened(&*run, deed);
        db.commit(&caller.actor, &[entry]).await?;
        Ok(run.clone())
    }
}

/// Runs under another interval may have delivered the same time since.
async fn check_that_nothing_else_covers(db: &mut WriteTx, run: &Run) -> Result<()> {
    let others = sql::runs::overlapping(db, run.batch_export, run.span()).await?;
    let delivered = |other: &&Run| other.id != run.id && other.status == RunStatus::Completed;
    if let Some(other) = others.iter().find(delivered) {
        let detail = format!("Cannot retry: run {} has delivered the same interval.", other.id);
        return Err(refused(detail));
    }
    let overlaps = |span: &Span| span.start < run.data_interval_end && span.end > run.data_interval_start;
    let earlier = sql::delivered::touching(db, run.batch_export, run.span()).await?;
    if earlier.iter().any(overlaps) {
        let detail = "Cannot retry: a run that has since been deleted delivered the same interval.";
        return Err(refused(detail.to_owned()));
    }
    Ok(())
}

fn refused(detail: String) -> Error {
    Error::refused("invalid_input", detail)
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
