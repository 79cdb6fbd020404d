//! For whom the task at hand works. Whoever uses the database does so in that tenant's turn, however deep in a use case.

use std::cell::Cell;
use std::net::IpAddr;
use std::time::Instant;

use auth::key::SecretHash;

use crate::clock::Time;
use crate::id::{KeyId, OrganizationId, SessionId, UserId};
use crate::level::Level;
use crate::network::subnet;

/// Who takes turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Tenant {
    /// The server itself.
    System,
    /// Somebody who has not shown who they are.
    Subnet(IpAddr),
    User(UserId),
    Organization(OrganizationId),
}

/// What somebody has shown to be who they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum CredentialId {
    Key(KeyId),
    Session(SessionId),
}

#[derive(Debug, Clone, Copy)]
pub struct Caller {
    pub(super) tenant: Tenant,
    /// The people of an organization take turns, too.
    pub(super) user: Option<UserId>,
    /// And so do the credentials of a person: whoever has found one of their keys does not keep them from deleting it.
    pub(super) credential: Option<CredentialId>,
    pub(super) grant: Option<Grant>,
}

/// What somebody showed, and what it allowed when that was checked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grant {
    pub(crate) credential: CredentialHash,
    pub(crate) organization: Option<(OrganizationId, Level)>,
    /// When a key was changed last: it may have been limited since.
    pub(crate) changed_at: Option<Time>,
    pub(crate) checked_at: Instant,
}

/// A credential, as it is looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CredentialHash {
    Key(SecretHash),
    Session(SecretHash),
}

impl Grant {
    /// Whichever is more specific: some requests ask for the organization first, and then for the person.
    fn either(now: Option<Self>, before: Option<Self>) -> Option<Self> {
        match (now, before) {
            (Some(now), Some(before)) if before.is_more_specific_than(now) => Some(before),
            (now, before) => now.or(before),
        }
    }

    fn is_more_specific_than(self, other: Self) -> bool {
        self.credential == other.credential && self.organization.is_some() && other.organization.is_none()
    }
}

tokio::task_local! {
    static CALLER: Cell<Caller>;
}

/// Whom the task works for now, to go on with in another task.
pub fn current() -> Caller {
    let system = Caller {
        tenant: Tenant::System,
        user: None,
        credential: None,
        grant: None,
    };
    CALLER.try_with(Cell::get).unwrap_or(system)
}

/// Works for somebody at this address, until it is known who that is.
pub async fn on_behalf_of<F: Future>(address: Option<IpAddr>, work: F) -> F::Output {
    let caller = Caller {
        tenant: address.map_or(Tenant::System, |address| Tenant::Subnet(subnet(address))),
        user: None,
        credential: None,
        grant: None,
    };
    on_behalf_of_caller(caller, work).await
}

pub async fn on_behalf_of_organization<F: Future>(organization: OrganizationId, work: F) -> F::Output {
    let caller = Caller {
        tenant: Tenant::Organization(organization),
        user: None,
        credential: None,
        grant: None,
    };
    on_behalf_of_caller(caller, work).await
}

pub async fn on_behalf_of_caller<F: Future>(caller: Caller, work: F) -> F::Output {
    CALLER.scope(Cell::new(caller), work).await
}

/// It is known now who asks, with what, of which organization, and what allows it.
pub(crate) fn identify(
    user: UserId,
    credential: CredentialId,
    organization: Option<OrganizationId>,
    grant: Option<Grant>,
) {
    // Outside of a request nobody takes turns.
    let _ = CALLER.try_with(|current| {
        current.set(Caller {
            tenant: organization.map_or(Tenant::User(user), Tenant::Organization),
            user: Some(user),
            credential: Some(credential),
            grant: Grant::either(grant, current.get().grant),
        });
    });
}

/// What allows the request at hand, if it is one of somebody who is known.
pub(crate) fn grant() -> Option<Grant> {
    current().grant
}

/// It was checked again just now.
pub(crate) fn renew(grant: Grant) {
    let grant = Some(Grant {
        checked_at: Instant::now(),
        ..grant
    });
    let _ = CALLER.try_with(|current| current.set(Caller { grant, ..current.get() }));
}
