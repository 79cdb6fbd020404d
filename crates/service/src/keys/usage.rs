//! When keys were last used, written now and then rather than with every request.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

use chrono::TimeDelta;

use super::sql;
use crate::Service;
use crate::clock::Time;
use crate::error::Result;
use crate::id::KeyId;

/// How far behind `last_used_at` may be.
const PRECISION: TimeDelta = TimeDelta::minutes(10);

/// Uses that are not written yet.
#[derive(Debug, Default)]
pub struct KeyUse(Mutex<HashMap<KeyId, Time>>);

impl KeyUse {
    pub(crate) fn note(&self, key: KeyId, last_used_at: Option<Time>, now: Time) {
        if last_used_at.is_none_or(|last| now - last >= PRECISION) {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key, now);
        }
    }

    fn take(&self) -> HashMap<KeyId, Time> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Service {
    /// Writes down what was noted since the last call, and tells how many keys that were.
    pub async fn flush_key_use(&self) -> Result<usize> {
        // Always in the same order, so that two replicas do not wait for each other.
        let noted: BTreeMap<KeyId, Time> = self.core.key_use.take().into_iter().collect();
        if noted.is_empty() {
            return Ok(0);
        }
        let mut db = self.write().await?;
        for (key, used_at) in &noted {
            sql::touch(&mut db, *key, *used_at).await?;
        }
        db.commit_unrecorded().await?;
        Ok(noted.len())
    }
}
