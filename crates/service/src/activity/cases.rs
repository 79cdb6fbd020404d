use super::{Activity, sql};
use crate::Service;
use crate::access::{Caller, ReadActivity};
use crate::clock::Time;
use crate::error::Result;
use crate::id::UserUuid;
use crate::page::{Page, Window};

/// Which deeds to list; all of them when empty.
#[derive(Debug, Clone, Default)]
pub struct ActivityFilter {
    pub user: Option<UserUuid>,
    pub scope: Option<String>,
    pub item: Option<String>,
    pub after: Option<Time>,
    pub before: Option<Time>,
}

impl Service {
    pub async fn activity(
        &self,
        caller: &Caller<ReadActivity>,
        filter: &ActivityFilter,
        window: Window,
    ) -> Result<Page<Activity>> {
        let mut db = self.core.store.read().await?;
        sql::page(&mut db, caller.organization, &caller.reach.teams, filter, window).await
    }
}
