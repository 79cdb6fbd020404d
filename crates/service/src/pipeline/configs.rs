//! Configurations: listed, created, changed, deleted.

use boxed::boxed;
use serde_json::Map;

use super::lookup::{CONFIGURE, allow, find_app, find_config, grant, lock_config, may_change_code};
use super::pins::{as_approved, version_changed};
use super::targets::{Target, need_again};
use super::types::{App, AppConfig, Collection, ConfigPatch, NewConfig};
use super::{hosts, limits, schema, sizes, sql};
use crate::access::{Caller, ChangeApps, ReadApps};
use crate::activity::Entry;
use crate::batch_exports::destination::merge;
use crate::error::{Error, Result};
use crate::id::{AppConfigId, AppId};
use crate::page::{Page, Window};
use crate::transaction::WriteTx;
use crate::{Precondition, Service, organizations, teams};

impl Service {
    /// Oldest first.
    #[boxed]
    pub async fn app_configs(
        &self,
        caller: &Caller<ReadApps>,
        collection: Collection,
        app: AppId,
        window: Window,
    ) -> Result<Page<AppConfig>> {
        let mut db = self.core.store.read().await?;
        allow(&mut db, caller, CONFIGURE).await?;
        find_app(&mut db, caller, collection, app).await?;
        sql::configs::page(&mut db, caller.organization, &caller.restrictions.teams, app, window).await
    }

    pub async fn app_config<P>(
        &self,
        caller: &Caller<P>,
        collection: Collection,
        app: AppId,
        id: AppConfigId,
    ) -> Result<AppConfig> {
        let mut db = self.core.store.read().await?;
        allow(&mut db, caller, CONFIGURE).await?;
        find_app(&mut db, caller, collection, app).await?;
        find_config(&mut db, caller, app, id).await
    }

    #[boxed]
    pub async fn create_app_config(
        &self,
        caller: &Caller<ChangeApps>,
        collection: Collection,
        app: AppId,
        new: &NewConfig,
    ) -> Result<AppConfig> {
        let mut db = self.write().await?;
        // Keeps the team from being deleted in the meantime.
        organizations::sql::lock(&mut db, caller.organization).await?;
        allow(&mut db, caller, CONFIGURE).await?;
        limits::room_for_config(&mut db, caller.organization).await?;
        let app = find_app(&mut db, caller, collection, app).await?;
        // An app that others begin to use is not taken back from them at the same time.
        let app = sql::apps::lock(&mut db, app.id)
            .await?
            .filter(|app| app.is_global || app.organization_id == caller.organization);
        let app = app.ok_or(Error::NotFound("app"))?;
        if new.version.is_some_and(|seen| seen != app.version) {
            return Err(version_changed(app.version));
        }
        let team = teams::cases::choose(&mut db, caller, new.team_id).await?;
        let now = db.now;
        let mut config = AppConfig {
            id: AppConfigId(0),
            organization_id: caller.organization,
            app_id: app.id,
            collection,
            app_name: app.name.to_string(),
            team_id: team,
            enabled: false,
            order: 0,
            config: Map::new(),
            secrets: None,
            allowed_hosts: None,
            web_token: auth::key::new_token("", db.random.bytes()),
            delivered_until: now,
            delivered_count: 0,
            due_at: None,
            attempt: 0,
            tries: 0,
            failures: 0,
            latest_error: None,
            version: app.version,
            latest_version: app.version,
            created_at: now,
            updated_at: now,
        };
        // Secrets are encrypted for their place, and the place has a name only now.
        sql::configs::insert(&mut db, &mut config).await?;
        // No secret is stored yet that could go elsewhere.
        self.change_config(&mut db, &app, &mut config, &new.rest, true)?;
        limits::room_on_pages(&mut db, &config).await?;
        sql::configs::save_values(&mut db, &config).await?;
        limits::fit_configs(&mut db, None, &config).await?;
        self.follow_code(&mut db, &app, &mut config).await?;
        let entry = Entry::created(&config).named("config_created");
        db.commit(&caller.actor, &[entry]).await?;
        Ok(config)
    }

