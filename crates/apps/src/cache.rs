//! What apps keep for a while. It is lost when the process ends, and another process has its own: a cache.
//!
//! It is the server's memory, so it is counted: values stay text, and each configuration, each organization and all of
//! them together have a budget.

mod commands;
mod kept;
#[cfg(test)]
mod tests;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sandbox::HostCall;
use service::AppConfigId;

use self::commands::{Answer, key_of};
use self::kept::{All, Owned, Whose};

/// In characters.
const MAX_KEY: usize = 200;
/// What a configuration has not asked about for so long goes. What it does every day still finds what it kept the day
/// before.
const UNUSED: Duration = Duration::from_hours(25);
/// Who was heard of since then is still run.
const HEARD_OF: Duration = Duration::from_secs(15);

#[derive(Debug, Default)]
pub(crate) struct Caches(Mutex<All>);

impl Caches {
    /// Does what is asked, if it is about the cache.
    pub(crate) fn call(&self, whose: Whose, call: &HostCall, now: Instant) -> Option<Answer> {
        let key = key_of(call)?;
        if key.chars().count() > MAX_KEY {
            return Some(Err(format!("cache keys have at most {MAX_KEY} characters")));
        }
        let mut all = self.all();
        all.begin(whose, now);
        let done = all.carry_out(whose, call, now);
        all.end(whose);
        done
    }

    /// Drops what is over, and of what nobody has asked about for long.
    pub(crate) fn tidy(&self, now: Instant) {
        let mut all = self.all();
        let ids: Vec<AppConfigId> = all.owned.keys().copied().collect();
        for id in ids {
            let is_unused = all.owned.get(&id).is_some_and(|owned| now >= owned.used_at + UNUSED);
            all.expire(id, now);
            if is_unused || all.owned.get(&id).is_some_and(|owned| owned.cache.is_empty()) {
                all.forget(id);
            }
        }
    }

    /// Some that may not be run any more: they have not asked for anything lately. In the end every one of them is named.
    pub(crate) fn silent(&self, now: Instant, most: usize) -> Vec<AppConfigId> {
        let mut all = self.all();
        let is_silent = |owned: &Owned| now >= owned.used_at + HEARD_OF;
        let silent = all.owned.iter().filter(|(_, owned)| is_silent(owned));
        let mut silent: Vec<(Instant, AppConfigId)> = silent.map(|(id, owned)| (owned.seen_at, *id)).collect();
        silent.sort_unstable_by_key(|(seen_at, id)| (*seen_at, id.0));
        silent.truncate(most);
        for (_, id) in &silent {
            if let Some(owned) = all.owned.get_mut(id) {
                owned.seen_at = now;
            }
        }
        silent.into_iter().map(|(_, id)| id).collect()
    }

    /// Drops all that a configuration keeps.
    pub(crate) fn forget(&self, id: AppConfigId) {
        self.all().forget(id);
    }

    fn all(&self) -> MutexGuard<'_, All> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
