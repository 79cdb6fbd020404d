//! What an app keeps for itself, from one event to the next.

use boxed::boxed;
use serde_json::Value;

use super::sql;
use super::sql::usage::Usage;
use super::types::AppConfig;
use crate::Service;
use crate::error::{Error, Result};
use crate::id::AppConfigId;
use crate::transaction::WriteTx;

const MAX_KEYS: i64 = 10_000;
const MAX_KEY: usize = 200;
const MAX_VALUE: usize = 256 * 1024;
/// Keys and values together: of one configuration, and of all of an organization. Several that store at the same moment may go beyond
/// the latter by one value each.
const MAX_BYTES: i64 = 16 << 20;
const MAX_OF_ORGANIZATION: i64 = 256 << 20;

impl Service {
    /// JSON, as it was written.
    #[boxed]
    pub async fn stored_of_app(&self, config: &AppConfig, key: &str) -> Result<Option<String>> {
        sql::storage::find(&mut self.core.store.read().await?, config.id, key).await
    }

    /// The value is JSON; null takes the key away.
    #[boxed]
    pub async fn store_for_app(&self, config: &AppConfig, key: &str, value: &str) -> Result<()> {
        let mut change = self.change_storage(config, key).await?;
        change.store(value).await?;
        change.db.commit_unrecorded().await
    }

    /// The same, unless there is a value.
    #[boxed]
    pub async fn store_for_app_if_absent(&self, config: &AppConfig, key: &str, value: &str) -> Result<()> {
        let mut change = self.change_storage(config, key).await?;
        if change.found().await?.is_none() {
            change.store(value).await?;
        }
        change.db.commit_unrecorded().await
    }

    /// Adds to a number, and returns the sum. What is no number counts as 0.
    #[boxed]
    pub async fn increment_for_app(&self, config: &AppConfig, key: &str, by: f64) -> Result<f64> {
        let mut change = self.change_storage(config, key).await?;
        let found = change.found().await?;
        let sum = found.and_then(|text| text.parse().ok()).unwrap_or(0.0) + by;
        change.store(&Value::from(sum).to_string()).await?;
        change.db.commit_unrecorded().await?;
        Ok(sum)
    }

    /// Whoever changes what the configuration keeps waits for others who do.
    async fn change_storage<'a>(&self, config: &AppConfig, key: &'a str) -> Result<Change<'a>> {
        if key.chars().count() > MAX_KEY || key.contains('\0') {
            return Err(Error::refused(
                "storage_key",
                format!("storage keys have at most {MAX_KEY} characters"),
            ));
        }
        let mut db = self.write().await?;
        let usage = sql::usage::lock(&mut db, config.id).await?;
        let usage = usage.ok_or(Error::NotFound("configuration"))?;
        Ok(Change {
            db,
            config: config.id,
            usage,
            key,
        })
    }
}

/// A transaction that changes the value of one key.
struct Change<'a> {
    db: WriteTx,
    config: AppConfigId,
    usage: Usage,
    key: &'a str,
}

impl Change<'_> {
    async fn found(&mut self) -> Result<Option<String>> {
        sql::storage::find(&mut self.db, self.config, self.key).await
    }

    async fn store(&mut self, value: &str) -> Result<()> {
        if value.len() > MAX_VALUE {
            return Err(Error::refused(
                "storage_value",
                format!("stored values have at most {MAX_VALUE} bytes"),
            ));
        }
        let (db, config, key) = (&mut self.db, self.config, self.key);
        let before = sql::storage::size(db, config, key).await?;
        let after = (value != "null").then(|| i64::try_from(key.len() + value.len()).unwrap_or(i64::MAX));
        let keys = i64::from(after.is_some()) - i64::from(before.is_some());
        let bytes = after.unwrap_or(0) - before.unwrap_or(0);
        check_room(db, &self.usage, keys, bytes).await?;
        match after {
            Some(_) => sql::storage::put(db, config, key, value).await?,
            None => sql::storage::delete(db, config, key).await?,
        }
        sql::usage::add_storage(db, config, keys, bytes).await
    }
}

/// What makes nothing larger is never refused.
async fn check_room(db: &mut WriteTx, usage: &Usage, keys: i64, bytes: i64) -> Result<()> {
    let full = |detail: String| Err(Error::refused("storage_full", detail));
    if keys > 0 && usage.storage_keys + keys > MAX_KEYS {
        return full(format!("an app can store at most {MAX_KEYS} keys"));
    }
    if bytes <= 0 {
        return Ok(());
    }
    if usage.storage_bytes + bytes > MAX_BYTES {
        return full(format!(
            "an app can store at most {} MiB per configuration",
            MAX_BYTES >> 20
        ));
    }
    if sql::usage::storage_of_all(db, usage.organization_id).await? + bytes > MAX_OF_ORGANIZATION {
        let most = MAX_OF_ORGANIZATION >> 20;
        return full(format!(
            "the apps of an organization can store at most {most} MiB in total"
        ));
    }
    Ok(())
}
