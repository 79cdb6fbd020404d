use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

use super::rules::{Difference, untitled};
use super::schema::KnownSecrets;
use super::sql::versions::Packed;
use super::versions::Manifest;
use super::{App, AppPatch, AppWithFiles, Collection, Fetched, NewApp, Package, empty_object, hosts, limits, sql};
use crate::access::{Caller, ChangeApps, ReadApps};
use crate::activity::Entry;
use crate::clock::Time;
use crate::db::{Session, WriteTx};
use crate::error::{Error, Result};
use crate::id::{AppId, OrganizationId};
use crate::page::{Page, Window};
use crate::{Precondition, Service, operators, organizations};

/// What an organization must be allowed to do, as `plugins_access_level` says it.
pub(super) const CONFIGURE: i16 = 3;
pub(super) const INSTALL: i16 = 6;
pub(super) const ROOT: i16 = 9;

/// How long it takes until somebody looks for a newer tag again.
const CHECKED_EVERY: chrono::TimeDelta = chrono::TimeDelta::days(1);

impl Service {
    /// Its own and those that are there for all, newest first.
    pub async fn apps(&self, caller: &Caller<ReadApps>, collection: Collection, window: Window) -> Result<Page<App>> {
        let mut db = self.core.store.read().await?;
        allow(&mut db, caller, CONFIGURE).await?;
        sql::apps::page(&mut db, caller.organization, collection, window).await
    }

    pub async fn app<P>(&self, caller: &Caller<P>, collection: Collection, id: AppId) -> Result<App> {
        let mut db = self.core.store.read().await?;
        allow(&mut db, caller, CONFIGURE).await?;
        find(&mut db, caller, collection, id).await
    }

    pub async fn app_with_files<P>(
        &self,
        caller: &Caller<P>,
        collection: Collection,
        id: AppId,
    ) -> Result<AppWithFiles> {
        let turn = Some(self.core.code_in_memory.acquire().await?);
        let mut db = self.core.store.read().await?;
        allow(&mut db, caller, CONFIGURE).await?;
        let app = find(&mut db, caller, collection, id).await?;
        let files = sql::versions::files(&mut db, &app).await?.unwrap_or_default();
        Ok(AppWithFiles { app, files, turn })
    }

    /// Whether the caller's organization may look at apps at all.
    pub async fn may_read_apps(&self, caller: &Caller<ReadApps>) -> Result<()> {
        allow(&mut self.core.store.read().await?, caller, CONFIGURE).await
    }

    /// Whether the caller's organization may install apps at all: asked before anything is fetched for it.
    pub async fn may_change_apps(&self, caller: &Caller<ChangeApps>) -> Result<()> {
        allow(&mut self.core.store.read().await?, caller, INSTALL).await
    }

    /// Whether the caller can publish apps for all organizations.
    pub async fn may_share_apps(&self, caller: &Caller<ChangeApps>) -> Result<()> {
        let mut db = self.core.store.read().await?;
        allow(&mut db, caller, ROOT).await?;
        operators::may_publish(&mut db, caller).await
    }

    /// An app that the caller may change, with what it takes to fetch its code.
    pub async fn app_to_change(
        &self,
        caller: &Caller<ChangeApps>,
        collection: Collection,
        id: AppId,
    ) -> Result<(AppWithFiles, Option<SecretString>)> {
        let mut db = self.core.store.read().await?;
        allow(&mut db, caller, INSTALL).await?;
        let app = find(&mut db, caller, collection, id).await?;
        own(caller, &app)?;
        let token = self.private_token(&app)?;
        let files = sql::versions::files(&mut db, &app).await?.unwrap_or_default();
        let turn = None;
        Ok((AppWithFiles { app, files, turn }, token))
    }

