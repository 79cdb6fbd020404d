//! Backfills: runs for time that the schedule has left behind.

use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::interval::{Interval, Span};
use super::{BatchExport, ExportSeen, RunStatus, cases, limits, sql};
use crate::Service;
use crate::access::{Caller, ChangeExports, ReadExports};
use crate::activity::{Entry, Recorded};
use crate::clock::Time;
use crate::db::WriteTx;
use crate::error::{Error, Result};
use crate::id::{BackfillId, ExportId, OrganizationId};
use crate::page::{Page, Window};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(inline)]
pub enum BackfillStatus {
    Running,
    Completed,
    /// Some of its runs failed permanently.
    Failed,
    Cancelled,
}

#[derive(Debug, Clone, Serialize)]
pub struct Backfill {
    pub id: BackfillId,
    #[serde(skip)]
    pub organization_id: OrganizationId,
    pub batch_export: ExportId,
    pub start_at: Time,
    pub end_at: Time,
    pub status: BackfillStatus,
    pub is_resend: bool,
    #[serde(skip)]
    pub(crate) scheduled_until: Time,
    pub total_runs: i64,
    #[serde(skip)]
    pub skipped_runs: i64,
    pub created_at: Time,
    pub finished_at: Option<Time>,
    pub updated_at: Time,
    /// How many of its runs are over, those that were not needed included.
    #[serde(skip)]
    pub finished_runs: i64,
}

/// The range to backfill.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{ "start_at": "2026-11-01T00:00:00Z", "end_at": "2026-11-08T00:00:00Z" }]))]
pub struct BackfillWish {
    /// The start, in RFC 3339 with a time zone, rounded down to the interval. Defaults to the earliest data.
    #[serde(default)]
    #[schemars(extend("x-nullable" = true))]
    pub start_at: Option<Time>,
    /// The end, rounded up to the interval. Defaults to the last complete interval.
    #[serde(default)]
    #[schemars(extend("x-nullable" = true))]
    pub end_at: Option<Time>,
    /// Whether delivered intervals are exported again.
    #[serde(default)]
    pub resend: Option<bool>,
}

/// What a wish would come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackfillPlan {
    pub start_at: Time,
    pub end_at: Time,
    /// Including runs that were already delivered.
    pub intervals: i64,
}

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

impl BackfillStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "Running",
            Self::Completed => "Completed",
            Self::Failed => "Failed",
            Self::Cancelled => "Cancelled",
        }
    }
}

impl FromStr for BackfillStatus {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        [Self::Running, Self::Completed, Self::Failed, Self::Cancelled]
            .into_iter()
            .find(|known| known.as_str() == text)
            .ok_or(())
    }
}

impl Backfill {
    /// From 0 to 1.
    #[expect(clippy::cast_precision_loss, reason = "nobody looks at the sixteenth digit")]
    pub fn progress(&self) -> f64 {
        match self.total_runs {
            0 => 1.0,
            total => (self.finished_runs as f64 / total as f64).min(1.0),
        }
    }
}

impl Service {
    /// `earliest`: the ingestion time of the first row there is.
    pub async fn create_backfill(
        &self,
        caller: &Caller<ChangeExports>,
        id: ExportId,
        wish: &BackfillWish,
        earliest: Option<Time>,
    ) -> Result<(ExportSeen, Backfill)> {
        let mut db = self.write().await?;
        let seen = cases::lock(&mut db, caller, id, &crate::no_precondition).await?;
        let range = range(&seen.export, wish, earliest, db.now)?;
        let (backfill, entry) = begin(&mut db, &seen.export, range).await?;
        db.commit(&caller.actor, &[entry]).await?;
        Ok((seen, backfill))
    }

    /// What [`Self::create_backfill`] would begin, refusals included, without beginning it.
    pub async fn plan_backfill<P>(
        &self,
        caller: &Caller<P>,
        id: ExportId,
        wish: &BackfillWish,
        earliest: Option<Time>,
    ) -> Result<BackfillPlan> {
        let mut db = self.core.store.read().await?;
        let export = cases::find(&mut db, caller, id).await?;
        let range = range(&export, wish, earliest, self.core.clock.now())?;
        Ok(BackfillPlan {
            start_at: range.start,
            end_at: range.end,
            intervals: count(range.span(), export.interval),
        })
    }

    /// Newest first.
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

impl Backfill {
    pub(super) fn end_with(&mut self, status: BackfillStatus, now: Time) {
        (self.status, self.finished_at, self.updated_at) = (status, Some(now), now);
    }
}

/// Aligned outward, and cut to where there is data and to where the schedule takes over.
fn range(export: &BatchExport, wish: &BackfillWish, earliest: Option<Time>, now: Time) -> Result<Range> {
    let invalid = |field, detail: String| Err(Error::invalid(field, "invalid_input", detail));
    if let Some(end) = wish.end_at
        && end > now
    {
        return invalid(
            "end_at",
            format!("The provided 'end_at' ({}) is in the future.", end.to_rfc3339()),
        );
    }
    if let (Some(start), Some(end)) = (wish.start_at, wish.end_at)
        && start >= end
    {
        let detail = "'start_at' must be before 'end_at'.";
        return invalid("start_at", detail.to_owned());
    }
    let interval = export.interval;
    let latest = latest(export, now);
    let end = wish.end_at.map_or(latest, |end| interval.ceil(end)).min(latest);
    // Without data there is nothing to fill.
    let first = earliest.map_or(end, |earliest| interval.floor(earliest));
    let start = wish.start_at.map_or(first, |start| interval.floor(start).max(first));
    if wish.start_at.is_some_and(|start| start > now) {
        return invalid("start_at", "Must not be in the future.".to_owned());
    }
    Ok(Range {
        start: start.min(end),
        end,
        is_resend: wish.resend.unwrap_or(false),
    })
}

/// Where backfills end at the latest: what the schedule will deliver by itself is left to it.
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
        total_runs: count(range.span(), export.interval),
        skipped_runs: 0,
        created_at: db.now,
        finished_at: None,
        updated_at: db.now,
        finished_runs: 0,
    };
    if range.start >= range.end {
        backfill.end_with(BackfillStatus::Completed, db.now);
    } else {
        limits::room_for_backfill(db, export.id).await?;
    }
    sql::backfills::insert(db, &backfill).await?;
    let entry = Entry::created(&backfill);
    Ok((backfill, entry))
}

/// How many intervals a span touches.
pub(super) fn count(span: Span, interval: Interval) -> i64 {
    let (start, end) = (interval.floor(span.start), interval.ceil(span.end));
    let length = interval.length().num_seconds();
    ((end - start).num_seconds() / length).max(0)
}

impl Recorded for Backfill {
    const SCOPE: &'static str = "BatchExportBackfill";

    fn organization(&self) -> Option<OrganizationId> {
        Some(self.organization_id)
    }

    fn item(&self) -> String {
        self.id.to_string()
    }

    fn name(&self) -> String {
        let format = |time: Time| time.format("%Y-%m-%d %H:%M").to_string();
        format!("{} to {}", format(self.start_at), format(self.end_at))
    }
}
