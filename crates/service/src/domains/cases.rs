use auth::saml::IdentityProvider;
use boxed::boxed;

use super::verification::{GRACE, LEASE, Outcome, RECHECK, RECHECK_UNVERIFIED, WAITING};
use super::{DnsLookup, Domain, DomainPatch, Finding, NewDomain, name, sql};
use crate::access::{Actor, Caller, ChangeDomains, ReadDomains};
use crate::activity::Entry;
use crate::error::{Error, Invalid, Result};
use crate::id::{DomainId, OrganizationId};
use crate::level::Level;
use crate::mail::{self, EmailMessage};
use crate::organizations::Organization;
use crate::page::{Page, Window};
use crate::transaction::WriteTx;
use crate::{Precondition, Service, members, organizations, sessions, sso};

/// Each holds certificates, and is looked for in DNS.
const MAX_DOMAINS: i64 = 100;

impl Service {
    /// By name.
    #[boxed]
    pub async fn domains(&self, caller: &Caller<ReadDomains>, window: Window) -> Result<Page<Domain>> {
        sql::page(&mut self.core.store.read().await?, caller.organization, window).await
    }

    pub async fn domain<P>(&self, caller: &Caller<P>, id: DomainId) -> Result<Domain> {
        sql::find(&mut self.core.store.read().await?, caller.organization, id)
            .await?
            .ok_or(Error::NotFound("domain"))
    }

    #[boxed]
    pub async fn create_domain(&self, caller: &Caller<ChangeDomains>, new: &NewDomain) -> Result<Domain> {
        let name = name::normalize(&new.domain)?;
        let mut db = self.write().await?;
        organizations::sql::lock(&mut db, caller.organization).await?;
        room_for_domain(&mut db, caller.organization).await?;
        let mut domain = fresh(&db, caller.organization, name);
        domain.change(&new.settings, &db, &self.core.instance)?;
        sql::insert(&mut db, &domain).await?;
        db.commit(&caller.actor, &[Entry::created(&domain)]).await?;
        Ok(domain)
    }

    /// On a verified domain, what would take effect must work, and must leave an owner a way in.
    #[boxed]
    pub async fn update_domain(
        &self,
        caller: &Caller<ChangeDomains>,
        id: DomainId,
        patch: &DomainPatch,
        precondition: Precondition<'_, Domain>,
    ) -> Result<Domain> {
        let mut db = self.write().await?;
        let before = lock(&mut db, caller.organization, id, precondition).await?;
        let mut domain = before.clone();
        domain.change(patch, &db, &self.core.instance)?;
        let Some(entry) = Entry::updated(&before, &domain) else {
            return Ok(before);
        };
        self.put_into_effect(&mut db, &before, &mut domain, caller.level)
            .await?;
        db.commit(&caller.actor, &[entry]).await?;
        Ok(domain)
    }

    /// Takes over what an identity provider says of itself. Read from an address, it can be compared later.
    #[boxed]
    pub async fn connect_identity_provider(
        &self,
        caller: &Caller<ChangeDomains>,
        id: DomainId,
        provider: &IdentityProvider,
        metadata_url: &str,
    ) -> Result<Domain> {
        let patch = DomainPatch {
            saml_entity_id: Some(provider.entity_id.clone()),
            saml_acs_url: Some(provider.sso_url.clone()),
            saml_x509_cert: Some(provider.certificates.to_pem()),
            ..DomainPatch::default()
        };
        let mut db = self.write().await?;
        let before = lock(&mut db, caller.organization, id, &crate::no_precondition).await?;
        let mut domain = before.clone();
        domain.change(&patch, &db, &self.core.instance)?;
        metadata_url.clone_into(&mut domain.saml_metadata_url);
        let entries: Vec<Entry> = Entry::updated(&before, &domain).into_iter().collect();
        self.put_into_effect(&mut db, &before, &mut domain, caller.level)
            .await?;
        db.commit(&caller.actor, &entries).await?;
        Ok(domain)
    }

    /// Saves a change that may take effect, with what follows from it.
    async fn put_into_effect(&self, db: &mut WriteTx, before: &Domain, domain: &mut Domain, by: Level) -> Result<()> {
        sso::forget_old_providers(db, before, domain, by).await?;
        self.may_take_effect(db, domain).await?;
        end_other_ways(db, before, domain).await?;
        domain.updated_at = db.now;
        sql::save(db, domain).await
    }

    /// Whether an owner could sign in if this were enforced.
    #[boxed]
    pub async fn an_owner_would_get_in(&self, domain: &Domain, sso: sso::Sso) -> Result<bool> {
        sso::an_owner_gets_in(&mut self.core.store.read().await?, domain, sso).await
    }

