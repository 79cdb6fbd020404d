use serde_json::{Map, Value};
use sqlx::QueryBuilder;
use sqlx::types::Json;

use super::{User, UserStatus};
use crate::db::{Connection, Session, answered, changed, on};
use crate::error::{Error, Result};
use crate::id::{OrganizationId, UserId, UserUuid};
use crate::page::{Page, Window};
use crate::text::Email;
use crate::transaction::WriteTx;

/// The columns of a [`User`], from `app_user u`, for every statement that embeds one.
macro_rules! user_columns {
    () => {
        "u.id AS user_id, u.uuid AS user_uuid, u.distinct_id, u.first_name, u.last_name, u.email, \
         u.is_email_verified, u.hedgehog_config"
    };
}
pub(crate) use user_columns;

macro_rules! select {
    ($rest:literal) => {
        concat!("SELECT ", user_columns!(), " FROM app_user u ", $rest)
    };
}

pub(crate) async fn by_ids(db: &mut Session, ids: &[UserId]) -> Result<Vec<User>> {
    macro_rules! read {
        ($driver:ty, $conn:ident) => {{
            let mut query = QueryBuilder::<$driver>::new(select!("WHERE u.id IN ("));
            let mut list = query.separated(", ");
            for id in ids {
                list.push_bind(*id);
            }
            query.push(")");
            query.build_query_as().fetch_all($conn).await?
        }};
    }
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    Ok(match db.connection() {
        Connection::Sqlite(conn) => read!(sqlx::Sqlite, conn),
        Connection::Postgres(conn) => answered(async { Ok(read!(sqlx::Postgres, conn)) }).await?,
    })
}

pub(crate) async fn by_email(db: &mut Session, email: &Email) -> Result<Option<User>> {
    const SQL: &str = select!("WHERE u.email_key = $1");
    Ok(on!(db, conn => sqlx::query_as(SQL).bind(email.key()).fetch_optional(conn))?)
}

pub(super) async fn page(db: &mut Session, window: Window) -> Result<Page<User>> {
    const ROWS: &str = select!("ORDER BY u.id LIMIT $1 OFFSET $2");
    let items = on!(db, conn => sqlx::query_as(ROWS).bind(window.limit).bind(window.offset).fetch_all(conn))?;
    Ok(Page {
        items,
        count: count(db).await?,
    })
}

pub(crate) async fn count(db: &mut Session) -> Result<i64> {
    Ok(on!(db, conn => sqlx::query_scalar("SELECT count(*) FROM app_user").fetch_one(conn))?)
}

pub(super) struct Row<'a> {
    pub(super) uuid: UserUuid,
    pub(super) distinct_id: String,
    pub(super) first_name: &'a str,
    pub(super) last_name: &'a str,
    pub(super) email: &'a Email,
    pub(super) is_email_verified: bool,
    pub(super) password_hash: Option<String>,
}

pub(super) async fn insert(db: &mut WriteTx, row: &Row<'_>) -> Result<UserId> {
    const SQL: &str = "INSERT INTO app_user (uuid, distinct_id, first_name, last_name, email, email_key, search_text, \
        is_email_verified, hedgehog_config, password_hash, created_at, updated_at) \
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $11) RETURNING id";
    let search_text = search_text(row.first_name, row.last_name, row.email.as_str());
    let now = db.now;
    let id = on!(db, conn => sqlx::query_scalar(SQL)
        .bind(row.uuid)
        .bind(&row.distinct_id)
        .bind(row.first_name)
        .bind(row.last_name)
        .bind(row.email)
        .bind(row.email.key())
        .bind(&search_text)
        .bind(row.is_email_verified)
        .bind(Json(Map::<String, Value>::new()))
        .bind(&row.password_hash)
        .bind(now)
        .fetch_one(conn))
    .map_err(Error::from);
    id.map_err(|error: Error| {
        error.on_unique(|| Error::invalid("email", "unique", "a user with this email already exists"))
    })
}

/// The accounts whose key is not all ASCII, by an index of their own.
pub(super) async fn keys_beyond_ascii(db: &mut Session) -> Result<Vec<(UserId, Email, String)>> {
    let sql = db.pick(
        "SELECT id, email, email_key FROM app_user WHERE length(CAST(email_key AS BLOB)) <> length(email_key)",
        "SELECT id, email, email_key FROM app_user WHERE octet_length(email_key) <> length(email_key)",
    );
    Ok(on!(db, conn => sqlx::query_as(sql).fetch_all(conn))?)
}

/// Tells whether no other account has this key.
pub(super) async fn set_key(db: &mut WriteTx, user: UserId, key: &str) -> Result<bool> {
    const SQL: &str = "UPDATE app_user SET email_key = $2 WHERE id = $1 \
        AND NOT EXISTS (SELECT 1 FROM app_user o WHERE o.email_key = $2)";
    Ok(changed!(db, sqlx::query(SQL).bind(user).bind(key))? > 0)
}

