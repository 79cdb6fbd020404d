use boxed::boxed;

use super::backfills::{self, Range};
use super::types::{BatchExport, ExportSeen};
use super::{cases, sql};
use crate::Service;
use crate::access::{Caller, ChangeExports};
use crate::activity::Entry;
use crate::clock::Time;
use crate::error::Result;
use crate::id::ExportId;
use crate::transaction::WriteTx;

/// Failed runs that are older than this are not caught up by unpausing.
pub(super) const MEMORY: chrono::TimeDelta = chrono::TimeDelta::days(90);

impl Service {
    /// Makes no more runs until unpaused. A run in progress goes on to its end.
    #[boxed]
    pub async fn pause_batch_export(&self, caller: &Caller<ChangeExports>, id: ExportId) -> Result<ExportSeen> {
        self.set_paused(caller, id, true, false).await
    }

    /// Goes on with the interval in progress; `backfill` also fills what passed, and what failed before it was paused.
    #[boxed]
    pub async fn unpause_batch_export(
        &self,
        caller: &Caller<ChangeExports>,
        id: ExportId,
        backfill: bool,
    ) -> Result<ExportSeen> {
        self.set_paused(caller, id, false, backfill).await
    }

    async fn set_paused(
        &self,
        caller: &Caller<ChangeExports>,
        id: ExportId,
        paused: bool,
        backfill: bool,
    ) -> Result<ExportSeen> {
        let mut db = self.write().await?;
        let before = cases::lock(&mut db, caller, id, &crate::no_precondition).await?;
        let mut export = before.export.clone();
        let now = db.now;
        export.set_paused(paused, now);
        export.reschedule();
        cases::begin_where_runs_end(&mut db, &before.export, &mut export).await?;
        let Some(entry) = Entry::updated(&before.export, &export) else {
            return Ok(before);
        };
        let mut entries = vec![entry];
        export.updated_at = now;
        sql::exports::save(&mut db, &export).await?;
        if backfill && let Some(range) = missed(&mut db, &before.export, now).await? {
            entries.push(backfills::begin(&mut db, &export, range).await?.1);
        }
        db.commit(&caller.actor, &entries).await?;
        Ok(ExportSeen { export, ..before })
    }
}

/// From the first interval that did not get through to the one in progress.
async fn missed(db: &mut WriteTx, before: &BatchExport, now: Time) -> Result<Option<Range>> {
    let failed = sql::runs::first_failed(db, before.id, before.scheduled_until - MEMORY).await?;
    let start = failed.map_or(before.scheduled_until, |failed| failed.min(before.scheduled_until));
    let end = before.interval.floor(now);
    Ok((start < end).then_some(Range {
        start,
        end,
        is_resend: false,
    }))
}
