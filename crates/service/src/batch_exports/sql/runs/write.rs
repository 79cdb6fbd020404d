//! Runs as they are made and changed.

use sqlx::QueryBuilder;

use super::row::{bind_changing, bind_fixed, changing, changing_parameters, fixed};
use crate::batch_exports::types::Run;
use crate::db::{Connection, answered, changed};
use crate::error::Result;
use crate::transaction::WriteTx;

/// Those that no run exists for yet.
pub(in crate::batch_exports) async fn insert_new(db: &mut WriteTx, runs: &[Run]) -> Result<()> {
    macro_rules! write {
        ($driver:ty, $conn:ident, $runs:ident) => {{
            let mut query = QueryBuilder::<$driver>::new(concat!(
                "INSERT INTO export_run (",
                fixed!(""),
                ", ",
                changing!(""),
                ") "
            ));
            query.push_values($runs, |mut row, run| {
                bind_fixed!(row, push_bind, run);
                bind_changing!(row, push_bind, run);
            });
            query.push(" ON CONFLICT (batch_export_id, data_interval_start, data_interval_end) DO NOTHING");
            query.build().execute(&mut *$conn).await?;
        }};
    }
    // As many as a statement can have parameters for, on either database.
    for some in runs.chunks(1000) {
        match db.connection() {
            Connection::Sqlite(conn) => write!(sqlx::Sqlite, conn, some),
            Connection::Postgres(conn) => {
                answered(async {
                    write!(sqlx::Postgres, conn, some);
                    Ok(())
                })
                .await?;
            }
        }
    }
    Ok(())
}

pub(in crate::batch_exports) async fn save(db: &mut WriteTx, run: &Run) -> Result<()> {
    const SQL: &str = concat!(
        "UPDATE export_run SET (",
        changing!(""),
        ") = (",
        changing_parameters!(),
        ") WHERE id = $1"
    );
    changed!(db, bind_changing!(sqlx::query(SQL).bind(run.id), bind, run))?;
    Ok(())
}
