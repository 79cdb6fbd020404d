use serde::{Deserialize, Serialize};

use super::{LEASE, Letter, Outgoing, PATIENCE, Post, Undelivered, sql, wait};
use crate::db::Writing;
use crate::error::Result;
use crate::id::MailId;
use crate::users::cases::RELEASED_DOMAIN;
use crate::{Instance, Service, invites};

/// What is sealed: links in mail let people in.
#[derive(Serialize, Deserialize)]
struct Content {
    reply_to: Option<String>,
    letter: Letter,
}

impl Service {
    /// Takes the mail that has waited longest. If it is neither sent nor given back, it is due again later.
    pub async fn next_mail(&self) -> Result<Option<Outgoing>> {
        while self.answer_reset_requests().await? {}
        let now = self.core.clock.now();
        if !sql::is_due(&mut self.core.store.read().await?, now).await? {
            return Ok(None);
        }
        let mut db = self.write().await?;
        let Some(row) = sql::take(&mut db, now + LEASE).await? else {
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
        let plain = self.core.instance.sealer.open(&place(row.id), &row.content)?;
        let Ok(Content { reply_to, letter }) = serde_json::from_slice(&plain) else {
            // Written by a later version; it will have to send it.
            tracing::warn!(mail = %row.id, "a mail cannot be read");
            return Ok(None);
        };
        Ok(Some(Outgoing {
            id: row.id,
            to: row.recipient,
            reply_to,
            letter,
            attempts: row.attempts,
            created_at: row.created_at,
        }))
    }

    pub async fn mail_is_sent(&self, mail: &Outgoing) -> Result<()> {
        let mut db = self.write().await?;
        sql::delete(&mut db, mail.id).await?;
        db.commit_unrecorded().await
    }

    /// Tries again later, unless there is no point in it.
    pub async fn mail_is_undelivered(&self, mail: &Outgoing, problem: &Undelivered) -> Result<()> {
        let mut db = self.write().await?;
        let is_over = problem.is_lasting || db.now - mail.created_at > PATIENCE;
        let next = (!is_over).then(|| db.now + wait(mail.attempts));
        sql::put_off(&mut db, mail.id, next, &problem.reason).await?;
        db.commit_unrecorded().await
    }

    pub async fn forget_old_mail(&self) -> Result<u64> {
        let mut db = self.write().await?;
        let before = db.now - PATIENCE * 10;
        let forgotten = sql::delete_given_up(&mut db, before).await?;
        db.commit_unrecorded().await?;
        Ok(forgotten)
    }
}

/// Puts letters into the outbox, in the transaction of what they tell of. Without a mail server there are none.
pub(crate) async fn post(db: &mut Writing, instance: &Instance, letters: Vec<Post>) -> Result<()> {
    if !instance.sends_mail {
        return Ok(());
    }
    for Post {
        to,
        reply_to,
        letter,
        invite,
    } in letters
    {
        if to.ends_with(RELEASED_DOMAIN) {
            continue;
        }
        let id = MailId(db.uuid());
        let content = serde_json::to_vec(&Content { reply_to, letter }).expect("a letter is plain text");
        let sealed = db.seal(&instance.sealer, &place(id), &content);
        sql::insert(db, id, &to, &sealed, invite).await?;
    }
    Ok(())
}

fn place(id: MailId) -> String {
    format!("mail/{id}/content")
}
