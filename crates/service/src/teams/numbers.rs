//! The numbers that teams get. A database that was restored is older than the events beside it: the numbers of teams made
//! since are taken there, by events that the next team must not get.

use boxed::boxed;

use crate::Service;
use crate::db::{Connection, Session, on};
use crate::error::Result;

impl Service {
    /// Gives no team a number up to this one, from now on. Tells whether it would have.
    #[boxed]
    pub async fn skip_team_numbers(&self, highest: i64) -> Result<bool> {
        if last_number(&mut self.core.store.read().await?).await? >= highest {
            return Ok(false);
        }
        let mut db = self.write().await?;
        match db.connection() {
            Connection::Sqlite(conn) => {
                let raise = sqlx::query("UPDATE sqlite_sequence SET seq = max(seq, $1) WHERE name = 'team'");
                let raised = raise.bind(highest).execute(&mut *conn).await?;
                if raised.rows_affected() == 0 {
                    // There never was a team.
                    let begin = sqlx::query("INSERT INTO sqlite_sequence (name, seq) VALUES ('team', $1)");
                    begin.bind(highest).execute(conn).await?;
                }
            }
            Connection::Postgres(conn) => {
                // Inserts wait for this lock before they take a number.
                sqlx::query("LOCK TABLE team IN EXCLUSIVE MODE")
                    .execute(&mut *conn)
                    .await?;
                let raise = sqlx::query("SELECT setval('team_id_seq', greatest(last_value, $1)) FROM team_id_seq");
                raise.bind(highest).execute(conn).await?;
            }
        }
        db.commit_unrecorded().await?;
        Ok(true)
    }
}

async fn last_number(db: &mut Session) -> Result<i64> {
    let sql = db.pick(
        "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'team'",
        "SELECT last_value FROM team_id_seq",
    );
    Ok(on!(db, conn => sqlx::query_scalar(sql).fetch_one(conn))?)
}
