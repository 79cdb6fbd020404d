//! What is kept, and how much of the budgets it takes.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::time::Instant;

use sandbox::Json;
use service::pipeline::AppConfig;
use service::{AppConfigId, OrganizationId};

/// In bytes of memory: a configuration, an organization, the process.
pub(super) const OF_CONFIG: usize = 1024 * 1024;
pub(super) const OF_ORGANIZATION: usize = 8 * OF_CONFIG;
pub(super) const OF_ALL: usize = 64 * OF_CONFIG;
/// What a key takes beside its text and its value, and what an item of a list takes beside its text.
const PER_KEY: usize = 200;
pub(super) const PER_ITEM: usize = 48;

/// Whose cache it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Whose {
    pub(super) config: AppConfigId,
    pub(super) organization: OrganizationId,
}

impl From<&AppConfig> for Whose {
    fn from(config: &AppConfig) -> Self {
        Self {
            config: config.id,
            organization: config.organization_id,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct All {
    pub(super) owned: HashMap<AppConfigId, Owned>,
    /// Bytes of each organization that has any.
    pub(super) organizations: HashMap<OrganizationId, usize>,
    pub(super) bytes: usize,
}

#[derive(Debug)]
pub(super) struct Owned {
    organization: OrganizationId,
    pub(super) cache: Cache,
    pub(super) bytes: usize,
    pub(super) used_at: Instant,
    /// When it was last seen that the configuration is still run.
    pub(super) seen_at: Instant,
}

pub(super) type Cache = HashMap<String, Kept>;

#[derive(Debug)]
pub(super) struct Kept {
    pub(super) value: Held,
    pub(super) until: Option<Instant>,
}

#[derive(Debug)]
pub(super) enum Held {
    One(Json),
    List(VecDeque<String>),
}

impl Kept {
    fn is_good(&self, now: Instant) -> bool {
        self.until.is_none_or(|until| until > now)
    }
}

impl Held {
    fn bytes(&self) -> usize {
        match self {
            Self::One(value) => value.text().len(),
            Self::List(list) => list.iter().map(|item| PER_ITEM + item.len()).sum(),
        }
    }
}

impl All {
    pub(super) fn begin(&mut self, whose: Whose, now: Instant) {
        let owned = self.owned.entry(whose.config).or_insert_with(|| Owned {
            organization: whose.organization,
            cache: Cache::default(),
            bytes: 0,
            used_at: now,
            seen_at: now,
        });
        owned.used_at = now;
        self.expire(whose.config, now);
    }

    /// Who keeps nothing takes no room, either.
    pub(super) fn end(&mut self, whose: Whose) {
        if self
            .owned
            .get(&whose.config)
            .is_some_and(|owned| owned.cache.is_empty())
        {
            self.forget(whose.config);
        }
    }

    pub(super) fn cache(&mut self, whose: Whose) -> Option<&mut Cache> {
        self.owned.get_mut(&whose.config).map(|owned| &mut owned.cache)
    }

    pub(super) fn expire(&mut self, id: AppConfigId, now: Instant) {
        let Some(owned) = self.owned.get_mut(&id) else { return };
        let mut freed = 0;
        owned.cache.retain(|key, kept| {
            let is_good = kept.is_good(now);
            if !is_good {
                freed += weight(key, &kept.value);
            }
            is_good
        });
        self.change(id, freed, 0);
    }

    pub(super) fn forget(&mut self, id: AppConfigId) {
        if let Some(owned) = self.owned.get(&id) {
            self.change(id, owned.bytes, 0);
            self.owned.remove(&id);
        }
    }

    /// Replaces `before` bytes of a configuration by `after` in all three counters.
    pub(super) fn change(&mut self, id: AppConfigId, before: usize, after: usize) {
        let Some(owned) = self.owned.get_mut(&id) else { return };
        let count = |bytes: usize| bytes.saturating_sub(before) + after;
        owned.bytes = count(owned.bytes);
        self.bytes = count(self.bytes);
        let of_organization = self.organizations.entry(owned.organization).or_default();
        *of_organization = count(*of_organization);
        if *of_organization == 0 {
            self.organizations.remove(&owned.organization);
        }
    }

    /// Evicts entries until `after` bytes instead of `before` fit, and counts them.
    pub(super) fn make_room(&mut self, whose: Whose, before: usize, after: usize) -> Result<(), String> {
        let grown = |bytes: usize| bytes.saturating_sub(before) + after;
        let of_config = self.owned.get(&whose.config).map_or(0, |owned| owned.bytes);
        if after > before && grown(of_config) > OF_CONFIG {
            return Err(format!(
                "the cache of this app is full: the limit is {OF_CONFIG} bytes, including keys and overhead"
            ));
        }
        let of_organization = self.organizations.get(&whose.organization).copied().unwrap_or_default();
        if after > before && grown(of_organization) > OF_ORGANIZATION {
            return Err(format!(
                "the caches of this organization's apps are full: the limit is {OF_ORGANIZATION} bytes in total"
            ));
        }
        while after > before && grown(self.bytes) > OF_ALL {
            let Some(first) = self.first_to_go(whose) else { break };
            self.forget(first);
        }
        self.change(whose.config, before, after);
        Ok(())
    }

    /// What was not used for longest, of the organization that has most: whoever keeps little does not pay for others.
    fn first_to_go(&self, whose: Whose) -> Option<AppConfigId> {
        let others = self.owned.iter().filter(|(id, _)| **id != whose.config);
        let of_organization = |owned: &Owned| self.organizations.get(&owned.organization).copied();
        let first = others.max_by_key(|(_, owned)| (of_organization(owned), Reverse(owned.used_at)));
        first.map(|(id, _)| *id)
    }
}

/// What a key and its value take.
pub(super) fn weight(key: &str, value: &Held) -> usize {
    PER_KEY + key.len() + value.bytes()
}
