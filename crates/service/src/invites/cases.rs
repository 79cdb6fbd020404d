use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use boxed::boxed;
use chrono::TimeDelta;

use super::{Fresh, Invite, NewInvite, TOKEN_PREFIX, may_invite, sql, target};
use crate::access::{Caller, ReadInvites, WriteInvites};
use crate::activity::Entry;
use crate::cache::{CacheKey, Load};
use crate::error::{Error, Invalid, Result};
use crate::id::{InviteId, OrganizationId, UserId};
use crate::level::Level;
use crate::limits::{self, Action, Subject};
use crate::mail::{self, EmailMessage, OutboxEntry};
use crate::page::{Page, Window};
use crate::text::Email;
use crate::transaction::WriteTx;
use crate::users::User;
use crate::{Precondition, Service, members, organizations, users};

impl Service {
    /// Newest first, the expired ones too.
    #[boxed]
    pub async fn invites(&self, caller: &Caller<ReadInvites>, window: Window) -> Result<Arc<Page<Invite>>> {
        let load = || -> Load<'_, Page<Invite>> {
            Box::pin(async { sql::page(&mut self.core.store.read().await?, caller.organization, window).await })
        };
        let key = CacheKey::Invites(caller.organization, window);
        self.get_or_load(caller.seen, key, load).await
    }

    #[boxed]
    pub async fn create_invite(&self, caller: &Caller<WriteInvites>, new: &NewInvite) -> Result<Fresh> {
        let made = self.create_invites(caller, std::slice::from_ref(new)).await;
        let mut made = made.map_err(Error::of_only_item)?;
        Ok(made.remove(0))
    }

    /// Makes all of these invites or none, in this order. One for an address that has one replaces it. Each mistake
    /// says which item it is in.
    #[boxed]
    pub async fn create_invites(&self, caller: &Caller<WriteInvites>, new: &[NewInvite]) -> Result<Vec<Fresh>> {
        let targets = targets(new)?;
        for invite in new {
            self.expect_may_invite(caller, invite.level.unwrap_or(Level::Member))?;
        }
        let mut db = self.write().await?;
        let organization = organizations::sql::lock(&mut db, caller.organization).await?;
        refuse_members(&mut db, caller.organization, &targets).await?;
        self.expect_invites_left(&mut db, caller).await?;
        let sender = user(&mut db, caller.user).await?;
        let mut pending = pending(&mut db, caller.organization, &targets).await?;
        let mut made = Vec::with_capacity(new.len());
        let (mut entries, mut emails, mut replaced) = (Vec::new(), Vec::new(), Vec::new());
        for (place, (new, email)) in new.iter().zip(&targets).enumerate() {
            if let Some(before) = pending.remove(email.as_str()) {
                if !before.may_be_replaced_by(caller, db.now) {
                    let level = before.level;
                    let detail = format!(
                        "{email} has a pending invite as {level}. Ask an administrator or the sender to replace it."
                    );
                    return Err(Error::Invalid(vec![problem(place, "invite_pending", detail)]));
                }
                entries.push(Entry::deleted(&before));
                replaced.push(email.as_str());
            }
            let fresh = self.fresh(&db, caller.organization, &sender, new, email);
            entries.push(Entry::created(&fresh.invite));
            if new.send_email.unwrap_or(true) {
                emails.push(self.email(&fresh, organization.name.as_str(), &sender));
            }
            made.push(fresh);
        }
        // However many there are, one statement for all: each is a round trip, and others wait for the writer.
        if !replaced.is_empty() {
            mail::sql::delete_of_targets(&mut db, caller.organization, &replaced).await?;
            sql::delete_targets(&mut db, caller.organization, &replaced).await?;
        }
        sql::insert(&mut db, &made, sender.id).await?;
        mail::enqueue(&mut db, &self.core.instance, emails).await?;
        // Last, for everybody who invites somebody waits for the count of the instance from here on.
        self.count_invites(&mut db, caller, &targets).await?;
        db.commit(&caller.actor, &entries).await?;
        Ok(made)
    }

    /// Gives an invite another secret and its whole time again. The old link stops working.
    #[boxed]
    pub async fn resend_invite(&self, caller: &Caller<WriteInvites>, id: InviteId) -> Result<Fresh> {
        let mut db = self.write().await?;
        let organization = organizations::sql::lock(&mut db, caller.organization).await?;
        let mut invite = find(&mut db, caller.organization, id).await?;
        self.expect_may_invite(caller, invite.level)?;
        let target = target(&invite.target_email).map_err(|_| Error::NotFound("invite"))?;
        self.count_invites(&mut db, caller, &[target]).await?;
        let sender = user(&mut db, caller.user).await?;
        invite.updated_at = db.now;
        invite.expires_at = db.now + TimeDelta::days(self.core.instance.invite_days);
        invite.emailing_attempt_made = false;
        invite.emailing_error = None;
        let fresh = Fresh::new(invite, &db);
        // Mail before invite, as the one who sends it does: two who wait for each other would both fail.
        mail::sql::delete_of_invite(&mut db, id).await?;
        sql::renew(&mut db, &fresh, sender.id).await?;
        let email = self.email(&fresh, organization.name.as_str(), &sender);
        mail::enqueue(&mut db, &self.core.instance, vec![email]).await?;
        db.commit(&caller.actor, &[Entry::happened(&fresh.invite, "resent")])
            .await?;
        Ok(fresh)
    }

    #[boxed]
    pub async fn delete_invite(
        &self,
        caller: &Caller<WriteInvites>,
        id: InviteId,
        precondition: Precondition<'_, Invite>,
    ) -> Result<()> {
        let mut db = self.write().await?;
        organizations::sql::lock(&mut db, caller.organization).await?;
        let invite = find(&mut db, caller.organization, id).await?;
        if !precondition(&invite) {
            return Err(Error::Stale("invite"));
        }
        invite.may_be_revoked_by(caller)?;
        revoke(&mut db, &invite).await?;
        db.commit(&caller.actor, &[Entry::deleted(&invite)]).await
    }

    fn expect_may_invite(&self, caller: &Caller<WriteInvites>, level: Level) -> Result<()> {
        may_invite(caller.level, level)?;
        if level == Level::Owner {
            caller.expect_recent_proof(self.core.clock.now())?;
        }
        Ok(())
    }

    /// Checks the hourly limits before any work is done.
    async fn expect_invites_left(&self, db: &mut WriteTx, caller: &Caller<WriteInvites>) -> Result<()> {
        for subject in [Subject::User(caller.user), Subject::Organization(caller.organization)] {
            limits::expect_left(db, self.core.instance.hourly_limits, Action::Invite, subject).await?;
        }
        Ok(())
    }

    /// Each may be an email with words of the inviter's choice to somebody who never asked for it.
    async fn count_invites(&self, db: &mut WriteTx, caller: &Caller<WriteInvites>, to: &[Email]) -> Result<()> {
        let (limits, organization) = (self.core.instance.hourly_limits, caller.organization);
        let recipients: Vec<Subject<'_>> = to.iter().map(|email| Subject::Recipient(organization, email)).collect();
        limits::take_of_each(db, limits, Action::Invite, &recipients).await?;
        let subjects = [Subject::User(caller.user), Subject::Organization(organization)];
        limits::take(db, limits, Action::Invite, to.len(), &subjects).await
    }

    /// Where the invited go. `base` is where the inviter sees us.
    pub fn invite_link(base: &str, token: &str) -> String {
        format!("{}/signup/{token}/", base.trim_end_matches('/'))
    }

    fn fresh(
        &self,
        db: &WriteTx,
        organization: OrganizationId,
        sender: &User,
        new: &NewInvite,
        email: &Email,
    ) -> Fresh {
        let invite = Invite {
            id: InviteId(db.uuid()),
            organization_id: organization,
            target_email: email.to_string(),
            first_name: new.first_name.as_deref().unwrap_or_default().trim().to_owned(),
            level: new.level.unwrap_or(Level::Member),
            message: new.message.as_deref().unwrap_or_default().trim().to_owned(),
            emailing_attempt_made: false,
            emailing_error: None,
            created_by: Some(sender.clone()),
            created_at: db.now,
            updated_at: db.now,
            expires_at: db.now + TimeDelta::days(self.core.instance.invite_days),
            is_from_mail: false,
        };
        Fresh::new(invite, db)
    }

    fn email(&self, Fresh { invite, mail_token, .. }: &Fresh, organization: &str, sender: &User) -> OutboxEntry {
        let email = EmailMessage::Invite {
            organization: organization.to_owned(),
            inviter: sender.called(),
            first_name: invite.first_name.clone(),
            message: invite.message.clone(),
            link: Self::invite_link(&self.core.instance.site_url, mail_token),
            expires_at: invite.expires_at,
        };
        OutboxEntry {
            organization: Some(invite.organization_id),
            reply_to: Some(sender.email.clone()),
            invite: Some(invite.id),
            ..OutboxEntry::new(&invite.target_email, email)
        }
    }
}

