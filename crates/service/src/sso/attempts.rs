//! What became of the last sign-ins through a domain, for whoever has to find out why one does not work.

use boxed::boxed;

use super::{Attempt, Sso, sql};
use crate::Service;
use crate::access::{Actor, Caller, ReadAttempts, Request};
use crate::activity::Entry;
use crate::domains::{self, Domain};
use crate::error::Result;
use crate::id::{AttemptId, DomainId};
use crate::transaction::WriteTx;

/// How many attempts of each kind are kept for a domain: signed by its provider, and others, which anybody can cause. So junk does
/// not displace the attempts that administrators need.
const KEPT_OF_EACH: i64 = 10;

/// A sign-in that was refused, and by which rule.
#[derive(Debug, Clone, Copy)]
pub struct Refused<'a> {
    pub sso: Sso,
    pub email: &'a str,
    pub rule: &'a str,
    pub detail: &'a str,
    /// It came with the provider's valid word. Anybody can bring about the others, as often as they like.
    pub is_from_idp: bool,
}

impl Service {
    /// Newest first, at most twenty.
    #[boxed]
    pub async fn sso_attempts(&self, caller: &Caller<ReadAttempts>, domain: DomainId) -> Result<Vec<Attempt>> {
        self.domain(caller, domain).await?;
        sql::attempts(&mut self.core.store.read().await?, caller.organization, domain).await
    }

    /// Records that somebody did not get in, with the exact rule. A stranger's address may be in it; no secret is.
    ///
    /// Anybody can be refused as often as they like. So an address that is refused too often is no longer noted, and the
    /// activity log, which keeps its entries for good, has only those whom a provider vouched for.
    #[boxed]
    pub async fn note_refusal(&self, domain: DomainId, refused: &Refused<'_>, request: &Request) -> Result<()> {
        if self.core.refusals.count(request).is_err() {
            return Ok(());
        }
        let mut db = self.write().await?;
        let Some(domain) = domains::sql::by_id(&mut db, domain).await? else {
            return Ok(());
        };
        let Refused { sso, email, .. } = *refused;
        note(&mut db, &domain, sso, email, Some(refused), request).await?;
        let entry = || Entry::happened(&domain, "sign_in_refused").noting("rule", refused.rule);
        let entries: Vec<Entry> = refused.is_from_idp.then(entry).into_iter().collect();
        db.commit(&Actor::nobody(request.clone()), &entries).await
    }
}

pub(super) async fn note(
    db: &mut WriteTx,
    domain: &Domain,
    sso: Sso,
    email: &str,
    refused: Option<&Refused<'_>>,
    request: &Request,
) -> Result<()> {
    let attempt = Attempt {
        id: AttemptId(db.uuid()),
        organization_id: domain.organization_id,
        domain_id: domain.id,
        method: sso.to_string(),
        email: email.chars().take(254).collect(),
        rule: refused.map(|refused| refused.rule.to_owned()),
        detail: refused
            .map_or("signed in", |refused| refused.detail)
            .chars()
            .take(1000)
            .collect(),
        address: request.origin.address_text(),
        request_id: request.id.to_string(),
        created_at: db.now,
        is_from_idp: refused.is_none_or(|refused| refused.is_from_idp),
    };
    sql::insert_attempt(db, &attempt).await?;
    sql::delete_old_attempts(db, domain.id, attempt.is_from_idp, KEPT_OF_EACH).await
}
