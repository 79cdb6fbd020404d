//! What apps have for browsers. Pages of anybody's ask for it, so no more is read than they are given.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::pins::as_approved;
use super::scripts::ScriptKey;
use super::types::{App, AppConfig, Script};
use super::{schema, sql};
use crate::Service;
use crate::cache::{CacheKey, Load, Weigh};
use crate::db::caller;
use crate::error::Result;
use crate::id::{AppConfigId, TeamId};

/// What a browser is given.
#[derive(Debug, Clone)]
pub struct SiteApp {
    pub script: Arc<str>,
    /// What it may be told there.
    pub values: Map<String, Value>,
}

/// The frontend apps of a team: the configuration, its token, and what changes with code and values.
struct SiteApps(Vec<(AppConfigId, String, String)>);

impl Weigh for SiteApps {
    fn rows(&self) -> usize {
        1 + self.0.len()
    }
}

impl Service {
    /// What a frontend app has for browsers. The token is what a page shows.
    pub async fn site_app(&self, id: AppConfigId, token: &str, script: Script) -> Result<Option<SiteApp>> {
        let mut db = self.core.store.read().await?;
        let config = sql::configs::any(&mut db, id).await?;
        let Some(config) = config.filter(|config| config.enabled && config.web_token == token) else {
            return Ok(None);
        };
        let Some(app) = sql::apps::any(&mut db, config.app_id).await? else {
            return Ok(None);
        };
        let app = as_approved(&mut db, app, &config).await?;
        let sha256 = sql::versions::sha256(&mut db, &app).await?;
        // Whoever waits for a script keeps no connection in the meantime.
        drop(db);
        let script = self.script(&config, &app, sha256, script).await?;
        Ok(script.map(|script| SiteApp {
            script,
            values: for_sites(&app, &config),
        }))
    }

    /// A script of the code that an app has, whose files have this checksum.
    async fn script(
        &self,
        config: &AppConfig,
        app: &App,
        sha256: Option<String>,
        script: Script,
    ) -> Result<Option<Arc<str>>> {
        let scripts = &self.core.scripts;
        let key = |sha256: String| ScriptKey {
            app: app.id,
            version: app.version,
            sha256,
            script,
        };
        let wanted = sha256.map(key);
        let kept = || wanted.as_ref().and_then(|wanted| scripts.find(wanted));
        let existing = |code: Arc<str>| (!code.is_empty()).then_some(code);
        if let Some(kept) = kept() {
            return Ok(existing(kept));
        }
        let mut turn = scripts.turn(config.organization_id).await?;
        // Somebody who had a turn before may have read it.
        if let Some(kept) = kept() {
            return Ok(existing(kept));
        }
        // Not in the turn of whoever asks: a network that has to wait would keep the others' scripts waiting.
        let read = caller::on_behalf_of_organization(config.organization_id, async {
            let mut db = self.core.store.read().await?;
            turn.restart();
            sql::sites::script(&mut db, app, script).await
        });
        let (key, code): (_, Arc<str>) = match read.await? {
            Some((sha256, code)) => (sha256.map(key), code.into()),
            None => (wanted.clone(), Arc::from("")),
        };
        if let Some(key) = key {
            scripts.keep(key, code.clone());
        }
        Ok(existing(code))
    }

    /// Frontend apps that pages of this team load: the configuration, its token, and what changes with code and values.
    pub async fn site_apps(&self, team: TeamId) -> Result<Vec<(AppConfigId, String, String)>> {
        let seen = self.core.store.version(false).await;
        let load = || -> Load<'_, SiteApps> {
            Box::pin(async move {
                let found = sql::sites::of_team(&mut self.core.store.read().await?, team).await?;
                let each = found.into_iter().map(|loaded| {
                    let stamp = format!("{}-{}", loaded.version, loaded.changed_at().timestamp_micros());
                    (loaded.id, loaded.web_token, stamp)
                });
                Ok(SiteApps(each.collect()))
            })
        };
        let found = self.remembered(seen, CacheKey::SiteApps(team), load).await?;
        Ok(found.0.clone())
    }
}

/// Only what the app marks as meant for pages leaves this server, and no secret.
fn for_sites(app: &App, config: &AppConfig) -> Map<String, Value> {
    let fields = schema::fields(&app.config_schema);
    let mut values = schema::with_defaults(&app.config_schema, config.config.clone());
    values.retain(|key, _| {
        let field = fields.iter().find(|field| field.key == *key);
        field.is_some_and(|field| field.is_for_sites && !field.is_secret)
    });
    values
}