    #[boxed]
    pub async fn delete_domain(
        &self,
        caller: &Caller<ChangeDomains>,
        id: DomainId,
        precondition: Precondition<'_, Domain>,
    ) -> Result<()> {
        let mut db = self.write().await?;
        let domain = lock(&mut db, caller.organization, id, precondition).await?;
        if !caller.actor.request.is_dry_run {
            sql::delete(&mut db, &domain).await?;
            sso::forget_domain(&mut db, id).await?;
        }
        db.commit(&caller.actor, &[Entry::deleted(&domain)]).await
    }

    /// Decides on what was seen in DNS. Of two organizations that prove one domain at once, one wins.
    #[boxed]
    pub async fn settle_domain(
        &self,
        actor: &Actor,
        organization: OrganizationId,
        id: DomainId,
        lookup: &DnsLookup,
    ) -> Result<Domain> {
        match self.try_to_settle(actor, organization, id, lookup).await {
            // Somebody else was faster by the blink of an eye: now they are there to be seen.
            Err(Error::Database(sqlx::Error::Database(cause))) if cause.is_unique_violation() => {
                self.try_to_settle(actor, organization, id, lookup).await
            }
            settled => settled,
        }
    }

    async fn try_to_settle(
        &self,
        actor: &Actor,
        organization: OrganizationId,
        id: DomainId,
        lookup: &DnsLookup,
    ) -> Result<Domain> {
        let mut db = self.write().await?;
        let before = lock(&mut db, organization, id, &crate::no_precondition).await?;
        let mut domain = before.clone();
        if lookup.shows(&domain.verification_challenge) && !domain.is_verified() {
            match sql::holder(&mut db, &domain.domain).await? {
                Some(holder) if lookup.shows(&holder.verification_challenge) => {
                    domain.verification_error = Some(sqlx::types::Json(taken(&domain)));
                    domain.checked_at = Some(db.now);
                    sql::save(&mut db, &domain).await?;
                    db.commit(actor, &[]).await?;
                    return Ok(domain);
                }
                Some(holder) => self.revoke_verification(&mut db, actor, holder).await?,
                None => {}
            }
        }
        let outcome = domain.see(lookup, db.now);
        if outcome == Outcome::Proven && !before.is_verified() {
            self.drop_what_would_lock_out(&mut db, &mut domain).await?;
            end_other_ways(&mut db, &before, &domain).await?;
        }
        self.tell_owners(&mut db, &domain, &outcome).await?;
        let entries: Vec<Entry> = Entry::updated(&before, &domain).into_iter().collect();
        sql::save(&mut db, &domain).await?;
        db.commit(actor, &entries).await?;
        Ok(domain)
    }

    /// Whoever proves a domain has it: the record of the organization that had it is gone.
    async fn revoke_verification(&self, db: &mut WriteTx, actor: &Actor, holder: Domain) -> Result<()> {
        let mut after = holder.clone();
        after.verified_at = None;
        after.lost_at = None;
        sql::save(db, &after).await?;
        self.tell_owners(db, &after, &Outcome::Expired).await?;
        let entry = Entry::updated(&holder, &after).unwrap_or_else(|| Entry::happened(&after, "unverified"));
        // Recorded without a user in their log: they cannot keep the domain by filling it, and are not told who has the domain now.
        db.record(&Actor::nobody(actor.request.clone()), &[entry]).await
    }

    /// Enforcement that was stored before the proof begins with it, unless it would lock people out.
    async fn drop_what_would_lock_out(&self, db: &mut WriteTx, domain: &mut Domain) -> Result<()> {
        let problems = match self.may_take_effect(db, domain).await {
            Err(Error::Invalid(problems)) => problems,
            other => return other,
        };
        let Invalid { code, detail, .. } = &problems[0];
        let detail = format!("The domain is verified, but enforcement was disabled. {detail}");
        domain.sso_enforcement.clear();
        domain.verification_error = Some(sqlx::types::Json(Finding::new(code, detail)));
        Ok(())
    }

    async fn may_take_effect(&self, db: &mut WriteTx, domain: &Domain) -> Result<()> {
        domain.may_take_effect(&self.core.instance, db.now)?;
        if let Some(sso) = domain.enforced()
            && !sso::an_owner_gets_in(db, domain, sso).await?
        {
            return Err(Error::invalid("sso_enforcement", "would_lock_out", sso::LOCKS_OUT));
        }
        Ok(())
    }

    async fn tell_owners(&self, db: &mut WriteTx, domain: &Domain, outcome: &Outcome) -> Result<()> {
        if !matches!(outcome, Outcome::Lost | Outcome::Expired) {
            return Ok(());
        }
        let organization = organizations::sql::lock(db, domain.organization_id).await?;
        let email = news(domain, &organization, outcome, db.now + GRACE);
        let owners = members::owners(db, organization.id).await?;
        let addresses = owners.into_iter().map(|owner| owner.email).collect();
        mail::notify(db, &self.core.instance, organization.id, &email, addresses).await
    }

    /// All domains of the instance that somebody has proven, for whoever runs the machine.
    #[boxed]
    pub async fn verified_domains(&self) -> Result<Vec<Domain>> {
        sql::verified(&mut self.core.store.read().await?).await
    }

