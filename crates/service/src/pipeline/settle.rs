//! Configurations follow the code of their app, and what is said of it.

use super::pins::{self, as_run};
use super::schema::{KnownSecrets, SecretChange};
use super::sql::configs::Configs;
use super::types::{App, AppConfig, AppLogLevel};
use super::{logs, schedule, sql};
use crate::Service;
use crate::access::Actor;
use crate::activity::Entry;
use crate::error::Result;
use crate::transaction::WriteTx;

impl Service {
    /// Makes what a configuration waits for fit what the code offers, and saves it.
    pub(super) async fn follow_code(&self, db: &mut WriteTx, app: &App, config: &mut AppConfig) -> Result<()> {
        let app = as_run(db, app.clone()).await?;
        config.wait_for(&app, db.now);
        sql::configs::save(db, config).await?;
        schedule::schedule(db, Configs::one(config), &app.scheduled_tasks()).await
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
            // Other organizations approve versions themselves; here they are only notified.
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
            schedule::schedule(db, own, &run.scheduled_tasks()).await?;
        }
        db.record(actor, &of_ours).await?;
        // Recorded where they see it, but not by whom: people of one organization are nobody to another.
        db.record(&Actor::nobody(actor.request.clone()), &of_others).await
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
        logs::say(db, config, AppLogLevel::Warn, &message).await?;
        config.updated_at = db.now;
        Ok(Some(
            Entry::happened(config, "secrets_deleted").noting("fields", &dropped),
        ))
    }
}
