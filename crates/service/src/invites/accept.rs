//! Accepting: from the secret in a link to a membership.

use boxed::boxed;
use chrono::TimeDelta;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Invite, cases, sql};
use crate::access::{Actor, Request};
use crate::activity::Entry;
use crate::db::Session;
use crate::error::{Error, Result};
use crate::id::OrganizationId;
use crate::limits::{self, Action, Subject};
use crate::members::JoinSource;
use crate::sessions::{self, Opening, SignedIn};
use crate::text::{Email, given_name};
use crate::transaction::WriteTx;
use crate::users::{self, NewUser, Person, User};
use crate::{Service, domains, members, organizations, sso};

/// For how long one request has an invite to itself. Hashing takes less, unless the server is overrun.
const SIGN_UP: TimeDelta = TimeDelta::seconds(30);

/// An invite, as seen by the holder of its link.
#[derive(Debug, Clone)]
pub struct Invited {
    pub invite: Invite,
    pub organization_name: String,
}

/// A new account for a user who accepts an invite.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{ "first_name": "Ann", "last_name": "Lee", "password": "correct horse battery" }]))]
pub struct NewAccount {
    /// Required unless you are signed in.
    #[schemars(length(max = 128))]
    pub first_name: Option<String>,
    #[schemars(length(max = 128))]
    pub last_name: Option<String>,
    /// Required unless you are signed in.
    #[schemars(length(max = 256), extend("format" = "password"))]
    pub password: Option<String>,
}

/// Somebody has joined; whoever was a stranger is signed in now.
#[derive(Debug, Clone)]
pub struct Accepted {
    pub user: User,
    pub organization: OrganizationId,
    pub session: Option<String>,
}

impl Service {
    /// What a link says, before it is accepted.
    #[boxed]
    pub async fn invitation(&self, token: &str, by: Option<&SignedIn>) -> Result<Invited> {
        let mut db = self.core.store.read().await?;
        let invite = by_token(&mut db, token).await?;
        if let Some(person) = by {
            self.may_join(&mut db, &invite, person).await?;
        } else {
            self.refuse_expired(&invite)?;
            refuse_unproven_address(&mut db, &invite).await?;
            // Whoever invited has this link, too, and learns nothing by opening it. The mailbox's owner may know.
            if invite.is_from_mail {
                refuse_existing(&mut db, &invite).await?;
            }
        }
        let organization_name = organizations::sql::name(&mut db, invite.organization_id).await?;
        Ok(Invited {
            invite,
            organization_name,
        })
    }

    /// Joins with the account one is signed in to.
    #[boxed]
    pub async fn accept_invite(&self, token: &str, person: &SignedIn) -> Result<Accepted> {
        person.acts_for_themselves()?;
        let mut db = self.write().await?;
        let invite = lock(&mut db, token).await?;
        let user = self.may_join(&mut db, &invite, person).await?;
        self.use_up(&mut db, &invite).await?;
        let entries = self.join_by(&mut db, &invite, &user).await?;
        db.commit(&person.actor, &entries).await?;
        Ok(Accepted {
            user,
            organization: invite.organization_id,
            session: None,
        })
    }

    /// Joins with a new account, which the invite's address becomes the name of.
    #[boxed]
    pub async fn accept_invite_anew(&self, token: &str, new: &NewAccount, request: Request) -> Result<Accepted> {
        self.core.attempts.count(&request)?;
        let is_dry_run = request.is_dry_run;
        let (invite, new) = self.begin_sign_up(token, new).await?;
        let joined = self.sign_up(token, &new, request).await;
        if joined.is_err() || is_dry_run {
            self.give_up_sign_up(&invite).await?;
        }
        joined
    }

