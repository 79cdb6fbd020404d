//! Configurations: one team's use of an app.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::cases::{CONFIGURE, INSTALL, allow, find};
use super::logs::{self, Level};
use super::pins::{self, as_approved, as_run, version_changed};
use super::rules::Split;
use super::schema::{KnownSecrets, SecretChange};
use super::sql::configs::Configs;
use super::targets::{Target, need_again};
use super::{App, Collection, hosts, limits, schema, sql};
use crate::access::{Actor, Caller, ChangeApps, ReadApps};
use crate::activity::{self, Entry, Recorded};
use crate::batch_exports::destination::merge;
use crate::clock::Time;
use crate::db::WriteTx;
use crate::error::{Error, Result};
use crate::id::{AppConfigId, AppId, OrganizationId, TeamId};
use crate::page::{Page, Window};
use crate::{Precondition, Service, organizations, teams};

#[derive(Debug, Clone, Serialize)]
pub struct AppConfig {
    pub id: AppConfigId,
    #[serde(skip)]
    pub organization_id: OrganizationId,
    #[serde(skip)]
    pub app_id: AppId,
    #[serde(skip)]
    pub collection: Collection,
    /// What the app is called.
    #[serde(skip)]
    pub app_name: String,
    pub team_id: TeamId,
    pub enabled: bool,
    pub order: i64,
    /// What may be shown of it.
    pub config: Map<String, Value>,
    /// The rest, encrypted. A change of it is recorded; what it is, is not.
    pub(crate) secrets: Option<Vec<u8>>,
    /// The hosts that it can reach; none: it is not limited.
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

#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{ "enabled": true, "config": { "url": "https://example.com/hook" } }]))]
pub struct NewConfig {
    /// The team whose events it gets. Defaults to the organization's oldest team.
    pub team_id: Option<TeamId>,
    /// The version of the app that you reviewed. If the app has a different version, nothing is created: 409
    /// `version_changed`.
    pub version: Option<i64>,
    #[serde(flatten)]
    pub rest: ConfigPatch,
}

#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{ "enabled": false }]))]
pub struct ConfigPatch {
    /// Whether the app is enabled for the team. It gets the events received from then on.
    pub enabled: Option<bool>,
    /// The position among the team's apps.
    pub order: Option<i64>,
    /// The app's configuration values, as in its `config_schema`. Merged with the existing ones; null removes a key.
    /// Secrets are encrypted and never returned; omit them in an update to keep them.
    pub config: Option<Map<String, Value>>,
    /// The hosts that the app can reach for this team: names such as `api.example.com`, `*.example.com`, or
    /// `config.url` for the host in that field of the configuration. Null removes the limit; the limit that the app
    /// declares always applies.
    #[serde(default, deserialize_with = "crate::text::given")]
    #[schemars(extend("x-nullable" = true))]
    pub allowed_hosts: Option<Option<Vec<String>>>,
}

impl AppConfig {
    pub(crate) fn secret_place(&self) -> String {
        format!("pipeline_config/{}/secrets", self.id)
    }

    /// It waits for events while it is on and the app, as it is run, takes them.
    fn wait_for(&mut self, app: &App, now: Time) {
        self.due_at = (self.enabled && app.takes_events()).then(|| self.due_at.unwrap_or(now));
    }

    /// Whether it tells its app the same, and lets it go to the same hosts.
    fn tells_like(&self, other: &Self) -> bool {
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

impl Service {
    /// Oldest first.
    pub async fn app_configs(
        &self,
        caller: &Caller<ReadApps>,
        collection: Collection,
        app: AppId,
        window: Window,
    ) -> Result<Page<AppConfig>> {
        let mut db = self.core.store.read().await?;
        allow(&mut db, caller, CONFIGURE).await?;
        find(&mut db, caller, collection, app).await?;
        sql::configs::page(&mut db, caller.organization, &caller.reach.teams, app, window).await
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
        find(&mut db, caller, collection, app).await?;
        seen(caller, app, sql::configs::find(&mut db, caller.organization, id).await?)
    }

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
        let app = find(&mut db, caller, collection, app).await?;
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
        self.change_config(&mut db, &app, &mut config, &new.rest)?;
        limits::room_on_pages(&mut db, &config).await?;
        sql::configs::save_values(&mut db, &config).await?;
        limits::fit_configs(&mut db, None, &config).await?;
        self.follow_code(&mut db, &app, &mut config).await?;
        let entry = Entry::created(&config).named("config_created");
        db.commit(&caller.actor, &[entry]).await?;
        Ok(config)
    }

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
        allow(&mut db, caller, CONFIGURE).await?;
        let app = find(&mut db, caller, collection, app).await?;
        let before = lock(&mut db, caller, app.id, id, precondition).await?;
        let app = as_approved(&mut db, app, &before).await?;
        let mut config = before.clone();
        self.change_config(&mut db, &app, &mut config, patch)?;
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
        let app = find(&mut db, caller, collection, app).await?;
        let config = lock(&mut db, caller, app.id, id, precondition).await?;
        sql::configs::delete(&mut db, &config).await?;
        let entry = Entry::deleted(&config).named("config_deleted");
        db.commit(&caller.actor, &[entry]).await
    }

