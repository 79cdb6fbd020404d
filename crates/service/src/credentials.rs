//! From what a request carries to what it may do: credential, scope, membership, level, in this order.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Instant;

use boxed::boxed;

use crate::Service;
use crate::access::{Actor, Caller, Permission, Principal, Request};
use crate::cache::{CacheKey, Load, Weigh};
use crate::db::Version;
use crate::db::caller::{self, CredentialHash, CredentialId, Grant};
use crate::error::{Error, Result};
use crate::id::{KeyId, OrganizationId};
use crate::keys::{self, KeyRestrictions};
use crate::level::Level;
use crate::organizations::OrganizationRef;
use crate::scope::Scope;
use crate::users::Person;
use crate::{sessions, teams};

/// What a request carries.
#[derive(Debug, Clone, Copy)]
pub enum Credential<'a> {
    Key(&'a str),
    Session(&'a str),
}

impl Credential<'_> {
    fn hashed(self) -> CredentialHash {
        match self {
            Self::Key(key) => CredentialHash::Key(auth::key::hash(key)),
            Self::Session(token) => CredentialHash::Session(auth::key::hash(token)),
        }
    }
}

/// What a permission requires, as a value: the checks are compiled once, not for each permission.
#[derive(Debug, Clone, Copy)]
struct Requirement {
    scope: Scope,
    level: Level,
    is_within_teams: bool,
}

impl Requirement {
    const fn of<P: Permission>() -> Self {
        Self {
            scope: P::SCOPE,
            level: P::LEVEL,
            is_within_teams: P::WITHIN_TEAMS,
        }
    }

    const fn writes(self) -> bool {
        matches!(self.scope, Scope::Write(_))
    }
}

/// A member who meets a requirement.
struct CheckedMember {
    resolved: Arc<ResolvedCredential>,
    organization: OrganizationId,
    level: Level,
    seen: Version,
}

/// Whom the credential belongs to, and the level in the organization that was asked about.
#[derive(Debug)]
struct ResolvedCredential {
    person: Arc<Person>,
    is_operator: bool,
    id: CredentialId,
    restrictions: Arc<KeyRestrictions>,
    current: Option<OrganizationId>,
    level: Option<Level>,
    /// A session with a password alone.
    lacks_second_factor: bool,
    /// Whether the organization that was asked about is content with that.
    needs_second_factor: bool,
    /// When whoever has the session last showed that it is them. None: a key.
    authenticated_at: Option<crate::Time>,
    is_valid_until: Option<crate::Time>,
    /// When a key was changed last.
    changed_at: Option<crate::Time>,
    last_used_at: Option<crate::Time>,
    /// What a key was used for, as far as it is written.
    used_scopes: Vec<Scope>,
}

impl Service {
    /// A user who may do `P`, outside of any organization.
    pub async fn principal<P: Permission>(&self, credential: Credential<'_>, request: Request) -> Result<Principal<P>> {
        let (resolved, seen) = self.check(Requirement::of::<P>(), credential).await?;
        Ok(resolved.principal(request, seen))
    }

    /// A member of the organization who may do `P` there.
    pub async fn allowed<P: Permission>(
        &self,
        credential: Credential<'_>,
        organization: Option<OrganizationRef>,
        request: Request,
    ) -> Result<Caller<P>> {
        let checked = self
            .check_member(Requirement::of::<P>(), credential, organization)
            .await?;
        Ok(Caller {
            principal: checked.resolved.principal(request, checked.seen),
            organization: checked.organization,
            level: checked.level,
        })
    }

    #[boxed]
    async fn check(
        &self,
        requirement: Requirement,
        credential: Credential<'_>,
    ) -> Result<(Arc<ResolvedCredential>, Version)> {
        let checked_at = Instant::now();
        let seen = self.core.store.version(requirement.writes()).await;
        let resolved = self.resolved(credential, None, seen).await?;
        resolved.may(requirement)?;
        self.note_scope(requirement, &resolved);
        let grant = resolved.grant(requirement, credential, None, checked_at);
        caller::identify(resolved.person.id, resolved.id, None, grant);
        Ok((resolved, seen))
    }

    #[boxed]
    async fn check_member(
        &self,
        requirement: Requirement,
        credential: Credential<'_>,
        organization: Option<OrganizationRef>,
    ) -> Result<CheckedMember> {
        let checked_at = Instant::now();
        let seen = self.core.store.version(requirement.writes()).await;
        let asked = match organization {
            Some(OrganizationRef::Id(id)) => Some(id),
            _ => None,
        };
        let mut resolved = self.resolved(credential, asked, seen).await?;
        resolved.may(requirement)?;
        let target = match organization {
            Some(OrganizationRef::Current) => resolved.current_organization(),
            _ => asked,
        };
        let target = target.ok_or(Error::NotFound("organization"))?;
        if asked.is_none() {
            resolved = self.resolved(credential, Some(target), seen).await?;
        }
        let level = resolved
            .level
            .filter(|_| resolved.restrictions.reaches(target))
            .ok_or(Error::NotFound("organization"))?;
        if resolved.lacks_second_factor && resolved.needs_second_factor {
            return Err(Error::SecondFactorNeeded);
        }
        if level < requirement.level {
            let needed = requirement.level;
            return Err(Error::Forbidden(format!(
                "This requires the role {needed} or higher. Your role is {level}."
            )));
        }
        self.note_scope(requirement, &resolved);
        let grant = resolved.grant(requirement, credential, Some((target, level)), checked_at);
        caller::identify(resolved.person.id, resolved.id, Some(target), grant);
        Ok(CheckedMember {
            resolved,
            organization: target,
            level,
            seen,
        })
    }

