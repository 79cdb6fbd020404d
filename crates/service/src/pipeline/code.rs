//! Other code for an app.

use boxed::boxed;

use super::difference::Difference;
use super::lookup::lock_app;
use super::schema::KnownSecrets;
use super::sharing::{publish, publish_first, take_back};
use super::sql::versions::Packed;
use super::types::{App, AppPatch, Fetched, Manifest, Package};
use super::{hosts, limits, sizes, sql};
use crate::Service;
use crate::access::{Caller, ChangeApps};
use crate::activity::Entry;
use crate::error::{Error, Result};
use crate::transaction::WriteTx;

impl Service {
    /// Gives an app other code, and changes what else was asked for. `seen` is the version that the new code was made from.
    #[boxed]
    pub async fn change_app_code(
        &self,
        caller: &Caller<ChangeApps>,
        seen: &App,
        patch: &AppPatch,
        package: Package,
        fetched: Fetched,
    ) -> Result<(App, Difference)> {
        sizes::check_metadata(Some(seen), &package.metadata)?;
        // If one was written, too, it is decided later which of both holds.
        let schema = Some(&package.metadata.config_schema).filter(|_| patch.rest.config_schema.is_none());
        let known = self.known_secrets(caller, (seen.collection, seen.id), schema).await?;
        let packed = Packed::of(package).await?;
        let mut db = self.write().await?;
        let (before, level) = lock_app(&mut db, caller, seen.collection, seen.id, &crate::no_precondition).await?;
        if before.version != seen.version {
            return Err(source_changed());
        }
        let mut app = before.clone();
        app.version = sql::versions::newest(&mut db, app.id).await? + 1;
        app.tag = fetched.tag.or(app.tag);
        app.url = fetched.url.or(app.url);
        app.change(patch, Some(&packed.metadata))?;
        if app.is_global && !before.is_global {
            publish_first(&mut db, caller, level).await?;
        }
        if before.is_global {
            publish(&mut db, caller, level).await?;
        }
        if before.is_global && !app.is_global {
            take_back(&mut db, caller, &before).await?;
        }
        store(&mut db, &app, &packed).await?;
        self.switch(db, caller, (&before, app), &known).await
    }

    /// Ends a change of code: what is set up for the app follows it.
    pub(super) async fn switch(
        &self,
        mut db: WriteTx,
        caller: &Caller<ChangeApps>,
        (before, mut app): (&App, App),
        known: &KnownSecrets,
    ) -> Result<(App, Difference)> {
        app.updated_at = db.now;
        sql::apps::save(&mut db, &app).await?;
        limits::fit_apps(&mut db, Some(before), &app).await?;
        self.settle_configs(&mut db, &caller.actor, (before, &app), known)
            .await?;
        let difference = Difference::between(before, &app);
        let entries: Vec<Entry> = Entry::updated(before, &app).into_iter().collect();
        db.commit(&caller.actor, &entries).await?;
        Ok((app, difference))
    }
}

/// What was to be changed is no longer what it was made from.
pub fn source_changed() -> Error {
    Error::Conflict {
        code: "source_changed",
        detail: "somebody else changed the code of this app in the meantime: reload it and try again".to_owned(),
    }
}

/// Writes down what is said of the code from now on. Where others may run the present version, it becomes another one, and theirs stays
/// what they approved.
pub(super) async fn keep_manifest(db: &mut WriteTx, before: &App, app: &mut App) -> Result<()> {
    if app.version == 0 || Manifest::of(before) == Manifest::of(app) {
        return Ok(());
    }
    if !before.is_global || Manifest::of(before).runs_like(&Manifest::of(app)) {
        return sql::versions::save_manifest(db, app).await;
    }
    app.version = sql::versions::newest(db, app.id).await? + 1;
    sql::versions::copy(db, app, before.version).await?;
    sql::versions::prune(db, app.id, app.version).await?;
    limits::fit_code(db, app).await
}

pub(super) async fn store(db: &mut WriteTx, app: &App, packed: &Packed) -> Result<()> {
    hosts::check(
        "source__plugin.json",
        packed.metadata.hosts.as_deref().unwrap_or_default(),
    )?;
    sql::versions::insert(db, app, packed).await?;
    sql::versions::prune(db, app.id, app.version).await?;
    limits::fit_code(db, app).await
}