    /// `found` is what its code offers, if it brought any; `tag` is what that code is called where it comes from.
    pub async fn create_app(
        &self,
        caller: &Caller<ChangeApps>,
        collection: Collection,
        new: &NewApp,
        token: Option<&SecretString>,
        found: Option<(Package, Option<String>)>,
    ) -> Result<App> {
        let found = match found {
            Some((package, tag)) => Some((Packed::of(package).await?, tag)),
            None => None,
        };
        let mut db = self.write().await?;
        let organization = organizations::sql::lock(&mut db, caller.organization).await?;
        grant(organization.plugins_access_level, INSTALL)?;
        limits::room_for_app(&mut db, organization.id).await?;
        let mut app = fresh(&db, collection, new);
        (app.organization_id, app.organization_name) = (organization.id, organization.name.to_string());
        app.write(&new.rest)?;
        if app.is_global {
            publish_first(&mut db, caller, organization.plugins_access_level).await?;
        }
        if let Some((packed, tag)) = &found {
            app.take_over(&packed.offers);
            app.version = 1;
            app.tag = tag.clone().or(app.tag);
            // A tag that was asked for need not be the newest.
            app.latest_tag = tag.clone().filter(|_| new.rest.tag.is_none());
        }
        limits::check_app(None, &app)?;
        sql::apps::insert(&mut db, &mut app).await?;
        limits::fit_apps(&mut db, None, &app).await?;
        if let Some(token) = token {
            let place = app.token_place();
            app.private_token =
                Some(db.encrypt(&self.core.instance.encryptor, &place, token.expose_secret().as_bytes()));
            sql::apps::save(&mut db, &app).await?;
        }
        if let Some((packed, _)) = found {
            store(&mut db, &app, &packed).await?;
        }
        db.commit(&caller.actor, &[Entry::created(&app)]).await?;
        Ok(app)
    }

    pub async fn update_app(
        &self,
        caller: &Caller<ChangeApps>,
        collection: Collection,
        id: AppId,
        patch: &AppPatch,
        precondition: Precondition<'_, App>,
    ) -> Result<App> {
        let known = match &patch.rest.config_schema {
            Some(_) => self.known_secrets(caller, id).await?,
            None => KnownSecrets::default(),
        };
        let mut db = self.write().await?;
        let (before, level) = lock(&mut db, caller, collection, id, precondition).await?;
        let mut app = before.clone();
        let offers = sql::versions::offers(&mut db, &app).await?;
        app.change(patch, offers.as_ref())?;
        if app.is_global && !before.is_global {
            publish_first(&mut db, caller, level).await?;
        }
        if before.is_global && !app.is_global {
            take_back(&mut db, caller, &before).await?;
        }
        let entry = Entry::updated(&before, &app);
        if entry.is_none() && app.written == before.written {
            return Ok(before);
        }
        if before.is_global {
            // What it is called is seen by those who use it, and trusted.
            operators::may_publish(&mut db, caller).await?;
        }
        if app.plugin_type.is_remote() && app.url.is_some() {
            app.next_check_at = app.next_check_at.or(Some(db.now + CHECKED_EVERY));
        }
        app.updated_at = db.now;
        keep_manifest(&mut db, &before, &mut app).await?;
        if before.is_global && app.version != before.version {
            publish(&mut db, caller, level).await?;
        }
        sql::apps::save(&mut db, &app).await?;
        limits::fit_apps(&mut db, Some(&before), &app).await?;
        self.settle_configs(&mut db, &caller.actor, (&before, &app), &known)
            .await?;
        let entries: Vec<Entry> = Entry::updated(&before, &app).into_iter().collect();
        db.commit(&caller.actor, &entries).await?;
        Ok(app)
    }

    pub async fn delete_app(
        &self,
        caller: &Caller<ChangeApps>,
        collection: Collection,
        id: AppId,
        precondition: Precondition<'_, App>,
    ) -> Result<()> {
        let mut db = self.write().await?;
        let (app, _) = lock(&mut db, caller, collection, id, precondition).await?;
        if app.is_global {
            let detail = "this app is shared with all organizations: set is_global to false first";
            return Err(Error::refused("is_global", detail));
        }
        sql::apps::delete(&mut db, &app).await?;
        db.commit(&caller.actor, &[Entry::deleted(&app)]).await
    }