/// The stored password hash of an address, if it has one.
pub(crate) async fn password_hash(db: &mut Session, email: &Email) -> Result<Option<(UserId, Option<String>)>> {
    const SQL: &str = "SELECT id, password_hash FROM app_user WHERE email_key = $1";
    Ok(on!(db, conn => sqlx::query_as(SQL).bind(email.key()).fetch_optional(conn))?)
}

pub(crate) async fn password_hash_of(db: &mut Session, user: UserId) -> Result<Option<String>> {
    const SQL: &str = "SELECT password_hash FROM app_user WHERE id = $1";
    let found: Option<Option<String>> = on!(db, conn => sqlx::query_scalar(SQL).bind(user).fetch_optional(conn))?;
    Ok(found.flatten())
}

pub(super) async fn standing(db: &mut Session, user: UserId) -> Result<Option<UserStatus>> {
    const SQL: &str = "SELECT password_hash IS NOT NULL AS has_password, \
        totp_confirmed_at IS NOT NULL AS is_2fa_enabled, \
        EXISTS (SELECT 1 FROM user_identity i WHERE i.user_id = app_user.id) AS has_social_auth, \
        (SELECT count(*) FROM backup_code b WHERE b.user_id = app_user.id) AS backup_codes, \
        (SELECT m.organization_id FROM member m WHERE m.user_id = app_user.id \
            AND m.organization_id = app_user.current_organization_id) AS current_organization_id, \
        is_operator FROM app_user WHERE id = $1";
    Ok(on!(db, conn => sqlx::query_as(SQL).bind(user).fetch_optional(conn))?)
}

/// What a search looks through.
fn search_text(first_name: &str, last_name: &str, email: &str) -> String {
    format!("{first_name} {last_name} {email}").to_lowercase()
}

/// Keeps others from changing the account until the session ends.
pub(crate) async fn lock(db: &mut WriteTx, user: UserId) -> Result<()> {
    // An SQLite session that writes already holds the only write lock.
    let sql = db.pick(
        "SELECT id FROM app_user WHERE id = $1",
        "SELECT id FROM app_user WHERE id = $1 FOR NO KEY UPDATE",
    );
    let _: Option<i64> = on!(db, conn => sqlx::query_scalar(sql).bind(user).fetch_optional(conn))?;
    Ok(())
}

pub(super) async fn save(db: &mut WriteTx, user: &User) -> Result<()> {
    const SQL: &str =
        "UPDATE app_user SET first_name = $2, last_name = $3, search_text = $4, updated_at = $5 WHERE id = $1";
    let (now, search_text) = (db.now, search_text(&user.first_name, &user.last_name, &user.email));
    changed!(
        db,
        sqlx::query(SQL)
            .bind(user.id)
            .bind(&user.first_name)
            .bind(&user.last_name)
            .bind(&search_text)
            .bind(now)
    )?;
    Ok(())
}

/// Tells whether the user belongs there.
pub(super) async fn set_current(db: &mut WriteTx, user: UserId, organization: OrganizationId) -> Result<bool> {
    const SQL: &str = "UPDATE app_user SET current_organization_id = $2 WHERE id = $1 AND EXISTS \
        (SELECT 1 FROM member m WHERE m.user_id = app_user.id AND m.organization_id = $2)";
    Ok(changed!(db, sqlx::query(SQL).bind(user).bind(organization))? > 0)
}

pub(super) async fn set_email(db: &mut WriteTx, user: &User, email: &Email) -> Result<()> {
    const SQL: &str = "UPDATE app_user SET email = $2, email_key = $3, search_text = $4, updated_at = $5 WHERE id = $1";
    let now = db.now;
    let search_text = search_text(&user.first_name, &user.last_name, email.as_str());
    changed!(
        db,
        sqlx::query(SQL)
            .bind(user.id)
            .bind(email)
            .bind(email.key())
            .bind(&search_text)
            .bind(now)
    )?;
    Ok(())
}

pub(crate) async fn verify_email(db: &mut WriteTx, user: UserId) -> Result<()> {
    const SQL: &str = "UPDATE app_user SET is_email_verified = $2 WHERE id = $1";
    changed!(db, sqlx::query(SQL).bind(user).bind(true))?;
    Ok(())
}

pub(crate) async fn forget_password(db: &mut WriteTx, user: UserId) -> Result<()> {
    changed!(
        db,
        sqlx::query("UPDATE app_user SET password_hash = NULL WHERE id = $1").bind(user)
    )?;
    Ok(())
}

pub(crate) async fn set_password(db: &mut WriteTx, user: UserId, hash: &str) -> Result<()> {
    const SQL: &str = "UPDATE app_user SET password_hash = $2, updated_at = $3 WHERE id = $1";
    let now = db.now;
    changed!(db, sqlx::query(SQL).bind(user).bind(hash).bind(now))?;
    Ok(())
}
