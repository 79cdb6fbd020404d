//! What apps have for browsers. Pages of anybody's ask for it, so no more is read than they are given.

use std::ops::ControlFlow;
use std::sync::Arc;

use boxed::boxed;
use serde_json::{Map, Value};

use super::scripts::ScriptKey;
use super::sql::sites::Served;
use super::types::Script;
use super::{schema, sql};
use crate::Service;
use crate::cache::{CacheKey, Load, Weigh};
use crate::db::{Session, caller};
use crate::error::Result;
use crate::id::{AppConfigId, TeamId};

/// What a browser is given.
#[derive(Debug, Clone)]
pub struct SiteApp {
    pub script: Arc<str>,
    /// What it may be told there. Only scripts for sites are told anything.
    pub values: Map<String, Value>,
}

/// What was found, unless the configuration was turned off or given another version in the meantime: then it is looked up again.
type Looked = ControlFlow<Option<SiteApp>>;

/// The frontend apps of a team: the configuration, its token, and what changes with code and values.
struct SiteApps(Vec<(AppConfigId, String, String)>);

impl Weigh for SiteApps {
    fn rows(&self) -> usize {
        1 + self.0.len()
    }
}

impl Service {
    /// What a frontend app has for browsers. The token is what a page shows.
    #[boxed]
    pub async fn site_app(&self, id: AppConfigId, token: &str, script: Script) -> Result<Option<SiteApp>> {
        while let Some(served) = self.served(id, token).await? {
            if let ControlFlow::Break(found) = self.site_app_of(&served, script).await? {
                return Ok(found);
            }
        }
        Ok(None)
    }

    async fn served(&self, id: AppConfigId, token: &str) -> Result<Option<Served>> {
        let mut db = self.core.store.read().await?;
        let served = sql::sites::served(&mut db, id).await?;
        Ok(served.filter(|served| served.web_token == token))
    }

    /// Scripts and values may be large: whoever waits, for a turn or for a connection, has neither.
    async fn site_app_of(&self, served: &Served, script: Script) -> Result<Looked> {
        let scripts = &self.core.scripts;
        let kept = || {
            let sha256 = served.sha256.clone()?;
            scripts.find(&key(served, script, sha256))
        };
        if kept().is_some() {
            let mut db = self.core.store.read().await?;
            // Others may have taken its place in the meantime.
            if let Some(code) = kept() {
                return with_values(&mut db, served, script, code).await;
            }
        }
        let mut turn = scripts.turn(served.organization_id).await?;
        // Not in the turn of whoever asks: a network that has to wait would keep the others' scripts waiting.
        let read = caller::on_behalf_of_organization(served.organization_id, async {
            let mut db = self.core.store.read().await?;
            turn.restart();
            // Somebody who had a turn before may have read it.
            let code = match kept() {
                Some(code) => code,
                None => self.read_script(&mut db, served, script).await?,
            };
            with_values(&mut db, served, script, code).await
        });
        read.await
    }

    /// Keeps it in memory, too. Empty: there is none.
    async fn read_script(&self, db: &mut Session, served: &Served, script: Script) -> Result<Arc<str>> {
        let (sha256, code): (_, Arc<str>) = match sql::sites::script(db, served, script).await? {
            Some((sha256, code)) => (sha256, code.into()),
            None => (served.sha256.clone(), Arc::from("")),
        };
        if let Some(sha256) = sha256 {
            self.core.scripts.keep(key(served, script, sha256), code.clone());
        }
        Ok(code)
    }

    /// Frontend apps that pages of this team load: the configuration, its token, and what changes with code and values.
    #[boxed]
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
        let found = self.get_or_load(seen, CacheKey::SiteApps(team), load).await?;
        Ok(found.0.clone())
    }
}

fn key(served: &Served, script: Script, sha256: String) -> ScriptKey {
    ScriptKey {
        app: served.app_id,
        version: served.version,
        sha256,
        script,
    }
}

/// A script, with what it is told.
async fn with_values(db: &mut Session, served: &Served, script: Script, code: Arc<str>) -> Result<Looked> {
    if code.is_empty() {
        return Ok(ControlFlow::Break(None));
    }
    let values = match script {
        Script::Site => {
            let told = sql::sites::values(db, served).await?;
            told.map(|(values, schema)| for_sites(&schema, values))
        }
        Script::Frontend => Some(Map::new()),
    };
    Ok(match values {
        Some(values) => ControlFlow::Break(Some(SiteApp { script: code, values })),
        None => ControlFlow::Continue(()),
    })
}

/// Only what the app marks as meant for pages leaves this server, and no secret.
fn for_sites(schema: &Value, values: Map<String, Value>) -> Map<String, Value> {
    let fields = schema::fields(schema);
    let mut values = schema::with_defaults(schema, values);
    values.retain(|key, _| {
        let field = fields.iter().find(|field| field.key == *key);
        field.is_some_and(|field| field.is_for_sites && !field.is_secret)
    });
    values
}
