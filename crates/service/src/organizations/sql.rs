use sqlx::QueryBuilder;

use super::{NewlyCreated, Organization};
use crate::access_recheck;
use crate::db::{Connection, Session, answered, changed, on};
use crate::error::{Error, Result};
use crate::id::{MemberId, OrganizationId, TeamId, UserId};
use crate::level::Level;
use crate::page::{Page, Window};
use crate::transaction::WriteTx;

macro_rules! columns {
    () => {
        "o.id, o.name, o.slug, o.plugins_access_level, \
         o.is_member_join_email_enabled, o.enforce_2fa, o.metadata, o.customer_id, o.member_count, \
         o.created_at, o.updated_at"
    };
}

/// An organization together with the level of the member who asks.
#[derive(sqlx::FromRow)]
pub(super) struct Membership {
    #[sqlx(flatten)]
    pub(super) organization: Organization,
    pub(super) level: Level,
}

macro_rules! of_member {
    ($rest:literal) => {
        concat!(
            "SELECT m.level, ",
            columns!(),
            " FROM member m JOIN organization o ON o.id = m.organization_id WHERE m.user_id = $1 ",
            $rest
        )
    };
}

pub(super) async fn find(db: &mut Session, user: UserId, organization: OrganizationId) -> Result<Option<Membership>> {
    const SQL: &str = of_member!("AND m.organization_id = $2");
    Ok(on!(db, conn => sqlx::query_as(SQL).bind(user).bind(organization).fetch_optional(conn))?)
}

/// Ids are time-ordered, so the index on memberships gives the newest first without sorting.
pub(super) async fn page(db: &mut Session, user: UserId, window: Window) -> Result<Page<Membership>> {
    const ROWS: &str = of_member!("ORDER BY m.organization_id DESC LIMIT $2 OFFSET $3");
    const COUNT: &str = "SELECT CAST(COALESCE(sum(count), 0) AS BIGINT) FROM user_organizations WHERE user_id = $1";
    let items = on!(db, conn =>
        sqlx::query_as(ROWS).bind(user).bind(window.limit).bind(window.offset).fetch_all(conn))?;
    let count = on!(db, conn => sqlx::query_scalar(COUNT).bind(user).fetch_one(conn))?;
    Ok(Page { items, count })
}

/// The same for a key that reaches only some organizations.
pub(super) async fn page_among(
    db: &mut Session,
    user: UserId,
    among: &[OrganizationId],
    window: Window,
) -> Result<Page<Membership>> {
    macro_rules! read {
        ($driver:ty, $conn:ident) => {{
            let mut rows = QueryBuilder::<$driver>::new(concat!(
                "SELECT m.level, ",
                columns!(),
                " FROM member m JOIN organization o ON o.id = m.organization_id WHERE m.organization_id IN ("
            ));
            let mut list = rows.separated(", ");
            for id in among {
                list.push_bind(*id);
            }
            rows.push(") AND m.user_id = ")
                .push_bind(user)
                .push(" ORDER BY m.organization_id DESC");
            rows.build_query_as().fetch_all($conn).await?
        }};
    }
    let all: Vec<Membership> = match db.connection() {
        Connection::Sqlite(conn) => read!(sqlx::Sqlite, conn),
        Connection::Postgres(conn) => answered(async { Ok(read!(sqlx::Postgres, conn)) }).await?,
    };
    Ok(Page::cut(all, window))
}

/// Every organization there is, for whoever runs the machine.
pub(super) async fn all(db: &mut Session, window: Window) -> Result<Page<Organization>> {
    const ROWS: &str = concat!(
        "SELECT ",
        columns!(),
        " FROM organization o ORDER BY o.id DESC LIMIT $1 OFFSET $2"
    );
    let items = on!(db, conn => sqlx::query_as(ROWS).bind(window.limit).bind(window.offset).fetch_all(conn))?;
    let count = on!(db, conn => sqlx::query_scalar("SELECT count(*) FROM organization").fetch_one(conn))?;
    Ok(Page { items, count })
}

pub(crate) async fn name(db: &mut Session, id: OrganizationId) -> Result<String> {
    const SQL: &str = "SELECT name FROM organization WHERE id = $1";
    let found = on!(db, conn => sqlx::query_scalar(SQL).bind(id).fetch_optional(conn))?;
    found.ok_or(Error::NotFound("organization"))
}

/// What the organization may do with pipeline apps.
pub(crate) async fn apps_level(db: &mut Session, id: OrganizationId) -> Result<i16> {
    const SQL: &str = "SELECT plugins_access_level FROM organization WHERE id = $1";
    let found = on!(db, conn => sqlx::query_scalar(SQL).bind(id).fetch_optional(conn))?;
    found.ok_or(Error::NotFound("organization"))
}

