//! Reading what apps have for browsers. Anybody can ask for it from as many networks as they like, and a long script keeps a
//! connection of the database for a while: so few are read at a time, and those that were asked for last stay in memory.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::timeout;

use super::types::Script;
use crate::db::{FairSemaphore, Permit, Slow, caller};
use crate::error::{Error, Result};
use crate::id::{AppId, OrganizationId};

/// How many are read at a time: all together, and for one organization.
const AT_ONCE: usize = 2;
const AT_ONCE_OF_ONE: usize = 1;
/// Those whose scripts take long share one of them.
const SLOW: Slow = Slow {
    after: Duration::from_millis(100),
    permits: 1,
};
/// How long a page waits.
const WAIT_LIMIT: Duration = Duration::from_secs(2);
/// When to come back.
const BUSY: Duration = Duration::from_secs(2);
/// How many are kept in memory, and their bytes in sum.
const MAX: usize = 64;
const MAX_BYTES: usize = 8 << 20;

/// One script of one version. Numbers of versions can be used again, so that the checksum over the files belongs to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ScriptKey {
    pub(super) app: AppId,
    pub(super) version: i64,
    pub(super) sha256: String,
    pub(super) script: Script,
}

#[derive(Debug)]
pub(crate) struct Scripts {
    turns: FairSemaphore,
    /// The one that was asked for last is the last one. What an app does not have is empty.
    kept: Mutex<VecDeque<(ScriptKey, Arc<str>)>>,
}

impl Default for Scripts {
    fn default() -> Self {
        Self {
            turns: FairSemaphore::new("The app loader", AT_ONCE, SLOW)
                .with_most_of_one(AT_ONCE_OF_ONE)
                .followed_by_waiting(),
            kept: Mutex::default(),
        }
    }
}

impl Scripts {
    /// The right to read one. Organizations take turns, wherever pages are asked for: networks can be had without end.
    pub(super) async fn turn(&self, organization: OrganizationId) -> Result<Permit> {
        let turn = caller::on_behalf_of_organization(organization, self.turns.acquire());
        // Whether too many wait, or for too long, is the same to a page.
        let Ok(Ok(permit)) = timeout(WAIT_LIMIT, turn).await else {
            return Err(Error::Unavailable {
                detail: "The app loader is busy".to_owned(),
                wait: BUSY,
            });
        };
        Ok(permit)
    }

    /// Whether it may be given to somebody is decided before.
    pub(super) fn find(&self, key: &ScriptKey) -> Option<Arc<str>> {
        let mut kept = self.lock();
        let place = kept.iter().position(|(known, _)| known == key)?;
        let found = kept.remove(place)?;
        let code = found.1.clone();
        kept.push_back(found);
        Some(code)
    }

    pub(super) fn keep(&self, key: ScriptKey, code: Arc<str>) {
        let mut kept = self.lock();
        kept.retain(|(known, _)| *known != key);
        kept.push_back((key, code));
        let mut bytes: usize = kept.iter().map(|(_, code)| code.len()).sum();
        while kept.len() > MAX || bytes > MAX_BYTES {
            let Some((_, oldest)) = kept.pop_front() else { break };
            bytes -= oldest.len();
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(ScriptKey, Arc<str>)>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use uuid::Uuid;

    use super::*;

    fn key(version: i64) -> ScriptKey {
        ScriptKey {
            app: AppId(1),
            version,
            sha256: "0".repeat(64),
            script: Script::Site,
        }
    }

    #[test]
    fn those_that_were_asked_for_last_are_kept() {
        let scripts = Scripts::default();
        let large: Arc<str> = "x".repeat(1 << 20).into();
        for version in 0..8 {
            scripts.keep(key(version), large.clone());
        }
        assert!(scripts.find(&key(0)).is_some(), "8 MB fit");
        scripts.keep(key(8), large);
        assert!(scripts.find(&key(1)).is_none() && scripts.find(&key(0)).is_some());
        for version in 100..200 {
            scripts.keep(key(version), "x".into());
        }
        assert_eq!(scripts.lock().len(), MAX);
        let others = ScriptKey {
            sha256: "1".repeat(64),
            ..key(199)
        };
        assert!(scripts.find(&key(199)).is_some() && scripts.find(&others).is_none());
    }

    #[tokio::test]
    async fn nobody_waits_for_long_and_organizations_not_for_each_other() {
        let scripts = Scripts::default();
        let organization = |number: u128| OrganizationId(Uuid::from_u128(number));
        let held = scripts.turn(organization(1)).await.expect("it is free");
        let other = scripts.turn(organization(2)).await.expect("one is for others");
        let started = Instant::now();
        let busy = scripts.turn(organization(1)).await;
        assert!(matches!(busy, Err(Error::Unavailable { .. })), "{busy:?}");
        assert!(started.elapsed() < WAIT_LIMIT * 2, "{:?}", started.elapsed());
        drop((held, other));
        scripts.turn(organization(1)).await.expect("it is free again");
    }
}
