//! Apps: listed, created, changed, deleted.

use boxed::boxed;
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

use super::code::{keep_manifest, store};
use super::lookup::{CONFIGURE, INSTALL, ROOT, allow, find_app, grant, lock_app, own};
use super::rules::untitled;
use super::schema::KnownSecrets;
use super::sharing::{publish, publish_first, take_back};
use super::sql::versions::Packed;
use super::tags::{CHECKED_EVERY, first_check};
use super::types::{App, AppPatch, AppWithFiles, Collection, NewApp, Package, empty_object};
use super::{limits, sizes, sql};
use crate::access::{Caller, ChangeApps, ReadApps};
use crate::activity::Entry;
use crate::db::Session;
use crate::error::{Error, Result};
use crate::id::{AppId, OrganizationId};
use crate::page::{Page, Window};
use crate::transaction::WriteTx;
use crate::{Precondition, Service, operators, organizations};

impl Service {
    /// Its own and those that are there for all, newest first.
    #[boxed]
    pub async fn apps(&self, caller: &Caller<ReadApps>, collection: Collection, window: Window) -> Result<Page<App>> {
        let mut db = self.core.store.read().await?;
        allow(&mut db, caller, CONFIGURE).await?;
        sql::apps::page(&mut db, caller.organization, collection, window).await
    }

    pub async fn app<P>(&self, caller: &Caller<P>, collection: Collection, id: AppId) -> Result<App> {
        let mut db = self.core.store.read().await?;
        allow(&mut db, caller, CONFIGURE).await?;
        find_app(&mut db, caller, collection, id).await
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
        let app = find_app(&mut db, caller, collection, id).await?;
        let files = sql::versions::files(&mut db, &app).await?.unwrap_or_default();
        Ok(AppWithFiles { app, files, turn })
    }

    /// Whether the caller's organization may look at apps at all.
    #[boxed]
    pub async fn may_read_apps(&self, caller: &Caller<ReadApps>) -> Result<()> {
        allow(&mut self.core.store.read().await?, caller, CONFIGURE).await
    }

    /// Whether the caller's organization may install apps at all: asked before anything is fetched for it.
    #[boxed]
    pub async fn may_change_apps(&self, caller: &Caller<ChangeApps>) -> Result<()> {
        allow(&mut self.core.store.read().await?, caller, INSTALL).await
    }

    /// Whether the caller can publish apps for all organizations.
    #[boxed]
    pub async fn may_share_apps(&self, caller: &Caller<ChangeApps>) -> Result<()> {
        let mut db = self.core.store.read().await?;
        allow(&mut db, caller, ROOT).await?;
        operators::may_publish(&mut db, caller).await
    }

    /// An app whose code is to be replaced by what is fetched, and the token to fetch it with.
    #[boxed]
    pub async fn app_to_upgrade(
        &self,
        caller: &Caller<ChangeApps>,
        collection: Collection,
        id: AppId,
    ) -> Result<(App, Option<SecretString>)> {
        let mut db = self.core.store.read().await?;
        self.changeable(&mut db, caller, collection, id).await
    }

    /// An app that the caller may change, with what it takes to fetch its code.
    #[boxed]
    pub async fn app_to_change(
        &self,
        caller: &Caller<ChangeApps>,
        collection: Collection,
        id: AppId,
    ) -> Result<(AppWithFiles, Option<SecretString>)> {
        let mut db = self.core.store.read().await?;
        let (app, token) = self.changeable(&mut db, caller, collection, id).await?;
        let files = sql::versions::files(&mut db, &app).await?.unwrap_or_default();
        let turn = None;
        Ok((AppWithFiles { app, files, turn }, token))
    }

    async fn changeable(
        &self,
        db: &mut Session,
        caller: &Caller<ChangeApps>,
        collection: Collection,
        id: AppId,
    ) -> Result<(App, Option<SecretString>)> {
        allow(db, caller, INSTALL).await?;
        let app = find_app(db, caller, collection, id).await?;
        own(caller, &app)?;
        let token = self.private_token(&app)?;
        Ok((app, token))
    }

    /// `found` is what its code offers, if it brought any; `tag` is what that code is called where it comes from.
    #[boxed]
    pub async fn create_app(
        &self,
        caller: &Caller<ChangeApps>,
        collection: Collection,
        new: &NewApp,
        token: Option<&SecretString>,
        found: Option<(Package, Option<String>)>,
    ) -> Result<App> {
        let found = match found {
            Some((package, tag)) => {
                sizes::check_metadata(None, &package.metadata)?;
                Some((Packed::of(package).await?, tag))
            }
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
            app.take_over(&packed.metadata);
            app.version = 1;
            app.tag = tag.clone().or(app.tag);
            // A tag that was asked for need not be the newest.
            app.latest_tag = tag.clone().filter(|_| new.rest.tag.is_none());
        }
        sizes::check_app(None, &app)?;
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

    #[boxed]
    pub async fn update_app(
        &self,
        caller: &Caller<ChangeApps>,
        collection: Collection,
        id: AppId,
        patch: &AppPatch,
        precondition: Precondition<'_, App>,
    ) -> Result<App> {
        let known = match &patch.rest.config_schema {
            Some(schema) => {
                let schema = Some(schema).filter(|schema| !schema.is_null());
                self.known_secrets(caller, (collection, id), schema).await?
            }
            None => KnownSecrets::default(),
        };
        let mut db = self.write().await?;
        let (before, level) = lock_app(&mut db, caller, collection, id, precondition).await?;
        let mut app = before.clone();
        let metadata = sql::versions::metadata(&mut db, &app).await?;
        app.change(patch, metadata.as_ref())?;
        if app.is_global && !before.is_global {
            publish_first(&mut db, caller, level).await?;
        }
        if before.is_global && !app.is_global {
            take_back(&mut db, caller, &before).await?;
        }
        let entry = Entry::updated(&before, &app);
        if entry.is_none() && app.overrides == before.overrides {
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

    #[boxed]
    pub async fn delete_app(
        &self,
        caller: &Caller<ChangeApps>,
        collection: Collection,
        id: AppId,
        precondition: Precondition<'_, App>,
    ) -> Result<()> {
        let mut db = self.write().await?;
        let (app, _) = lock_app(&mut db, caller, collection, id, precondition).await?;
        if app.is_global {
            let detail = "this app is shared with all organizations: set is_global to false first";
            return Err(Error::refused("is_global", detail));
        }
        if !caller.actor.request.is_dry_run {
            sql::apps::delete(&mut db, &app).await?;
        }
        db.commit(&caller.actor, &[Entry::deleted(&app)]).await
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
        overrides: Vec::new(),
        version: 0,
        next_check_at: first_check(new, db.now),
        created_at: db.now,
        updated_at: db.now,
    }
}