macro_rules! locked {
    ($how:literal) => {
        concat!("SELECT ", columns!(), " FROM organization o WHERE o.id = $1", $how)
    };
}

/// Keeps the organization, its members, its teams and what they have from changing until the session ends.
///
/// Whoever writes does this first, or [`keep`], and locks what belongs to the organization, and people, after it: in another
/// order two would wait for each other. Those who only refer to the organization, such as workers, do not wait for it.
pub(crate) async fn lock(db: &mut WriteTx, id: OrganizationId) -> Result<Organization> {
    // A SQLite session that writes already holds the only write lock.
    let sql = db.pick(locked!(""), locked!(" FOR NO KEY UPDATE"));
    let found = on!(db, conn => sqlx::query_as(sql).bind(id).fetch_optional(conn))?;
    access_recheck::expect_access_to(db, id).await?;
    found.ok_or(Error::NotFound("organization"))
}

/// The same for whoever deletes it: nobody refers to it in the meantime. Its members are locked in one order, as two organizations
/// that are deleted at once may have the same.
pub(super) async fn lock_to_delete(db: &mut WriteTx, id: OrganizationId) -> Result<Organization> {
    const MEMBERS: &str = "SELECT u.id FROM app_user u JOIN member m ON m.user_id = u.id WHERE m.organization_id = $1 \
        ORDER BY u.id FOR NO KEY UPDATE OF u";
    let sql = db.pick(locked!(""), locked!(" FOR UPDATE"));
    let found = on!(db, conn => sqlx::query_as(sql).bind(id).fetch_optional(conn))?;
    if let Connection::Postgres(conn) = db.connection() {
        answered(sqlx::query(MEMBERS).bind(id).execute(conn)).await?;
    }
    access_recheck::expect_access_to(db, id).await?;
    found.ok_or(Error::NotFound("organization"))
}

/// Keeps the organization from being deleted until the session ends.
pub(crate) async fn keep(db: &mut WriteTx, id: OrganizationId) -> Result<()> {
    const SQL: &str = "SELECT 1 FROM organization WHERE id = $1 FOR KEY SHARE";
    if let Connection::Postgres(conn) = db.connection() {
        answered(sqlx::query(SQL).bind(id).execute(conn)).await?;
    }
    Ok(())
}

/// How many organizations somebody can have created, unless they are an operator of the instance. Part of the statement: PostgreSQL plans a
/// limit that it does not know again and again.
macro_rules! most_created {
    () => {
        "100"
    };
}

pub(super) const MAX_CREATED: &str = most_created!();

/// Whether somebody may create another organization.
macro_rules! has_room {
    ($creator:literal) => {
        concat!(
            "(SELECT count(*) FROM (SELECT 1 FROM organization WHERE created_by = ",
            $creator,
            " LIMIT ",
            most_created!(),
            ") AS created) < ",
            most_created!()
        )
    };
}

pub(super) async fn has_room_for_another(db: &mut Session, creator: UserId) -> Result<bool> {
    const SQL: &str = concat!("SELECT ", has_room!("$1"));
    Ok(on!(db, conn => sqlx::query_scalar(SQL).bind(creator).fetch_one(conn))?)
}

/// Who created it, unless that was an operator; they may be deleted.
pub(crate) async fn creator(db: &mut Session, organization: OrganizationId) -> Result<Option<UserId>> {
    const SQL: &str = "SELECT created_by FROM organization WHERE id = $1";
    let found: Option<Option<UserId>> =
        on!(db, conn => sqlx::query_scalar(SQL).bind(organization).fetch_optional(conn))?;
    Ok(found.flatten())
}

/// Whether somebody may keep the organization that was just stored: the statement that did so does not see others that are created at the
/// same time. From here on those wait until it is committed. SQLite has one writer, so there are no others.
///
/// The lock is one that only creating takes, and last: whoever leaves an organization locks the user first, and then the counts
/// that a new organization has locked already.
pub(super) async fn has_room_beside_others(db: &mut WriteTx, creator: UserId) -> Result<bool> {
    const LOCK: &str = "SELECT pg_advisory_xact_lock(hashtextextended('creator ' || CAST($1 AS TEXT), 0))";
    // A statement of its own: one that waits does not see what was committed in the meantime.
    const SQL: &str = concat!(
        "SELECT count(*) <= ",
        most_created!(),
        " FROM (SELECT 1 FROM organization WHERE created_by = $1 LIMIT ",
        most_created!(),
        " + 1) AS created"
    );
    let Connection::Postgres(conn) = db.connection() else {
        return Ok(true);
    };
    answered(sqlx::query(LOCK).bind(creator).execute(conn)).await?;
    Ok(on!(db, conn => sqlx::query_scalar(SQL).bind(creator).fetch_one(conn))?)
}

