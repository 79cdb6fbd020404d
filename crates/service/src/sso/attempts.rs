//! What became of the last sign-ins through a domain, for whoever has to find out why one does not work.

use super::{Sso, sql};
use crate::Service;
use crate::access::{Caller, ReadAttempts, Request, Who};
use crate::activity::Entry;
use crate::clock::Time;
use crate::db::Writing;
use crate::domains::{self, Domain};
use crate::error::Result;
use crate::id::{AttemptId, DomainId, OrganizationId};

/// How many are kept of each domain.
pub(super) const KEPT: i64 = 20;

#[derive(Debug, Clone, sqlx::FromRow)]
pub struct Attempt {
    pub id: AttemptId,
    pub organization_id: OrganizationId,
    pub domain_id: DomainId,
    pub method: String,
    /// As far as one got to know.
    pub email: String,
    /// The rule that was broken; none if the person got in.
    pub rule: Option<String>,
    pub detail: String,
    pub address: String,
    pub request_id: String,
    pub created_at: Time,
}

impl Service {
    /// Newest first, at most twenty.
    pub async fn sso_attempts(&self, caller: &Caller<ReadAttempts>, domain: DomainId) -> Result<Vec<Attempt>> {
        self.domain(caller, domain).await?;
        sql::attempts(&mut self.core.store.read().await?, caller.organization, domain).await
    }

    /// Records that somebody did not get in, with the exact rule. A stranger's address may be in it; no secret is.
    ///
    /// Anybody can be refused as often as they like, so an address that is refused too often is no longer noted: it would
    /// fill the log, and push out the attempts that somebody looks for.
    pub async fn note_refusal(
        &self,
        domain: DomainId,
        sso: Sso,
        email: &str,
        rule: &str,
        detail: &str,
        request: &Request,
    ) -> Result<()> {
        if self.core.refusals.count(request).is_err() {
            return Ok(());
        }
        let mut db = self.write().await?;
        let Some(domain) = domains::sql::by_id(&mut db, domain).await? else {
            return Ok(());
        };
        note(&mut db, &domain, sso, email, Some((rule, detail)), request).await?;
        let entry = Entry::happened(&domain, "sign_in_refused").noting("rule", rule);
        db.commit(&Who::nobody(request.clone()), &[entry]).await
    }
}

pub(super) async fn note(
    db: &mut Writing,
    domain: &Domain,
    sso: Sso,
    email: &str,
    refusal: Option<(&str, &str)>,
    request: &Request,
) -> Result<()> {
    let attempt = Attempt {
        id: AttemptId(db.uuid()),
        organization_id: domain.organization_id,
        domain_id: domain.id,
        method: sso.to_string(),
        email: email.chars().take(254).collect(),
        rule: refusal.map(|(rule, _)| rule.to_owned()),
        detail: refusal
            .map_or("signed in", |(_, detail)| detail)
            .chars()
            .take(1000)
            .collect(),
        address: request.origin.address_text(),
        request_id: request.id.to_string(),
        created_at: db.now,
    };
    sql::insert_attempt(db, &attempt).await?;
    sql::delete_old_attempts(db, domain.id, KEPT).await
}
