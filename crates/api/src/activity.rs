use axum::extract::State;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use service::access::ReadActivity;
use service::activity::{Activity, ActivityFilter, ChangeKind};
use service::{Service, Time, UserUuid};
use uuid::Uuid;

use crate::http::access::Allowed;
use crate::http::error::Problem;
use crate::http::operation::operation;
use crate::http::page::{Listed, Paging};
use crate::http::query::Query;
use crate::http::reply::View;
use crate::http::routing::{Routes, get};
use crate::user::{Stamp, UserView};

pub(crate) fn routes() -> Routes {
    Routes::new().route(
        "/api/organizations/{organization_id}/activity/",
        get(
            list,
            operation(
                "activity_list",
                "Activity",
                "List an organization's activity, newest first",
            ),
        ),
    )
}

#[derive(Debug, Deserialize, JsonSchema)]
struct FilterQuery {
    /// Only entries by this user (the user's UUID).
    user: Option<UserUuid>,
    /// Only entries about this type of resource, such as `Organization` or `Team`.
    #[schemars(length(max = 100))]
    scope: Option<String>,
    /// Only entries about the resource with this ID.
    #[schemars(length(max = 100))]
    item_id: Option<String>,
    /// Only entries after this time.
    after: Option<Time>,
    /// Only entries before this time.
    before: Option<Time>,
}

async fn list(
    State(service): State<Service>,
    Allowed(caller): Allowed<ReadActivity>,
    paging: Paging,
    Query(FilterQuery {
        user,
        scope,
        item_id,
        after,
        before,
    }): Query<FilterQuery>,
) -> Result<Listed<ActivityView<'static>>, Problem> {
    let filter = ActivityFilter {
        user,
        scope,
        item: item_id,
        after,
        before,
    };
    let page = service.activity(&caller, &filter, paging.window).await?;
    Ok(paging.reply(page.map(ActivityView::from)).await)
}

/// An activity log entry.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Activity")]
#[schemars(extend("examples" = [{
    "id": "01a1dd53-efb7-7ca7-9441-db8d41b99317", "user": null, "key_id": null, "is_system": true,
    "scope": "Organization", "item_id": "01a1dd53-efb7-7ca7-95d8-a71aa68b4369", "activity": "updated",
    "detail": { "name": "Acme", "changes": [
        { "type": "Organization", "action": "changed", "field": "name", "before": "Acne", "after": "Acme" }
    ] },
    "request_id": "7125da2915065e50cf28dea9afa70dec", "created_at": "2026-11-15T09:30:00.000000Z"
}]))]
pub(crate) struct ActivityView<'a> {
    id: Uuid,
    /// The user who did it; null for the server's command line.
    user: Option<UserView<'a>>,
    /// The API key that was used, if any.
    key_id: Option<Uuid>,
    is_system: bool,
    /// The type of the resource.
    scope: &'a str,
    item_id: &'a str,
    /// `created`, `updated`, `deleted`, or the name of the action.
    activity: &'a str,
    detail: DetailView<'a>,
    request_id: &'a str,
    created_at: Stamp,
}

/// The name of the resource and what changed.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ActivityDetail")]
struct DetailView<'a> {
    name: &'a str,
    changes: Vec<ChangeView<'a>>,
}

/// A changed field. Secrets are shown as `[redacted]`.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ActivityChange")]
struct ChangeView<'a> {
    r#type: &'a str,
    action: ChangeKind,
    field: &'a str,
    #[schemars(with = "Value")]
    before: &'a RawValue,
    #[schemars(with = "Value")]
    after: &'a RawValue,
}

impl View for ActivityView<'_> {
    type Doc = ActivityView<'static>;
}

impl<'a> From<&'a Activity> for ActivityView<'a> {
    fn from(activity: &'a Activity) -> Self {
        let changes = activity.changes.iter().map(|change| ChangeView {
            r#type: &activity.scope,
            action: change.action,
            field: &change.field,
            before: &change.before,
            after: &change.after,
        });
        Self {
            id: activity.id.0,
            user: activity.user.as_ref().map(UserView::from),
            key_id: activity.key.map(|key| key.0),
            is_system: activity.user.is_none(),
            scope: &activity.scope,
            item_id: &activity.item,
            activity: &activity.activity,
            detail: DetailView {
                name: &activity.name,
                changes: changes.collect(),
            },
            request_id: &activity.request,
            created_at: Stamp(activity.created_at),
        }
    }
}
