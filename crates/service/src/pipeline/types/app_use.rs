//! Who uses which app, and how that goes.

use super::Collection;
use crate::clock::Time;
use crate::id::{AppConfigId, AppId};

/// One team's use of an app, without what the app is told.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct AppUse {
    pub id: AppConfigId,
    pub app_id: AppId,
    #[sqlx(try_from = "String")]
    pub collection: Collection,
    pub app_name: String,
    pub team_name: String,
    pub enabled: bool,
    #[sqlx(rename = "sort_order")]
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
