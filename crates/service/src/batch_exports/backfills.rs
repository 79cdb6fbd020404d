//! What people ask of backfills: what one would come to, to begin it, to see it, to cancel it.

use boxed::boxed;

use super::interval::Span;
use super::types::{Backfill, BackfillPlan, BackfillRequest, BackfillStatus, BatchExport, ExportSeen, RunStatus};
use super::{cases, limits, sql};
use crate::Service;
use crate::access::{Caller, ChangeExports, ReadExports};
use crate::activity::Entry;
use crate::clock::Time;
use crate::error::{Error, Result};
use crate::id::{BackfillId, ExportId};
use crate::page::{Page, Window};
use crate::transaction::WriteTx;

/// What is filled, aligned.
#[derive(Debug, Clone, Copy)]
pub(super) struct Range {
    pub(super) start: Time,
    pub(super) end: Time,
    pub(super) is_resend: bool,
}

impl Range {
    fn span(self) -> Span {
        Span {
            start: self.start,
            end: self.end,
        }
    }
}

impl Service {
    /// `earliest`: the ingestion time of the first row there is.
    #[boxed]
    pub async fn create_backfill(
        &self,
        caller: &Caller<ChangeExports>,
        id: ExportId,
        request: &BackfillRequest,
        earliest: Option<Time>,
    ) -> Result<(ExportSeen, Backfill)> {
        let mut db = self.write().await?;
        let seen = cases::lock(&mut db, caller, id, &crate::no_precondition).await?;
        let range = range(&seen.export, request, earliest, db.now)?;
        let (backfill, entry) = begin(&mut db, &seen.export, range).await?;
        db.commit(&caller.actor, &[entry]).await?;
        Ok((seen, backfill))
    }

    /// What [`Self::create_backfill`] would begin, refusals included, without beginning it.
    pub async fn plan_backfill<P>(
        &self,
        caller: &Caller<P>,
        id: ExportId,
        request: &BackfillRequest,
        earliest: Option<Time>,
    ) -> Result<BackfillPlan> {
        let mut db = self.core.store.read().await?;
        let export = cases::find(&mut db, caller, id).await?;
        let range = range(&export, request, earliest, self.core.clock.now())?;
        Ok(BackfillPlan {
            start_at: range.start,
            end_at: range.end,
            intervals: range.span().count(export.interval),
        })
    }

    /// Newest first.
    #[boxed]
    pub async fn backfills(
        &self,
        caller: &Caller<ReadExports>,
        export: ExportId,
        window: Window,
    ) -> Result<Page<Backfill>> {
        let mut db = self.core.store.read().await?;
        cases::find(&mut db, caller, export).await?;
        sql::backfills::page(&mut db, export, window).await
    }

    pub async fn backfill<P>(&self, caller: &Caller<P>, export: ExportId, id: BackfillId) -> Result<Backfill> {
        let mut db = self.core.store.read().await?;
        cases::find(&mut db, caller, export).await?;
        sql::backfills::find(&mut db, export, id)
            .await?
            .ok_or(Error::NotFound("backfill"))
    }

    /// Makes no more runs, and cancels those that are not over.
    #[boxed]
    pub async fn cancel_backfill(
        &self,
        caller: &Caller<ChangeExports>,
        export: ExportId,
        id: BackfillId,
    ) -> Result<Backfill> {
        let mut db = self.write().await?;
        cases::lock(&mut db, caller, export, &crate::no_precondition).await?;
        let found = sql::backfills::find(&mut db, export, id).await?;
        let mut backfill = found.ok_or(Error::NotFound("backfill"))?;
        if backfill.status != BackfillStatus::Running {
            let detail = format!("Cannot cancel a backfill with status '{}'.", backfill.status.as_str());
            return Err(Error::refused("invalid_input", detail));
        }
        let now = db.now;
        for mut run in sql::runs::open_of_backfill(&mut db, id).await? {
            run.become_(RunStatus::Cancelled, now)?;
            sql::runs::save(&mut db, &run).await?;
        }
        backfill.end_with(BackfillStatus::Cancelled, now);
        sql::backfills::save(&mut db, &backfill).await?;
        let entry = Entry::happened(&backfill, "cancelled");
        db.commit(&caller.actor, &[entry]).await?;
        Ok(backfill)
    }
}

/// Aligned outward, and cut to where there is data and to where the schedule takes over.
fn range(export: &BatchExport, request: &BackfillRequest, earliest: Option<Time>, now: Time) -> Result<Range> {
    let invalid = |field, detail: String| Err(Error::invalid(field, "invalid_input", detail));
    if let Some(end) = request.end_at
        && end > now
    {
        return invalid(
            "end_at",
            format!("The provided 'end_at' ({}) is in the future.", end.to_rfc3339()),
        );
    }
    if let (Some(start), Some(end)) = (request.start_at, request.end_at)
        && start >= end
    {
        let detail = "'start_at' must be before 'end_at'.";
        return invalid("start_at", detail.to_owned());
    }
    let interval = export.interval;
    let latest = latest(export, now);
    let end = request.end_at.map_or(latest, |end| interval.ceil(end)).min(latest);
    // Without data there is nothing to fill.
    let first = earliest.map_or(end, |earliest| interval.floor(earliest));
    let start = request.start_at.map_or(first, |start| interval.floor(start).max(first));
    if request.start_at.is_some_and(|start| start > now) {
        return invalid("start_at", "Must not be in the future.".to_owned());
    }
    Ok(Range {
        start: start.min(end),
        end,
        is_resend: request.resend.unwrap_or(false),
    })
}

/// Where backfills end at the latest: what the schedule will deliver automatically is left to it.
pub(super) fn latest(export: &BatchExport, now: Time) -> Time {
    let complete = export.interval.floor(now);
    if export.next_run_at.is_some() {
        export.scheduled_until.min(complete)
    } else {
        complete
    }
}

/// Writes a backfill down; the scheduler makes its runs, a few at a time.
pub(super) async fn begin(db: &mut WriteTx, export: &BatchExport, range: Range) -> Result<(Backfill, Entry)> {
    let mut backfill = Backfill {
        id: BackfillId(db.uuid()),
        organization_id: export.organization_id,
        batch_export: export.id,
        start_at: range.start,
        end_at: range.end,
        status: BackfillStatus::Running,
        is_resend: range.is_resend,
        scheduled_until: range.start,
        total_runs: range.span().count(export.interval),
        skipped_runs: 0,
        created_at: db.now,
        finished_at: None,
        updated_at: db.now,
        finished_runs: 0,
    };
    if range.start >= range.end {
        backfill.end_with(BackfillStatus::Completed, db.now);
    } else {
        limits::room_for_backfill(db, export).await?;
    }
    sql::backfills::insert(db, &backfill).await?;
    let entry = Entry::created(&backfill);
    Ok((backfill, entry))
}
