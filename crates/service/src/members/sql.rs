//! Every statement names the organization, so none can reach another's rows.

use std::collections::HashSet;

use sqlx::types::Json;

use super::{Member, MemberFilter};
use crate::db::{Session, changed, on};
use crate::error::{Error, Result};
use crate::id::{MemberId, OrganizationId, UserId, UserUuid};
use crate::level::Level;
use crate::page::{Page, Window};
use crate::text::Email;
use crate::transaction::WriteTx;
use crate::users::User;
use crate::users::sql::user_columns;

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT m.id, m.organization_id, m.level, m.joined_at, m.updated_at, \
             u.totp_confirmed_at IS NOT NULL AS is_2fa_enabled, \
             EXISTS (SELECT 1 FROM user_identity i WHERE i.user_id = u.id) AS has_social_auth, ",
            user_columns!(),
            " FROM member m JOIN app_user u ON u.id = m.user_id WHERE m.organization_id = $1 ",
            $rest
        )
    };
}

/// What a search looks like to `LIKE`, with nothing in it but the text itself.
fn pattern(search: &str) -> String {
    let literal = search
        .to_lowercase()
        .replace('\\', "\\\\")
        .replace('%', "\\%")
        .replace('_', "\\_");
    format!("%{literal}%")
}

/// What is no address is nobody's.
fn key(email: &str) -> String {
    Email::new(email).map_or_else(|_| email.to_owned(), |email| email.key())
}

pub(super) async fn page(
    db: &mut Session,
    organization: OrganizationId,
    filter: &MemberFilter,
    window: Window,
) -> Result<Page<Member>> {
    // The count of an unfiltered list is kept with the organization: no scan, however many members.
    const ALL: &str = select!("ORDER BY m.id DESC LIMIT $2 OFFSET $3");
    const COUNT_ALL: &str = "SELECT member_count FROM organization WHERE id = $1";
    const SOME: &str = select!(
        "AND ($4 IS NULL OR u.email_key = $4) AND ($5 IS NULL OR u.search_text LIKE $5 ESCAPE '\\') \
         ORDER BY m.id DESC LIMIT $2 OFFSET $3"
    );
    const COUNT_SOME: &str = "SELECT count(*) FROM member m JOIN app_user u ON u.id = m.user_id \
        WHERE m.organization_id = $1 \
        AND ($2 IS NULL OR u.email_key = $2) AND ($3 IS NULL OR u.search_text LIKE $3 ESCAPE '\\')";
    let Window { limit, offset } = window;
    if *filter == MemberFilter::default() {
        let items = on!(db, conn =>
            sqlx::query_as(ALL).bind(organization).bind(limit).bind(offset).fetch_all(conn))?;
        let count = on!(db, conn => sqlx::query_scalar(COUNT_ALL).bind(organization).fetch_one(conn))?;
        return Ok(Page { items, count });
    }
    let email = filter.email.as_deref().map(key);
    let search = filter.search.as_deref().map(pattern);
    let items = on!(db, conn => sqlx::query_as(SOME)
        .bind(organization).bind(limit).bind(offset).bind(&email).bind(&search).fetch_all(conn))?;
    let count = on!(db, conn =>
        sqlx::query_scalar(COUNT_SOME).bind(organization).bind(&email).bind(&search).fetch_one(conn))?;
    Ok(Page { items, count })
}

/// Finds a member. Who changes one holds the lock of the organization, which keeps its members as they are.
pub(super) async fn find(db: &mut Session, organization: OrganizationId, user: UserUuid) -> Result<Option<Member>> {
    const SQL: &str = select!("AND u.uuid = $2");
    Ok(on!(db, conn => sqlx::query_as(SQL).bind(organization).bind(user).fetch_optional(conn))?)
}

pub(super) async fn count_owners(db: &mut Session, organization: OrganizationId) -> Result<i64> {
    const SQL: &str = "SELECT count(*) FROM member WHERE organization_id = $1 AND level = 15";
    Ok(on!(db, conn => sqlx::query_scalar(SQL).bind(organization).fetch_one(conn))?)
}

pub(crate) async fn owners(db: &mut Session, organization: OrganizationId) -> Result<Vec<User>> {
    const SQL: &str = concat!(
        "SELECT ",
        user_columns!(),
        " FROM member m JOIN app_user u ON u.id = m.user_id WHERE m.organization_id = $1 AND m.level = 15 ORDER BY m.id"
    );
    Ok(on!(db, conn => sqlx::query_as(SQL).bind(organization).fetch_all(conn))?)
}

/// As many owners as are told of a sign-in.
const MAX_OWNERS_TOLD: i64 = 20;

/// The addresses of owners that are known to be theirs: one owner first, then those who have been here for longest.
pub(crate) async fn proven_owners(
    db: &mut Session,
    organization: OrganizationId,
    first: UserId,
) -> Result<Vec<String>> {
    const SQL: &str = "SELECT u.email FROM member m JOIN app_user u ON u.id = m.user_id \
        WHERE m.organization_id = $1 AND m.level = 15 AND u.is_email_verified = $3 \
        ORDER BY CASE WHEN m.user_id = $2 THEN 0 ELSE 1 END, m.id LIMIT $4";
    Ok(on!(db, conn => sqlx::query_scalar(SQL)
        .bind(organization).bind(first).bind(true).bind(MAX_OWNERS_TOLD).fetch_all(conn))?)
}

