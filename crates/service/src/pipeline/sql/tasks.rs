//! The queue goes over all organizations; what is in it is found by its configuration.

use crate::clock::Time;
use crate::db::{Session, changed, on};
use crate::error::Result;
use crate::id::{AppConfigId, AppTaskId, OrganizationId, WorkerId};
use crate::lease::Lease;
use crate::pipeline::types::{AppConfig, TaskKind, Waiting};
use crate::transaction::WriteTx;

pub(in super::super) async fn is_due(db: &mut Session, now: Time) -> Result<bool> {
    const SQL: &str = "SELECT 1 FROM pipeline_task WHERE due_at <= $1 LIMIT 1";
    let found: Option<i32> = on!(db, conn => sqlx::query_scalar(SQL).bind(now).fetch_optional(conn))?;
    Ok(found.is_some())
}

/// A configuration whose tasks wait for one that is running. `$1` is now.
macro_rules! is_busy {
    () => {
        "EXISTS (SELECT 1 FROM pipeline_task r WHERE r.organization_id = c.organization_id \
         AND r.config_id = c.id AND r.worker IS NOT NULL AND r.due_at > $1)"
    };
}

/// The organizations for which something is due that may begin.
pub(in super::super) async fn due_organizations(db: &mut Session, now: Time) -> Result<Vec<OrganizationId>> {
    // From one organization to the next by the index: what they have waiting is not read, nor are their configurations unless a task of
    // theirs is running.
    const SQL: &str = concat!(
        "WITH RECURSIVE owner (id) AS ( \
           SELECT (SELECT organization_id FROM pipeline_task ORDER BY organization_id LIMIT 1) \
           UNION ALL \
           SELECT (SELECT t.organization_id FROM pipeline_task t WHERE t.organization_id > owner.id \
                   ORDER BY t.organization_id LIMIT 1) \
           FROM owner WHERE owner.id IS NOT NULL) \
         SELECT owner.id FROM owner WHERE owner.id IS NOT NULL \
         AND (SELECT min(t.due_at) FROM pipeline_task t WHERE t.organization_id = owner.id) <= $1 AND ( \
           NOT EXISTS (SELECT 1 FROM pipeline_task r \
             WHERE r.organization_id = owner.id AND r.worker IS NOT NULL AND r.due_at > $1) \
           OR (SELECT min((SELECT min(t.due_at) FROM pipeline_task t WHERE t.config_id = c.id)) \
           FROM pipeline_config c WHERE c.organization_id = owner.id AND NOT ",
        is_busy!(),
        ") <= $1)"
    );
    Ok(on!(db, conn => sqlx::query_scalar(SQL).bind(now).fetch_all(conn))?)
}

/// What has waited longest for this organization, of the first of each configuration that is not busy.
pub(in super::super) async fn lock_due(db: &mut WriteTx, organization: OrganizationId) -> Result<Option<Waiting>> {
    macro_rules! due {
        ($rest:literal) => {
            concat!(
                "SELECT t.id, t.config_id, t.kind, t.name, t.payload, t.attempt \
                 FROM pipeline_config c JOIN pipeline_task t ON t.id = ( \
                   SELECT h.id FROM pipeline_task h WHERE h.config_id = c.id ORDER BY h.due_at, h.id LIMIT 1) \
                 WHERE c.organization_id = $2 AND t.due_at <= $1 AND NOT ",
                is_busy!(),
                " ORDER BY t.due_at, t.id LIMIT 1",
                $rest
            )
        };
    }
    let sql = db.pick(due!(""), due!(" FOR NO KEY UPDATE OF t SKIP LOCKED"));
    let now = db.now;
    Ok(on!(db, conn => sqlx::query_as(sql).bind(now).bind(organization).fetch_optional(conn))?)
}

pub(in super::super) async fn hold(
    db: &mut WriteTx,
    id: AppTaskId,
    worker: Option<WorkerId>,
    attempt: i64,
    due_at: Time,
) -> Result<()> {
    const SQL: &str = "UPDATE pipeline_task SET worker = $2, attempt = $3, due_at = $4 WHERE id = $1";
    changed!(db, sqlx::query(SQL).bind(id).bind(worker).bind(attempt).bind(due_at))?;
    Ok(())
}

pub(in super::super) async fn is_held(db: &mut WriteTx, id: AppTaskId, lease: Lease) -> Result<bool> {
    macro_rules! held {
        ($rest:literal) => {
            concat!(
                "SELECT 1 FROM pipeline_task WHERE id = $1 AND worker = $2 AND attempt = $3",
                $rest
            )
        };
    }
    let sql = db.pick(held!(""), held!(" FOR NO KEY UPDATE"));
    let found: Option<i32> =
        on!(db, conn => sqlx::query_scalar(sql).bind(id).bind(lease.worker).bind(lease.attempt).fetch_optional(conn))?;
    Ok(found.is_some())
}

pub(in super::super) async fn count_jobs(db: &mut Session, config: AppConfigId) -> Result<i64> {
    const SQL: &str = "SELECT count(*) FROM pipeline_task WHERE config_id = $1 AND kind = 'job'";
    Ok(on!(db, conn => sqlx::query_scalar(SQL).bind(config).fetch_one(conn))?)
}

pub(in super::super) async fn insert(
    db: &mut WriteTx,
    id: AppTaskId,
    config: &AppConfig,
    kind: TaskKind,
    name: &str,
    payload: &str,
    due_at: Time,
) -> Result<()> {
    const SQL: &str = "INSERT INTO pipeline_task (id, organization_id, config_id, kind, name, payload, due_at, attempt, \
        created_at) VALUES ($1, $2, $3, $4, $5, $6, $7, 0, $8)";
    let now = db.now;
    changed!(
        db,
        sqlx::query(SQL)
            .bind(id)
            .bind(config.organization_id)
            .bind(config.id)
            .bind(kind.as_str())
            .bind(name)
            .bind(payload)
            .bind(due_at)
            .bind(now)
    )?;
    Ok(())
}

pub(in super::super) async fn delete(db: &mut WriteTx, id: AppTaskId) -> Result<()> {
    const SQL: &str = "DELETE FROM pipeline_task WHERE id = $1";
    changed!(db, sqlx::query(SQL).bind(id))?;
    Ok(())
}