    #[boxed]
    pub async fn update_app_config(
        &self,
        caller: &Caller<ChangeApps>,
        collection: Collection,
        app: AppId,
        id: AppConfigId,
        patch: &ConfigPatch,
        precondition: Precondition<'_, AppConfig>,
    ) -> Result<AppConfig> {
        let mut db = self.write().await?;
        // What all of them have together is counted.
        sql::configs::lock_organization(&mut db, caller.organization).await?;
        let level = organizations::sql::apps_level(&mut db, caller.organization).await?;
        grant(level, CONFIGURE)?;
        let app = find_app(&mut db, caller, collection, app).await?;
        let may_change_code = may_change_code(caller, &app, level);
        let before = lock_config(&mut db, caller, app.id, id, precondition).await?;
        let app = as_approved(&mut db, app, &before).await?;
        let mut config = before.clone();
        self.change_config(&mut db, &app, &mut config, patch, may_change_code)?;
        let Some(entry) = Entry::updated(&before, &config) else {
            return Ok(before);
        };
        config.updated_at = db.now;
        if !before.enabled {
            limits::room_on_pages(&mut db, &config).await?;
        }
        if !before.tells_like(&config) {
            sql::configs::save_values(&mut db, &config).await?;
            limits::fit_configs(&mut db, Some(&before), &config).await?;
        }
        self.follow_code(&mut db, &app, &mut config).await?;
        let activity = match (before.enabled, config.enabled) {
            (false, true) => "enabled",
            (true, false) => "disabled",
            _ => "config_updated",
        };
        db.commit(&caller.actor, &[entry.named(activity)]).await?;
        Ok(config)
    }

    #[boxed]
    pub async fn delete_app_config(
        &self,
        caller: &Caller<ChangeApps>,
        collection: Collection,
        app: AppId,
        id: AppConfigId,
        precondition: Precondition<'_, AppConfig>,
    ) -> Result<()> {
        let mut db = self.write().await?;
        allow(&mut db, caller, CONFIGURE).await?;
        let app = find_app(&mut db, caller, collection, app).await?;
        let config = lock_config(&mut db, caller, app.id, id, precondition).await?;
        if !caller.actor.request.is_dry_run {
            sql::configs::delete(&mut db, &config).await?;
        }
        let entry = Entry::deleted(&config).named("config_deleted");
        db.commit(&caller.actor, &[entry]).await
    }

    /// Applies a change and makes sure that the whole fits what the app asks for.
    fn change_config(
        &self,
        db: &mut WriteTx,
        app: &App,
        config: &mut AppConfig,
        patch: &ConfigPatch,
        may_change_code: bool,
    ) -> Result<()> {
        let stored = self.config_secrets(config)?;
        let values = merge(config.config.clone(), stored.clone());
        let before = Target::new(app, config.allowed_hosts.clone(), values);
        let is_switched = patch.enabled.is_some_and(|enabled| enabled != config.enabled);
        let is_enabled_now = is_switched && !config.enabled;
        config.enabled = patch.enabled.unwrap_or(config.enabled);
        config.order = patch.order.unwrap_or(config.order);
        if let Some(allowed) = &patch.allowed_hosts {
            hosts::check("allowed_hosts", allowed.as_deref().unwrap_or_default())?;
            config.allowed_hosts.clone_from(allowed);
        }
        let (mut open, mut secrets) = (config.config.clone(), stored.clone());
        if let Some(given) = &patch.config {
            // Values are replaced whole: what is inside of one is the app's business.
            for (key, value) in given {
                open.remove(key);
                secrets.remove(key);
                if !value.is_null() {
                    open.insert(key.clone(), value.clone());
                }
            }
        }
        let kept: Vec<String> = secrets.keys().cloned().collect();
        let whole = self.put(db, app, config, (open, secrets), &stored);
        // Before values are searched, which takes long if they are: all others wait to write.
        if patch.config.is_some() {
            sizes::check_config(&app.config_schema, &whole)?;
        }
        let after = Target::new(app, config.allowed_hosts.clone(), whole.clone());
        if before.is_elsewhere(&after, app, may_change_code) {
            need_again(app, &kept)?;
        }
        if patch.config.is_some() || is_enabled_now {
            schema::check_config(&app.config_schema, &whole, config.enabled)?;
        }
        if is_switched {
            // Somebody looks after it: what failed before no longer counts.
            (config.tries, config.failures) = (0, 0);
            // Whoever holds it for events lets go of it, and does not write down how far it got before.
            config.attempt += 1;
        }
        if is_enabled_now {
            // What passed while it was off is not caught up.
            (config.delivered_until, config.delivered_count) = (db.now, 0);
            config.latest_error = None;
        }
        Ok(())
    }
}
