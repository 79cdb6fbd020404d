//! Lists that the document describes as a Pipeline item: the fields of their first result, and the list beside them.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use service::Page;
use service::pipeline::{App, PluginType};
use uuid::Uuid;

use super::views::CatalogView;
use crate::http::json::to_json;
use crate::http::page::{PageLinks, PageView, Paging};
use crate::http::reply::{Reply, View};

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
pub(super) struct FirstView {
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
pub(super) async fn gathered<V: View>(
    paging: &Paging,
    first: Option<FirstView>,
    page: Page<V>,
) -> Reply<Gathered<V::Doc>> {
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
