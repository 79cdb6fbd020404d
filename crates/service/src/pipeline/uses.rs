//! Who uses which app, and how that goes: what lists and the overview show of configurations.

use super::cases::{CONFIGURE, allow, find};
use super::{Collection, sql};
use crate::Service;
use crate::access::{Caller, ReadApps};
use crate::clock::Time;
use crate::error::Result;
use crate::id::{AppConfigId, AppId};
use crate::page::{Page, Window};

/// One team's use of an app, without what the app is told.
#[derive(Debug, Clone)]
pub struct AppUse {
    pub id: AppConfigId,
    pub app_id: AppId,
    pub collection: Collection,
    pub app_name: String,
    pub team_name: String,
    pub enabled: bool,
    pub order: i64,
    pub latest_error: Option<String>,
    pub updated_at: Time,
}

/// How many configurations of an app there are.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct UseCount {
    pub app: AppId,
    /// That are on.
    pub enabled: i64,
    /// With an error, whether they are on or not.
    pub troubled: i64,
}

impl Service {
    /// The configurations of an app, oldest first.
    pub async fn app_uses(
        &self,
        caller: &Caller<ReadApps>,
        collection: Collection,
        app: AppId,
        window: Window,
    ) -> Result<Page<AppUse>> {
        let mut db = self.core.store.read().await?;
        allow(&mut db, caller, CONFIGURE).await?;
        find(&mut db, caller, collection, app).await?;
        sql::uses::of_app(&mut db, caller.organization, &caller.reach.teams, app, window).await
    }

    /// How much the organization uses these apps. Those that it does not use are left out.
    pub async fn app_use_counts(&self, caller: &Caller<ReadApps>, apps: &[AppId]) -> Result<Vec<UseCount>> {
        let mut db = self.core.store.read().await?;
        allow(&mut db, caller, CONFIGURE).await?;
        sql::uses::counts(&mut db, caller.organization, &caller.reach.teams, apps).await
    }
}
