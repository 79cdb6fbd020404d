use auth::key::SecretHash;
use sqlx::types::Json;

use super::Key;
use crate::clock::Time;
use crate::db::{Session, changed, on};
use crate::error::{Error, Result};
use crate::id::{KeyId, OrganizationId, TeamId, UserId, UserUuid};
use crate::level::Level;
use crate::page::{Page, Window};
use crate::scope::Scope;
use crate::transaction::WriteTx;

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT id, user_id, label, mask_value, scopes, scoped_organizations, scoped_teams, created_at, \
             updated_at, last_used_at, used_scopes, last_rolled_at, expires_at, is_from_idp_session FROM api_key ",
            $rest
        )
    };
}

pub(super) async fn page(db: &mut Session, user: UserId, window: Window) -> Result<Page<Key>> {
    const ROWS: &str = select!("WHERE user_id = $1 ORDER BY id DESC LIMIT $2 OFFSET $3");
    let items = on!(db, conn =>
        sqlx::query_as(ROWS).bind(user).bind(window.limit).bind(window.offset).fetch_all(conn))?;
    Ok(Page {
        items,
        count: count(db, user).await?,
    })
}

pub(super) async fn count(db: &mut Session, user: UserId) -> Result<i64> {
    const SQL: &str = "SELECT count(*) FROM api_key WHERE user_id = $1";
    Ok(on!(db, conn => sqlx::query_scalar(SQL).bind(user).fetch_one(conn))?)
}

/// All keys of a user, kept from changing until the session ends.
pub(super) async fn lock_of_user(db: &mut WriteTx, user: UserId) -> Result<Vec<Key>> {
    // A SQLite session that writes already holds the only write lock.
    let sql = db.pick(
        select!("WHERE user_id = $1 ORDER BY id"),
        select!("WHERE user_id = $1 ORDER BY id FOR NO KEY UPDATE"),
    );
    Ok(on!(db, conn => sqlx::query_as(sql).bind(user).fetch_all(conn))?)
}

pub(super) async fn find(db: &mut Session, user: UserId, id: KeyId) -> Result<Option<Key>> {
    const SQL: &str = select!("WHERE user_id = $1 AND id = $2");
    Ok(on!(db, conn => sqlx::query_as(SQL).bind(user).bind(id).fetch_optional(conn))?)
}

pub(super) async fn by_secret(db: &mut Session, hash: &SecretHash) -> Result<Option<Key>> {
    const SQL: &str = select!("WHERE secret_hash = $1");
    Ok(on!(db, conn => sqlx::query_as(SQL).bind(hash.as_slice()).fetch_optional(conn))?)
}

pub(super) async fn lock(db: &mut WriteTx, user: UserId, id: KeyId) -> Result<Key> {
    // A SQLite session that writes already holds the only write lock.
    let sql = db.pick(
        select!("WHERE user_id = $1 AND id = $2"),
        select!("WHERE user_id = $1 AND id = $2 FOR NO KEY UPDATE"),
    );
    let found = on!(db, conn => sqlx::query_as(sql).bind(user).bind(id).fetch_optional(conn))?;
    found.ok_or(Error::NotFound("key"))
}

pub(super) async fn insert(db: &mut WriteTx, key: &Key, hash: &SecretHash) -> Result<()> {
    const SQL: &str = "INSERT INTO api_key (id, user_id, label, mask_value, secret_hash, scopes, \
        scoped_organizations, scoped_teams, created_at, updated_at, expires_at, is_from_idp_session) \
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)";
    changed!(
        db,
        sqlx::query(SQL)
            .bind(key.id)
            .bind(key.user_id)
            .bind(&key.label)
            .bind(&key.mask_value)
            .bind(hash.as_slice())
            .bind(&key.scopes)
            .bind(&key.scoped_organizations)
            .bind(&key.scoped_teams)
            .bind(key.created_at)
            .bind(key.updated_at)
            .bind(key.expires_at)
            .bind(key.is_from_idp_session)
    )?;
    Ok(())
}

pub(super) async fn save(db: &mut WriteTx, key: &Key) -> Result<()> {
    const SQL: &str = "UPDATE api_key SET label = $3, scopes = $4, scoped_organizations = $5, scoped_teams = $6, \
        expires_at = $7, updated_at = $8 WHERE user_id = $1 AND id = $2";
    changed!(
        db,
        sqlx::query(SQL)
            .bind(key.user_id)
            .bind(key.id)
            .bind(&key.label)
            .bind(&key.scopes)
            .bind(&key.scoped_organizations)
            .bind(&key.scoped_teams)
            .bind(key.expires_at)
            .bind(key.updated_at)
    )?;
    Ok(())
}

