use boxed::boxed;
use serde::{Deserialize, Serialize};

use super::{EmailMessage, GIVE_UP_AFTER, InFlight, LEASE, OutboxEntry, Outgoing, RETRY, Undelivered, sql};
use crate::error::Result;
use crate::id::{MailId, OrganizationId};
use crate::limits::{self, Subject};
use crate::transaction::WriteTx;
use crate::users::{RELEASED_DOMAIN, User};
use crate::{Instance, Service, invites};

/// What is encrypted: links in mail let people in.
#[derive(Serialize, Deserialize)]
struct Content {
    reply_to: Option<String>,
    email: EmailMessage,
}

impl Service {
    /// Takes the mail whose turn it is. If it is neither sent nor given back, it is due again later.
    #[boxed]
    pub async fn next_mail(&self) -> Result<Option<Outgoing>> {
        self.next_mail_beside(&InFlight::default()).await
    }

    /// The same for somebody who sends several at a time.
    #[boxed]
    pub async fn next_mail_beside(&self, in_flight: &InFlight) -> Result<Option<Outgoing>> {
        while self.answer_reset_requests().await? {}
        self.requeue_mail().await?;
        while let Some(id) = self.head_of_queue(in_flight).await? {
            if let Some(mail) = self.take_mail(id).await? {
                return Ok(Some(mail));
            }
        }
        Ok(None)
    }

    /// Reading costs less than writing, so whoever finds nothing has not kept others from writing.
    async fn head_of_queue(&self, in_flight: &InFlight) -> Result<Option<MailId>> {
        let mut db = self.core.store.read().await?;
        let busy = in_flight.busy_sources();
        for class in in_flight.classes() {
            if in_flight.has_room_for(class)
                && let Some(id) = sql::head(&mut db, class, busy).await?
            {
                return Ok(Some(id));
            }
        }
        Ok(None)
    }

    /// `None`: another worker has it, nobody wants it any more, or it cannot be read. It is out of the queue in any case.
    async fn take_mail(&self, id: MailId) -> Result<Option<Outgoing>> {
        let mut db = self.write().await?;
        let lease = db.now + LEASE;
        let Some(row) = sql::take(&mut db, id, lease).await? else {
            return Ok(None);
        };
        let is_wanted = match row.invite_id {
            Some(invite) => invites::sql::note_attempt(&mut db, invite).await?,
            None => true,
        };
        if !is_wanted {
            // The invite went with its organization, or its time is over.
            sql::delete(&mut db, row.id).await?;
            db.commit_unrecorded().await?;
            return Ok(None);
        }
        db.commit_unrecorded().await?;
        let plain = self.core.instance.encryptor.decrypt(&place(row.id), &row.content)?;
        let Ok(Content { reply_to, email }) = serde_json::from_slice(&plain) else {
            // Written by a later version; it will have to send it.
            tracing::warn!(mail = %row.id, "an email in the outbox cannot be read");
            return Ok(None);
        };
        Ok(Some(Outgoing {
            id: row.id,
            to: row.recipient,
            reply_to,
            email,
            source: row.source,
            attempts: row.attempts,
            created_at: row.created_at,
        }))
    }

    /// Puts mail whose time has come again behind what its source has in the queue, some at a time.
    async fn requeue_mail(&self) -> Result<()> {
        let now = self.core.clock.now();
        if !sql::is_put_off_until(&mut self.core.store.read().await?, now).await? {
            return Ok(());
        }
        let mut db = self.write().await?;
        for waiting in sql::lock_put_off(&mut db).await? {
            sql::requeue(&mut db, &waiting).await?;
        }
        db.commit_unrecorded().await
    }

    #[boxed]
    pub async fn mail_is_sent(&self, mail: &Outgoing) -> Result<()> {
        let mut db = self.write().await?;
        sql::delete(&mut db, mail.id).await?;
        db.commit_unrecorded().await
    }

    /// Tries again later, unless there is no point in it.
    #[boxed]
    pub async fn mail_is_undelivered(&self, mail: &Outgoing, problem: &Undelivered) -> Result<()> {
        let mut db = self.write().await?;
        let is_over = problem.is_permanent || db.now - mail.created_at > GIVE_UP_AFTER;
        let next = (!is_over).then(|| db.now + RETRY.after(mail.attempts));
        sql::put_off(&mut db, mail.id, next, &problem.reason).await?;
        db.commit_unrecorded().await
    }

    #[boxed]
    pub async fn forget_old_mail(&self) -> Result<u64> {
        let mut db = self.write().await?;
        let before = db.now - GIVE_UP_AFTER * 10;
        let forgotten = sql::delete_given_up(&mut db, before).await?;
        db.commit_unrecorded().await?;
        Ok(forgotten)
    }
}

/// Tells people of an organization what happened there, in the transaction of it.
///
/// Notices are limited by hour: past the limit those last in the list are told nothing. The activity log has it all.
pub(crate) async fn notify(
    db: &mut WriteTx,
    instance: &Instance,
    organization: OrganizationId,
    email: &EmailMessage,
    mut to: Vec<String>,
) -> Result<()> {
    if !instance.sends_mail || to.is_empty() {
        return Ok(());
    }
    let left = left_of(db, instance, email, to.len(), Subject::Organization(organization)).await?;
    to.truncate(left);
    let entries = to.iter().map(|address| OutboxEntry {
        organization: Some(organization),
        ..OutboxEntry::new(address, email.clone())
    });
    enqueue(db, instance, entries.collect()).await
}

/// The same for one person, of what happened to their account.
pub(crate) async fn notify_person(
    db: &mut WriteTx,
    instance: &Instance,
    user: &User,
    email: EmailMessage,
) -> Result<()> {
    if !instance.sends_mail || left_of(db, instance, &email, 1, Subject::User(user.id)).await? == 0 {
        return Ok(());
    }
    enqueue(db, instance, vec![OutboxEntry::new(&user.email, email)]).await
}

/// How many of `count` can be sent in this hour, which uses them up.
async fn left_of(
    db: &mut WriteTx,
    instance: &Instance,
    email: &EmailMessage,
    count: usize,
    subject: Subject<'_>,
) -> Result<usize> {
    match email.limited_as() {
        Some(action) => limits::take_up_to(db, instance.hourly_limits, action, count, subject).await,
        None => Ok(count),
    }
}

/// Puts emails into the outbox, in the transaction of what they tell of. Without a mail server there are none.
pub(crate) async fn enqueue(db: &mut WriteTx, instance: &Instance, emails: Vec<OutboxEntry>) -> Result<()> {
    if !instance.sends_mail {
        return Ok(());
    }
    for email in emails {
        if email.to.ends_with(RELEASED_DOMAIN) {
            continue;
        }
        let (class, source) = (email.email.class(), email.source());
        let OutboxEntry {
            to,
            reply_to,
            email,
            invite,
            ..
        } = email;
        let id = MailId(db.uuid());
        let content = serde_json::to_vec(&Content { reply_to, email }).expect("an email is plain text");
        let waiting = sql::Waiting { id, class, source };
        let encrypted = db.encrypt(&instance.encryptor, &place(id), &content);
        sql::insert(db, &waiting, &to, &encrypted, invite).await?;
    }
    Ok(())
}

fn place(id: MailId) -> String {
    format!("email_outbox/{id}/content")
}