    /// Applies a change and makes sure that the whole fits what the app asks for.
    fn change_config(&self, db: &mut WriteTx, app: &App, config: &mut AppConfig, patch: &ConfigPatch) -> Result<()> {
        let stored = self.config_secrets(config)?;
        let values = merge(config.config.clone(), stored.clone());
        let before = Target::new(app, config.allowed_hosts.clone(), values);
        let is_switched = patch.enabled.is_some_and(|enabled| enabled != config.enabled);
        let is_switched_on = is_switched && !config.enabled;
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
        let after = Target::new(app, config.allowed_hosts.clone(), whole.clone());
        if before.is_elsewhere(&after, app) {
            need_again(app, &kept)?;
        }
        if patch.config.is_some() {
            limits::check_config(&app.config_schema, &whole)?;
        }
        if patch.config.is_some() || is_switched_on {
            schema::check_config(&app.config_schema, &whole, config.enabled)?;
        }
        if is_switched {
            // Somebody looks after it: what failed before no longer counts.
            (config.tries, config.failures) = (0, 0);
        }
        if is_switched_on {
            // What passed while it was off is not caught up.
            (config.delivered_until, config.delivered_count) = (db.now, 0);
            config.latest_error = None;
        }
        Ok(())
    }

    fn config_secrets(&self, config: &AppConfig) -> Result<Map<String, Value>> {
        let Some(encrypted) = &config.secrets else {
            return Ok(Map::new());
        };
        let plain = self
            .core
            .instance
            .encryptor
            .decrypt(&config.secret_place(), encrypted)?;
        serde_json::from_slice(&plain).map_err(|_| Error::Encrypted(auth::encryption::EncryptionError::Unreadable))
    }

    /// The keys of the secrets that are kept. What the secrets are is told to the app alone.
    pub fn kept_secrets(&self, config: &AppConfig) -> Result<Vec<String>> {
        let secrets = self.config_secrets(config)?;
        Ok(secrets.into_iter().map(|(key, _)| key).collect())
    }

    /// What the configuration itself says, secrets included.
    pub(super) fn own_values(&self, config: &AppConfig) -> Result<Map<String, Value>> {
        Ok(merge(config.config.clone(), self.config_secrets(config)?))
    }

    /// Everything the app is told, secrets and defaults included.
    pub(super) fn config_values(&self, app: &App, config: &AppConfig) -> Result<Map<String, Value>> {
        Ok(schema::with_defaults(&app.config_schema, self.own_values(config)?))
    }

    /// Makes what a configuration waits for fit what the code offers, and saves it.
    pub(super) async fn follow_code(&self, db: &mut WriteTx, app: &App, config: &mut AppConfig) -> Result<()> {
        let app = as_run(db, app.clone()).await?;
        config.wait_for(&app, db.now);
        sql::configs::save(db, config).await?;
        super::tasks::schedule(db, Configs::one(config), &app.scheduled_tasks()).await
    }

    /// The secrets of all configurations that the caller's organization has of an app. One is read at a time, and nobody waits for that
    /// before the writer.
    pub(super) async fn known_secrets(&self, caller: &Caller<ChangeApps>, app: AppId) -> Result<KnownSecrets> {
        let mut known = KnownSecrets::default();
        let mut after = AppConfigId(0);
        loop {
            let mut db = self.core.store.read().await?;
            allow(&mut db, caller, INSTALL).await?;
            let next = sql::configs::next_with_secrets(&mut db, caller.organization, app, after).await?;
            drop(db);
            let Some(config) = next else {
                return Ok(known);
            };
            after = config.id;
            // What cannot be decrypted fails where it is needed.
            if let (Some(encrypted), Ok(secrets)) = (&config.secrets, self.config_secrets(&config)) {
                known.add(encrypted, secrets);
            }
            tokio::task::yield_now().await;
        }
    }