pub(super) async fn set_secret(db: &mut WriteTx, key: &Key, hash: &SecretHash) -> Result<()> {
    const SQL: &str = "UPDATE api_key SET secret_hash = $3, mask_value = $4, last_rolled_at = $5, updated_at = $5, \
        is_from_idp_session = $6 WHERE user_id = $1 AND id = $2";
    let Key {
        user_id,
        id,
        mask_value,
        last_rolled_at,
        is_from_idp_session,
        ..
    } = key;
    changed!(
        db,
        sqlx::query(SQL)
            .bind(user_id)
            .bind(id)
            .bind(hash.as_slice())
            .bind(mask_value)
            .bind(last_rolled_at)
            .bind(is_from_idp_session)
    )?;
    Ok(())
}

pub(super) async fn delete(db: &mut WriteTx, key: &Key) -> Result<()> {
    const SQL: &str = "DELETE FROM api_key WHERE user_id = $1 AND id = $2";
    changed!(db, sqlx::query(SQL).bind(key.user_id).bind(key.id))?;
    Ok(())
}

pub(super) async fn touch(db: &mut WriteTx, id: KeyId, used_at: Time) -> Result<()> {
    const SQL: &str = "UPDATE api_key SET last_used_at = $2 WHERE id = $1";
    changed!(db, sqlx::query(SQL).bind(id).bind(used_at))?;
    Ok(())
}

/// Adds to what the key was used for. A key that is gone stays gone.
pub(super) async fn add_used_scopes(db: &mut WriteTx, id: KeyId, new: &[Scope]) -> Result<()> {
    const SQL: &str = "UPDATE api_key SET used_scopes = $2 WHERE id = $1";
    // A SQLite session that writes already holds the only write lock.
    let known = db.pick(
        "SELECT used_scopes FROM api_key WHERE id = $1",
        "SELECT used_scopes FROM api_key WHERE id = $1 FOR UPDATE",
    );
    let known: Option<Json<Vec<Scope>>> = on!(db, conn => sqlx::query_scalar(known).bind(id).fetch_optional(conn))?;
    let Some(Json(mut used)) = known else { return Ok(()) };
    used.extend(
        new.iter()
            .filter(|scope| !used.contains(scope))
            .copied()
            .collect::<Vec<_>>(),
    );
    changed!(db, sqlx::query(SQL).bind(id).bind(Json(&used)))?;
    Ok(())
}

/// The organization of a team the user can reach.
pub(super) async fn team_of_user(db: &mut Session, user: UserId, team: TeamId) -> Result<Option<OrganizationId>> {
    const SQL: &str = "SELECT t.organization_id FROM team t \
        JOIN member m ON m.organization_id = t.organization_id WHERE m.user_id = $1 AND t.id = $2";
    Ok(on!(db, conn => sqlx::query_scalar(SQL).bind(user).bind(team).fetch_optional(conn))?)
}

pub(super) async fn is_member(db: &mut Session, user: UserId, organization: OrganizationId) -> Result<bool> {
    const SQL: &str = "SELECT count(*) FROM member WHERE user_id = $1 AND organization_id = $2";
    let count: i64 = on!(db, conn => sqlx::query_scalar(SQL).bind(user).bind(organization).fetch_one(conn))?;
    Ok(count > 0)
}

/// Everything a request needs to know about the key it carries, in one look-up by index.
#[derive(Debug, Clone, sqlx::FromRow)]
pub(crate) struct KeyOwner {
    pub(crate) key_id: KeyId,
    pub(crate) user_id: UserId,
    pub(crate) uuid: UserUuid,
    pub(crate) email: String,
    pub(crate) is_operator: bool,
    pub(crate) current_organization_id: Option<OrganizationId>,
    pub(crate) scopes: Json<Vec<Scope>>,
    pub(crate) scoped_organizations: Json<Vec<OrganizationId>>,
    pub(crate) scoped_teams: Json<Vec<TeamId>>,
    pub(crate) last_used_at: Option<Time>,
    pub(crate) used_scopes: Json<Vec<Scope>>,
    pub(crate) expires_at: Option<Time>,
    pub(crate) updated_at: Time,
    /// The user's level in the organization that was asked about.
    pub(crate) level: Option<Level>,
}

pub(crate) async fn owner(
    db: &mut Session,
    hash: &SecretHash,
    organization: Option<OrganizationId>,
) -> Result<Option<KeyOwner>> {
    const SQL: &str = "SELECT k.id AS key_id, k.user_id, u.uuid, u.email, u.is_operator, u.current_organization_id, k.scopes, \
        k.scoped_organizations, k.scoped_teams, k.last_used_at, k.used_scopes, k.expires_at, k.updated_at, m.level \
        FROM api_key k JOIN app_user u ON u.id = k.user_id \
        LEFT JOIN member m ON m.user_id = u.id AND m.organization_id = $2 WHERE k.secret_hash = $1";
    Ok(on!(db, conn => sqlx::query_as(SQL).bind(hash.as_slice()).bind(organization).fetch_optional(conn))?)
}
