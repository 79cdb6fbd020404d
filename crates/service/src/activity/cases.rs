use boxed::boxed;

use super::{Activity, ActivityFilter, sql};
use crate::Service;
use crate::access::{Caller, ReadActivity};
use crate::error::Result;
use crate::page::{Page, Window};

impl Service {
    #[boxed]
    pub async fn activity(
        &self,
        caller: &Caller<ReadActivity>,
        filter: &ActivityFilter,
        window: Window,
    ) -> Result<Page<Activity>> {
        let mut db = self.core.store.read().await?;
        sql::page(&mut db, caller.organization, &caller.restrictions.teams, filter, window).await
    }
}