    /// The same for all configurations of an app, if its code, or what is said of it, has changed. `known` are the secrets that need not be
    /// looked at now: everybody who writes waits for this.
    pub(super) async fn settle_configs(
        &self,
        db: &mut WriteTx,
        actor: &Actor,
        (before, app): (&App, &App),
        known: &KnownSecrets,
    ) -> Result<()> {
        let is_new_version = app.version != before.version;
        let is_run_alike = !is_new_version && app.capabilities == before.capabilities;
        let shown = pins::shown_changes(before, app);
        let secrets = SecretChange::between(&before.config_schema, &app.config_schema);
        let is_told = app.is_global && !shown.is_empty();
        if is_run_alike && !secrets.is_any() && !is_told {
            return Ok(());
        }
        sql::configs::lock_all_of_app(db, app.id).await?;
        let (mut of_ours, mut of_others) = (Vec::new(), Vec::new());
        if is_new_version || !shown.is_empty() {
            // What runs for them is theirs to decide; that there is something newer is theirs to know.
            for config in sql::configs::of_others(db, app).await? {
                of_others.push(pins::tell(db, app, &config, is_new_version, &shown).await?);
            }
        }
        for mut config in sql::configs::concerned(db, app, &secrets, known).await? {
            if let Some(deleted) = self.encrypt_by_schema(db, app, &mut config).await? {
                sql::configs::save(db, &config).await?;
                of_ours.push(deleted);
            }
        }
        // There may be many: they are settled together, so that nobody waits for one after the other.
        let (run, own) = (as_run(db, app.clone()).await?, Configs::own(app));
        sql::configs::settle(db, own, app.version, run.takes_events()).await?;
        if !is_run_alike {
            super::tasks::schedule(db, own, &run.scheduled_tasks()).await?;
        }
        activity::record(db, actor, &of_ours).await?;
        // Recorded where they see it, but not by whom: people of one organization are nobody to another.
        activity::record(db, &Actor::nobody(actor.request.clone()), &of_others).await
    }

    /// What the app calls a secret now is kept as one from now on. What it no longer calls one is deleted: it must not be shown.
    pub(super) async fn encrypt_by_schema(
        &self,
        db: &mut WriteTx,
        app: &App,
        config: &mut AppConfig,
    ) -> Result<Option<Entry>> {
        let secrets = self.config_secrets(config)?;
        let before = config.clone();
        let whole = self.put(db, app, config, (config.config.clone(), secrets.clone()), &secrets);
        if !before.tells_like(config) {
            sql::configs::save_values(db, config).await?;
        }
        let dropped: Vec<&str> = secrets
            .keys()
            .map(String::as_str)
            .filter(|key| !whole.contains_key(*key))
            .collect();
        if dropped.is_empty() {
            return Ok(None);
        }
        let dropped = dropped.join(", ");
        let message = format!(
            "The app no longer marks these fields as secret, so their stored values were deleted: {dropped}. Enter them again if the \
             app still needs them."
        );
        logs::say(db, config, Level::Warn, &message).await?;
        config.updated_at = db.now;
        Ok(Some(
            Entry::happened(config, "secrets_deleted").noting("fields", &dropped),
        ))
    }

    /// What may be shown into one place, the rest, encrypted, into another. Answers with both together. `stored` is what is encrypted
    /// there by now.
    fn put(
        &self,
        db: &mut WriteTx,
        app: &App,
        config: &mut AppConfig,
        (open, secrets): Split,
        stored: &Map<String, Value>,
    ) -> Map<String, Value> {
        let (open, secrets) = schema::split(&app.config_schema, open, secrets);
        if secrets != *stored {
            let plain = serde_json::to_vec(&secrets).expect("a map of JSON is JSON");
            let encrypted = db.encrypt(&self.core.instance.encryptor, &config.secret_place(), &plain);
            config.secrets = (!secrets.is_empty()).then_some(encrypted);
        }
        config.config.clone_from(&open);
        open.into_iter().chain(secrets).collect()
    }
}

pub(super) fn seen<P>(caller: &Caller<P>, app: AppId, config: Option<AppConfig>) -> Result<AppConfig> {
    let is_theirs = |config: &AppConfig| config.app_id == app && caller.may_see_team(config.team_id);
    config.filter(is_theirs).ok_or(Error::NotFound("configuration"))
}

pub(super) async fn lock(
    db: &mut WriteTx,
    caller: &Caller<ChangeApps>,
    app: AppId,
    id: AppConfigId,
    precondition: Precondition<'_, AppConfig>,
) -> Result<AppConfig> {
    organizations::sql::lock(db, caller.organization).await?;
    let config = sql::configs::lock(db, id).await?;
    let config = config.filter(|config| config.organization_id == caller.organization);
    let config = seen(caller, app, config)?;
    if !precondition(&config) {
        return Err(Error::Stale("configuration"));
    }
    Ok(config)
}
