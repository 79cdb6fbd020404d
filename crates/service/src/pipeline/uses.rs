//! Who uses which app, and how that goes: what lists and the overview show of configurations.

use boxed::boxed;

use super::lookup::{CONFIGURE, allow, find_app};
use super::sql;
use super::types::{App, AppUse, Collection, UseCount};
use crate::Service;
use crate::access::{Caller, ReadApps};
use crate::error::Result;
use crate::id::AppId;
use crate::page::{Page, Window};

/// What an organization should know of its apps.
#[derive(Debug, Clone, Default)]
pub struct AppsSeen {
    /// How many belong to it. Those that others share with it are for them to look after.
    pub count: i64,
    /// Those of them that something newer is known of, newest first.
    pub outdated: Page<App>,
    /// Configurations, of whoever's apps, that failed so often that they were disabled, the latest first.
    pub given_up: Page<AppUse>,
}

impl Service {
    /// The configurations of an app, oldest first.
    #[boxed]
    pub async fn app_uses(
        &self,
        caller: &Caller<ReadApps>,
        collection: Collection,
        app: AppId,
        window: Window,
    ) -> Result<Page<AppUse>> {
        let mut db = self.core.store.read().await?;
        allow(&mut db, caller, CONFIGURE).await?;
        find_app(&mut db, caller, collection, app).await?;
        sql::uses::of_app(&mut db, caller.organization, &caller.restrictions.teams, app, window).await
    }

    /// How much the organization uses these apps. Those that it does not use are left out.
    #[boxed]
    pub async fn app_use_counts(&self, caller: &Caller<ReadApps>, apps: &[AppId]) -> Result<Vec<UseCount>> {
        let mut db = self.core.store.read().await?;
        allow(&mut db, caller, CONFIGURE).await?;
        sql::uses::counts(&mut db, caller.organization, &caller.restrictions.teams, apps).await
    }

    /// The window is that of each list.
    #[boxed]
    pub async fn apps_seen(&self, caller: &Caller<ReadApps>, window: Window) -> Result<AppsSeen> {
        let mut db = self.core.store.read().await?;
        allow(&mut db, caller, CONFIGURE).await?;
        let organization = caller.organization;
        Ok(AppsSeen {
            count: sql::apps::count_own(&mut db, organization).await?,
            outdated: sql::apps::page_of_outdated(&mut db, organization, window).await?,
            given_up: sql::uses::given_up(&mut db, organization, &caller.restrictions.teams, window).await?,
        })
    }
}
