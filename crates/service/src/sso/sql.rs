use auth::key::SecretHash;
use sqlx::QueryBuilder;

use super::{Attempt, NewMember};
use crate::clock::Time;
use crate::db::{Connection, Session, answered, changed, on};
use crate::error::{Error, Result};
use crate::id::{DomainId, OrganizationId, UserId};
use crate::level::Level;
use crate::text::Email;
use crate::transaction::WriteTx;
use crate::users::User;
use crate::users::sql::user_columns;

#[derive(sqlx::FromRow)]
pub(super) struct Owner {
    pub(super) id: UserId,
    pub(super) email: String,
    pub(super) has_password: bool,
    pub(super) has_recovery_code: bool,
}

pub(super) async fn owners(db: &mut Session, organization: OrganizationId) -> Result<Vec<Owner>> {
    const SQL: &str = "SELECT u.id, u.email, u.password_hash IS NOT NULL AS has_password, \
        EXISTS (SELECT 1 FROM recovery_code c WHERE c.organization_id = m.organization_id AND c.user_id = u.id) \
        AS has_recovery_code FROM member m JOIN app_user u ON u.id = m.user_id \
        WHERE m.organization_id = $1 AND m.level = 15";
    Ok(on!(db, conn => sqlx::query_as(SQL).bind(organization).fetch_all(conn))?)
}

pub(super) async fn is_enforced_somewhere(db: &mut Session, organization: OrganizationId) -> Result<bool> {
    const SQL: &str = "SELECT 1 FROM domain WHERE organization_id = $1 AND verified_at IS NOT NULL \
        AND sso_enforcement <> '' LIMIT 1";
    let found: Option<i32> = on!(db, conn => sqlx::query_scalar(SQL).bind(organization).fetch_optional(conn))?;
    Ok(found.is_some())
}

pub(super) async fn is_linked(db: &mut Session, user: UserId, provider: &str) -> Result<bool> {
    const SQL: &str = "SELECT 1 FROM user_identity WHERE user_id = $1 AND provider = $2 LIMIT 1";
    let found: Option<i32> = on!(db, conn => sqlx::query_scalar(SQL).bind(user).bind(provider).fetch_optional(conn))?;
    Ok(found.is_some())
}

/// Whether the provider knows somebody by another name than this.
pub(super) async fn has_other_subject(db: &mut Session, user: UserId, provider: &str, subject: &str) -> Result<bool> {
    const SQL: &str = "SELECT 1 FROM user_identity WHERE user_id = $1 AND provider = $2 AND subject <> $3 LIMIT 1";
    let found: Option<i32> =
        on!(db, conn => sqlx::query_scalar(SQL).bind(user).bind(provider).bind(subject).fetch_optional(conn))?;
    Ok(found.is_some())
}

pub(super) async fn linked(db: &mut Session, provider: &str, subject: &str) -> Result<Option<User>> {
    const SQL: &str = concat!(
        "SELECT ",
        user_columns!(),
        " FROM user_identity i JOIN app_user u ON u.id = i.user_id WHERE i.provider = $1 AND i.subject = $2"
    );
    Ok(on!(db, conn => sqlx::query_as(SQL).bind(provider).bind(subject).fetch_optional(conn))?)
}

pub(super) async fn link(db: &mut WriteTx, user: UserId, provider: &str, subject: &str) -> Result<()> {
    const SQL: &str =
        "INSERT INTO user_identity (id, user_id, provider, subject, created_at) VALUES ($1, $2, $3, $4, $5)";
    let (id, now) = (db.uuid(), db.now);
    let done = changed!(
        db,
        sqlx::query(SQL)
            .bind(id)
            .bind(user)
            .bind(provider)
            .bind(subject)
            .bind(now)
    );
    let taken = || Error::refused("unique", "This identity was linked at the same time. Try again.");
    done.map_err(|error| Error::from(error).on_unique(taken))?;
    Ok(())
}