/// Administrators and owners.
pub(crate) async fn administrators(db: &mut Session, organization: OrganizationId) -> Result<Vec<User>> {
    const SQL: &str = concat!(
        "SELECT ",
        user_columns!(),
        " FROM member m JOIN app_user u ON u.id = m.user_id WHERE m.organization_id = $1 AND m.level >= 8 ORDER BY m.id"
    );
    Ok(on!(db, conn => sqlx::query_as(SQL).bind(organization).fetch_all(conn))?)
}

/// Whether somebody with this address is a member.
pub(crate) async fn has_address(db: &mut Session, organization: OrganizationId, email: &Email) -> Result<bool> {
    const SQL: &str = "SELECT 1 FROM member m JOIN app_user u ON u.id = m.user_id \
        WHERE m.organization_id = $1 AND u.email_key = $2";
    let found: Option<i32> =
        on!(db, conn => sqlx::query_scalar(SQL).bind(organization).bind(email.key()).fetch_optional(conn))?;
    Ok(found.is_some())
}

/// Which of these addresses, written as they are compared, members have.
pub(crate) async fn addresses_among(
    db: &mut Session,
    organization: OrganizationId,
    keys: &[&str],
) -> Result<HashSet<String>> {
    macro_rules! known {
        ($keys:literal) => {
            concat!(
                "SELECT u.email_key FROM app_user u WHERE u.email_key IN (SELECT ",
                $keys,
                ") AND EXISTS (SELECT 1 FROM member m WHERE m.organization_id = $1 AND m.user_id = u.id)"
            )
        };
    }
    let sql = db.pick(
        known!("value FROM json_each($2)"),
        known!("jsonb_array_elements_text($2)"),
    );
    let found: Vec<String> =
        on!(db, conn => sqlx::query_scalar(sql).bind(organization).bind(Json(keys)).fetch_all(conn))?;
    Ok(found.into_iter().collect())
}

pub(crate) async fn level_of(db: &mut Session, organization: OrganizationId, user: UserId) -> Result<Option<Level>> {
    const SQL: &str = "SELECT level FROM member WHERE organization_id = $1 AND user_id = $2";
    Ok(on!(db, conn => sqlx::query_scalar(SQL).bind(organization).bind(user).fetch_optional(conn))?)
}

pub(super) async fn of_user(db: &mut Session, user: UserId) -> Result<Vec<(MemberId, OrganizationId, Level)>> {
    const SQL: &str = "SELECT id, organization_id, level FROM member WHERE user_id = $1 ORDER BY id";
    Ok(on!(db, conn => sqlx::query_as(SQL).bind(user).fetch_all(conn))?)
}

/// Of others than the new member, those with the highest levels first.
pub(super) async fn proven_addresses(
    db: &mut Session,
    organization: OrganizationId,
    new_member: UserId,
    most: i64,
) -> Result<Vec<String>> {
    const SQL: &str = "SELECT u.email FROM member m JOIN app_user u ON u.id = m.user_id \
        WHERE m.organization_id = $1 AND m.user_id <> $2 AND u.is_email_verified = $4 ORDER BY m.level DESC LIMIT $3";
    Ok(on!(db, conn => sqlx::query_scalar(SQL)
        .bind(organization).bind(new_member).bind(most).bind(true).fetch_all(conn))?)
}

pub(crate) async fn insert(
    db: &mut WriteTx,
    id: MemberId,
    organization: OrganizationId,
    user: UserId,
    level: Level,
) -> Result<()> {
    const SQL: &str = "INSERT INTO member (id, organization_id, user_id, level, joined_at, updated_at) \
        VALUES ($1, $2, $3, $4, $5, $5)";
    let now = db.now;
    let done = changed!(
        db,
        sqlx::query(SQL)
            .bind(id)
            .bind(organization)
            .bind(user)
            .bind(level)
            .bind(now)
    );
    done.map_err(|error| {
        Error::from(error)
            .on_unique(super::already_member)
            .on_dangling(|| Error::NotFound("organization"))
    })?;
    Ok(())
}

pub(super) async fn save(db: &mut WriteTx, member: &Member) -> Result<()> {
    const SQL: &str = "UPDATE member SET level = $3, updated_at = $4 WHERE organization_id = $1 AND id = $2";
    let Member {
        organization_id,
        id,
        level,
        updated_at,
        ..
    } = member;
    changed!(
        db,
        sqlx::query(SQL)
            .bind(organization_id)
            .bind(id)
            .bind(level)
            .bind(updated_at)
    )?;
    Ok(())
}

pub(super) async fn delete(db: &mut WriteTx, member: &Member) -> Result<()> {
    const SQL: &str = "DELETE FROM member WHERE organization_id = $1 AND id = $2";
    changed!(db, sqlx::query(SQL).bind(member.organization_id).bind(member.id))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::pattern;

    #[test]
    fn a_search_finds_only_the_text_itself() {
        assert_eq!(pattern("50%_Off\\"), "%50\\%\\_off\\\\%");
    }
}
