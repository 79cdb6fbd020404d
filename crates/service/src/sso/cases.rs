use boxed::boxed;

use super::rules::{
    expect_own_address, expect_way_of, foreign_address, gives_way, is_signed_in_to, refuse_elsewhere,
    refuse_other_subject, refuse_unasked_owner, take_assertion, vouching_domain,
};
use super::{Precheck, Refused, VerifiedIdentity, attempts, sql};
use crate::access::{Actor, Request};
use crate::activity::Entry;
use crate::domains::{self, Domain};
use crate::error::{Error, Invalid, Result};
use crate::id::DomainId;
use crate::level::Level;
use crate::limits::{self, Action, Subject};
use crate::members::JoinSource;
use crate::sessions::{self, Opening};
use crate::text::{Email, one_line};
use crate::transaction::WriteTx;
use crate::users::{self, NewUser, Person, User};
use crate::{Service, invites, members, organizations};

impl Service {
    /// How somebody with this address may sign in. Looks at the domain alone, so it tells nothing about accounts.
    #[boxed]
    pub async fn precheck(&self, email: &str) -> Result<Precheck> {
        let Ok(email) = Email::new(email) else {
            return Ok(Precheck::default());
        };
        let holder = domains::sql::holder(&mut self.core.store.read().await?, &email.domain()).await?;
        Ok(holder.map_or_else(Precheck::default, |domain| Precheck {
            enforced: domain.enforced(),
            has_saml: domain.has_saml(),
            has_oidc: domain.has_oidc(),
            domain: Some(domain.id),
        }))
    }

    /// Counts somebody who sets out to sign in: it costs us a row, and a question to a provider.
    pub fn count_attempt(&self, request: &Request) -> Result<()> {
        self.core.attempts.count(request)
    }

    /// Counts somebody who comes back from a provider, or says so. Apart from those who set out: otherwise a network would have
    /// half as many sign-ins as attempts.
    pub fn count_return(&self, request: &Request) -> Result<()> {
        self.core.returns.count(request)
    }

    /// A verified domain, for a sign-in through its provider.
    #[boxed]
    pub async fn domain_for_sign_in(&self, id: DomainId) -> Result<Domain> {
        domains::sql::by_id(&mut self.core.store.read().await?, id)
            .await?
            .filter(Domain::is_verified)
            .ok_or(Error::NotFound("domain"))
    }

    /// Us, as the identity provider of a domain shall know us: to be told before the domain is proven, too.
    #[boxed]
    pub async fn service_provider(&self, id: DomainId) -> Result<auth::saml::ServiceProvider> {
        let domain = domains::sql::by_id(&mut self.core.store.read().await?, id).await?;
        let domain = domain.ok_or(Error::NotFound("domain"))?;
        Ok(domain.service_provider(&self.core.instance))
    }

    /// Lets somebody in whom an identity provider vouches for, or tells by which rule not.
    #[boxed]
    pub async fn enter(&self, identity: &VerifiedIdentity, request: &Request) -> Result<(User, String)> {
        let entered = match self.try_to_enter(identity, request).await {
            // The same person came in twice at once; now their account is there.
            Err(Error::Invalid(problems)) if problems[0].code == "unique" => self.try_to_enter(identity, request).await,
            entered => entered,
        };
        if let Err(Error::Invalid(problems)) = &entered
            && let Some(domain) = self.domain_to_tell(identity).await?
        {
            let Invalid { code, detail, .. } = &problems[0];
            let refused = Refused {
                sso: identity.sso,
                email: &identity.email,
                rule: code,
                detail,
                is_from_idp: true,
            };
            self.note_refusal(domain, &refused, request).await?;
        }
        entered
    }

    /// Whose administrators are told of a refusal: the provider's domain, else the one that the address is on.
    async fn domain_to_tell(&self, identity: &VerifiedIdentity) -> Result<Option<DomainId>> {
        if identity.domain.is_some() {
            return Ok(identity.domain);
        }
        Ok(self.precheck(&identity.email).await?.domain)
    }

    async fn try_to_enter(&self, identity: &VerifiedIdentity, request: &Request) -> Result<(User, String)> {
        let email = Email::new(&identity.email.to_lowercase())
            .map_err(|_| Error::refused("no_email", "The identity provider sent no valid email address."))?;
        let mut db = self.write().await?;
        take_assertion(&mut db, identity).await?;
        let domain = vouching_domain(&mut db, identity, &email).await?;
        let (user, mut entries) = self
            .account(&mut db, identity, domain.as_ref(), &email, request)
            .await?;
        let domain = expect_way_of(&mut db, identity, domain, &user).await?;
        entries.extend(self.membership(&mut db, identity, domain.as_ref(), &user).await?);
        let opening = Opening {
            method: identity.sso.as_str(),
            has_second_factor: true,
            authenticated_by: identity
                .domain
                .and(domain.as_ref())
                .map(|domain| domain.organization_id),
            until: identity.session_until,
            origin: request.origin.clone(),
        };
        let session = sessions::open(&mut db, &user, opening).await?;
        if let Some(domain) = &domain {
            attempts::note(&mut db, domain, identity.sso, &user.email, None, request).await?;
        }
        entries.push(Entry::happened(&user, "logged_in").noting("method", identity.sso.as_str()));
        db.commit(&Actor::user(user.id, request.clone()), &entries).await?;
        Ok((user, session))
    }

