//! Writing entries down. Below the transaction that does so at its end; what reads the log is above it.

use sqlx::QueryBuilder;
use sqlx::types::Json;

use super::Entry;
use crate::access::Actor;
use crate::clock::Time;
use crate::db::{Connection, Session, answered};
use crate::error::Result;
use crate::id::{ActivityId, OrganizationId};

/// A statement has parameters for so many, on either database: SQLite takes 32,766 of them, and an entry has twelve.
const PER_STATEMENT: usize = 1000;

/// Writes down what somebody did, each entry under its id. There may be many: a member who leaves had thousands of invites.
pub(crate) async fn insert(db: &mut Session, actor: &Actor, rows: &[(ActivityId, &Entry)], now: Time) -> Result<()> {
    const SQL: &str = "INSERT INTO activity \
        (id, organization_id, team_id, user_id, key_id, scope, item_id, activity, name, changes, request_id, created_at) ";
    macro_rules! write {
        ($driver:ty, $conn:ident, $rows:ident) => {{
            let mut query = QueryBuilder::<$driver>::new(SQL);
            query.push_values($rows, |mut row, (id, entry)| {
                row.push_bind(*id)
                    .push_bind(entry.organization.unwrap_or(OrganizationId::NONE))
                    .push_bind(entry.team)
                    .push_bind(actor.user)
                    .push_bind(actor.key);
                row.push_bind(entry.scope)
                    .push_bind(&entry.item)
                    .push_bind(entry.activity)
                    .push_bind(&entry.name);
                row.push_bind(Json(&entry.changes))
                    .push_bind(&*actor.request.id)
                    .push_bind(now);
            });
            query.build().execute($conn).await?;
        }};
    }
    for some in rows.chunks(PER_STATEMENT) {
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