    /// Everything that keeps somebody without an account out, before the costly hashing. Of many who come at once, one goes
    /// on, for as long as it takes.
    async fn begin_sign_up(&self, token: &str, new: &NewAccount) -> Result<(Invite, NewUser)> {
        // Whoever guesses links writes nothing.
        by_token(&mut self.core.store.read().await?, token).await?;
        let mut db = self.write().await?;
        let invite = by_token(&mut db, token).await?;
        let email = Email::new(&invite.target_email).map_err(|_| unknown())?;
        sso::refuse_enforced(&mut db, &email).await?;
        self.refuse_expired(&invite)?;
        refuse_unproven_address(&mut db, &invite).await?;
        let new = NewUser {
            email,
            first_name: given_name("first_name", new.first_name.as_deref())?,
            last_name: match new.last_name.as_deref().unwrap_or_default().trim() {
                "" => String::new(),
                text => given_name("last_name", Some(text))?,
            },
            password: Some(
                new.password
                    .clone()
                    .ok_or_else(|| Error::invalid("password", "required", "Choose a password."))?,
            ),
            is_email_verified: invite.is_from_mail,
        };
        let until = db.now + SIGN_UP;
        if !sql::claim(&mut db, &invite, until).await? {
            return Err(Error::refused("expired", "this invite is being accepted right now"));
        }
        // A dry run, and a password that is refused, leave the invite as it is.
        let link = invite.id.to_string();
        limits::take_link_attempt(&mut db, self.core.instance.hourly_limits, &link).await?;
        db.commit_unrecorded().await?;
        Ok((invite, new))
    }

    /// Lets the next one try.
    async fn give_up_sign_up(&self, invite: &Invite) -> Result<()> {
        let mut db = self.write().await?;
        sql::release(&mut db, invite).await?;
        db.commit_unrecorded().await
    }

    async fn sign_up(&self, token: &str, new: &NewUser, request: Request) -> Result<Accepted> {
        // Hashed for whoever has an account already, too: the time shall not tell before the answer does.
        let hash = self.hash_of_new(new, request.origin.address).await?;
        let mut db = self.write().await?;
        let invite = lock(&mut db, token).await?;
        // What was true before the hashing must still be.
        self.refuse_expired(&invite)?;
        sso::refuse_enforced(&mut db, &new.email).await?;
        refuse_unproven_address(&mut db, &invite).await?;
        let limits = self.core.instance.hourly_limits;
        limits::take(&mut db, limits, Action::SignUp, 1, &charged(&invite)).await?;
        // Whoever invited has this link, too: a dry run, which leaves no trace, does not tell them who has an account.
        if request.is_dry_run && !invite.is_from_mail {
            return self.rehearse(db, &invite, new, request).await;
        }
        let mut db = self.expect_no_account(db, &invite, &request).await?;
        self.use_up(&mut db, &invite).await?;
        let user = users::cases::insert(&mut db, new, hash).await?;
        let mut entries = self.join_by(&mut db, &invite, &user).await?;
        let session = sessions::open(&mut db, &user, Opening::with_password(&request)).await?;
        entries.extend([Entry::created(&user), Entry::happened(&user, "logged_in")]);
        db.commit(&Actor::user(user.id, request), &entries).await?;
        Ok(Accepted {
            user,
            organization: invite.organization_id,
            session: Some(session),
        })
    }

    /// Refuses an address that has an account. The answer tells whoever holds the link, and the inviter may: then it leaves an
    /// entry in the log of the inviter's organization, and after some of them nothing is looked up for the rest of the hour.
    async fn expect_no_account(&self, mut db: WriteTx, invite: &Invite, request: &Request) -> Result<WriteTx> {
        if invite.is_from_mail {
            refuse_existing(&mut db, invite).await?;
            return Ok(db);
        }
        let limits = self.core.instance.hourly_limits;
        let subjects = charged(invite);
        for subject in &subjects {
            limits::expect_left(&mut db, limits, Action::KnownAddress, *subject).await?;
        }
        let refusal = match refuse_existing(&mut db, invite).await {
            Ok(()) => return Ok(db),
            Err(refusal @ Error::Invalid(_)) => refusal,
            Err(failure) => return Err(failure),
        };
        for subject in subjects {
            limits::take_of(&mut db, limits, Action::KnownAddress, subject).await?;
        }
        let entry = Entry::happened(invite, "sign_up_refused").noting("rule", "account_exists");
        let request = Request {
            claim: None,
            ..request.clone()
        };
        db.commit(&Actor::nobody(request), &[entry]).await?;
        Err(refusal)
    }

    /// What becomes of a new account, whether or not there is one. All of it is undone.
    async fn rehearse(&self, mut db: WriteTx, invite: &Invite, new: &NewUser, request: Request) -> Result<Accepted> {
        let stand_in = NewUser {
            email: users::cases::placeholder(db.uuid())?,
            ..new.clone()
        };
        let user = users::cases::insert(&mut db, &stand_in, None).await?;
        let session = sessions::open(&mut db, &user, Opening::with_password(&request)).await?;
        db.commit(&Actor::user(user.id, request), &[]).await?;
        Ok(Accepted {
            user: User {
                email: new.email.to_string(),
                ..user
            },
            organization: invite.organization_id,
            session: Some(session),
        })
    }

