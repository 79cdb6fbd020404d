use chrono::TimeDelta;
use tokio::sync::Semaphore;

use super::{ABSOLUTE, IDLE, SignedIn, sql};
use crate::Service;
use crate::access::{Request, Who};
use crate::activity::Entry;
use crate::clock::Time;
use crate::error::{Error, Result};
use crate::text::Email;
use crate::users::{self, User};

/// How far behind a session's last use may be.
const PRECISION: TimeDelta = TimeDelta::minutes(10);

/// Each takes 19 MiB and a processor for a while; more at once would only be slower.
static HASHES_AT_ONCE: Semaphore = Semaphore::const_new(2);

/// A hash that fits no password: an unknown address takes as long to refuse as a known one.
const NOBODY: &str =
    "$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHRzb21lc2FsdA$TqlHhvuvNb6x1zw3xLlAAnZ3lJ9cJ2XvDGzHT6wPFDU";

impl SignedIn {
    /// For the command line: whoever has the machine may act for any user.
    pub fn on_behalf_of(user: &User) -> Self {
        Self {
            who: Who::system(),
            user: user.id,
            user_uuid: user.uuid,
        }
    }
}

impl Service {
    /// Checks a password and opens a session. The token is shown once, to the browser.
    pub async fn sign_in(&self, email: &str, password: &str, request: Request) -> Result<(User, String)> {
        let email = &Email::new(email).map_err(|_| wrong_credentials())?;
        let mut db = self.core.store.read().await?;
        let stored = users::sql::password_hash(&mut db, email).await?;
        let user = users::sql::by_email(&mut db, email).await?;
        drop(db);
        let hash = stored.and_then(|(_, hash)| hash);
        let (password, is_known) = (password.to_owned(), hash.is_some());
        let hash = hash.unwrap_or_else(|| NOBODY.to_owned());
        let permit = HASHES_AT_ONCE.acquire().await;
        let fits = tokio::task::spawn_blocking(move || auth::password::verify(&password, &hash)).await;
        drop(permit);
        match user {
            Some(user) if is_known && matches!(fits, Ok(true)) => self.open_session(user, request).await,
            _ => Err(wrong_credentials()),
        }
    }

    async fn open_session(&self, user: User, request: Request) -> Result<(User, String)> {
        let token = auth::key::new_token("hgs_", self.core.chance.bytes());
        let mut db = self.write().await?;
        let expires_at = db.now + ABSOLUTE;
        sql::insert(&mut db, user.id, &auth::key::hash(&token), expires_at).await?;
        sql::delete_over(&mut db).await?;
        let who = Who {
            user: Some(user.id),
            key: None,
            request,
        };
        db.commit(&who, &[Entry::happened(&user, "logged_in")]).await?;
        Ok((user, token))
    }

    /// The person a session token belongs to.
    pub async fn signed_in(&self, token: &str, request: Request) -> Result<SignedIn> {
        let found = sql::holder(&mut self.core.store.read().await?, &auth::key::hash(token), None).await?;
        let holder = found
            .filter(|holder| holder.is_valid(self.core.clock.now()))
            .ok_or(Error::BadCredential)?;
        self.touch(&holder).await?;
        let who = Who {
            user: Some(holder.user_id),
            key: None,
            request,
        };
        Ok(SignedIn {
            who,
            user: holder.user_id,
            user_uuid: holder.uuid,
        })
    }

    /// Keeps a session that is used from idling out.
    pub(crate) async fn touch(&self, holder: &sql::Holder) -> Result<()> {
        if self.core.clock.now() - holder.last_used_at < PRECISION {
            return Ok(());
        }
        let mut db = self.write().await?;
        sql::touch(&mut db, holder.session_id).await?;
        db.commit_unrecorded().await
    }

    /// Ends a session. One that has ended already is no mistake.
    pub async fn sign_out(&self, token: &str, request: Request) -> Result<()> {
        let hash = auth::key::hash(token);
        let mut db = self.write().await?;
        let Some(holder) = sql::holder(&mut db, &hash, None).await? else {
            return Ok(());
        };
        sql::delete(&mut db, &hash).await?;
        let user = users::sql::by_ids(&mut db, &[holder.user_id]).await?;
        let entries: Vec<Entry> = user.iter().map(|user| Entry::happened(user, "logged_out")).collect();
        let who = Who {
            user: Some(holder.user_id),
            key: None,
            request,
        };
        db.commit(&who, &entries).await
    }
}

/// The same for an unknown address and for a wrong password.
fn wrong_credentials() -> Error {
    Error::refused(
        "invalid_credentials",
        "this e-mail address and password do not belong together",
    )
}

impl sql::Holder {
    pub(crate) fn is_valid(&self, now: Time) -> bool {
        now < self.expires_at && now - self.last_used_at < IDLE
    }
}
