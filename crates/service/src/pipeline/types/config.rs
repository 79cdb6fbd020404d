//! A configuration: one team's use of an app.

use serde::Serialize;
use serde_json::{Map, Value};

use super::{App, Collection};
use crate::activity::Recorded;
use crate::clock::Time;
use crate::id::{AppConfigId, AppId, OrganizationId, TeamId};

#[derive(Debug, Clone, Serialize, sqlx::FromRow)]
pub struct AppConfig {
    pub id: AppConfigId,
    #[serde(skip)]
    pub organization_id: OrganizationId,
    #[serde(skip)]
    pub app_id: AppId,
    #[serde(skip)]
    #[sqlx(try_from = "String")]
    pub collection: Collection,
    /// What the app is called.
    #[serde(skip)]
    pub app_name: String,
    pub team_id: TeamId,
    pub enabled: bool,
    #[sqlx(rename = "sort_order")]
    pub order: i64,
    /// What may be shown of it.
    #[sqlx(json)]
    pub config: Map<String, Value>,
    /// The rest, encrypted. A change of it is recorded; what it is, is not.
    pub(crate) secrets: Option<Vec<u8>>,
    /// The hosts that it can reach; none: it is not limited.
    #[sqlx(json(nullable))]
    pub allowed_hosts: Option<Vec<String>>,
    #[serde(skip)]
    pub web_token: String,
    /// Every event before this moment was handed over, and so many of those at this very moment.
    #[serde(skip)]
    pub delivered_until: Time,
    #[serde(skip)]
    pub delivered_count: i64,
    #[serde(skip)]
    pub due_at: Option<Time>,
    /// Goes up each time somebody takes it.
    #[serde(skip)]
    pub(crate) attempt: i64,
    /// How often the next event was tried.
    #[serde(skip)]
    pub tries: i64,
    /// How many events failed, one after the other.
    #[serde(skip)]
    pub failures: i64,
    #[serde(skip)]
    pub latest_error: Option<String>,
    /// The approved version of the app, which the configuration runs.
    pub version: i64,
    /// The version that the app has by now.
    #[serde(skip)]
    pub latest_version: i64,
    pub created_at: Time,
    pub updated_at: Time,
}

impl AppConfig {
    pub(crate) fn secret_place(&self) -> String {
        format!("pipeline_config/{}/secrets", self.id)
    }

    /// It waits for events while it is on and the app, as it is run, takes them.
    pub(in super::super) fn wait_for(&mut self, app: &App, now: Time) {
        self.due_at = (self.enabled && app.takes_events()).then(|| self.due_at.unwrap_or(now));
    }

    /// Whether it tells its app the same, and lets it go to the same hosts.
    pub(in super::super) fn tells_like(&self, other: &Self) -> bool {
        self.config == other.config && self.secrets == other.secrets && self.allowed_hosts == other.allowed_hosts
    }
}

impl Recorded for AppConfig {
    const SCOPE: &'static str = "PipelineApp";

    fn scope(&self) -> &'static str {
        self.collection.scope()
    }

    fn organization(&self) -> Option<OrganizationId> {
        Some(self.organization_id)
    }

    fn team(&self) -> Option<TeamId> {
        Some(self.team_id)
    }

    fn item(&self) -> String {
        self.app_id.to_string()
    }

    fn name(&self) -> String {
        self.app_name.clone()
    }
}
