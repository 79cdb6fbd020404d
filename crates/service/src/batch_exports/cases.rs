use std::sync::Arc;

use boxed::boxed;
use serde_json::Map;

use super::checked::{CheckedDestination, DestinationCheck};
use super::types::{BatchExport, ExportPatch, ExportSeen, ExportSelection, NewExport};
use super::{limits, sql};
use crate::access::{Caller, ChangeExports, ReadExports};
use crate::activity::Entry;
use crate::cache::{CacheKey, Load};
use crate::error::{Error, Result};
use crate::id::{ExportId, TeamId};
use crate::limits::Action;
use crate::page::{Page, Window};
use crate::transaction::WriteTx;
use crate::{Precondition, Service, organizations, teams};

impl Service {
    /// Newest first.
    #[boxed]
    pub async fn batch_exports(&self, caller: &Caller<ReadExports>, window: Window) -> Result<Arc<Page<ExportSeen>>> {
        self.select_exports(caller, ExportSelection::All, window).await
    }

    /// Those that fail or are paused; those that fail come first.
    #[boxed]
    pub async fn exports_needing_attention(
        &self,
        caller: &Caller<ReadExports>,
        window: Window,
    ) -> Result<Arc<Page<ExportSeen>>> {
        self.select_exports(caller, ExportSelection::NeedsAttention, window)
            .await
    }

    async fn select_exports(
        &self,
        caller: &Caller<ReadExports>,
        selection: ExportSelection,
        window: Window,
    ) -> Result<Arc<Page<ExportSeen>>> {
        let load = || -> Load<'_, Page<ExportSeen>> { Box::pin(self.load_exports(caller, selection, window)) };
        let teams = caller.restrictions.teams.clone();
        let key = CacheKey::Exports(caller.organization, teams, selection, window);
        self.get_or_load(caller.seen, key, load).await
    }

    async fn load_exports(
        &self,
        caller: &Caller<ReadExports>,
        selection: ExportSelection,
        window: Window,
    ) -> Result<Page<ExportSeen>> {
        let mut db = self.core.store.read().await?;
        let teams = &caller.restrictions.teams;
        let page = sql::exports::page(&mut db, selection, caller.organization, teams, window).await?;
        let ids: Vec<ExportId> = page.items.iter().map(|export| export.id).collect();
        let mut runs = sql::runs::latest(&mut db, &ids).await?;
        let seen = |export: BatchExport| ExportSeen {
            latest_runs: runs.remove(&export.id).unwrap_or_default(),
            export,
        };
        Ok(Page {
            items: page.items.into_iter().map(seen).collect(),
            count: page.count,
        })
    }

    /// How many belong to a team.
    #[boxed]
    pub async fn batch_exports_of_team(&self, caller: &Caller<ReadExports>, team: TeamId) -> Result<i64> {
        let mut db = self.core.store.read().await?;
        sql::exports::count_of_team(&mut db, caller.organization, &caller.restrictions.teams, team).await
    }

    pub async fn batch_export<P>(&self, caller: &Caller<P>, id: ExportId) -> Result<ExportSeen> {
        let mut db = self.core.store.read().await?;
        let export = find(&mut db, caller, id).await?;
        see(&mut db, export).await
    }

    /// The destination is checked before the transaction begins: that may ask the network.
    #[boxed]
    pub async fn create_batch_export(
        &self,
        caller: &Caller<ChangeExports>,
        new: &NewExport,
        check: &dyn DestinationCheck,
    ) -> Result<ExportSeen> {
        let (kind, config) = new.destination.whole()?;
        let destination = CheckedDestination::new(caller, kind, config, check).await?;
        let mut db = self.write().await?;
        // Keeps the team from being deleted in the meantime.
        organizations::sql::lock(&mut db, caller.organization).await?;
        limits::room_for_export(&mut db, caller.organization).await?;
        self.count_created(&mut db, caller, Action::BatchExport).await?;
        let team = teams::cases::choose(&mut db, caller, new.team_id).await?;
        let now = db.now;
        let mut export = BatchExport {
            id: ExportId(db.uuid()),
            organization_id: caller.organization,
            team_id: team,
            name: new.name.clone(),
            model: hogql::Model::Events,
            interval: new.interval,
            kind,
            config: Map::new(),
            secrets: None,
            paused: false,
            last_paused_at: None,
            start_at: None,
            end_at: None,
            hogql_query: None,
            scheduled_until: new.interval.floor(now),
            next_run_at: None,
            failures: 0,
            created_at: now,
            updated_at: now,
        };
        let rest = ExportPatch {
            rest: new.rest.clone(),
            ..ExportPatch::default()
        };
        self.apply(&db, &mut export, &rest, Some(&destination))?;
        sql::exports::insert(&mut db, &export).await?;
        db.commit(&caller.actor, &[Entry::created(&export)]).await?;
        Ok(ExportSeen {
            export,
            latest_runs: Vec::new(),
        })
    }

