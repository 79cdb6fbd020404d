//! Lists that the OpenAPI spec describes as a Pipeline item: the fields of their first result, and the list beside them.

use apps::Apps;
use axum::extract::State;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use service::access::ReadApps;
use service::pipeline::{App, PluginType};
use service::{Page, Service};
use uuid::Uuid;

use super::collections::In;
use super::views::{AppView, CatalogView, ConfigView};
use crate::activity::ActivityView;
use crate::http::access::Allowed;
use crate::http::error::Problem;
use crate::http::json::to_json;
use crate::http::page::{PageLinks, PageView, Paging};
use crate::http::reply::{Reply, View};

macro_rules! routes {
    ($in:ty, $name:literal) => {
        Routes::new()
            .route(
                below!($name, "activity/"),
                get(
                    gathered::activity::<$in>,
                    operation(
                        concat!($name, "_activity_retrieve"),
                        TAG,
                        "List activity on apps and their configurations, newest first",
                    ),
                ),
            )
            .route(
                below!($name, "unused/"),
                get(
                    gathered::unused::<$in>,
                    operation(
                        concat!($name, "_unused_retrieve"),
                        TAG,
                        "List apps that no team has enabled",
                    ),
                ),
            )
            .route(
                below!($name, "repository/"),
                get(
                    gathered::repository::<$in>,
                    operation(
                        concat!($name, "_repository_retrieve"),
                        TAG,
                        "List apps that can be installed",
                    ),
                ),
            )
            .route(
                below!($name, "exports_unsubscribe_configs/"),
                get(
                    gathered::enabled_configs::<$in>,
                    operation(
                        concat!($name, "_exports_unsubscribe_configs_retrieve"),
                        TAG,
                        "List enabled configurations",
                    ),
                ),
            )
    };
}
pub(super) use routes;

pub(super) async fn activity<C: In>(
    State(service): State<Service>,
    Allowed(caller): Allowed<ReadApps>,
    paging: Paging,
) -> Result<Reply<Gathered<ActivityView<'static>>>, Problem> {
    let (page, first) = service.app_activity(&caller, C::COLLECTION, paging.window).await?;
    let first = first.as_ref().map(FirstView::from);
    Ok(gathered(&paging, first, page.map(ActivityView::from)).await)
}

pub(super) async fn unused<C: In>(
    State(service): State<Service>,
    Allowed(caller): Allowed<ReadApps>,
    paging: Paging,
) -> Result<Reply<Gathered<AppView<'static>>>, Problem> {
    let page = service.unused_apps(&caller, C::COLLECTION, paging.window).await?;
    let first = page.items.first().map(FirstView::from);
    Ok(gathered(&paging, first, page.map(AppView::from)).await)
}

pub(super) async fn repository<C: In>(
    State(apps): State<Apps>,
    Allowed(caller): Allowed<ReadApps>,
    paging: Paging,
) -> Result<Reply<Gathered<CatalogView>>, Problem> {
    let page = apps.catalog(&caller, C::COLLECTION, paging.window).await?;
    let view = page.map(CatalogView::from);
    let first = view.items.first().map(FirstView::from);
    Ok(gathered(&paging, first, view).await)
}

pub(super) async fn enabled_configs<C: In>(
    State(service): State<Service>,
    Allowed(caller): Allowed<ReadApps>,
    paging: Paging,
) -> Result<Reply<Gathered<ConfigView<'static>>>, Problem> {
    let (page, first) = service
        .enabled_app_configs(&caller, C::COLLECTION, paging.window)
        .await?;
    let first = first.as_ref().map(FirstView::from);
    Ok(gathered(&paging, first, page.map(ConfigView::from)).await)
}

/// A list with the fields of a pipeline item: those of the first result, null if there is none.
#[derive(Debug, JsonSchema)]
#[schemars(rename = "PipelineItemAnd{V}Page")]
#[expect(dead_code, reason = "it describes what is written as a head and a page")]
pub(crate) struct Gathered<V> {
    #[serde(flatten)]
    first: FirstView,
    #[serde(flatten)]
    page: PageView<V>,
}

/// What stands before the results.
#[derive(Serialize)]
struct Head<'a> {
    #[serde(flatten)]
    first: &'a FirstView,
    #[serde(flatten)]
    links: &'a PageLinks,
}

#[derive(Debug, Default, Serialize, JsonSchema)]
struct FirstView {
    id: Option<i64>,
    plugin_type: Option<PluginType>,
    name: Option<String>,
    description: Option<String>,
    url: Option<String>,
    icon: Option<String>,
    config_schema: Option<Value>,
    tag: Option<String>,
    latest_tag: Option<String>,
    is_global: Option<bool>,
    organization_id: Option<Uuid>,
    organization_name: Option<String>,
    capabilities: Option<Value>,
    metrics: Option<Value>,
    public_jobs: Option<Value>,
}

/// A page, and what its first result is or belongs to.
async fn gathered<V: View>(paging: &Paging, first: Option<FirstView>, page: Page<V>) -> Reply<Gathered<V::Doc>> {
    let first = first.unwrap_or_default();
    let head = |links: &PageLinks| to_json(&Head { first: &first, links });
    let (body, _) = paging.write(page, head).await;
    Reply::written(body)
}

impl From<&App> for FirstView {
    fn from(app: &App) -> Self {
        Self {
            id: Some(app.id.0),
            plugin_type: Some(app.plugin_type),
            name: Some(app.name.to_string()),
            description: Some(app.description.clone()),
            url: app.url.clone(),
            icon: app.icon.clone(),
            config_schema: Some(app.config_schema.clone()),
            tag: app.tag.clone(),
            latest_tag: app.latest_tag.clone(),
            is_global: Some(app.is_global),
            organization_id: Some(app.organization_id.0),
            organization_name: Some(app.organization_name.clone()),
            capabilities: Some(app.capabilities.clone()),
            metrics: Some(app.metrics.clone()),
            public_jobs: Some(app.public_jobs.clone()),
        }
    }
}

impl From<&CatalogView> for FirstView {
    fn from(entry: &CatalogView) -> Self {
        Self {
            name: Some(entry.name.clone()),
            description: Some(entry.description.clone()),
            url: Some(entry.url.clone()),
            icon: entry.image_link.clone(),
            ..Self::default()
        }
    }
}
