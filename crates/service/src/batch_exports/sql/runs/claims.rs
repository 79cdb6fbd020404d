//! What workers ask: which runs are due, and whether they still hold theirs. These statements go over all organizations.

use sqlx::QueryBuilder;

use super::row::select;
use crate::batch_exports::types::{Progress, Run};
use crate::clock::Time;
use crate::db::{Connection, Session, answered, changed, on};
use crate::error::Result;
use crate::id::{OrganizationId, RunId};
use crate::lease::Lease;
use crate::transaction::WriteTx;

/// Whether there may be anything to take: asking costs less than writing.
pub(in crate::batch_exports) async fn is_due(db: &mut Session, now: Time) -> Result<bool> {
    const SQL: &str = "SELECT 1 FROM export_run r JOIN batch_export e ON e.id = r.batch_export_id \
        WHERE r.due_at <= $1 AND (NOT e.paused OR r.backfill_id IS NOT NULL) LIMIT 1";
    let found: Option<i32> = on!(db, conn => sqlx::query_scalar(SQL).bind(now).fetch_optional(conn))?;
    Ok(found.is_some())
}

/// So many of the organizations after this one that have a run which is due and goes to none of these destinations.
pub(in crate::batch_exports) async fn due_organizations(
    db: &mut Session,
    now: Time,
    after: OrganizationId,
    busy: &[String],
    most: usize,
) -> Result<Vec<OrganizationId>> {
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    // From one organization to the next by the index: of what they have waiting only the first is read.
    macro_rules! read {
        ($driver:ty, $conn:ident) => {{
            let mut query = QueryBuilder::<$driver>::new(
                "WITH RECURSIVE owner (id) AS ( \
                   SELECT (SELECT organization_id FROM export_run WHERE due_at IS NOT NULL AND organization_id > ",
            );
            query.push_bind(after).push(
                " ORDER BY organization_id LIMIT 1) \
                   UNION ALL \
                   SELECT (SELECT r.organization_id FROM export_run r \
                           WHERE r.due_at IS NOT NULL AND r.organization_id > owner.id \
                           ORDER BY r.organization_id LIMIT 1) \
                   FROM owner WHERE owner.id IS NOT NULL) \
                 SELECT owner.id FROM owner WHERE owner.id IS NOT NULL",
            );
            query.push(
                " AND (SELECT r.due_at FROM export_run r JOIN batch_export e ON e.id = r.batch_export_id \
                   WHERE r.organization_id = owner.id AND (NOT e.paused OR r.backfill_id IS NOT NULL) \
                     AND r.due_at IS NOT NULL",
            );
            for key in busy {
                query.push(" AND r.destination_key <> ").push_bind(key);
            }
            query
                .push(" ORDER BY r.due_at LIMIT 1) <= ")
                .push_bind(now)
                .push(" LIMIT ")
                .push_bind(most);
            query.build_query_scalar().fetch_all($conn).await?
        }};
    }
    Ok(match db.connection() {
        Connection::Sqlite(conn) => read!(sqlx::Sqlite, conn),
        Connection::Postgres(conn) => answered(async { Ok(read!(sqlx::Postgres, conn)) }).await?,
    })
}

/// The run of this organization that has waited longest, of an export that is not paused or of a backfill, unless it goes to
/// one of these destinations.
///
/// PostgreSQL also holds the export itself, so that whoever deletes it waits for this write, and this write for nobody.
pub(in crate::batch_exports) async fn lock_due(
    db: &mut WriteTx,
    organization: OrganizationId,
    busy: &[String],
) -> Result<Option<Run>> {
    let now = db.now;
    macro_rules! read {
        ($driver:ty, $conn:ident, $end:literal) => {{
            let mut query = QueryBuilder::<$driver>::new(select!(
                "JOIN batch_export e ON e.id = r.batch_export_id WHERE (NOT e.paused OR r.backfill_id IS NOT NULL) \
                 AND r.due_at <= "
            ));
            query.push_bind(now);
            query.push(" AND r.organization_id = ").push_bind(organization);
            for key in busy {
                query.push(" AND r.destination_key <> ").push_bind(key);
            }
            query.push(concat!(" ORDER BY r.due_at, r.id LIMIT 1", $end));
            query.build_query_as().fetch_optional($conn).await?
        }};
    }
    Ok(match db.connection() {
        Connection::Sqlite(conn) => read!(sqlx::Sqlite, conn, ""),
        Connection::Postgres(conn) => {
            answered(async {
                Ok(read!(
                    sqlx::Postgres,
                    conn,
                    " FOR NO KEY UPDATE OF r SKIP LOCKED FOR KEY SHARE OF e SKIP LOCKED"
                ))
            })
            .await?
        }
    })
}

/// Keeps a run for its holder. False: it has none, or another, or its export was deleted.
pub(in crate::batch_exports) async fn keep(
    db: &mut WriteTx,
    id: RunId,
    lease: Lease,
    until: Time,
    progress: &Progress,
) -> Result<bool> {
    const SQL: &str = "UPDATE export_run SET due_at = $4, records_completed = $5, bytes_exported = $6, \
        records_total_count = COALESCE($7, records_total_count), updated_at = $8, records_read = $9 \
        WHERE id = $1 AND worker = $2 AND attempt = $3 AND status = 'Running' \
        AND EXISTS (SELECT 1 FROM batch_export e WHERE e.id = batch_export_id)";
    let now = db.now;
    let kept = changed!(
        db,
        sqlx::query(SQL)
            .bind(id)
            .bind(lease.worker)
            .bind(lease.attempt)
            .bind(until)
            .bind(number(progress.records))
            .bind(number(progress.bytes))
            .bind(progress.total.map(number))
            .bind(now)
            .bind(number(progress.read))
    )?;
    Ok(kept == 1)
}

/// What a cancelled run has delivered after all. Asked for again, it is another attempt's.
pub(in crate::batch_exports) async fn note_cancelled(
    db: &mut WriteTx,
    id: RunId,
    attempt: i64,
    delivered: &Progress,
) -> Result<()> {
    const SQL: &str = "UPDATE export_run SET records_completed = $3, bytes_exported = $4, records_read = $5 \
        WHERE id = $1 AND attempt = $2 AND status = 'Cancelled'";
    changed!(
        db,
        sqlx::query(SQL)
            .bind(id)
            .bind(attempt)
            .bind(number(delivered.records))
            .bind(number(delivered.bytes))
            .bind(number(delivered.read))
    )?;
    Ok(())
}

fn number(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
