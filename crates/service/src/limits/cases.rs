use boxed::boxed;
use chrono::TimeDelta;

use super::{Action, Subject, sql};
use crate::Service;
use crate::access::Caller;
use crate::error::{Error, Result};
use crate::operators;
use crate::transaction::WriteTx;

impl Service {
    /// Counts one more of what stays in the activity log and in lists, also when it is deleted again. Operators create any number.
    pub(crate) async fn count_created<P>(&self, db: &mut WriteTx, caller: &Caller<P>, action: Action) -> Result<()> {
        let subjects = [Subject::User(caller.user), Subject::Organization(caller.organization)];
        match sql::take(db, self.core.instance.hourly_limits, action, 1, &subjects).await {
            // In the same transaction: whoever holds the writer waits for no other turn.
            Err(Error::LimitReached { .. }) if operators::sql::is_operator(db, caller.user).await? => Ok(()),
            counted => counted,
        }
    }

    /// Forgets networks, addresses and links that have been quiet; people and organizations are as many as there are.
    #[boxed]
    pub async fn forget_old_counts(&self) -> Result<()> {
        let mut db = self.write().await?;
        let before = db.now - TimeDelta::days(1);
        sql::forget_quiet(&mut db, before).await?;
        db.commit_unrecorded().await
    }
}
