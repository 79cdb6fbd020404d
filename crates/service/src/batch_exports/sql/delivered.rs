//! What was delivered by runs that are no longer kept, below an export that was found for the caller.

use sqlx::QueryBuilder;

use crate::batch_exports::interval::Span;
use crate::clock::Time;
use crate::db::{Connection, Session, answered, changed, on};
use crate::error::Result;
use crate::id::ExportId;
use crate::transaction::WriteTx;

/// Those that have to do with a span or touch it, in order of time.
pub(in super::super) async fn touching(db: &mut Session, export: ExportId, span: Span) -> Result<Vec<Span>> {
    // They do not overlap, so of those that begin before it only the last can reach it.
    const SQL: &str = "SELECT starts_at, ends_at FROM export_delivered WHERE batch_export_id = $1 AND starts_at >= COALESCE( \
          (SELECT max(d.starts_at) FROM export_delivered d WHERE d.batch_export_id = $1 AND d.starts_at <= $2), $2) \
        AND starts_at <= $3 AND ends_at >= $2 ORDER BY starts_at";
    let rows: Vec<(Time, Time)> = on!(db, conn => sqlx::query_as(SQL)
        .bind(export).bind(span.start).bind(span.end).fetch_all(conn))?;
    Ok(rows.into_iter().map(|(start, end)| Span { start, end }).collect())
}

pub(in super::super) async fn delete(db: &mut WriteTx, export: ExportId, spans: &[Span]) -> Result<()> {
    const SQL: &str = "DELETE FROM export_delivered WHERE batch_export_id = $1 AND starts_at BETWEEN $2 AND $3";
    let (Some(first), Some(last)) = (spans.first(), spans.last()) else {
        return Ok(());
    };
    changed!(db, sqlx::query(SQL).bind(export).bind(first.start).bind(last.start))?;
    Ok(())
}

pub(in super::super) async fn insert(db: &mut WriteTx, export: ExportId, spans: &[Span]) -> Result<()> {
    macro_rules! write {
        ($driver:ty, $conn:ident, $spans:ident) => {{
            let mut query =
                QueryBuilder::<$driver>::new("INSERT INTO export_delivered (batch_export_id, starts_at, ends_at) ");
            query.push_values($spans, |mut row, span| {
                row.push_bind(export).push_bind(span.start).push_bind(span.end);
            });
            query.build().execute(&mut *$conn).await?
        }};
    }
    for some in spans.chunks(1000) {
        match db.connection() {
            Connection::Sqlite(conn) => {
                write!(sqlx::Sqlite, conn, some);
            }
            Connection::Postgres(conn) => {
                answered(async { Ok(write!(sqlx::Postgres, conn, some)) }).await?;
            }
        }
    }
    Ok(())
}