    async fn resolved(
        &self,
        credential: Credential<'_>,
        organization: Option<OrganizationId>,
        seen: Version,
    ) -> Result<Arc<ResolvedCredential>> {
        let resolved = match credential {
            Credential::Key(key) if !auth::key::is_well_formed(key) => return Err(Error::BadCredential),
            Credential::Key(key) => {
                let hash = auth::key::hash(key);
                let load = || -> Load<'_, ResolvedCredential> { Box::pin(self.resolve_key(&hash, organization)) };
                self.get_or_load(seen, CacheKey::Key(hash, organization), load).await?
            }
            Credential::Session(token) => {
                let hash = auth::key::hash(token);
                Arc::new(Box::pin(self.resolve_session(&hash, organization)).await?)
            }
        };
        let now = self.core.clock.now();
        if resolved.is_valid_until.is_some_and(|end| end <= now) {
            return Err(Error::BadCredential);
        }
        if let Some(key) = resolved.key() {
            self.core.key_use.note(key, resolved.last_used_at, now);
        }
        Ok(resolved)
    }

    fn note_scope(&self, requirement: Requirement, resolved: &ResolvedCredential) {
        if let Some(key) = resolved.key() {
            self.core
                .key_use
                .note_scope(key, &resolved.used_scopes, requirement.scope);
        }
    }

    async fn resolve_key(&self, hash: &[u8; 32], organization: Option<OrganizationId>) -> Result<ResolvedCredential> {
        let mut db = self.core.store.read().await?;
        let found = keys::sql::owner(&mut db, hash, organization).await?;
        let row = found.ok_or(Error::BadCredential)?;
        let mut restrictions = KeyRestrictions {
            scopes: row.scopes.0,
            organizations: row.scoped_organizations.0,
            teams: row.scoped_teams.0,
        };
        if restrictions.organizations.is_empty() && !restrictions.teams.is_empty() {
            restrictions.organizations = teams::sql::organizations_of(&mut db, &restrictions.teams).await?;
        }
        Ok(ResolvedCredential {
            person: Arc::new(Person {
                id: row.user_id,
                uuid: row.uuid,
                email: row.email,
            }),
            is_operator: row.is_operator,
            id: CredentialId::Key(row.key_id),
            restrictions: Arc::new(restrictions),
            current: row.current_organization_id,
            level: row.level,
            // Keys were made by somebody who had it all; they keep working.
            lacks_second_factor: false,
            needs_second_factor: false,
            authenticated_at: None,
            is_valid_until: row.expires_at,
            changed_at: Some(row.updated_at),
            last_used_at: row.last_used_at,
            used_scopes: row.used_scopes.0,
        })
    }

    async fn resolve_session(
        &self,
        hash: &[u8; 32],
        organization: Option<OrganizationId>,
    ) -> Result<ResolvedCredential> {
        let found = sessions::sql::owner(&mut self.core.store.read().await?, hash, organization).await?;
        let row = found
            .filter(|row| row.is_valid(self.core.clock.now()))
            .ok_or(Error::BadCredential)?;
        self.touch(&row).await?;
        Ok(ResolvedCredential {
            person: Arc::new(Person {
                id: row.user_id,
                uuid: row.uuid,
                email: row.email,
            }),
            is_operator: row.is_operator,
            id: CredentialId::Session(row.session_id),
            restrictions: Arc::new(
                row.authenticated_by
                    .map_or_else(KeyRestrictions::everything, KeyRestrictions::within),
            ),
            current: row.current_organization_id,
            level: row.level,
            lacks_second_factor: !row.has_second_factor,
            needs_second_factor: row.enforce_2fa.unwrap_or(false),
            authenticated_at: Some(row.authenticated_at),
            is_valid_until: Some(row.expires_at),
            changed_at: None,
            last_used_at: Some(row.last_used_at),
            used_scopes: Vec::new(),
        })
    }
}

impl Weigh for ResolvedCredential {
    fn rows(&self) -> usize {
        1
    }
}

impl ResolvedCredential {
    fn key(&self) -> Option<KeyId> {
        match self.id {
            CredentialId::Key(key) => Some(key),
            CredentialId::Session(_) => None,
        }
    }

    fn may(&self, requirement: Requirement) -> Result<()> {
        if !self.restrictions.covers(requirement.scope) {
            return Err(Error::Forbidden(format!(
                "This API key is missing the required scope {}.",
                requirement.scope
            )));
        }
        if !requirement.is_within_teams && !self.restrictions.teams.is_empty() {
            return Err(Error::Forbidden(
                "This API key is restricted to specific teams, and this request is not about a team.".to_owned(),
            ));
        }
        Ok(())
    }

    /// The organization the key is limited to, if it is exactly one, else the user's current one.
    fn current_organization(&self) -> Option<OrganizationId> {
        match self.restrictions.organizations.as_slice() {
            [only] => Some(*only),
            _ => self.current,
        }
    }

    /// For those who may change something.
    fn grant(
        &self,
        requirement: Requirement,
        credential: Credential<'_>,
        organization: Option<(OrganizationId, Level)>,
        checked_at: Instant,
    ) -> Option<Grant> {
        let may_change = !matches!(requirement.scope, Scope::Read(_));
        may_change.then(|| Grant {
            credential: credential.hashed(),
            organization,
            changed_at: self.changed_at,
            checked_at,
        })
    }

    fn principal<P>(&self, request: Request, seen: Version) -> Principal<P> {
        Principal {
            actor: Actor {
                user: Some(self.person.id),
                key: self.key(),
                request,
            },
            user: self.person.id,
            person: self.person.clone(),
            is_operator: self.is_operator,
            restrictions: self.restrictions.clone(),
            lacks_second_factor: self.lacks_second_factor,
            authenticated_at: self.authenticated_at,
            seen,
            proof: PhantomData,
        }
    }
}
