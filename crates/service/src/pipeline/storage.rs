//! What an app keeps for itself, from one event to the next.

use super::{AppConfig, sql};
use crate::Service;
use crate::error::{Error, Result};

const MOST_KEYS: i64 = 10_000;
const LONGEST_KEY: usize = 200;
const LARGEST_VALUE: usize = 256 * 1024;

impl Service {
    /// JSON, as it was written.
    pub async fn stored_of_app(&self, config: &AppConfig, key: &str) -> Result<Option<String>> {
        sql::storage::find(&mut self.core.store.read().await?, config.id, key).await
    }

    /// The value is JSON; null takes the key away.
    pub async fn store_for_app(&self, config: &AppConfig, key: &str, value: &str) -> Result<()> {
        if key.chars().count() > LONGEST_KEY || key.contains('\0') {
            return Err(Error::refused(
                "storage_key",
                format!("a key has at most {LONGEST_KEY} characters"),
            ));
        }
        if value.len() > LARGEST_VALUE {
            return Err(Error::refused(
                "storage_value",
                format!("a value has at most {LARGEST_VALUE} bytes"),
            ));
        }
        let mut db = self.write().await?;
        if value == "null" {
            sql::storage::delete(&mut db, config.id, key).await?;
            return db.commit_unrecorded().await;
        }
        sql::storage::put(&mut db, config.id, key, value).await?;
        if sql::storage::count(&mut db, config.id).await? > MOST_KEYS {
            return Err(Error::refused(
                "storage_full",
                format!("an app keeps at most {MOST_KEYS} keys"),
            ));
        }
        db.commit_unrecorded().await
    }
}
