//! Lists over a whole collection.

use boxed::boxed;

use super::lookup::{CONFIGURE, allow};
use super::sql;
use super::types::{App, AppConfig, Collection};
use crate::Service;
use crate::access::{Caller, ReadApps};
use crate::activity::{Activity, ActivityFilter};
use crate::error::Result;
use crate::id::AppId;
use crate::page::{Page, Window};

impl Service {
    /// Apps that no team of the organization has enabled, newest first.
    #[boxed]
    pub async fn unused_apps(
        &self,
        caller: &Caller<ReadApps>,
        collection: Collection,
        window: Window,
    ) -> Result<Page<App>> {
        let mut db = self.core.store.read().await?;
        allow(&mut db, caller, CONFIGURE).await?;
        sql::apps::page_of_unused(&mut db, caller.organization, collection, window).await
    }

    /// Configurations that are enabled, in their order, with the app of the first: what a team would have to disable
    /// to stop sending anything.
    #[boxed]
    pub async fn enabled_app_configs(
        &self,
        caller: &Caller<ReadApps>,
        collection: Collection,
        window: Window,
    ) -> Result<(Page<AppConfig>, Option<App>)> {
        let mut db = self.core.store.read().await?;
        allow(&mut db, caller, CONFIGURE).await?;
        let organization = caller.organization;
        let page = sql::configs::page_of_enabled(&mut db, organization, &caller.restrictions.teams, collection, window)
            .await?;
        let app = match page.items.first() {
            Some(config) => sql::apps::find(&mut db, organization, config.app_id).await?,
            None => None,
        };
        Ok((page, app))
    }

    /// What was done to the apps of a collection and their configurations, newest first, with the app of the first action if
    /// it is still there.
    #[boxed]
    pub async fn app_activity(
        &self,
        caller: &Caller<ReadApps>,
        collection: Collection,
        window: Window,
    ) -> Result<(Page<Activity>, Option<App>)> {
        let mut db = self.core.store.read().await?;
        allow(&mut db, caller, CONFIGURE).await?;
        let filter = ActivityFilter {
            scope: Some(collection.scope().to_owned()),
            ..ActivityFilter::default()
        };
        let page = crate::activity::page(
            &mut db,
            caller.organization,
            &caller.restrictions.teams,
            &filter,
            window,
        )
        .await?;
        let first = page.items.first().and_then(|entry| entry.item.parse::<AppId>().ok());
        let app = match first {
            Some(id) => sql::apps::find(&mut db, caller.organization, id).await?,
            None => None,
        };
        Ok((page, app))
    }
}
