use std::time::Instant;

use boxed::boxed;
use chrono::TimeDelta;

use super::{ABSOLUTE, IDLE, Listed, MAX, SignedIn, sql};
use crate::Service;
use crate::access::{Actor, Origin, Request};
use crate::activity::Entry;
use crate::clock::Time;
use crate::db::caller::{self, CredentialHash, CredentialId, Grant};
use crate::error::{Error, Result};
use crate::id::{OrganizationId, SessionId};
use crate::transaction::WriteTx;
use crate::users::{self, User};

/// How far behind a session's last use may be.
const PRECISION: TimeDelta = TimeDelta::minutes(10);
/// As much of a browser's name as is worth keeping.
const USER_AGENT: usize = 300;

/// How somebody got in.
#[derive(Debug, Clone)]
pub(crate) struct Opening {
    pub(crate) method: &'static str,
    pub(crate) has_second_factor: bool,
    pub(crate) authenticated_by: Option<OrganizationId>,
    /// When it is over at the latest, if whoever vouched says so.
    pub(crate) until: Option<Time>,
    pub(crate) origin: Origin,
}

impl Opening {
    pub(crate) fn with_password(request: &Request) -> Self {
        Self {
            method: "password",
            has_second_factor: false,
            authenticated_by: None,
            until: None,
            origin: request.origin.clone(),
        }
    }
}

impl SignedIn {
    /// For the command line: whoever has the machine may act for any user.
    pub fn on_behalf_of(user: &User) -> Self {
        Self {
            actor: Actor::system(),
            user: user.id,
            user_uuid: user.uuid,
            session: None,
            has_second_factor: true,
            authenticated_by: None,
            provider_of: None,
            belongs_elsewhere: false,
            needs_second_factor: false,
            authenticated_at: None,
        }
    }
}

/// Opens a session inside a larger use case. The token is shown once, to the browser.
pub(crate) async fn open(db: &mut WriteTx, user: &User, opening: Opening) -> Result<String> {
    let token = new_token(db);
    let row = sql::Row {
        id: SessionId(db.uuid()),
        user: user.id,
        hash: auth::key::hash(&token),
        expires_at: opening
            .until
            .map_or(db.now + ABSOLUTE, |until| until.min(db.now + ABSOLUTE)),
        method: opening.method,
        has_second_factor: opening.has_second_factor,
        authenticated_by: opening.authenticated_by,
        address: opening.origin.address_text(),
        user_agent: opening.origin.user_agent.chars().take(USER_AGENT).collect(),
    };
    sql::insert(db, &row).await?;
    sql::delete_over(db).await?;
    sql::delete_oldest(db, user.id, row.id, MAX).await?;
    Ok(token)
}

/// Gives a session another secret: whoever knew the old one is left behind when it comes to mean more.
pub(crate) async fn renew(db: &mut WriteTx, session: SessionId, has_second_factor: bool) -> Result<String> {
    let token = new_token(db);
    sql::renew(db, session, &auth::key::hash(&token), has_second_factor).await?;
    Ok(token)
}

/// The same for somebody who has confirmed that it is them.
pub(crate) async fn confirm(db: &mut WriteTx, session: SessionId) -> Result<String> {
    let token = new_token(db);
    sql::confirm(db, session, &auth::key::hash(&token)).await?;
    Ok(token)
}

fn new_token(db: &WriteTx) -> String {
    auth::key::new_token("hgs_", db.random.bytes())
}

impl Service {
    /// The person a session token belongs to.
    #[boxed]
    pub async fn signed_in(&self, token: &str, request: Request) -> Result<SignedIn> {
        let checked_at = Instant::now();
        let mut db = self.core.store.read().await?;
        let hash = auth::key::hash(token);
        let found = sql::owner(&mut db, &hash, None).await?;
        let owner = found
            .filter(|owner| owner.is_valid(self.core.clock.now()))
            .ok_or(Error::BadCredential)?;
        let ties = sql::ties(&mut db, owner.user_id, owner.authenticated_by).await?;
        drop(db);
        let grant = Grant {
            credential: CredentialHash::Session(hash),
            organization: None,
            changed_at: None,
            checked_at,
        };
        caller::identify(
            owner.user_id,
            CredentialId::Session(owner.session_id),
            None,
            Some(grant),
        );
        self.touch(&owner).await?;
        Ok(SignedIn {
            actor: Actor::user(owner.user_id, request),
            user: owner.user_id,
            user_uuid: owner.uuid,
            session: Some(owner.session_id),
            has_second_factor: owner.has_second_factor,
            authenticated_by: owner.authenticated_by,
            provider_of: owner.provider_of,
            belongs_elsewhere: ties.belongs_elsewhere,
            needs_second_factor: ties.needs_second_factor,
            authenticated_at: Some(owner.authenticated_at),
        })
    }

    /// Keeps a session that is used from idling out.
    pub(crate) async fn touch(&self, owner: &sql::SessionOwner) -> Result<()> {
        if self.core.clock.now() - owner.last_used_at < PRECISION {
            return Ok(());
        }
        let mut db = self.write_unchecked().await?;
        sql::touch(&mut db, owner.session_id).await?;
        db.commit_unrecorded().await
    }

    /// Where somebody is signed in, newest first.
    #[boxed]
    pub async fn sessions(&self, person: &SignedIn) -> Result<Vec<Listed>> {
        person.acts_for_themselves()?;
        let now = self.core.clock.now();
        sql::of_user(&mut self.core.store.read().await?, person.user, now - IDLE, now).await
    }

    /// Ends one of one's own sessions.
    #[boxed]
    pub async fn end_session(&self, person: &SignedIn, id: SessionId) -> Result<()> {
        person.acts_for_themselves()?;
        let mut db = self.write().await?;
        if !sql::delete_one(&mut db, person.user, id).await? {
            return Err(Error::NotFound("session"));
        }
        let entries = ended(&mut db, person).await?;
        db.commit(&person.actor, &entries).await
    }

    /// Ends all of one's sessions but the present one.
    #[boxed]
    pub async fn end_other_sessions(&self, person: &SignedIn) -> Result<()> {
        person.acts_for_themselves()?;
        let mut db = self.write().await?;
        sql::delete_others(&mut db, person.user, person.session).await?;
        let entries = ended(&mut db, person).await?;
        db.commit(&person.actor, &entries).await
    }

    /// Ends a session. One that has ended already is no mistake.
    #[boxed]
    pub async fn sign_out(&self, token: &str, request: Request) -> Result<()> {
        let hash = auth::key::hash(token);
        let mut db = self.write().await?;
        let Some(owner) = sql::owner(&mut db, &hash, None).await? else {
            return Ok(());
        };
        sql::delete(&mut db, &hash).await?;
        let user = users::sql::by_ids(&mut db, &[owner.user_id]).await?;
        let entries: Vec<Entry> = user.iter().map(|user| Entry::happened(user, "logged_out")).collect();
        db.commit(&Actor::user(owner.user_id, request), &entries).await
    }
}

async fn ended(db: &mut WriteTx, person: &SignedIn) -> Result<Vec<Entry>> {
    let user = users::sql::by_ids(db, &[person.user]).await?;
    Ok(user.iter().map(|user| Entry::happened(user, "session_ended")).collect())
}

impl sql::SessionOwner {
    pub(crate) fn is_valid(&self, now: Time) -> bool {
        now < self.expires_at && now - self.last_used_at < IDLE
    }
}
