//! Another password, by a link in a mail or with the present one.

use boxed::boxed;
use chrono::TimeDelta;
use schemars::JsonSchema;
use serde::Deserialize;
use uuid::Uuid;

use super::password::wrong_credentials;
use super::{sql, unlock};
use crate::access::{Actor, Request};
use crate::activity::Entry;
use crate::error::{Error, Result};
use crate::limits::{self, Action, Subject};
use crate::mail::{self, EmailMessage, OutboxEntry};
use crate::sessions::{self, SignedIn};
use crate::text::Email;
use crate::transaction::WriteTx;
use crate::users::{self, User};
use crate::{Service, sso};

/// How a reset link's secret begins: another way than a team's token, which is public.
const TOKEN_PREFIX: &str = "hgw_";

const GOOD_FOR: TimeDelta = TimeDelta::hours(1);
/// Whoever asks again sooner has a link on its way already.
const PAUSE: TimeDelta = TimeDelta::minutes(2);

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{ "current_password": "correct horse", "password": "correct horse battery" }]))]
pub struct NewPassword {
    /// The current password. Not required if you have none.
    #[schemars(length(max = 256), extend("format" = "password"))]
    pub current_password: Option<String>,
    #[schemars(length(max = 256), extend("format" = "password"))]
    pub password: String,
}

impl Service {
    /// Sends a link to whoever has an account. The answer is the same for everybody, and so is the work until it is given: the
    /// request is written down, and whose account it is about is looked up later, by whoever sends email.
    #[boxed]
    pub async fn ask_for_reset(&self, email: &str, request: Request) -> Result<()> {
        self.core.attempts.count(&request)?;
        let email = Email::new(email).map_err(|invalid| Error::invalid("email", invalid.code, invalid.detail))?;
        if !self.core.instance.sends_mail {
            let detail =
                "this server does not send email: ask its operator to set a new password with `hedgerow users`";
            return Err(Error::refused("mail_not_configured", detail));
        }
        let mut db = self.write().await?;
        sso::refuse_enforced(&mut db, &email).await?;
        let networks: Vec<Subject> = request.origin.address.map(Subject::Network).into_iter().collect();
        let limits = self.core.instance.hourly_limits;
        limits::take(&mut db, limits, Action::PasswordReset, 1, &networks).await?;
        limits::take_of(&mut db, limits, Action::PasswordReset, Subject::Address(&email)).await?;
        let id = db.uuid();
        let encrypted = db.encrypt(&self.core.instance.encryptor, &place(id), email.as_str().as_bytes());
        sql::insert_reset_request(&mut db, id, &encrypted, &request.id).await?;
        db.commit(&Actor::nobody(request), &[]).await
    }

    /// Writes the emails that were asked for, each with a link. Tells whether anybody asked.
    pub(crate) async fn answer_reset_requests(&self) -> Result<bool> {
        if !sql::has_reset_requests(&mut self.core.store.read().await?).await? {
            return Ok(false);
        }
        let mut db = self.write().await?;
        let Some(asked) = sql::take_reset_request(&mut db).await? else {
            return Ok(false);
        };
        // One that was encrypted with a key that is gone is forgotten: whoever asked will ask again.
        let opened = self.core.instance.encryptor.decrypt(&place(asked.id), &asked.email);
        let email = opened.ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let entry = self
            .enqueue_reset(&mut db, email.as_deref().unwrap_or_default())
            .await?;
        let entries: Vec<Entry> = entry.into_iter().collect();
        let request = Request {
            id: asked.request_id.into(),
            ..Request::default()
        };
        db.commit(&Actor::nobody(request), &entries).await?;
        Ok(true)
    }

    /// Enqueues a link, if there is an account that it can be for.
    async fn enqueue_reset(&self, db: &mut WriteTx, email: &str) -> Result<Option<Entry>> {
        let Ok(email) = Email::new(email) else { return Ok(None) };
        let Some(user) = users::sql::by_email(db, &email).await? else {
            return Ok(None);
        };
        let expires_at = db.now + GOOD_FOR;
        let is_on_its_way = sql::has_reset_since(db, user.id, expires_at - PAUSE).await?;
        if is_on_its_way || sso::refuse_enforced(db, &email).await.is_err() {
            return Ok(None);
        }
        let token = auth::key::new_token(TOKEN_PREFIX, db.random.bytes());
        sql::delete_resets(db, user.id).await?;
        sql::insert_reset(db, &auth::key::hash(&token), user.id, expires_at).await?;
        let link = format!("{}/reset/{token}/", self.core.instance.site_url);
        let email = EmailMessage::PasswordReset { link, expires_at };
        mail::enqueue(db, &self.core.instance, vec![OutboxEntry::new(&user.email, email)]).await?;
        Ok(Some(Entry::happened(&user, "password_reset_asked")))
    }

