//! Who asks, and for what: the proof that every use case demands.

use std::fmt;
use std::marker::PhantomData;
use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;

use crate::clock::Time;
use crate::db::Version;
use crate::error::{Error, Result};
use crate::id::{KeyId, OrganizationId, TeamId, UserId};
use crate::idempotency::Claim;
use crate::level::Level;
use crate::restrictions::KeyRestrictions;
use crate::scope::{Object, Scope};
use crate::users::Person;

/// A right to do one kind of thing. Each use case names the one it needs in its signature,
/// and a [`Caller`] of it is only made by checking scope, membership and level.
pub trait Permission: Send + Sync + 'static {
    const SCOPE: Scope;
    /// The lowest level that will do.
    const LEVEL: Level = Level::Member;
    /// Whether a key that is limited to some teams may do this too.
    const WITHIN_TEAMS: bool = false;
}

macro_rules! permissions {
    ($($(#[$doc:meta])* $name:ident: $action:ident $object:ident, $level:ident $(, $teams:ident)?;)+) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy)]
        pub struct $name;

        impl Permission for $name {
            const SCOPE: Scope = Scope::$action(Object::$object);
            const LEVEL: Level = Level::$level;
            $(const WITHIN_TEAMS: bool = stringify!($teams).len() > 0;)?
        }
    )+};
}

permissions! {
    ReadOrganization: Read Organization, Member, within_teams;
    CreateOrganization: Write Organization, Member;
    ChangeOrganization: Write Organization, Admin;
    DeleteOrganization: Write Organization, Owner;
    ReadTeams: Read Organization, Member, within_teams;
    ChangeTeams: Write Organization, Admin;
    ReadMembers: Read OrganizationMember, Member;
    ChangeMembers: Write OrganizationMember, Admin;
    /// Members may always remove themselves; whom else is up to their level.
    RemoveMembers: Write OrganizationMember, Member;
    ReadActivity: Read Organization, Member;
    ReadInvites: Read OrganizationMember, Member;
    /// Any member may invite, up to their own level.
    WriteInvites: Write OrganizationMember, Member;
    ReadDomains: Read Organization, Member;
    ChangeDomains: Write Organization, Admin;
    /// Administrators see who tried to sign in, and why it did not work.
    ReadAttempts: Read Organization, Admin;
    MakeRecoveryCodes: Write Organization, Owner;
    ReadExports: Read BatchExport, Member, within_teams;
    ChangeExports: Write BatchExport, Member, within_teams;
    ReadApps: Read Plugin, Member, within_teams;
    ChangeApps: Write Plugin, Member;
}

/// What belongs to the request rather than to the person.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// Found again in the answer, the log and the activity entry.
    pub id: Arc<str>,
    /// Do everything, then undo it. Only what may take long and shows in no response, such as deleting what belongs to
    /// something, is left out: a dry run can be repeated without end.
    pub is_dry_run: bool,
    /// The idempotency claim that the write settles.
    pub claim: Option<Claim>,
    pub origin: Origin,
}

/// Where a request came from, as far as one can tell.
#[derive(Debug, Clone, Default)]
pub struct Origin {
    /// None: the command line.
    pub address: Option<IpAddr>,
    pub user_agent: Arc<str>,
}

impl Origin {
    pub fn address_text(&self) -> String {
        self.address.map(|address| address.to_string()).unwrap_or_default()
    }
}

/// How often people who are signed in may ask, given along with a request to whoever answers it. Counts one request; `Err` is the
/// time to wait.
#[derive(Clone)]
pub struct SessionLimit(Arc<dyn Fn(UserId) -> Result<(), Duration> + Send + Sync>);

impl fmt::Debug for SessionLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionLimit").finish_non_exhaustive()
    }
}

impl SessionLimit {
    pub fn new(count: impl Fn(UserId) -> Result<(), Duration> + Send + Sync + 'static) -> Self {
        Self(Arc::new(count))
    }

    pub fn count(&self, user: UserId) -> Result<()> {
        (self.0)(user).map_err(Error::Throttled)
    }
}

/// A person who has shown a valid credential, or nobody: the system itself.
#[derive(Debug, Clone)]
pub struct Actor {
    pub user: Option<UserId>,
    pub key: Option<KeyId>,
    pub request: Request,
}

impl Actor {
    /// Somebody who has proven to be this user in the course of the request.
    pub fn user(user: UserId, request: Request) -> Self {
        Self {
            user: Some(user),
            key: None,
            request,
        }
    }

    /// A stranger, or an action of the server itself, in the course of a request.
    pub fn nobody(request: Request) -> Self {
        Self {
            user: None,
            key: None,
            request,
        }
    }

    /// Whoever can run commands on the machine.
    pub fn system() -> Self {
        Self {
            user: None,
            key: None,
            request: Request {
                id: "cli".into(),
                ..Request::default()
            },
        }
    }
}

/// A user whose credential allows `P`, outside of any organization.
#[derive(Debug, Clone)]
pub struct Principal<P> {
    pub actor: Actor,
    pub user: UserId,
    pub person: Arc<Person>,
    /// Of the instance, when the credential was looked up.
    pub(crate) is_operator: bool,
    pub restrictions: Arc<KeyRestrictions>,
    /// A session with a password alone: it reaches nothing of organizations that ask for more.
    pub(crate) lacks_second_factor: bool,
    /// When whoever has the session last showed that it is them. None: a key.
    pub(crate) authenticated_at: Option<Time>,
    pub(crate) seen: Version,
    pub(crate) proof: PhantomData<P>,
}

/// A member of `organization` whose credential and level allow `P` there.
#[derive(Debug, Clone)]
pub struct Caller<P> {
    pub(crate) principal: Principal<P>,
    pub organization: OrganizationId,
    pub level: Level,
}

impl<P> Caller<P> {
    pub fn actor_mut(&mut self) -> &mut Actor {
        &mut self.principal.actor
    }
}

impl<P> Deref for Caller<P> {
    type Target = Principal<P>;

    fn deref(&self) -> &Principal<P> {
        &self.principal
    }
}

impl<P> Principal<P> {
    pub fn may_see_team(&self, team: TeamId) -> bool {
        self.restrictions.teams.is_empty() || self.restrictions.teams.contains(&team)
    }

    /// What would outlast an open browser that somebody found, such as another owner, needs a proof that is not old. A key is
    /// its own proof.
    pub(crate) fn expect_recent_proof(&self, now: Time) -> Result<()> {
        expect_recent(self.authenticated_at, now)
    }
}

/// For how long it counts that somebody signed in, or confirmed that it is them.
const RECENT: TimeDelta = TimeDelta::minutes(15);

pub(crate) fn expect_recent(authenticated_at: Option<Time>, now: Time) -> Result<()> {
    match authenticated_at {
        // A clock that was put back proves nothing.
        Some(at) if now - at > RECENT || at - now > RECENT => Err(Error::ReauthenticationNeeded),
        _ => Ok(()),
    }
}
