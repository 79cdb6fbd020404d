//! Makes runs: those that are due, and those that backfills ask for.

use boxed::boxed;
use chrono::TimeDelta;

use super::interval::{Span, joined};
use super::sql;
use super::types::{Backfill, BackfillStatus, BatchExport, Run, RunStatus};
use crate::Service;
use crate::clock::Time;
use crate::error::Result;
use crate::id::{BackfillId, RunId};
use crate::transaction::WriteTx;

/// How many exports one transaction schedules.
const AT_ONCE: usize = 1000;
/// How many intervals of one export it makes, and of all of them: after a long time away the rest follows at the next step, and
/// whoever wants to write does so in between.
const PER_EXPORT: usize = 100;
const RUNS_AT_ONCE: usize = 2 * AT_ONCE;
/// How many runs of a backfill wait at most, and how many intervals are looked at in one step.
const WAITING: i64 = 50;
const LOOKED_AT: i32 = 200;

/// What one step made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Scheduled {
    pub runs: usize,
    /// There was as much to do as one step does: ask again.
    pub is_more: bool,
}

impl Service {
    /// Makes the runs that are due. `delay`: how long after its end an interval can be read.
    ///
    /// Several schedulers at once are harmless: they take different exports, and an interval has one run.
    #[boxed]
    pub async fn schedule_runs(&self, delay: TimeDelta) -> Result<Scheduled> {
        let now = self.core.clock.now();
        if !sql::exports::is_due(&mut self.core.store.read().await?, now).await? {
            return Ok(Scheduled::default());
        }
        let mut db = self.write().await?;
        let mut due = sql::exports::lock_due(&mut db, AT_ONCE).await?;
        let mut runs = Vec::new();
        let mut is_more = due.len() == AT_ONCE;
        // All get the same, or those that are furthest behind would keep the others waiting.
        let most = (RUNS_AT_ONCE / due.len().max(1)).min(PER_EXPORT);
        for export in &mut due {
            is_more |= !export.catch_up(&db, delay, most, &mut runs);
        }
        sql::runs::insert_new(&mut db, &runs).await?;
        sql::exports::save_schedules(&mut db, &due).await?;
        db.commit_unrecorded().await?;
        let made = Scheduled {
            runs: runs.len(),
            is_more,
        };
        Ok(made)
    }

    /// Makes the next runs of a backfill, or ends it. True: something was done.
    #[boxed]
    pub async fn advance_backfills(&self, delay: TimeDelta) -> Result<bool> {
        let open = sql::backfills::open(&mut self.core.store.read().await?, WAITING).await?;
        let mut is_busy = false;
        for id in open {
            is_busy |= self.advance_backfill(id, delay).await?;
        }
        Ok(is_busy)
    }

    async fn advance_backfill(&self, id: BackfillId, delay: TimeDelta) -> Result<bool> {
        let mut db = self.write().await?;
        // The export first, as everybody who changes a backfill does.
        let Some(export) = sql::exports::lock_of_backfill(&mut db, id).await? else {
            return Ok(false);
        };
        let found = sql::backfills::find(&mut db, export.id, id).await?;
        let Some(mut backfill) = found.filter(|backfill| backfill.status == BackfillStatus::Running) else {
            return Ok(false);
        };
        let is_busy = if backfill.scheduled_until < backfill.end_at {
            make_runs(&mut db, &export, &mut backfill, delay).await?;
            true
        } else {
            end(&mut db, &mut backfill).await?
        };
        sql::backfills::save(&mut db, &backfill).await?;
        db.commit_unrecorded().await?;
        Ok(is_busy)
    }
}

impl BatchExport {
    /// Moves on to the present, one interval after the other, so many at most. False: there is more to do.
    fn catch_up(&mut self, db: &WriteTx, delay: TimeDelta, most: usize, runs: &mut Vec<Run>) -> bool {
        for _ in 0..most {
            let Some(end) = self.next_run_at.filter(|&end| end <= db.now) else {
                return true;
            };
            let span = Span {
                start: self.scheduled_until,
                end,
            };
            runs.push(fresh(db, self, span, delay));
            self.scheduled_until = end;
            self.reschedule();
        }
        self.next_run_at.is_none_or(|end| end > db.now)
    }
}

fn fresh(db: &WriteTx, export: &BatchExport, span: Span, delay: TimeDelta) -> Run {
    Run {
        id: RunId(db.uuid()),
        organization_id: export.organization_id,
        batch_export: export.id,
        backfill: None,
        data_interval_start: span.start,
        data_interval_end: span.end,
        status: RunStatus::Starting,
        records_completed: None,
        records_total_count: None,
        records_read: None,
        bytes_exported: None,
        latest_error: None,
        created_at: db.now,
        finished_at: None,
        updated_at: db.now,
        is_resend: false,
        worker: None,
        attempt: 0,
        tries: 0,
        queued_at: db.now,
        started_at: None,
        due_at: Some(db.now.max(span.end + delay)),
        destination_key: export.destination_key(),
    }
}

/// Looks at the next stretch of a backfill: what no run has delivered, or is about to, gets one.
async fn make_runs(db: &mut WriteTx, export: &BatchExport, backfill: &mut Backfill, delay: TimeDelta) -> Result<()> {
    let stretch = Span {
        start: backfill.scheduled_until,
        end: ahead(export, backfill.scheduled_until).min(backfill.end_at),
    };
    let known = sql::runs::overlapping(db, export.id, stretch).await?;
    let is_taken = |run: &&Run| !run.status.is_over() || (run.status == RunStatus::Completed && !backfill.is_resend);
    let mut taken: Vec<Span> = known.iter().filter(is_taken).map(Run::span).collect();
    if !backfill.is_resend {
        taken.extend(sql::delivered::touching(db, export.id, stretch).await?);
    }
    let missing = stretch.without(&joined(taken));
    let (mut made, mut touched) = (Vec::new(), 0);
    for part in missing.into_iter().flat_map(|gap| gap.cut(export.interval)) {
        touched += 1;
        if let Some(old) = known.iter().find(|run| run.span() == part) {
            let mut run = old.clone();
            run.queue(db.now)?;
            run.backfill = Some(backfill.id);
            sql::runs::save(db, &run).await?;
        } else {
            let mut run = fresh(db, export, part, delay);
            (run.backfill, run.is_resend) = (Some(backfill.id), backfill.is_resend);
            made.push(run);
        }
    }
    sql::runs::insert_new(db, &made).await?;
    let all = stretch.count(export.interval);
    let skipped = (all - touched).max(0);
    backfill.skipped_runs += skipped;
    backfill.total_runs += touched + skipped - all;
    backfill.scheduled_until = stretch.end;
    backfill.updated_at = db.now;
    Ok(())
}

fn ahead(export: &BatchExport, from: Time) -> Time {
    export.interval.floor(from) + export.interval.length() * LOOKED_AT
}

/// Ends a backfill whose runs are all over.
async fn end(db: &mut WriteTx, backfill: &mut Backfill) -> Result<bool> {
    if !sql::runs::open_of_backfill(db, backfill.id).await?.is_empty() {
        return Ok(false);
    }
    let status = if sql::runs::any_failed(db, backfill.id).await? {
        BackfillStatus::Failed
    } else {
        BackfillStatus::Completed
    };
    backfill.end_with(status, db.now);
    Ok(true)
}