/// The same for members of one organization above a level: what somebody below them changes does not speak for them.
pub(super) async fn unlink_above(
    db: &mut WriteTx,
    provider: &str,
    organization: OrganizationId,
    level: Level,
) -> Result<()> {
    const SQL: &str = "DELETE FROM user_identity WHERE provider = $1 AND user_id IN \
        (SELECT user_id FROM member WHERE organization_id = $2 AND level > $3)";
    changed!(db, sqlx::query(SQL).bind(provider).bind(organization).bind(level))?;
    Ok(())
}

/// One person, or everybody, from all of these.
pub(super) async fn unlink(db: &mut WriteTx, user: Option<UserId>, providers: &[String]) -> Result<()> {
    macro_rules! delete {
        ($driver:ty, $conn:ident) => {{
            let mut query = QueryBuilder::<$driver>::new("DELETE FROM user_identity WHERE provider IN (");
            let mut list = query.separated(", ");
            for provider in providers {
                list.push_bind(provider);
            }
            query.push(")");
            if let Some(user) = user {
                query.push(" AND user_id = ").push_bind(user);
            }
            query.build().execute($conn).await?;
        }};
    }
    if providers.is_empty() {
        return Ok(());
    }
    match db.connection() {
        Connection::Sqlite(conn) => delete!(sqlx::Sqlite, conn),
        Connection::Postgres(conn) => {
            answered(async {
                delete!(sqlx::Postgres, conn);
                Ok(())
            })
            .await?;
        }
    }
    Ok(())
}

pub(super) async fn belongs_somewhere(db: &mut Session, user: UserId) -> Result<bool> {
    const SQL: &str = "SELECT 1 FROM member WHERE user_id = $1 LIMIT 1";
    let found: Option<i32> = on!(db, conn => sqlx::query_scalar(SQL).bind(user).fetch_optional(conn))?;
    Ok(found.is_some())
}

#[derive(sqlx::FromRow)]
pub(super) struct Request {
    pub(super) id: String,
    pub(super) organization_id: Option<OrganizationId>,
    pub(super) domain_id: Option<DomainId>,
    pub(super) method: String,
    pub(super) details: Vec<u8>,
}

pub(super) async fn insert_request(
    db: &mut WriteTx,
    row: &Request,
    browser: &SecretHash,
    expires_at: Time,
) -> Result<()> {
    const SQL: &str = "INSERT INTO sso_request (id, organization_id, domain_id, method, browser_hash, details, \
        expires_at) VALUES ($1, $2, $3, $4, $5, $6, $7)";
    let now = db.now;
    changed!(
        db,
        sqlx::query("DELETE FROM sso_request WHERE expires_at < $1").bind(now)
    )?;
    changed!(
        db,
        sqlx::query(SQL)
            .bind(&row.id)
            .bind(row.organization_id)
            .bind(row.domain_id)
            .bind(&row.method)
            .bind(browser.as_slice())
            .bind(&row.details)
            .bind(expires_at)
    )?;
    Ok(())
}

/// A request that comes back in the wrong browser stays, so that nobody can spend another's.
pub(super) async fn take_request(db: &mut WriteTx, id: &str, browser: &SecretHash) -> Result<Option<Request>> {
    const SQL: &str = "DELETE FROM sso_request WHERE id = $1 AND browser_hash = $2 AND expires_at > $3 \
        RETURNING id, organization_id, domain_id, method, details";
    let now = db.now;
    Ok(on!(db, conn =>
        sqlx::query_as(SQL).bind(id).bind(browser.as_slice()).bind(now).fetch_optional(conn))?)
}

/// Whether nobody has used this assertion before.
pub(super) async fn take_assertion(db: &mut WriteTx, domain: DomainId, id: &str, until: Time) -> Result<bool> {
    const SQL: &str = "INSERT INTO sso_assertion (domain_id, assertion_id, expires_at) VALUES ($1, $2, $3) \
        ON CONFLICT DO NOTHING";
    let now = db.now;
    changed!(
        db,
        sqlx::query("DELETE FROM sso_assertion WHERE expires_at < $1").bind(now)
    )?;
    Ok(changed!(db, sqlx::query(SQL).bind(domain).bind(id).bind(until))? > 0)
}

