//! When keys were last used and what for, written now and then rather than with every request.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use chrono::TimeDelta;

use crate::clock::Time;
use crate::id::KeyId;
use crate::scope::Scope;

/// How far behind `last_used_at` may be.
const PRECISION: TimeDelta = TimeDelta::minutes(10);

/// Uses that are not written yet.
#[derive(Debug, Default)]
pub struct KeyUse(Mutex<HashMap<KeyId, Noted>>);

#[derive(Debug, Default)]
pub(super) struct Noted {
    pub(super) used_at: Option<Time>,
    /// What it had not been used for before.
    pub(super) scopes: Vec<Scope>,
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

    pub(super) fn take(&self) -> HashMap<KeyId, Noted> {
        std::mem::take(&mut self.noted())
    }
}
