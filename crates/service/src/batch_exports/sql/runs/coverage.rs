//! What time runs cover.

use super::row::select;
use crate::batch_exports::interval::{Interval, Span};
use crate::batch_exports::sql::delivered;
use crate::batch_exports::types::{Run, RunStatus, Stretch};
use crate::clock::Time;
use crate::db::{Session, on};
use crate::error::Result;
use crate::id::ExportId;

/// Runs that reach beyond a time begin after this one: none is longer than the longest interval. Without it every run since the
/// first would be read, for the indexes know where runs begin.
pub(super) fn earliest_start(reached: Time) -> Time {
    reached.checked_sub_signed(Interval::MAX).unwrap_or(reached)
}

/// Every run that has to do with a span, in order of time.
pub(in crate::batch_exports) async fn overlapping(db: &mut Session, export: ExportId, span: Span) -> Result<Vec<Run>> {
    const SQL: &str = select!(
        "WHERE r.batch_export_id = $1 AND r.data_interval_start > $4 AND r.data_interval_start < $3 \
         AND r.data_interval_end > $2 ORDER BY r.data_interval_start, r.data_interval_end"
    );
    let since = earliest_start(span.start);
    Ok(on!(db, conn => sqlx::query_as(SQL)
        .bind(export).bind(span.start).bind(span.end).bind(since).fetch_all(conn))?)
}

/// The same, with no more than it takes to say what was delivered, also by runs that are no longer kept.
pub(in crate::batch_exports) async fn stretches(
    db: &mut Session,
    export: ExportId,
    span: Span,
) -> Result<Vec<Stretch>> {
    const SQL: &str = "SELECT data_interval_start, data_interval_end, status FROM export_run \
        WHERE batch_export_id = $1 AND data_interval_start > $4 AND data_interval_start < $3 AND data_interval_end > $2 \
        ORDER BY data_interval_start, data_interval_end";
    let since = earliest_start(span.start);
    let mut found: Vec<Stretch> = on!(db, conn => sqlx::query_as(SQL)
        .bind(export).bind(span.start).bind(span.end).bind(since).fetch_all(conn))?;
    let delivered = delivered::touching(db, export, span).await?;
    if !delivered.is_empty() {
        found.extend(delivered.into_iter().map(|span| Stretch {
            span,
            status: RunStatus::Completed,
        }));
        found.sort_by_key(|stretch| (stretch.span.start, stretch.span.end));
    }
    Ok(found)
}

/// Where the last interval begins that there is a run for.
pub(in crate::batch_exports) async fn last_start(db: &mut Session, export: ExportId) -> Result<Option<Time>> {
    const SQL: &str = "SELECT max(data_interval_start) FROM export_run WHERE batch_export_id = $1";
    Ok(on!(db, conn => sqlx::query_scalar(SQL).bind(export).fetch_one(conn))?)
}

/// Where the newest interval ends that there is a run for.
pub(in crate::batch_exports) async fn covered_until(db: &mut Session, export: ExportId) -> Result<Option<Time>> {
    const SQL: &str =
        "SELECT max(data_interval_end) FROM export_run WHERE batch_export_id = $1 AND data_interval_start > $2";
    let Some(last) = last_start(db, export).await? else {
        return Ok(None);
    };
    // The last to begin need not be the last to end, but what ends after it did not begin long before it.
    let since = earliest_start(last);
    Ok(on!(db, conn => sqlx::query_scalar(SQL).bind(export).bind(since).fetch_one(conn))?)
}

/// Where the first interval begins that failed for good, since then.
pub(in crate::batch_exports) async fn first_failed(
    db: &mut Session,
    export: ExportId,
    since: Time,
) -> Result<Option<Time>> {
    const SQL: &str = "SELECT min(data_interval_start) FROM export_run \
        WHERE batch_export_id = $1 AND data_interval_start >= $2 AND status IN ('Failed', 'TimedOut')";
    Ok(on!(db, conn => sqlx::query_scalar(SQL).bind(export).bind(since).fetch_one(conn))?)
}
