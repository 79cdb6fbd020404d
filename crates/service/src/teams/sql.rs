//! Every statement names the organization, so none can reach another's rows; but for those that find out whose a team is.

use sqlx::QueryBuilder;

use super::{Team, TeamToken};
use crate::clock::Time;
use crate::db::{Connection, Session, answered, changed, on};
use crate::error::Result;
use crate::id::{OrganizationId, TeamId};
use crate::transaction::WriteTx;

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

pub(super) async fn count(db: &mut Session, organization: OrganizationId) -> Result<i64> {
    const SQL: &str = "SELECT count(*) FROM team WHERE organization_id = $1";
    Ok(on!(db, conn => sqlx::query_scalar(SQL).bind(organization).fetch_one(conn))?)
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
        Connection::Postgres(conn) => answered(async { Ok(read!(sqlx::Postgres, conn)) }).await?,
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
    macro_rules! read {
        ($driver:ty, $conn:ident) => {{
            let mut query = QueryBuilder::<$driver>::new("SELECT DISTINCT organization_id FROM team WHERE id IN (");
            let mut list = query.separated(", ");
            for id in teams {
                list.push_bind(*id);
            }
            query.push(")");
            query.build_query_scalar().fetch_all($conn).await?
        }};
    }
    let found: Vec<OrganizationId> = match db.connection() {
        Connection::Sqlite(conn) => read!(sqlx::Sqlite, conn),
        Connection::Postgres(conn) => answered(async { Ok(read!(sqlx::Postgres, conn)) }).await?,
    };
    Ok(if found.is_empty() {
        vec![OrganizationId::NONE]
    } else {
        found
    })
}

pub(crate) async fn insert(db: &mut WriteTx, team: &mut Team) -> Result<()> {
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

pub(super) async fn save(db: &mut WriteTx, team: &Team) -> Result<()> {
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

pub(super) async fn delete(db: &mut WriteTx, team: &Team) -> Result<()> {
    const SQL: &str = "DELETE FROM team WHERE organization_id = $1 AND id = $2";
    const RECORD: &str = "INSERT INTO deleted_team (team_id, deleted_at) VALUES ($1, $2) ON CONFLICT DO NOTHING";
    let now = db.now;
    changed!(db, sqlx::query(RECORD).bind(team.id).bind(now))?;
    changed!(db, sqlx::query(SQL).bind(team.organization_id).bind(team.id))?;
    Ok(())
}

/// Records that all teams of an organization are deleted with it.
pub(crate) async fn record_deletion_of_all(db: &mut WriteTx, organization: OrganizationId) -> Result<()> {
    const SQL: &str = "INSERT INTO deleted_team (team_id, deleted_at) SELECT id, $2 FROM team WHERE organization_id = $1 \
                       ON CONFLICT DO NOTHING";
    let now = db.now;
    changed!(db, sqlx::query(SQL).bind(organization).bind(now))?;
    Ok(())
}

pub(super) async fn deleted_before(db: &mut Session, time: Time) -> Result<Vec<TeamId>> {
    const SQL: &str = "SELECT team_id FROM deleted_team WHERE deleted_at < $1 \
                       AND NOT EXISTS (SELECT 1 FROM team WHERE id = team_id) ORDER BY team_id LIMIT 100";
    Ok(on!(db, conn => sqlx::query_scalar(SQL).bind(time).fetch_all(conn))?)
}

pub(super) async fn forget_deleted(db: &mut WriteTx, team: TeamId) -> Result<()> {
    const SQL: &str = "DELETE FROM deleted_team WHERE team_id = $1";
    changed!(db, sqlx::query(SQL).bind(team))?;
    Ok(())
}
