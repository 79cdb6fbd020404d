//! What workers ask: which configurations are due, and whether they still hold theirs. These statements go over all organizations.

use crate::clock::Time;
use crate::db::{Session, changed, on};
use crate::error::Result;
use crate::id::{AppConfigId, WorkerId};
use crate::lease::Lease;
use crate::pipeline::types::{Cursor, DueAfter, DueApp};
use crate::transaction::WriteTx;

/// Those whose time has come, behind `after`.
pub(in crate::pipeline) async fn due(db: &mut Session, now: Time, after: &DueAfter, limit: i64) -> Result<Vec<DueApp>> {
    const SQL: &str = "SELECT id, organization_id, team_id, due_at, delivered_until, delivered_count \
        FROM pipeline_config WHERE due_at <= $1 AND (organization_id, due_at, id) > ($2, $3, $4) \
        ORDER BY organization_id, due_at, id LIMIT $5";
    Ok(on!(db, conn => sqlx::query_as(SQL)
        .bind(now)
        .bind(after.organization)
        .bind(after.due_at)
        .bind(after.config)
        .bind(limit)
        .fetch_all(conn))?)
}

/// Who holds it from now on.
pub(in crate::pipeline) async fn hold(db: &mut WriteTx, id: AppConfigId, worker: Option<WorkerId>) -> Result<()> {
    const SQL: &str = "UPDATE pipeline_config SET worker = $2 WHERE id = $1";
    changed!(db, sqlx::query(SQL).bind(id).bind(worker))?;
    Ok(())
}

/// A heartbeat, and how far it has got. False: the lease is lost.
pub(in crate::pipeline) async fn keep(
    db: &mut WriteTx,
    id: AppConfigId,
    lease: Lease,
    cursor: &Cursor,
    until: Time,
) -> Result<bool> {
    const SQL: &str = "UPDATE pipeline_config SET delivered_until = $4, delivered_count = $5, due_at = $6 \
        WHERE id = $1 AND worker = $2 AND attempt = $3 AND enabled";
    let kept = changed!(
        db,
        sqlx::query(SQL)
            .bind(id)
            .bind(lease.worker)
            .bind(lease.attempt)
            .bind(cursor.until)
            .bind(cursor.count)
            .bind(until)
    )?;
    Ok(kept > 0)
}

/// How far ahead of time its jobs are; null if it never had one.
pub(in crate::pipeline) async fn lock_jobs_until(db: &mut WriteTx, id: AppConfigId) -> Result<Option<Time>> {
    let sql = db.pick(
        "SELECT jobs_until FROM pipeline_config WHERE id = $1",
        "SELECT jobs_until FROM pipeline_config WHERE id = $1 FOR NO KEY UPDATE",
    );
    let found: Option<Option<Time>> = on!(db, conn => sqlx::query_scalar(sql).bind(id).fetch_optional(conn))?;
    Ok(found.flatten())
}

pub(in crate::pipeline) async fn save_jobs_until(db: &mut WriteTx, id: AppConfigId, until: Time) -> Result<()> {
    const SQL: &str = "UPDATE pipeline_config SET jobs_until = $2 WHERE id = $1";
    changed!(db, sqlx::query(SQL).bind(id).bind(until))?;
    Ok(())
}
