//! Newer versions for configurations: what would change, and taking it over.

use boxed::boxed;

use super::difference::Difference;
use super::lookup::{CONFIGURE, allow, find_app, find_config, lock_config};
use super::pins::{as_approved, version_changed};
use super::sql;
use super::types::{App, AppConfig, Collection, Files};
use crate::Service;
use crate::access::{Caller, ChangeApps, ReadApps};
use crate::activity::Entry;
use crate::db::Permit;
use crate::error::Result;
use crate::id::{AppConfigId, AppId};

/// What a configuration would run if it took the version that its app has now.
#[derive(Debug)]
pub struct ConfigUpgrade {
    pub config: AppConfig,
    /// The app as the configuration runs it.
    pub approved: App,
    /// The app as it is now.
    pub latest: App,
    pub difference: Difference,
    pub files_before: Files,
    pub files_after: Files,
    /// For as long as the files are in memory.
    pub turn: Permit,
}

impl Service {
    /// A configuration, and the app as it runs there.
    pub async fn approved_app<P>(
        &self,
        caller: &Caller<P>,
        collection: Collection,
        app: AppId,
        id: AppConfigId,
    ) -> Result<(App, AppConfig)> {
        let mut db = self.core.store.read().await?;
        allow(&mut db, caller, CONFIGURE).await?;
        let app = find_app(&mut db, caller, collection, app).await?;
        let config = find_config(&mut db, caller, app.id, id).await?;
        Ok((as_approved(&mut db, app, &config).await?, config))
    }

    /// What would change for a configuration, before anybody agrees to it.
    #[boxed]
    pub async fn preview_config_upgrade(
        &self,
        caller: &Caller<ReadApps>,
        collection: Collection,
        app: AppId,
        id: AppConfigId,
    ) -> Result<ConfigUpgrade> {
        let turn = self.core.code_in_memory.acquire().await?;
        let mut db = self.core.store.read().await?;
        allow(&mut db, caller, CONFIGURE).await?;
        let latest = find_app(&mut db, caller, collection, app).await?;
        let config = find_config(&mut db, caller, app, id).await?;
        let approved = as_approved(&mut db, latest.clone(), &config).await?;
        Ok(ConfigUpgrade {
            difference: Difference::for_values(&approved, &latest, &self.own_values(&config)?),
            files_before: sql::versions::files(&mut db, &approved).await?.unwrap_or_default(),
            files_after: sql::versions::files(&mut db, &latest).await?.unwrap_or_default(),
            config,
            approved,
            latest,
            turn,
        })
    }

    /// From now on the configuration runs the version that the app has. `version` is the one that the caller has looked at.
    #[boxed]
    pub async fn upgrade_app_config(
        &self,
        caller: &Caller<ChangeApps>,
        collection: Collection,
        app: AppId,
        id: AppConfigId,
        version: i64,
    ) -> Result<AppConfig> {
        let mut db = self.write().await?;
        allow(&mut db, caller, CONFIGURE).await?;
        // Whoever changes the app's code locks all its configurations: from here on it stays what it is.
        let before = lock_config(&mut db, caller, app, id, &crate::no_precondition).await?;
        let app = find_app(&mut db, caller, collection, app).await?;
        if app.version != version {
            return Err(version_changed(app.version));
        }
        if before.version == version {
            return Ok(before);
        }
        let mut config = before.clone();
        (config.version, config.updated_at) = (version, db.now);
        // Other code: what failed before no longer counts.
        (config.tries, config.failures) = (0, 0);
        let deleted = self.encrypt_by_schema(&mut db, &app, &mut config).await?;
        self.follow_code(&mut db, &app, &mut config).await?;
        let upgraded = Entry::updated(&before, &config).map(|entry| entry.named("config_upgraded"));
        let entries: Vec<Entry> = upgraded.into_iter().chain(deleted).collect();
        db.commit(&caller.actor, &entries).await?;
        Ok(config)
    }
}
