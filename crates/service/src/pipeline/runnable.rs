//! An app with everything it takes to run it for a team.

use boxed::boxed;
use serde_json::{Map, Value};

use super::hosts::AllowedHosts;
use super::pins::{as_approved, as_run};
use super::sql;
use super::types::{App, AppConfig};
use crate::Service;
use crate::error::Result;

/// An app with everything it takes to run it for a team.
#[derive(Debug, Clone)]
pub struct Runnable {
    pub app: App,
    pub config: AppConfig,
    /// How long its code is, which is read when it is needed: [`Service::app_code`].
    pub code_bytes: usize,
    /// What it is told, secrets and defaults included.
    pub values: Map<String, Value>,
    pub hosts: AllowedHosts,
}

impl Service {
    /// What is run, as JSON; see [`super::Package`]. None: it is gone.
    #[boxed]
    pub async fn app_code(&self, runnable: &Runnable) -> Result<Option<String>> {
        sql::versions::code(&mut self.core.store.read().await?, &runnable.app).await
    }

    /// None: there is no code to run. Nobody waits for this before the writer.
    pub(super) async fn runnable(&self, config: AppConfig) -> Result<Option<Runnable>> {
        let mut db = self.core.store.read().await?;
        let Some(app) = sql::apps::any(&mut db, config.app_id).await? else {
            return Ok(None);
        };
        let app = as_approved(&mut db, app, &config).await?;
        let app = as_run(&mut db, app).await?;
        let Some(kept) = sql::versions::kept_bytes(&mut db, app.id, app.version).await? else {
            return Ok(None);
        };
        let values = self.config_values(&app, &config)?;
        Ok(Some(Runnable {
            hosts: AllowedHosts::new(&app, config.allowed_hosts.as_deref(), &self.own_values(&config)?),
            values,
            code_bytes: kept.code,
            app,
            config,
        }))
    }
}
