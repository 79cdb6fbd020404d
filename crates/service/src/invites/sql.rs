//! Every statement but those by secret names the organization, so none can reach another's rows.

use auth::key::SecretHash;
use sqlx::types::Json;
use sqlx::{FromRow, QueryBuilder};

use super::{Fresh, Invite};
use crate::clock::Time;
use crate::db::{Connection, Session, answered, changed, on};
use crate::error::Result;
use crate::id::{InviteId, OrganizationId, UserId};
use crate::level::Level;
use crate::page::{Page, Window};
use crate::text::Email;
use crate::transaction::WriteTx;
use crate::users::User;
use crate::users::sql::by_ids;

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT i.id, i.organization_id, i.target_email, i.first_name, i.level, i.message, i.emailing_attempt_made, \
             i.created_by, i.created_at, i.updated_at, i.expires_at, i.mail_hash, \
             (SELECT max(m.last_error) FROM email_outbox m WHERE m.invite_id = i.id) AS emailing_error FROM invite i ",
            $rest
        )
    };
}

#[derive(FromRow)]
struct Row {
    id: InviteId,
    organization_id: OrganizationId,
    target_email: String,
    first_name: String,
    level: Level,
    message: String,
    emailing_attempt_made: bool,
    emailing_error: Option<String>,
    created_by: Option<UserId>,
    created_at: Time,
    updated_at: Time,
    expires_at: Time,
    mail_hash: Option<Vec<u8>>,
}

impl Row {
    fn with(self, senders: &[User]) -> Invite {
        let created_by = senders.iter().find(|user| Some(user.id) == self.created_by).cloned();
        Invite {
            id: self.id,
            organization_id: self.organization_id,
            target_email: self.target_email,
            first_name: self.first_name,
            level: self.level,
            message: self.message,
            emailing_attempt_made: self.emailing_attempt_made,
            emailing_error: self.emailing_error,
            created_by,
            created_at: self.created_at,
            updated_at: self.updated_at,
            expires_at: self.expires_at,
            is_from_mail: false,
        }
    }
}

async fn with_senders(db: &mut Session, rows: Vec<Row>) -> Result<Vec<Invite>> {
    let mut ids: Vec<UserId> = rows.iter().filter_map(|row| row.created_by).collect();
    ids.sort_unstable();
    ids.dedup();
    let senders = by_ids(db, &ids).await?;
    Ok(rows.into_iter().map(|row| row.with(&senders)).collect())
}

async fn with_sender(db: &mut Session, row: Option<Row>) -> Result<Option<Invite>> {
    Ok(with_senders(db, row.into_iter().collect()).await?.pop())
}

pub(super) async fn page(db: &mut Session, organization: OrganizationId, window: Window) -> Result<Page<Invite>> {
    const ROWS: &str = select!("WHERE i.organization_id = $1 ORDER BY i.id DESC LIMIT $2 OFFSET $3");
    const COUNT: &str = "SELECT count(*) FROM invite WHERE organization_id = $1";
    let Window { limit, offset } = window;
    let rows: Vec<Row> =
        on!(db, conn => sqlx::query_as(ROWS).bind(organization).bind(limit).bind(offset).fetch_all(conn))?;
    let count = match window.count_at_end(rows.len()) {
        Some(count) => count,
        None => on!(db, conn => sqlx::query_scalar(COUNT).bind(organization).fetch_one(conn))?,
    };
    Ok(Page {
        items: with_senders(db, rows).await?,
        count,
    })
}

pub(super) async fn find(db: &mut Session, organization: OrganizationId, id: InviteId) -> Result<Option<Invite>> {
    const SQL: &str = select!("WHERE i.organization_id = $1 AND i.id = $2");
    let row = on!(db, conn => sqlx::query_as(SQL).bind(organization).bind(id).fetch_optional(conn))?;
    with_sender(db, row).await
}

/// What somebody made, or sent again and so has the link of.
pub(super) async fn of_sender(db: &mut Session, organization: OrganizationId, sender: UserId) -> Result<Vec<Invite>> {
    const SQL: &str = select!("WHERE i.organization_id = $1 AND (i.created_by = $2 OR i.sent_by = $2)");
    let rows = on!(db, conn => sqlx::query_as(SQL).bind(organization).bind(sender).fetch_all(conn))?;
    with_senders(db, rows).await
}

/// The pending invite of an address, expired or not.
pub(crate) async fn by_target(db: &mut Session, organization: OrganizationId, email: &Email) -> Result<Option<Invite>> {
    const SQL: &str = select!("WHERE i.organization_id = $1 AND i.target_email = $2");
    let row = on!(db, conn => sqlx::query_as(SQL).bind(organization).bind(email.key()).fetch_optional(conn))?;
    with_sender(db, row).await
}

/// The same of many, written as they are compared.
pub(super) async fn by_targets(db: &mut Session, organization: OrganizationId, keys: &[&str]) -> Result<Vec<Invite>> {
    let sql = db.pick(
        select!("WHERE i.organization_id = $1 AND i.target_email IN (SELECT value FROM json_each($2))"),
        select!("WHERE i.organization_id = $1 AND i.target_email IN (SELECT jsonb_array_elements_text($2))"),
    );
    let rows = on!(db, conn => sqlx::query_as(sql).bind(organization).bind(Json(keys)).fetch_all(conn))?;
    with_senders(db, rows).await
}