pub(super) async fn insert_attempt(db: &mut WriteTx, attempt: &Attempt) -> Result<()> {
    const SQL: &str = "INSERT INTO sso_attempt (organization_id, domain_id, id, method, email, rule, detail, address, \
        request_id, created_at, is_from_idp) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";
    changed!(
        db,
        sqlx::query(SQL)
            .bind(attempt.organization_id)
            .bind(attempt.domain_id)
            .bind(attempt.id)
            .bind(&attempt.method)
            .bind(&attempt.email)
            .bind(&attempt.rule)
            .bind(&attempt.detail)
            .bind(&attempt.address)
            .bind(&attempt.request_id)
            .bind(attempt.created_at)
            .bind(attempt.is_from_idp)
    )?;
    Ok(())
}

/// All but the newest of this kind.
pub(super) async fn delete_old_attempts(
    db: &mut WriteTx,
    domain: DomainId,
    is_from_idp: bool,
    kept: i64,
) -> Result<()> {
    const SQL: &str = "DELETE FROM sso_attempt WHERE domain_id = $1 AND is_from_idp = $2 AND id NOT IN \
        (SELECT id FROM sso_attempt WHERE domain_id = $1 AND is_from_idp = $2 ORDER BY id DESC LIMIT $3)";
    changed!(db, sqlx::query(SQL).bind(domain).bind(is_from_idp).bind(kept))?;
    Ok(())
}

pub(super) async fn delete_attempts(db: &mut WriteTx, domain: DomainId) -> Result<()> {
    changed!(
        db,
        sqlx::query("DELETE FROM sso_attempt WHERE domain_id = $1").bind(domain)
    )?;
    Ok(())
}

pub(super) async fn attempts(db: &mut Session, organization: OrganizationId, domain: DomainId) -> Result<Vec<Attempt>> {
    const SQL: &str = "SELECT id, organization_id, domain_id, method, email, rule, detail, address, request_id, \
        created_at, is_from_idp FROM sso_attempt WHERE organization_id = $1 AND domain_id = $2 ORDER BY id DESC";
    Ok(on!(db, conn => sqlx::query_as(SQL).bind(organization).bind(domain).fetch_all(conn))?)
}

pub(super) async fn count_on_domain(db: &mut Session, organization: OrganizationId, domain: &str) -> Result<i64> {
    const SQL: &str = "SELECT count(*) FROM member m JOIN app_user u ON u.id = m.user_id \
        WHERE m.organization_id = $1 AND u.email_key LIKE $2";
    let addresses = Email::keys_on(domain);
    Ok(on!(db, conn => sqlx::query_scalar(SQL).bind(organization).bind(&addresses).fetch_one(conn))?)
}

macro_rules! new_members {
    ($what:literal, $rest:literal) => {
        concat!(
            "SELECT ",
            $what,
            " FROM member m JOIN app_user u ON u.id = m.user_id WHERE m.organization_id = $1 AND u.email_key LIKE $2 \
             AND NOT EXISTS (SELECT 1 FROM user_identity i WHERE i.user_id = u.id AND i.provider = $3) ",
            $rest
        )
    };
}

/// Members on a domain whom the provider has never vouched for.
pub(super) async fn count_new_members(
    db: &mut Session,
    organization: OrganizationId,
    domain: &str,
    provider: &str,
) -> Result<i64> {
    const SQL: &str = new_members!("count(*)", "");
    let addresses = Email::keys_on(domain);
    Ok(on!(db, conn => sqlx::query_scalar(SQL)
        .bind(organization).bind(&addresses).bind(provider).fetch_one(conn))?)
}

pub(super) async fn new_members(
    db: &mut Session,
    organization: OrganizationId,
    domain: &str,
    provider: &str,
    most: i64,
) -> Result<Vec<NewMember>> {
    const SQL: &str = new_members!(
        "u.uuid, u.email, m.level",
        "ORDER BY m.level DESC, u.email_key LIMIT $4"
    );
    let addresses = Email::keys_on(domain);
    Ok(on!(db, conn => sqlx::query_as(SQL)
        .bind(organization).bind(&addresses).bind(provider).bind(most).fetch_all(conn))?)
}
