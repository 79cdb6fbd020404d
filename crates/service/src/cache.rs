//! What was read at the current version of the data, kept until that version passes.

use std::any::Any;
use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock};

use auth::key::SecretHash;
use hashbrown::HashMap;

use crate::db::Version;
use crate::error::Result;
use crate::id::{OrganizationId, TeamId, UserId};
use crate::members::MemberFilter;
use crate::page::{Page, Window};

/// Past this many rows the copy is dropped and begun again: some tens of megabytes at the most.
const MAX_ROWS: usize = 20_000;

/// How much memory a remembered answer takes, in rows of about the same size.
pub(crate) trait Weigh {
    fn rows(&self) -> usize;
}

impl<T> Weigh for Page<T> {
    fn rows(&self) -> usize {
        1 + self.items.len()
    }
}

/// What a remembered value answers. Everything it depends on is part of the key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum CacheKey {
    Key(SecretHash, Option<OrganizationId>),
    Organization(OrganizationId, UserId),
    Members(OrganizationId, MemberFilter, Window),
    /// By the hash of its token, which has a known length.
    Team(SecretHash),
    SiteApps(TeamId),
}

type CacheValue = Arc<dyn Any + Send + Sync>;

#[derive(Debug)]
pub(crate) struct Cache(RwLock<Snapshot>);

#[derive(Debug)]
struct Snapshot {
    version: Version,
    values: HashMap<CacheKey, CacheValue>,
    rows: usize,
}

impl Default for Cache {
    fn default() -> Self {
        let (version, values) = (Version::Unknown, HashMap::new());
        Self(RwLock::new(Snapshot {
            version,
            values,
            rows: 0,
        }))
    }
}

/// A future that is only made when it is needed: those that talk to a database are large to carry around.
pub(crate) type Load<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

impl Cache {
    /// The remembered answer if nothing was written since it was read, else what `load` reads now.
    pub(crate) async fn remembered<'a, T: Weigh + Send + Sync + 'static>(
        &self,
        seen: Version,
        key: CacheKey,
        load: impl FnOnce() -> Load<'a, T>,
    ) -> Result<Arc<T>> {
        if let Some(value) = self.find(seen, &key) {
            return Ok(value);
        }
        let value = Arc::new(load().await?);
        self.keep(seen, key, value.clone(), value.rows());
        Ok(value)
    }

    fn find<T: Send + Sync + 'static>(&self, seen: Version, key: &CacheKey) -> Option<Arc<T>> {
        let copy = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if copy.version != seen {
            return None;
        }
        copy.values.get(key)?.clone().downcast().ok()
    }

    /// Keeps an answer that was read after `seen` was.
    fn keep(&self, seen: Version, key: CacheKey, value: CacheValue, rows: usize) {
        if seen == Version::Unknown {
            return;
        }
        let mut copy = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if copy.version != seen || copy.rows + rows > MAX_ROWS {
            copy.version = seen;
            copy.rows = 0;
            copy.values.clear();
        }
        copy.rows += rows;
        copy.values.insert(key, value);
    }
}
