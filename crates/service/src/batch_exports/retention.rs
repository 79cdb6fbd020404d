//! For how long runs are kept that are over.
//!
//! What is exported next does not depend on it: of runs that are no longer kept, it stays known what time they delivered.

use std::collections::HashMap;

use boxed::boxed;
use chrono::TimeDelta;

use super::interval::{Interval, Span, joined};
use super::types::{BatchExport, Limits, RunStatus};
use super::{pausing, sql};
use crate::Service;
use crate::clock::Time;
use crate::db::Session;
use crate::error::Result;
use crate::id::{BackfillId, ExportId, RunId};
use crate::transaction::WriteTx;

/// The newest of each export are kept in any case, and younger ones up to so many.
const KEPT: i64 = 1000;
const KEPT_FOR: TimeDelta = TimeDelta::days(30);
const MAX_KEPT: i64 = 20_000;
/// How many exports one step looks at, and how many runs and backfills it forgets.
const LOOKED_AT: i64 = 20;
const AT_ONCE: i64 = 500;
const BACKFILLS_AT_ONCE: i64 = 20;

impl Service {
    /// Forgets some old runs, backfills and lines of logs of the next few exports after this one. Says after which to go on;
    /// none: all were looked at.
    #[boxed]
    pub async fn forget_old_runs(&self, after: ExportId) -> Result<Option<ExportId>> {
        let exports = sql::exports::after(&mut self.core.store.read().await?, after, LOOKED_AT).await?;
        let mut looked_at = after;
        for export in &exports {
            if self.forget_old_runs_of(export).await? || self.forget_lines_of(export.id).await? {
                return Ok(Some(looked_at));
            }
            looked_at = export.id;
        }
        Ok((!exports.is_empty()).then_some(looked_at))
    }

    /// True: there are more of them.
    async fn forget_old_runs_of(&self, export: &BatchExport) -> Result<bool> {
        let mut db = self.core.store.read().await?;
        let now = self.core.clock.now();
        let runs = match limits(&mut db, export, now).await? {
            Some(limits) => sql::runs::old(&mut db, export.id, limits, AT_ONCE).await?,
            None => Vec::new(),
        };
        let backfills = sql::backfills::old(&mut db, export.id, KEPT, BACKFILLS_AT_ONCE).await?;
        drop(db);
        if runs.is_empty() && backfills.is_empty() {
            return Ok(false);
        }
        let mut db = self.write().await?;
        // As everybody does who makes runs: what was delivered is at every moment in one place or the other.
        if sql::exports::lock(&mut db, export.id).await?.is_none() {
            return Ok(false);
        }
        forget(&mut db, export.id, &runs).await?;
        sql::backfills::delete(&mut db, &backfills).await?;
        db.commit_unrecorded().await?;
        let is_full = |count: usize, most: i64| i64::try_from(count).is_ok_and(|count| count >= most);
        Ok(is_full(runs.len(), AT_ONCE) || is_full(backfills.len(), BACKFILLS_AT_ONCE))
    }
}

/// None: there are so few runs that all of them are kept.
async fn limits(db: &mut Session, export: &BatchExport, now: Time) -> Result<Option<Limits>> {
    let Some(oldest_kept) = sql::runs::made_at(db, export.id, KEPT).await? else {
        return Ok(None);
    };
    let made_before = oldest_kept.min(now - KEPT_FOR);
    let made_before = match sql::runs::made_at(db, export.id, MAX_KEPT).await? {
        Some(oldest) => made_before.max(oldest),
        None => made_before,
    };
    let last = sql::runs::last_start(db, export.id).await?.unwrap_or(now);
    Ok(Some(Limits {
        made: made_before,
        failed: export.scheduled_until.min(now) - pausing::MEMORY,
        start: last - Interval::MAX,
    }))
}

async fn forget(db: &mut WriteTx, export: ExportId, runs: &[RunId]) -> Result<()> {
    let gone = sql::runs::delete_old(db, runs).await?;
    let delivered = gone.iter().filter(|old| old.status == RunStatus::Completed);
    keep_delivered(db, export, delivered.map(|old| old.span).collect()).await?;
    let mut counts: HashMap<BackfillId, i64> = HashMap::new();
    for backfill in gone.iter().filter_map(|old| old.backfill) {
        *counts.entry(backfill).or_default() += 1;
    }
    for (backfill, count) in counts {
        sql::backfills::count_forgotten(db, backfill, count).await?;
    }
    Ok(())
}

/// Adds spans to those that are known as delivered.
async fn keep_delivered(db: &mut WriteTx, export: ExportId, mut spans: Vec<Span>) -> Result<()> {
    let start = spans.iter().map(|span| span.start).min();
    let end = spans.iter().map(|span| span.end).max();
    let (Some(start), Some(end)) = (start, end) else {
        return Ok(());
    };
    let known = sql::delivered::touching(db, export, Span { start, end }).await?;
    spans.extend_from_slice(&known);
    sql::delivered::delete(db, export, &known).await?;
    sql::delivered::insert(db, export, &joined(spans)).await
}