    /// Gives an app other code, and changes what else was asked for. `seen` is the version that the new code was made from.
    pub async fn change_app_code(
        &self,
        caller: &Caller<ChangeApps>,
        seen: &App,
        patch: &AppPatch,
        package: Package,
        fetched: Fetched,
    ) -> Result<(App, Difference)> {
        let has_same_fields = package.offers.config_schema == seen.config_schema && patch.rest.config_schema.is_none();
        let known = if has_same_fields {
            KnownSecrets::default()
        } else {
            self.known_secrets(caller, seen.id).await?
        };
        let packed = Packed::of(package).await?;
        let mut db = self.write().await?;
        let (before, level) = lock(&mut db, caller, seen.collection, seen.id, &crate::no_precondition).await?;
        if before.version != seen.version {
            return Err(source_changed());
        }
        let mut app = before.clone();
        app.version = sql::versions::newest(&mut db, app.id).await? + 1;
        app.tag = fetched.tag.or(app.tag);
        app.url = fetched.url.or(app.url);
        app.change(patch, Some(&packed.offers))?;
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

    /// Remembers what the newest tag is. Nobody's deed: it happened elsewhere.
    pub async fn note_latest_tag(&self, app: &App, tag: Option<&str>) -> Result<App> {
        let mut db = self.write().await?;
        let Some(mut app) = sql::apps::lock(&mut db, app.id).await? else {
            return Err(Error::NotFound("app"));
        };
        if let Some(tag) = tag {
            app.latest_tag = Some(tag.to_owned());
        }
        app.next_check_at = app.next_check_at.map(|_| db.now + CHECKED_EVERY);
        sql::apps::save(&mut db, &app).await?;
        db.commit_unrecorded().await?;
        Ok(app)
    }

    /// Takes the app whose newest tag nobody has looked at for a day.
    pub async fn claim_app_to_check(&self) -> Result<Option<(App, Option<SecretString>)>> {
        let now = self.core.clock.now();
        if !sql::apps::is_any_to_check(&mut self.core.store.read().await?, now).await? {
            return Ok(None);
        }
        let mut db = self.write().await?;
        let Some(mut app) = sql::apps::lock_to_check(&mut db).await? else {
            return Ok(None);
        };
        app.next_check_at = Some(db.now + CHECKED_EVERY);
        sql::apps::save(&mut db, &app).await?;
        db.commit_unrecorded().await?;
        let token = self.private_token(&app)?;
        Ok(Some((app, token)))
    }

    pub fn private_token(&self, app: &App) -> Result<Option<SecretString>> {
        let Some(encrypted) = &app.private_token else {
            return Ok(None);
        };
        let plain = self.core.instance.encryptor.decrypt(&app.token_place(), encrypted)?;
        Ok(Some(String::from_utf8_lossy(&plain).into_owned().into()))
    }
}

/// What was to be changed is no longer what it was made from.
pub fn source_changed() -> Error {
    Error::Conflict {
        code: "source_changed",
        detail: "somebody else changed the code of this app in the meantime: reload it and try again".to_owned(),
    }
}

fn fresh(db: &WriteTx, collection: Collection, new: &NewApp) -> App {
    App {
        id: AppId(0),
        organization_id: OrganizationId::NONE,
        organization_name: String::new(),
        collection,
        plugin_type: new.plugin_type,
        name: untitled(),
        description: String::new(),
        url: new.url.clone(),
        private_token: None,
        icon: None,
        config_schema: Value::Array(Vec::new()),
        tag: None,
        latest_tag: None,
        is_global: false,
        capabilities: empty_object(),
        metrics: empty_object(),
        public_jobs: empty_object(),
        hosts: None,
        written: Vec::new(),
        version: 0,
        next_check_at: first_check(new, db.now),
        created_at: db.now,
        updated_at: db.now,
    }
}

fn first_check(new: &NewApp, now: Time) -> Option<Time> {
    (new.plugin_type.is_remote() && new.url.is_some()).then(|| now + CHECKED_EVERY)
}

/// Writes down what is said of the code from now on. Where others may run the present version, it becomes another one, and theirs stays
/// what they approved.
async fn keep_manifest(db: &mut WriteTx, before: &App, app: &mut App) -> Result<()> {
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

async fn store(db: &mut WriteTx, app: &App, packed: &Packed) -> Result<()> {
    hosts::check(
        "source__plugin.json",
        packed.offers.hosts.as_deref().unwrap_or_default(),
    )?;
    sql::versions::insert(db, app, packed).await?;
    sql::versions::prune(db, app.id, app.version).await?;
    limits::fit_code(db, app).await
}

/// An app for all organizations runs with what each of them entrusts to it: that it exists, and what others are offered as its next
/// version, is decided by those who run the instance.
pub(super) async fn publish(db: &mut WriteTx, caller: &Caller<ChangeApps>, level: i16) -> Result<()> {
    grant(level, ROOT)?;
    operators::may_publish(db, caller).await
}

/// What everybody can use from now on outlasts an open browser that somebody found. New versions wait for consent anyway.
async fn publish_first(db: &mut WriteTx, caller: &Caller<ChangeApps>, level: i16) -> Result<()> {
    caller.expect_recent_proof(db.now)?;
    publish(db, caller, level).await
}

/// An app for all becomes its organization's own again. What others have set up for it, secrets included, is theirs: it is not taken
/// from them.
async fn take_back(db: &mut WriteTx, caller: &Caller<ChangeApps>, app: &App) -> Result<()> {
    operators::may_publish(db, caller).await?;
    // From here on nobody begins to use it.
    sql::apps::lock(db, app.id).await?;
    match sql::configs::count_of_others(db, app.organization_id, Some(app.id)).await? {
        0 => Ok(()),
        count => Err(Error::invalid("is_global", "in_use", in_use("this app", count))),
    }
}

/// The same for whoever would delete the organization with all its apps.
pub(crate) async fn not_in_use(db: &mut Session, organization: OrganizationId) -> Result<()> {
    match sql::configs::count_of_others(db, organization, None).await? {
        0 => Ok(()),
        count => Err(Error::refused("in_use", in_use("apps of this organization", count))),
    }
}

fn in_use(what: &str, count: i64) -> String {
    format!("other organizations still use {what}: they must delete their configurations first, {count} in all")
}

/// What the organization is allowed to do with apps.
pub(super) async fn allow<P>(db: &mut Session, caller: &Caller<P>, needed: i16) -> Result<()> {
    grant(organizations::sql::apps_level(db, caller.organization).await?, needed)
}

fn grant(level: i16, needed: i16) -> Result<()> {
    if level >= needed {
        return Ok(());
    }
    Err(Error::Forbidden(format!(
        "this organization's plugins_access_level is {level}, but this requires {needed}"
    )))
}

/// An app that the caller's organization can see.
pub(super) async fn find<P>(db: &mut Session, caller: &Caller<P>, collection: Collection, id: AppId) -> Result<App> {
    let app = sql::apps::find(db, caller.organization, id).await?;
    app.filter(|app| app.collection == collection)
        .ok_or(Error::NotFound("app"))
}

pub(super) fn own(caller: &Caller<ChangeApps>, app: &App) -> Result<()> {
    if app.organization_id == caller.organization {
        return Ok(());
    }
    Err(Error::Forbidden(
        "this app belongs to another organization: only that organization can change it".to_owned(),
    ))
}

/// The same, kept from changing until the use case ends, with what the organization may do.
pub(super) async fn lock(
    db: &mut WriteTx,
    caller: &Caller<ChangeApps>,
    collection: Collection,
    id: AppId,
    precondition: Precondition<'_, App>,
) -> Result<(App, i16)> {
    let organization = organizations::sql::lock(db, caller.organization).await?;
    grant(organization.plugins_access_level, INSTALL)?;
    let app = find(db, caller, collection, id).await?;
    own(caller, &app)?;
    if !precondition(&app) {
        return Err(Error::Stale("app"));
    }
    Ok((app, organization.plugins_access_level))
}