macro_rules! insert {
    () => {
        concat!(
            "INSERT INTO organization (id, name, slug, plugins_access_level, \
             is_member_join_email_enabled, enforce_2fa, metadata, customer_id, created_at, updated_at, created_by) \
             SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $9, $18 WHERE NOT $11 OR ",
            has_room!("$18"),
            " ON CONFLICT (slug) DO NOTHING"
        )
    };
}

macro_rules! insert_owner {
    ($created:literal) => {
        concat!(
            "INSERT INTO member (id, organization_id, user_id, level, joined_at, updated_at) \
             SELECT $12, id, $10, $13, created_at, created_at FROM ",
            $created
        )
    };
}

macro_rules! insert_team {
    ($created:literal) => {
        concat!(
            "INSERT INTO team (uuid, organization_id, name, api_token, timezone, created_at, updated_at) \
             SELECT $14, id, $15, $16, $17, created_at, created_at FROM ",
            $created
        )
    };
}

/// Stores a new organization with its first team and its owner, unless its slug is taken or its creator has created too many.
///
/// With a single statement: each one is a round trip to another machine, or to the thread that writes.
pub(crate) async fn insert(db: &mut WriteTx, new: &mut NewlyCreated<'_>, owner: MemberId) -> Result<bool> {
    const SQLITE: &str = concat!(
        insert!(),
        "; ",
        insert_owner!("organization WHERE id = $1"),
        "; ",
        insert_team!("organization WHERE id = $1"),
        " RETURNING id"
    );
    const POSTGRES: &str = concat!(
        "WITH created AS (",
        insert!(),
        " RETURNING id, created_at), owner AS (",
        insert_owner!("created"),
        ") ",
        insert_team!("created"),
        " RETURNING id"
    );
    let sql = db.pick(SQLITE, POSTGRES);
    let (organization, team) = (&new.organization, &new.team);
    let stored = on!(db, conn => sqlx::query_scalar(sql)
        .bind(organization.id)
        .bind(&organization.name)
        .bind(&organization.slug)
        .bind(organization.plugins_access_level)
        .bind(organization.is_member_join_email_enabled)
        .bind(organization.enforce_2fa)
        .bind(&organization.metadata)
        .bind(&organization.customer_id)
        .bind(organization.created_at)
        .bind(new.owner.id)
        .bind(new.is_limited)
        .bind(owner)
        .bind(Level::Owner)
        .bind(team.uuid)
        .bind(&team.name)
        .bind(&team.api_token)
        .bind(&team.timezone)
        .bind(new.creator)
        .fetch_optional(conn));
    let stored: Option<TeamId> = stored.map_err(|error| Error::from(error).on_dangling(|| Error::NotFound("user")))?;
    let Some(id) = stored else { return Ok(false) };
    new.team.id = id;
    Ok(true)
}

/// What the organization may do with pipeline apps, from now on.
pub(crate) async fn save_apps_level(db: &mut WriteTx, organization: &Organization) -> Result<()> {
    const SQL: &str = "UPDATE organization SET plugins_access_level = $2, updated_at = $3 WHERE id = $1";
    changed!(
        db,
        sqlx::query(SQL)
            .bind(organization.id)
            .bind(organization.plugins_access_level)
            .bind(organization.updated_at)
    )?;
    Ok(())
}

pub(super) async fn save(db: &mut WriteTx, organization: &Organization) -> Result<()> {
    const SQL: &str = "UPDATE organization SET name = $2, is_member_join_email_enabled = $3, enforce_2fa = $4, \
        updated_at = $5 WHERE id = $1";
    let Organization {
        id,
        name,
        is_member_join_email_enabled,
        enforce_2fa,
        updated_at,
        ..
    } = organization;
    changed!(
        db,
        sqlx::query(SQL)
            .bind(id)
            .bind(name)
            .bind(is_member_join_email_enabled)
            .bind(enforce_2fa)
            .bind(updated_at)
    )?;
    Ok(())
}

/// Everything that belongs to the organization goes with it.
pub(super) async fn delete(db: &mut WriteTx, id: OrganizationId) -> Result<()> {
    changed!(db, sqlx::query("DELETE FROM organization WHERE id = $1").bind(id))?;
    Ok(())
}