    fn refuse_expired(&self, invite: &Invite) -> Result<()> {
        if invite.is_expired(self.core.clock.now()) {
            let detail = "this invite has expired: ask the person who invited you to resend it";
            return Err(Error::refused("expired", detail));
        }
        Ok(())
    }

    async fn may_join(&self, db: &mut Session, invite: &Invite, person: &SignedIn) -> Result<User> {
        let found = users::sql::by_ids(db, &[person.user]).await?.pop();
        let user = found.ok_or(Error::BadCredential)?;
        let email = Email::new(&user.email).map_err(|_| unknown())?;
        let target = Email::new(&invite.target_email).map_err(|_| unknown())?;
        if email.key() != target.key() {
            let detail = "this invite is for a different email than that of your account: sign out, then open it again";
            return Err(Error::refused("invalid_recipient", detail));
        }
        self.refuse_expired(invite)?;
        if members::has_address(db, invite.organization_id, &email).await? {
            return Err(members::already_member());
        }
        Ok(user)
    }

    /// Of many who come at once, one finds the invite.
    async fn use_up(&self, db: &mut WriteTx, invite: &Invite) -> Result<()> {
        self.refuse_expired(invite)?;
        // First the organization, then the invite: in this order others lock them, too.
        organizations::sql::lock(db, invite.organization_id).await?;
        if !cases::revoke(db, invite).await? {
            return Err(Error::refused("expired", "this invite was just used"));
        }
        Ok(())
    }

    async fn join_by(&self, db: &mut WriteTx, invite: &Invite, user: &User) -> Result<Vec<Entry>> {
        let person = Person::from(user);
        let joined = members::join(
            db,
            self,
            invite.organization_id,
            &person,
            invite.level,
            JoinSource::Invite,
        )
        .await?;
        Ok(vec![Entry::happened(invite, "accepted"), joined])
    }
}

/// Whose invite it is.
fn charged(invite: &Invite) -> Vec<Subject<'static>> {
    let inviter = invite.created_by.as_ref().map(|user| Subject::User(user.id));
    let organization = Subject::Organization(invite.organization_id);
    inviter.into_iter().chain([organization]).collect()
}

/// Locks the organization first, as everybody does who changes its members or invites, and looks again.
async fn lock(db: &mut WriteTx, token: &str) -> Result<Invite> {
    let invite = by_token(db, token).await?;
    organizations::sql::lock(db, invite.organization_id).await?;
    by_token(db, token).await
}

async fn by_token(db: &mut Session, token: &str) -> Result<Invite> {
    sql::by_secret(db, &auth::key::hash(token)).await?.ok_or_else(unknown)
}

fn unknown() -> Error {
    let detail = "this invite is no longer valid: it may have been used, revoked or replaced by a newer one";
    Error::refused("invalid_input", detail)
}

/// Whoever invited somebody knows the link that is passed on, and could create the account in that person's place. Where
/// another organization has proven the domain, that organization's people would be kept out by it.
async fn refuse_unproven_address(db: &mut Session, invite: &Invite) -> Result<()> {
    if invite.is_from_mail {
        return Ok(());
    }
    let email = Email::new(&invite.target_email).map_err(|_| unknown())?;
    match domains::sql::holder(db, &email.domain()).await? {
        Some(domain) if domain.organization_id != invite.organization_id => {
            let detail = format!(
                "addresses on {} belong to an organization that has verified the domain: open the link in the invitation \
                 email instead, or sign in first with an account that has this email",
                email.domain()
            );
            Err(Error::refused("email_verification_required", detail))
        }
        _ => Ok(()),
    }
}

async fn refuse_existing(db: &mut Session, invite: &Invite) -> Result<()> {
    let email = Email::new(&invite.target_email).map_err(|_| unknown())?;
    if users::sql::by_email(db, &email).await?.is_some() {
        let detail = "you already have an account: sign in, or reset your password if you never chose one, then open the link again";
        return Err(Error::refused("account_exists", detail));
    }
    Ok(())
}
