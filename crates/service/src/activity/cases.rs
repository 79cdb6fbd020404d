use std::sync::Arc;

use boxed::boxed;

use super::{Activity, ActivityFilter, sql};
use crate::Service;
use crate::access::{Caller, ReadActivity};
use crate::cache::{CacheKey, Load};
use crate::error::Result;
use crate::page::{Page, Window};

impl Service {
    #[boxed]
    pub async fn activity(
        &self,
        caller: &Caller<ReadActivity>,
        filter: &ActivityFilter,
        window: Window,
    ) -> Result<Arc<Page<Activity>>> {
        let teams = &caller.restrictions.teams;
        let load = || -> Load<'_, Page<Activity>> {
            Box::pin(async {
                let mut db = self.core.store.read().await?;
                sql::page(&mut db, caller.organization, teams, filter, window).await
            })
        };
        let key = CacheKey::Activity(caller.organization, teams.clone(), filter.clone(), window);
        self.get_or_load(caller.seen, key, load).await
    }
}
