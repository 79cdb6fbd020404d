//! What enforcing a way in would mean, to be seen before it happens.

use boxed::boxed;

use super::{LOCKS_OUT, NewMember, Sso, an_owner_gets_in, sql};
use crate::Service;
use crate::access::{Caller, ChangeDomains};
use crate::error::Result;
use crate::id::DomainId;

/// As many as one reads through.
const NAMED: i64 = 20;

#[derive(Debug, Clone)]
pub struct Consequences {
    /// Why it would not be allowed on a verified domain, if it would not.
    pub refusal: Option<String>,
    /// How many members have addresses on the domain.
    pub members: i64,
    /// How many of them have never signed in this way.
    pub new_members: i64,
    /// Some of those, the highest levels first.
    pub named: Vec<NewMember>,
}

impl Service {
    #[boxed]
    pub async fn consequences_of_enforcing(
        &self,
        caller: &Caller<ChangeDomains>,
        domain: DomainId,
        sso: Sso,
    ) -> Result<Consequences> {
        let domain = &self.domain(caller, domain).await?;
        let now = self.core.clock.now();
        let mut db = self.core.store.read().await?;
        let refusal = match domain.is_ready(sso, &self.core.instance, now) {
            Err(reason) => Some(reason),
            Ok(()) if an_owner_gets_in(&mut db, domain, sso).await? => None,
            Ok(()) => Some(LOCKS_OUT.to_owned()),
        };
        let provider = sso.provider(sso.is_of_domain().then_some(domain.id));
        let (organization, name) = (caller.organization, domain.domain.as_str());
        Ok(Consequences {
            refusal,
            members: sql::count_on_domain(&mut db, organization, name).await?,
            new_members: sql::count_new_members(&mut db, organization, name, &provider).await?,
            named: sql::new_members(&mut db, organization, name, &provider, NAMED).await?,
        })
    }
}