    /// Another destination is checked before the transaction begins: that may ask the network.
    #[boxed]
    pub async fn update_batch_export(
        &self,
        caller: &Caller<ChangeExports>,
        id: ExportId,
        patch: &ExportPatch,
        check: &dyn DestinationCheck,
        precondition: Precondition<'_, ExportSeen>,
    ) -> Result<ExportSeen> {
        loop {
            let destination = match &patch.destination {
                Some(input) => {
                    let export = find(&mut self.core.store.read().await?, caller, id).await?;
                    let (kind, config) = export.merged(input, &self.core.instance)?;
                    Some(CheckedDestination::new(caller, kind, config, check).await?)
                }
                None => None,
            };
            let updated = self.update_checked(caller, id, patch, destination.as_ref(), precondition);
            if let Some(seen) = updated.await? {
                return Ok(seen);
            }
        }
    }

    /// None: somebody else has changed the destination since it was checked, and it would become another one. Each time one
    /// change is saved, so whoever checks again gets there.
    async fn update_checked(
        &self,
        caller: &Caller<ChangeExports>,
        id: ExportId,
        patch: &ExportPatch,
        destination: Option<&CheckedDestination>,
        precondition: Precondition<'_, ExportSeen>,
    ) -> Result<Option<ExportSeen>> {
        let mut db = self.write().await?;
        let before = lock(&mut db, caller, id, precondition).await?;
        if let (Some(input), Some(checked)) = (&patch.destination, destination) {
            let (kind, config) = before.export.merged(input, &self.core.instance)?;
            if !checked.is(kind, &config) {
                return Ok(None);
            }
        }
        let mut export = before.export.clone();
        self.apply(&db, &mut export, patch, destination)?;
        begin_where_runs_end(&mut db, &before.export, &mut export).await?;
        let Some(entry) = Entry::updated(&before.export, &export) else {
            return Ok(Some(before));
        };
        export.updated_at = db.now;
        sql::exports::save(&mut db, &export).await?;
        db.commit(&caller.actor, &[entry]).await?;
        Ok(Some(ExportSeen { export, ..before }))
    }

    #[boxed]
    pub async fn delete_batch_export(
        &self,
        caller: &Caller<ChangeExports>,
        id: ExportId,
        precondition: Precondition<'_, ExportSeen>,
    ) -> Result<()> {
        let mut db = self.write().await?;
        let seen = lock(&mut db, caller, id, precondition).await?;
        // Runs go with it: whoever carries one out finds that it no longer holds it, and takes back what it sent.
        if !caller.actor.request.is_dry_run {
            sql::exports::delete(&mut db, &seen.export).await?;
        }
        db.commit(&caller.actor, &[Entry::deleted(&seen.export)]).await
    }

    fn apply(
        &self,
        db: &WriteTx,
        export: &mut BatchExport,
        patch: &ExportPatch,
        destination: Option<&CheckedDestination>,
    ) -> Result<()> {
        let instance = &self.core.instance;
        let encrypt = |place: &str, plain: &[u8]| db.encrypt(&instance.encryptor, place, plain);
        export.change(patch, destination, db.now, instance, &encrypt)
    }
}

/// Under another interval, or after a pause with backfills in it, the schedule takes up where runs have got to: what they
/// covered is not covered again.
pub(super) async fn begin_where_runs_end(
    db: &mut WriteTx,
    before: &BatchExport,
    after: &mut BatchExport,
) -> Result<()> {
    let goes_on = before.paused && !after.paused;
    if (before.interval != after.interval || goes_on)
        && let Some(covered) = sql::runs::covered_until(db, after.id).await?
    {
        after.scheduled_until = after.scheduled_until.max(covered);
        after.reschedule();
    }
    Ok(())
}

/// An export of the caller's organization, of a team the caller may see.
pub(super) async fn find<P>(db: &mut crate::db::Session, caller: &Caller<P>, id: ExportId) -> Result<BatchExport> {
    let export = sql::exports::find(db, caller.organization, id).await?;
    export
        .filter(|export| caller.may_see_team(export.team_id))
        .ok_or(Error::NotFound("batch export"))
}

pub(super) async fn see(db: &mut crate::db::Session, export: BatchExport) -> Result<ExportSeen> {
    let mut runs = sql::runs::latest(db, &[export.id]).await?;
    Ok(ExportSeen {
        latest_runs: runs.remove(&export.id).unwrap_or_default(),
        export,
    })
}

/// The same, kept from changing until the use case ends.
pub(super) async fn lock(
    db: &mut WriteTx,
    caller: &Caller<ChangeExports>,
    id: ExportId,
    precondition: Precondition<'_, ExportSeen>,
) -> Result<ExportSeen> {
    organizations::sql::lock(db, caller.organization).await?;
    let export = sql::exports::lock(db, id).await?;
    let is_theirs =
        |export: &BatchExport| export.organization_id == caller.organization && caller.may_see_team(export.team_id);
    let export = export.filter(is_theirs).ok_or(Error::NotFound("batch export"))?;
    let seen = see(db, export).await?;
    if !precondition(&seen) {
        return Err(Error::Stale("batch export"));
    }
    Ok(seen)
}