impl Fresh {
    fn new(invite: Invite, db: &WriteTx) -> Self {
        let secret = || auth::key::new_token(TOKEN_PREFIX, db.random.bytes());
        Self {
            invite,
            token: secret(),
            mail_token: secret(),
        }
    }
}

/// All addresses, or everything that is wrong with them.
fn targets(new: &[NewInvite]) -> Result<Vec<Email>> {
    let (mut found, mut problems) = (Vec::new(), Vec::new());
    let mut keys = HashSet::new();
    for (place, invite) in new.iter().enumerate() {
        match target(&invite.target_email) {
            // It is written as it is compared.
            Ok(email) if !keys.insert(email.to_string()) => {
                let detail = format!("{email} is already in this list.");
                problems.push(problem(place, "unique", detail));
            }
            Ok(email) => found.push(email),
            Err(invalid) => problems.push(problem(place, invalid.code, invalid.detail)),
        }
    }
    if problems.is_empty() {
        Ok(found)
    } else {
        Err(Error::Invalid(problems))
    }
}

fn problem(place: usize, code: &'static str, detail: String) -> Invalid {
    let problem = Invalid {
        field: Some("target_email".into()),
        code,
        detail,
    };
    problem.in_item(place)
}

async fn refuse_members(db: &mut WriteTx, organization: OrganizationId, targets: &[Email]) -> Result<()> {
    let keys: Vec<&str> = targets.iter().map(Email::as_str).collect();
    let known = members::addresses_among(db, organization, &keys).await?;
    let mut problems = Vec::new();
    for (place, email) in targets.iter().enumerate() {
        if known.contains(email.as_str()) {
            let detail = format!("{email} is already a member of this organization.");
            problems.push(problem(place, "user_already_member", detail));
        }
    }
    if problems.is_empty() {
        Ok(())
    } else {
        Err(Error::Invalid(problems))
    }
}

