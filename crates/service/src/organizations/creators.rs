//! Who created which organization: anybody creates many, so what these have of something that is scarce is limited together.

use std::sync::{Mutex, MutexGuard, PoisonError};

use hashbrown::HashMap;

use super::sql;
use crate::db::Session;
use crate::error::Result;
use crate::id::{OrganizationId, UserId};

/// Whose work something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tenant {
    pub organization: OrganizationId,
    /// None if an operator created it: those do so for others.
    pub creator: Option<UserId>,
}

/// Whose share of what is scarce something is part of: all organizations that one person created share it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Person {
    Creator(UserId),
    /// One that an operator created counts as a person.
    Of(OrganizationId),
}

impl Tenant {
    pub fn person(&self) -> Person {
        self.creator.map_or(Person::Of(self.organization), Person::Creator)
    }
}

/// Past this many all are forgotten, and read again.
const MAX_REMEMBERED: usize = 100_000;

/// Who created an organization never changes, so it is read once.
#[derive(Debug, Default)]
pub(crate) struct Creators(Mutex<HashMap<OrganizationId, Option<UserId>>>);

impl Creators {
    pub(crate) async fn tenant(&self, db: &mut Session, organization: OrganizationId) -> Result<Tenant> {
        if let Some(tenant) = self.known(organization) {
            return Ok(tenant);
        }
        let creator = sql::creator(db, organization).await?;
        let tenant = Tenant { organization, creator };
        let mut known = self.lock();
        if known.len() >= MAX_REMEMBERED {
            known.clear();
        }
        known.insert(organization, creator);
        Ok(tenant)
    }

    pub(super) fn known(&self, organization: OrganizationId) -> Option<Tenant> {
        let creator = self.lock().get(&organization).copied();
        creator.map(|creator| Tenant { organization, creator })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<OrganizationId, Option<UserId>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