    /// The account of whoever is vouched for: the one that was linked, else the one of the address, else a new one.
    async fn account(
        &self,
        db: &mut WriteTx,
        identity: &VerifiedIdentity,
        domain: Option<&Domain>,
        email: &Email,
        request: &Request,
    ) -> Result<(User, Vec<Entry>)> {
        let provider = identity.sso.provider(identity.domain);
        if let Some(user) = sql::linked(db, &provider, &identity.subject).await? {
            // What the provider says of the address today does not matter: the subject is who it is.
            if let (Some(domain), true) = (domain, identity.domain.is_some()) {
                let own = Email::new(&user.email).map_err(|_| foreign_address(&user.email))?;
                expect_own_address(db, Some(domain), &own).await?;
                refuse_elsewhere(db, domain, &user).await?;
            }
            return Ok((user, Vec::new()));
        }
        // Before the account, as everybody does who changes members.
        if let Some(domain) = domain {
            organizations::sql::lock(db, domain.organization_id).await?;
        }
        let found = users::sql::by_email(db, email).await?;
        let (user, mut entries) = match found {
            Some(user) if gives_way(db, domain, &user, identity).await? => {
                let released = users::cases::release_address(db, &user, request).await?;
                let (user, mut entries) = self.new_account(db, identity, domain, email).await?;
                entries.insert(0, released);
                (user, entries)
            }
            Some(user) => {
                if let (Some(domain), true) = (domain, identity.domain.is_some()) {
                    refuse_elsewhere(db, domain, &user).await?;
                    refuse_unasked_owner(db, domain, &user, identity).await?;
                }
                refuse_other_subject(db, &user, &provider, &identity.subject).await?;
                // Whoever is signed in to it at the same time has proven enough.
                let entries = if is_signed_in_to(db, identity, &user).await? {
                    Vec::new()
                } else {
                    users::cases::prove_address(db, &user).await?
                };
                (user, entries)
            }
            None => self.new_account(db, identity, domain, email).await?,
        };
        sql::link(db, user.id, &provider, &identity.subject).await?;
        entries.push(Entry::happened(&user, "identity_linked").noting("method", identity.sso.as_str()));
        Ok((user, entries))
    }

    async fn new_account(
        &self,
        db: &mut WriteTx,
        identity: &VerifiedIdentity,
        domain: Option<&Domain>,
        email: &Email,
    ) -> Result<(User, Vec<Entry>)> {
        let Some(domain) = domain else {
            let detail = "No account has this email. Ask for an invite.";
            return Err(Error::refused("no_account", detail));
        };
        // Whoever has a provider of their own can have it vouch for anybody.
        let subjects = [Subject::Organization(domain.organization_id)];
        limits::take(db, self.core.instance.hourly_limits, Action::SignUp, 1, &subjects).await?;
        let new = NewUser {
            email: email.clone(),
            first_name: one_line(&identity.first_name),
            last_name: one_line(&identity.last_name),
            password: None,
            is_email_verified: true,
        };
        let user = users::cases::insert(db, &new, None).await?;
        let entry = Entry::created(&user);
        Ok((user, vec![entry]))
    }

    /// Makes the person a member if they are invited, or if the domain takes in whoever it vouches for.
    async fn membership(
        &self,
        db: &mut WriteTx,
        identity: &VerifiedIdentity,
        domain: Option<&Domain>,
        user: &User,
    ) -> Result<Vec<Entry>> {
        let Some(domain) = domain else { return Ok(Vec::new()) };
        let own = Email::new(&user.email).map_err(|_| foreign_address(&user.email))?;
        if members::has_address(db, domain.organization_id, &own).await? {
            return Ok(Vec::new());
        }
        organizations::sql::lock(db, domain.organization_id).await?;
        let invite = invites::sql::by_target(db, domain.organization_id, &own).await?;
        let invite = invite.filter(|invite| !invite.is_expired(db.now));
        let level = match &invite {
            // Administrators choose the domain's provider, so it lets nobody in above them: an owner raises them then.
            Some(invite) if identity.domain.is_some() => invite.level.min(Level::Admin),
            Some(invite) => invite.level,
            None if domain.jit_provisioning_enabled => Level::Member,
            // The instance's own providers let anybody in who has an account.
            None if identity.domain.is_none() && sql::belongs_somewhere(db, user.id).await? => return Ok(Vec::new()),
            None => {
                let detail = format!(
                    "{own} is not a member, and automatic provisioning is off. Invite them, or set \
                     jit_provisioning_enabled."
                );
                return Err(Error::refused("jit_not_enabled", detail));
            }
        };
        let mut entries = Vec::new();
        if let Some(invite) = &invite {
            invites::revoke(db, invite).await?;
            entries.push(Entry::happened(invite, "accepted"));
        }
        let person = Person::from(user);
        let joined = members::join(
            db,
            self,
            domain.organization_id,
            &person,
            level,
            JoinSource::SingleSignOn,
        )
        .await?;
        entries.push(joined);
        Ok(entries)
    }
}
