//! What people ask of runs: to see them, to have them delivered again, to cancel them.

use boxed::boxed;

use super::interval::Span;
use super::types::{LogLevel, Run, RunFilter, RunStatus};
use super::{cases, logs, sql};
use crate::Service;
use crate::access::{Caller, ChangeExports, ReadExports};
use crate::activity::Entry;
use crate::clock::Time;
use crate::error::{Error, Result};
use crate::id::{ExportId, RunId};
use crate::page::{Page, Window};
use crate::transaction::WriteTx;

impl Service {
    /// Newest first.
    #[boxed]
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
    #[boxed]
    pub async fn newest_runs(&self, caller: &Caller<ReadExports>, export: ExportId, most: i64) -> Result<Vec<Run>> {
        let mut db = self.core.store.read().await?;
        cases::find(&mut db, caller, export).await?;
        sql::runs::newest(&mut db, export, most).await
    }

    #[boxed]
    pub async fn run(&self, caller: &Caller<ReadExports>, export: ExportId, id: RunId) -> Result<Run> {
        let mut db = self.core.store.read().await?;
        cases::find(&mut db, caller, export).await?;
        sql::runs::find(&mut db, export, id)
            .await?
            .ok_or(Error::NotFound("run"))
    }

    /// Delivers an interval again, from the start. What is already there is replaced, not doubled.
    #[boxed]
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

    /// The worker notices at its next heartbeat, and rolls back what it sent.
    #[boxed]
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
        activity: &'static str,
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
        logs::write(&mut db, run, LogLevel::Info, &format!("The run was {activity}.")).await?;
        let entry = Entry::happened(&*run, activity);
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