/// Deletes the pending invites of these addresses. Their mail is deleted before.
pub(super) async fn delete_targets(db: &mut WriteTx, organization: OrganizationId, keys: &[&str]) -> Result<()> {
    let sql = db.pick(
        "DELETE FROM invite WHERE organization_id = $1 AND target_email IN (SELECT value FROM json_each($2))",
        "DELETE FROM invite WHERE organization_id = $1 AND target_email IN (SELECT jsonb_array_elements_text($2))",
    );
    changed!(db, sqlx::query(sql).bind(organization).bind(Json(keys)))?;
    Ok(())
}

/// Whoever has the secret may know the invite, and nobody else.
pub(super) async fn by_secret(db: &mut Session, hash: &SecretHash) -> Result<Option<Invite>> {
    const SQL: &str = select!("WHERE i.secret_hash = $1 OR i.mail_hash = $1");
    let row: Option<Row> = on!(db, conn => sqlx::query_as(SQL).bind(hash.as_slice()).fetch_optional(conn))?;
    let is_from_mail = row
        .as_ref()
        .is_some_and(|row| row.mail_hash.as_deref() == Some(hash.as_slice()));
    let invite = with_sender(db, row).await?;
    Ok(invite.map(|invite| Invite { is_from_mail, ..invite }))
}

/// At most [`super::MAX_AT_ONCE`]: a statement has parameters for them on either database.
pub(super) async fn insert(db: &mut WriteTx, made: &[Fresh], sender: UserId) -> Result<()> {
    const SQL: &str = "INSERT INTO invite (id, organization_id, target_email, first_name, level, message, secret_hash, \
        emailing_attempt_made, created_by, created_at, updated_at, expires_at, mail_hash) ";
    macro_rules! write {
        ($driver:ty, $conn:ident) => {{
            let mut query = QueryBuilder::<$driver>::new(SQL);
            query.push_values(made, |mut row, fresh| {
                let invite = &fresh.invite;
                row.push_bind(invite.id)
                    .push_bind(invite.organization_id)
                    .push_bind(&invite.target_email)
                    .push_bind(&invite.first_name)
                    .push_bind(invite.level)
                    .push_bind(&invite.message)
                    .push_bind(auth::key::hash(&fresh.token).to_vec())
                    .push_bind(invite.emailing_attempt_made)
                    .push_bind(sender)
                    .push_bind(invite.created_at)
                    .push_bind(invite.updated_at)
                    .push_bind(invite.expires_at)
                    .push_bind(auth::key::hash(&fresh.mail_token).to_vec());
            });
            query.build().execute($conn).await?;
        }};
    }
    match db.connection() {
        Connection::Sqlite(conn) => write!(sqlx::Sqlite, conn),
        Connection::Postgres(conn) => {
            answered(async {
                write!(sqlx::Postgres, conn);
                Ok(())
            })
            .await?;
        }
    }
    Ok(())
}

pub(super) async fn renew(db: &mut WriteTx, fresh: &Fresh, sender: UserId) -> Result<()> {
    const SQL: &str = "UPDATE invite SET secret_hash = $3, emailing_attempt_made = $4, updated_at = $5, expires_at = $6, \
        mail_hash = $7, sent_by = $8, claimed_until = NULL WHERE organization_id = $1 AND id = $2";
    let invite = &fresh.invite;
    changed!(
        db,
        sqlx::query(SQL)
            .bind(invite.organization_id)
            .bind(invite.id)
            .bind(auth::key::hash(&fresh.token).as_slice())
            .bind(invite.emailing_attempt_made)
            .bind(invite.updated_at)
            .bind(invite.expires_at)
            .bind(auth::key::hash(&fresh.mail_token).as_slice())
            .bind(sender)
    )?;
    Ok(())
}

/// A mail for this invite is on its way. Tells whether the invite is still there, and still good.
pub(crate) async fn note_attempt(db: &mut WriteTx, id: InviteId) -> Result<bool> {
    const SQL: &str = "UPDATE invite SET emailing_attempt_made = $2 WHERE id = $1 AND expires_at > $3";
    let now = db.now;
    Ok(changed!(db, sqlx::query(SQL).bind(id).bind(true).bind(now))? > 0)
}

/// Tells whether nobody else has it to themselves at the moment.
pub(super) async fn claim(db: &mut WriteTx, invite: &Invite, until: Time) -> Result<bool> {
    const SQL: &str = "UPDATE invite SET claimed_until = $3 WHERE organization_id = $1 AND id = $2 \
        AND (claimed_until IS NULL OR claimed_until <= $4)";
    let now = db.now;
    let claimed = changed!(
        db,
        sqlx::query(SQL)
            .bind(invite.organization_id)
            .bind(invite.id)
            .bind(until)
            .bind(now)
    )?;
    Ok(claimed > 0)
}

pub(super) async fn release(db: &mut WriteTx, invite: &Invite) -> Result<()> {
    const SQL: &str = "UPDATE invite SET claimed_until = NULL WHERE organization_id = $1 AND id = $2";
    changed!(db, sqlx::query(SQL).bind(invite.organization_id).bind(invite.id))?;
    Ok(())
}

/// Tells whether it was still there: of many who take one invite, one does.
pub(super) async fn delete(db: &mut WriteTx, invite: &Invite) -> Result<bool> {
    const SQL: &str = "DELETE FROM invite WHERE organization_id = $1 AND id = $2";
    let gone = changed!(db, sqlx::query(SQL).bind(invite.organization_id).bind(invite.id))?;
    Ok(gone > 0)
}