    /// Whether a reset link still works.
    #[boxed]
    pub async fn reset_is_open(&self, token: &str) -> Result<()> {
        self.owner_of_reset(token).await.map(drop)
    }

    async fn owner_of_reset(&self, token: &str) -> Result<User> {
        let mut db = self.core.store.read().await?;
        let now = self.core.clock.now();
        sql::reset_of(&mut db, &auth::key::hash(token), now)
            .await?
            .ok_or_else(expired)
    }

    /// Sets another password by the link in the mail. Ends all sessions, and proves the address.
    #[boxed]
    pub async fn reset_password(&self, token: &str, password: &str, request: Request) -> Result<User> {
        self.core.attempts.count(&request)?;
        let owner = self.owner_of_reset(token).await?;
        let mut db = self.write().await?;
        // A dry run leaves the link as it is.
        limits::take_link_attempt(&mut db, self.core.instance.hourly_limits, token).await?;
        db.commit_unrecorded().await?;
        let from = request.origin.address;
        let hash = self.hash_password(password, &owner.about(), from, None).await?;
        let mut db = self.write().await?;
        users::sql::lock(&mut db, owner.id).await?;
        let user = sql::take_reset(&mut db, &auth::key::hash(token))
            .await?
            .ok_or_else(expired)?;
        let user = users::sql::by_ids(&mut db, &[user]).await?.pop().ok_or_else(expired)?;
        let email = Email::new(&user.email).map_err(|_| wrong_credentials())?;
        sso::refuse_enforced(&mut db, &email).await?;
        let mut entries = users::cases::prove_address(&mut db, &user).await?;
        sql::delete_pending(&mut db, user.id).await?;
        unlock(&mut db, &email, request.origin.address).await?;
        users::sql::set_password(&mut db, user.id, &hash).await?;
        sessions::sql::delete_of_user(&mut db, user.id).await?;
        entries.push(Entry::happened(&user, "password_changed"));
        mail::notify_person(&mut db, &self.core.instance, &user, changed(&request)).await?;
        db.commit(&Actor::user(user.id, request), &entries).await?;
        Ok(user)
    }

    /// Sets another password for oneself. Ends all other sessions.
    #[boxed]
    pub async fn change_password(&self, person: &SignedIn, new: &NewPassword) -> Result<()> {
        person.acts_for_themselves()?;
        self.core.attempts.count(&person.actor.request)?;
        let before = users::sql::password_hash_of(&mut self.core.store.read().await?, person.user).await?;
        if before.is_some() {
            let current = new.current_password.as_deref();
            let current =
                current.ok_or_else(|| Error::invalid("current_password", "required", "enter your current password"))?;
            self.expect_password(person, "current_password", current).await?;
        } else {
            // A password opens more than the organization that vouches: its identity provider cannot have one set.
            person.acts_without_provider()?;
            person.expect_recent_proof(self.core.clock.now())?;
        }
        let user = self.user(person.user).await?;
        let email = Email::new(&user.email).map_err(|_| wrong_credentials())?;
        let from = person.actor.request.origin.address;
        let hash = self
            .hash_password(&new.password, &user.about(), from, Some(&email))
            .await?;
        let mut db = self.write().await?;
        expect_unchanged(&mut db, person, before.as_deref()).await?;
        let user = users::sql::by_ids(&mut db, &[person.user])
            .await?
            .pop()
            .ok_or(Error::BadCredential)?;
        users::sql::set_password(&mut db, user.id, &hash).await?;
        sql::delete_pending(&mut db, user.id).await?;
        sessions::sql::delete_others(&mut db, user.id, person.session).await?;
        let notice = changed(&person.actor.request);
        mail::notify_person(&mut db, &self.core.instance, &user, notice).await?;
        db.commit(&person.actor, &[Entry::happened(&user, "password_changed")])
            .await
    }
}

/// Hashing takes its time: whoever proved in the meantime that the account is theirs has ended the session and the password that
/// allowed this.
async fn expect_unchanged(db: &mut WriteTx, person: &SignedIn, before: Option<&str>) -> Result<()> {
    users::sql::lock(db, person.user).await?;
    let is_same = users::sql::password_hash_of(db, person.user).await?.as_deref() == before;
    let is_signed_in = match person.session {
        Some(session) => sessions::sql::is_there(db, session).await?,
        None => true,
    };
    (is_same && is_signed_in).then_some(()).ok_or(Error::BadCredential)
}

fn place(id: Uuid) -> String {
    format!("password_reset_request/{id}/email")
}

fn changed(request: &Request) -> EmailMessage {
    let address = request.origin.address_text();
    EmailMessage::PasswordChanged { address }
}

fn expired() -> Error {
    Error::refused(
        "expired",
        "this link has expired or was already used: request a new one",
    )
}