/// The pending invites of these addresses, by address.
async fn pending(db: &mut WriteTx, organization: OrganizationId, targets: &[Email]) -> Result<HashMap<String, Invite>> {
    let keys: Vec<&str> = targets.iter().map(Email::as_str).collect();
    let found = sql::by_targets(db, organization, &keys).await?;
    Ok(found
        .into_iter()
        .map(|invite| (invite.target_email.clone(), invite))
        .collect())
}

async fn find(db: &mut WriteTx, organization: OrganizationId, id: InviteId) -> Result<Invite> {
    sql::find(db, organization, id).await?.ok_or(Error::NotFound("invite"))
}

/// Deletes an invite, with its queued email.
pub(crate) async fn revoke(db: &mut WriteTx, invite: &Invite) -> Result<bool> {
    mail::sql::delete_of_invite(db, invite.id).await?;
    sql::delete(db, invite).await
}

/// Revokes what somebody sent that is above what they may give; all of it if they may give nothing.
pub(crate) async fn revoke_of(
    db: &mut WriteTx,
    organization: OrganizationId,
    sender: UserId,
    level: Option<Level>,
) -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for invite in sql::of_sender(db, organization, sender).await? {
        if Some(invite.level) > level {
            revoke(db, &invite).await?;
            entries.push(Entry::deleted(&invite));
        }
    }
    Ok(entries)
}

async fn user(db: &mut WriteTx, id: UserId) -> Result<User> {
    users::sql::by_ids(db, &[id])
        .await?
        .pop()
        .ok_or(Error::NotFound("user"))
}
