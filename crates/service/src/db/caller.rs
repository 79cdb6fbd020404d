//! For whom the task at hand works. Whoever uses the database does so in that tenant's turn, however deep in a use case.

use std::cell::Cell;
use std::net::IpAddr;

use crate::id::{OrganizationId, UserId};
use crate::network::neighborhood;

/// Who takes turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Tenant {
    /// The server itself.
    System,
    /// Somebody who has not shown who they are.
    Neighborhood(IpAddr),
    User(UserId),
    Organization(OrganizationId),
}

#[derive(Debug, Clone, Copy)]
pub struct Caller {
    pub(super) tenant: Tenant,
    /// The people of an organization take turns, too.
    pub(super) user: Option<UserId>,
}

tokio::task_local! {
    static CALLER: Cell<Caller>;
}

/// Whom the task works for now, to go on with in another task.
pub fn current() -> Caller {
    let system = Caller {
        tenant: Tenant::System,
        user: None,
    };
    CALLER.try_with(Cell::get).unwrap_or(system)
}

/// Works for somebody at this address, until it is known who that is.
pub async fn on_behalf_of<F: Future>(address: Option<IpAddr>, work: F) -> F::Output {
    let caller = Caller {
        tenant: address.map_or(Tenant::System, |address| Tenant::Neighborhood(neighborhood(address))),
        user: None,
    };
    on_behalf_of_caller(caller, work).await
}

pub async fn on_behalf_of_organization<F: Future>(organization: OrganizationId, work: F) -> F::Output {
    let caller = Caller {
        tenant: Tenant::Organization(organization),
        user: None,
    };
    on_behalf_of_caller(caller, work).await
}

pub async fn on_behalf_of_caller<F: Future>(caller: Caller, work: F) -> F::Output {
    CALLER.scope(Cell::new(caller), work).await
}

/// It is known now who asks, and of which organization.
pub(crate) fn identify(user: UserId, organization: Option<OrganizationId>) {
    let caller = Caller {
        tenant: organization.map_or(Tenant::User(user), Tenant::Organization),
        user: Some(user),
    };
    // Outside of a request nobody takes turns.
    let _ = CALLER.try_with(|current| current.set(caller));
}
