//! The database's own time, which all machines that share it go by.

use chrono::TimeDelta;

use super::{Connection, Store};
use crate::clock::{Clock, Time, steady};
use crate::error::Result;

/// An answer that took longer tells too little of the time.
const MAX_ANSWER: TimeDelta = TimeDelta::seconds(1);

impl Store {
    /// Has the clock follow the database's, if several machines may share it.
    pub(crate) async fn give_time_to(&self, clock: &Clock) -> Result<()> {
        let Clock::Steady(clock) = clock else {
            return Ok(());
        };
        let asked = steady::count();
        let Some(time) = self.time().await? else {
            return Ok(());
        };
        let took = steady::count() - asked;
        if TimeDelta::microseconds(took) <= MAX_ANSWER {
            clock.follow_database(time, asked + took / 2);
        }
        Ok(())
    }

    /// None: it is this machine's.
    async fn time(&self) -> Result<Option<Time>> {
        let Self::Postgres { .. } = self else { return Ok(None) };
        let mut db = self.read().await?;
        Ok(match db.connection() {
            Connection::Postgres(conn) => Some(sqlx::query_scalar("SELECT clock_timestamp()").fetch_one(conn).await?),
            Connection::Sqlite(_) => None,
        })
    }
}
