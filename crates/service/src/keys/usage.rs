//! When keys were last used and what for, written now and then rather than with every request.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use chrono::TimeDelta;

use super::sql;
use crate::Service;
use crate::clock::Time;
use crate::error::Result;
use crate::id::KeyId;
use crate::scope::Scope;

/// How far behind `last_used_at` may be.
const PRECISION: TimeDelta = TimeDelta::minutes(10);

/// Uses that are not written yet.
#[derive(Debug, Default)]
pub struct KeyUse(Mutex<HashMap<KeyId, Noted>>);

#[derive(Debug, Default)]
struct Noted {
    used_at: Option<Time>,
    /// What it had not been used for before.
    scopes: Vec<Scope>,
}

impl KeyUse {
    pub(crate) fn note(&self, key: KeyId, last_used_at: Option<Time>, now: Time) {
        if last_used_at.is_none_or(|last| now - last >= PRECISION) {
            self.noted().entry(key).or_default().used_at = Some(now);
        }
    }

    /// `known` is what it was used for as far as it is written.
    pub(crate) fn note_scope(&self, key: KeyId, known: &[Scope], used: Scope) {
        if known.contains(&used) {
            return;
        }
        let mut noted = self.noted();
        let scopes = &mut noted.entry(key).or_default().scopes;
        if !scopes.contains(&used) {
            scopes.push(used);
        }
    }

    fn noted(&self) -> MutexGuard<'_, HashMap<KeyId, Noted>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> HashMap<KeyId, Noted> {
        std::mem::take(&mut self.noted())
    }
}

impl Service {
    /// Writes down what was noted since the last call, and tells how many keys that were.
    pub async fn flush_key_use(&self) -> Result<usize> {
        // Always in the same order, so that two replicas do not wait for each other.
        let noted: BTreeMap<KeyId, Noted> = self.core.key_use.take().into_iter().collect();
        if noted.is_empty() {
            return Ok(0);
        }
        let mut db = self.write().await?;
        for (key, Noted { used_at, scopes }) in &noted {
            if let Some(used_at) = used_at {
                sql::touch(&mut db, *key, *used_at).await?;
            }
            if !scopes.is_empty() {
                sql::add_used_scopes(&mut db, *key, scopes).await?;
            }
        }
        db.commit_unrecorded().await?;
        Ok(noted.len())
    }
}
