//! What configurations tell their apps, secrets apart.

use serde_json::{Map, Value};

use super::lookup::{INSTALL, allow, find_app, own};
use super::schema::{KnownSecrets, SecretChange, Split};
use super::types::{App, AppConfig, Collection};
use super::{schema, sql};
use crate::Service;
use crate::access::{Caller, ChangeApps};
use crate::batch_exports::destination::merge;
use crate::error::{Error, Result};
use crate::id::{AppConfigId, AppId};
use crate::transaction::WriteTx;

impl Service {
    pub(super) fn config_secrets(&self, config: &AppConfig) -> Result<Map<String, Value>> {
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

    /// Which configurations that the caller's organization has of its app have secrets that are none with this schema; none: which schema it
    /// will be is not known yet. One is read at a time, and nobody waits for that before the writer.
    pub(super) async fn known_secrets(
        &self,
        caller: &Caller<ChangeApps>,
        (collection, app): (Collection, AppId),
        schema: Option<&Value>,
    ) -> Result<KnownSecrets> {
        let mut known = self.secrets_to_know(caller, (collection, app), schema).await?;
        if known.is_of_none() {
            return Ok(known);
        }
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
                known.add(encrypted, &secrets);
            }
            // Many may be here at once: nobody keeps what they have read.
            drop(config);
            tokio::task::yield_now().await;
        }
    }

    /// Which fields are to be looked for, before any was.
    async fn secrets_to_know(
        &self,
        caller: &Caller<ChangeApps>,
        (collection, app): (Collection, AppId),
        schema: Option<&Value>,
    ) -> Result<KnownSecrets> {
        let mut db = self.core.store.read().await?;
        allow(&mut db, caller, INSTALL).await?;
        let app = find_app(&mut db, caller, collection, app).await?;
        own(caller, &app)?;
        // What it had before is left alone.
        let new = schema.filter(|new| **new != app.config_schema);
        new.map_or(Ok(()), schema::check_count)?;
        let change = SecretChange::between(&app.config_schema, schema.unwrap_or(&Value::Null));
        Ok(KnownSecrets::of(change.removed))
    }

    /// What may be shown into one place, the rest, encrypted, into another. Answers with both together. `stored` is what is encrypted
    /// there by now.
    pub(super) fn put(
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
