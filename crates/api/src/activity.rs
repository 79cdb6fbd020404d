use aide::axum::ApiRouter;
use aide::axum::routing::get_with;
use axum::extract::State;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use service::access::ReadActivity;
use service::activity::{Activity, ActivityFilter, ChangeKind};
use service::{Service, Time, UserUuid};
use uuid::Uuid;

use crate::Api;
use crate::access::Allowed;
use crate::error::Problem;
use crate::openapi::operation;
use crate::page::{Listed, Paging};
use crate::query::Query;
use crate::reply::View;
use crate::user::{Stamp, UserView};

pub(crate) fn routes() -> ApiRouter<Api> {
    ApiRouter::new().api_route(
        "/api/organizations/{organization_id}/activity/",
        get_with(
            list,
            operation(
                "activity_list",
                "Activity",
                "List what was done in an organization, newest first",
            ),
        ),
    )
}

#[derive(Debug, Deserialize, JsonSchema)]
struct FilterQuery {
    /// Only what this user did (the user's uuid).
    user: Option<UserUuid>,
    /// Only what was done to this kind of thing, such as `Organization` or `Team`.
    #[schemars(length(max = 100))]
    scope: Option<String>,
    /// Only what was done to the thing with this id.
    #[schemars(length(max = 100))]
    item_id: Option<String>,
    /// Only what was done after this time.
    after: Option<Time>,
    /// Only what was done before this time.
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

/// Something that was done.
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
    /// Who did it; null when it was done on the server's command line.
    user: Option<UserView<'a>>,
    /// The key that was used, if one was.
    key_id: Option<Uuid>,
    is_system: bool,
    /// The kind of thing it was done to.
    scope: &'a str,
    item_id: &'a str,
    /// `created`, `updated`, `deleted`, or the action's own name.
    activity: &'a str,
    detail: DetailView<'a>,
    request_id: &'a str,
    created_at: Stamp,
}

/// What the thing is called and what changed.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ActivityDetail")]
struct DetailView<'a> {
    name: &'a str,
    changes: Vec<ChangeView<'a>>,
}

/// A field that became another. Secrets are shown as `[redacted]`.
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