    /// Lets people sign in as they like again, for whoever runs the machine: the last way out.
    #[boxed]
    pub async fn disable_sso_enforcement(&self, actor: &Actor, name: &str) -> Result<Domain> {
        let mut db = self.write().await?;
        let holder = sql::holder(&mut db, &name::normalize(name)?).await?;
        let holder = holder.ok_or(Error::NotFound("verified domain"))?;
        let before = lock(&mut db, holder.organization_id, holder.id, &crate::no_precondition).await?;
        let mut domain = before.clone();
        domain.sso_enforcement.clear();
        let Some(entry) = Entry::updated(&before, &domain) else {
            return Ok(before);
        };
        domain.updated_at = db.now;
        sql::save(&mut db, &domain).await?;
        db.commit(actor, &[entry]).await?;
        Ok(domain)
    }

    /// A verified domain that has not been looked at for a day, if there is one; others leave it alone for an hour.
    #[boxed]
    pub async fn domain_to_recheck(&self) -> Result<Option<Domain>> {
        let now = self.core.clock.now();
        let due = now - RECHECK;
        if !sql::is_due(&mut self.core.store.read().await?, due).await? {
            return Ok(None);
        }
        let mut db = self.write().await?;
        let domain = sql::take_due(&mut db, due, due + LEASE).await?;
        db.commit_unrecorded().await?;
        Ok(domain)
    }

    /// New domains whose records were asked for and not seen, and that have not been looked at for some minutes: at most one
    /// of each organization, and first of the one that has waited longest. Many domains of one organization do not delay others.
    #[boxed]
    pub async fn unverified_domains(&self, most: i64) -> Result<Vec<Domain>> {
        let now = self.core.clock.now();
        let (due, since) = (now - RECHECK_UNVERIFIED, now - WAITING);
        if !sql::is_unverified_due(&mut self.core.store.read().await?, due, since).await? {
            return Ok(Vec::new());
        }
        let mut db = self.write().await?;
        let domains = sql::take_unverified(&mut db, due, since, now, most).await?;
        db.commit_unrecorded().await?;
        Ok(domains)
    }
}

/// The organization is locked: nobody else adds one at the same time.
async fn room_for_domain(db: &mut WriteTx, organization: OrganizationId) -> Result<()> {
    if sql::count(db, organization).await? < MAX_DOMAINS {
        return Ok(());
    }
    let detail = format!("An organization can have at most {MAX_DOMAINS} domains. Delete one first.");
    Err(Error::refused("too_many_domains", detail))
}

/// Where a way in begins to be enforced, sessions that were opened in another end.
async fn end_other_ways(db: &mut WriteTx, before: &Domain, after: &Domain) -> Result<()> {
    match after.enforced() {
        Some(sso) if before.enforced() != Some(sso) => {
            sessions::sql::delete_of_domain(db, &after.domain, sso.as_str()).await
        }
        _ => Ok(()),
    }
}

fn news(domain: &Domain, organization: &Organization, outcome: &Outcome, until: crate::Time) -> EmailMessage {
    let (organization, name) = (organization.name.to_string(), domain.domain.clone());
    match outcome {
        Outcome::Expired => EmailMessage::DomainUnverified {
            organization,
            domain: name,
        },
        _ => EmailMessage::DomainLost {
            organization,
            domain: name,
            record: domain.record(),
            value: domain.verification_challenge.clone(),
            until,
        },
    }
}

fn taken(domain: &Domain) -> Finding {
    let detail = format!(
        "Another organization on this server has verified {}, and its record still exists. Remove that record first.",
        domain.domain
    );
    Finding::new("domain_taken", detail)
}

fn fresh(db: &WriteTx, organization: OrganizationId, domain: String) -> Domain {
    Domain {
        id: DomainId(db.uuid()),
        organization_id: organization,
        domain,
        verification_challenge: auth::key::new_token("", db.random.bytes()),
        verified_at: None,
        checked_at: None,
        lost_at: None,
        verification_error: None,
        jit_provisioning_enabled: false,
        sso_enforcement: String::new(),
        saml_entity_id: String::new(),
        saml_acs_url: String::new(),
        saml_x509_cert: String::new(),
        saml_metadata_url: String::new(),
        saml_idp_initiated: false,
        oidc_issuer: String::new(),
        oidc_client_id: String::new(),
        oidc_client_secret: None,
        created_at: db.now,
        updated_at: db.now,
    }
}

/// Locks the organization, which keeps its owners as they are, and finds one of its domains.
async fn lock(
    db: &mut WriteTx,
    organization: OrganizationId,
    id: DomainId,
    precondition: Precondition<'_, Domain>,
) -> Result<Domain> {
    organizations::sql::lock(db, organization).await?;
    let domain = sql::find(db, organization, id)
        .await?
        .ok_or(Error::NotFound("domain"))?;
    if !precondition(&domain) {
        return Err(Error::Stale("domain"));
    }
    Ok(domain)
}
