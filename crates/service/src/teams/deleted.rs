//! Deleted teams whose events are still there.

use boxed::boxed;
use chrono::TimeDelta;

use super::sql;
use crate::Service;
use crate::error::Result;
use crate::id::TeamId;

/// Events that were let in before the deletion are stored by then, and nobody remembers the token any more.
const AFTER: TimeDelta = TimeDelta::minutes(10);

impl Service {
    /// Those whose events can be deleted now.
    #[boxed]
    pub async fn deleted_teams(&self) -> Result<Vec<TeamId>> {
        let before = self.clock().now() - AFTER;
        let mut db = self.store().read().await?;
        sql::deleted_before(&mut db, before).await
    }

    /// Nothing of this team is left.
    #[boxed]
    pub async fn forget_deleted_team(&self, team: TeamId) -> Result<()> {
        let mut db = self.write().await?;
        sql::forget_deleted(&mut db, team).await?;
        db.commit_unrecorded().await
    }
}
