//! Every statement names the organization, so none can reach another's rows; but for those that find out whose a team is.

use sqlx::QueryBuilder;

use super::{Team, TeamToken};
use crate::db::{Connection, Session, Writing, changed, listed, on};
use crate::error::Result;
use crate::id::{OrganizationId, TeamId};

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT id, uuid, organization_id, name, api_token, timezone, created_at, updated_at FROM team ",
            $rest
        )
    };
}

pub(crate) async fn of_organization(db: &mut Session, organization: OrganizationId) -> Result<Vec<Team>> {
    const SQL: &str = select!("WHERE organization_id = $1 ORDER BY id");
    Ok(on!(db, conn => sqlx::query_as(SQL).bind(organization).fetch_all(conn))?)
}

pub(crate) async fn of_organizations(db: &mut Session, organizations: &[OrganizationId]) -> Result<Vec<Team>> {
    macro_rules! read {
        ($driver:ty, $conn:ident) => {{
            let mut query = QueryBuilder::<$driver>::new(select!("WHERE organization_id IN ("));
            let mut list = query.separated(", ");
            for id in organizations {
                list.push_bind(*id);
            }
            query.push(") ORDER BY id");
            query.build_query_as().fetch_all($conn).await?
        }};
    }
    if organizations.is_empty() {
        return Ok(Vec::new());
    }
    Ok(match db.connection() {
        Connection::Sqlite(conn) => read!(sqlx::Sqlite, conn),
        Connection::Postgres(conn) => read!(sqlx::Postgres, conn),
    })
}

pub(super) async fn find(db: &mut Session, organization: OrganizationId, id: TeamId) -> Result<Option<Team>> {
    const SQL: &str = select!("WHERE organization_id = $1 AND id = $2");
    Ok(on!(db, conn => sqlx::query_as(SQL).bind(organization).bind(id).fetch_optional(conn))?)
}

pub(super) async fn by_token(db: &mut Session, token: &str) -> Result<Option<TeamToken>> {
    const SQL: &str = "SELECT id, organization_id FROM team WHERE api_token = $1";
    Ok(on!(db, conn => sqlx::query_as(SQL).bind(token).fetch_optional(conn))?)
}

/// The team and the organization it belongs to, for whoever may reach all of them.
pub(super) async fn by_id(db: &mut Session, team: TeamId) -> Result<Option<TeamToken>> {
    const SQL: &str = "SELECT id, organization_id FROM team WHERE id = $1";
    Ok(on!(db, conn => sqlx::query_as(SQL).bind(team).fetch_optional(conn))?)
}

/// The organizations that these teams belong to. If the teams are gone, one that nobody has: none would mean all.
pub(crate) async fn organizations_of(db: &mut Session, teams: &[TeamId]) -> Result<Vec<OrganizationId>> {
    const SQL: &str = "SELECT DISTINCT organization_id FROM team WHERE $1 LIKE '%,' || CAST(id AS TEXT) || ',%'";
    let found: Vec<OrganizationId> = on!(db, conn => sqlx::query_scalar(SQL).bind(listed(teams)).fetch_all(conn))?;
    Ok(if found.is_empty() {
        vec![OrganizationId::NONE]
    } else {
        found
    })
}

pub(crate) async fn insert(db: &mut Writing, team: &mut Team) -> Result<()> {
    const SQL: &str = "INSERT INTO team (uuid, organization_id, name, api_token, timezone, created_at, updated_at) \
        VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING id";
    team.id = on!(db, conn => sqlx::query_scalar(SQL)
        .bind(team.uuid)
        .bind(team.organization_id)
        .bind(&team.name)
        .bind(&team.api_token)
        .bind(&team.timezone)
        .bind(team.created_at)
        .bind(team.updated_at)
        .fetch_one(conn))?;
    Ok(())
}

pub(super) async fn save(db: &mut Writing, team: &Team) -> Result<()> {
    const SQL: &str =
        "UPDATE team SET name = $3, timezone = $4, updated_at = $5 WHERE organization_id = $1 AND id = $2";
    let Team {
        organization_id,
        id,
        name,
        timezone,
        updated_at,
        ..
    } = team;
    changed!(
        db,
        sqlx::query(SQL)
            .bind(organization_id)
            .bind(id)
            .bind(name)
            .bind(timezone)
            .bind(updated_at)
    )?;
    Ok(())
}

pub(super) async fn delete(db: &mut Writing, team: &Team) -> Result<()> {
    const SQL: &str = "DELETE FROM team WHERE organization_id = $1 AND id = $2";
    changed!(db, sqlx::query(SQL).bind(team.organization_id).bind(team.id))?;
    Ok(())
}
