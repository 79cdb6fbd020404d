//! Whose turn it is. Organizations take turns at work that many of them wait for: however much one of them has waiting,
//! another's single piece of work waits for one round at most.

use tokio::sync::{Mutex, MutexGuard};

use crate::id::OrganizationId;

/// How far a process has got in its round of all organizations, in the order of their ids. Within an organization the
/// piece of work that has waited longest comes first.
///
/// Each process goes its own rounds: which row is whose is decided by the database, whose turn it is need not be.
#[derive(Debug)]
pub struct Rotation(Mutex<OrganizationId>);

impl Default for Rotation {
    fn default() -> Self {
        Self(Mutex::new(OrganizationId::NONE))
    }
}

impl Rotation {
    /// One slot of a process looks at a time, so that two do not find the same.
    pub async fn take(&self) -> Round<'_> {
        Round(self.0.lock().await)
    }
}

/// The right to say whose turn it is.
#[derive(Debug)]
pub struct Round<'a>(MutexGuard<'a, OrganizationId>);

impl Round<'_> {
    /// The next one with work to do comes after the first of these; if there is none, after the second.
    pub fn starts(&self) -> [OrganizationId; 2] {
        [*self.0, OrganizationId::NONE]
    }

    /// Notes whose turn it was.
    pub fn served(&mut self, organization: OrganizationId) {
        *self.0 = organization;
    }
}
