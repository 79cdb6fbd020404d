//! Lists that the document describes as a Pipeline item: the fields of their first result, and the list beside them.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use service::pipeline::{App, PluginType};
use uuid::Uuid;

use super::views::CatalogueView;
use crate::page::PageView;
use crate::reply::View;

/// A list, with the fields of a Pipeline item: those of its first result, null where there is none.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "PipelineItemAnd{V}Page")]
pub(crate) struct Gathered<V> {
    #[serde(flatten)]
    first: FirstView,
    #[serde(flatten)]
    page: PageView<V>,
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

impl<V> Gathered<V> {
    pub(super) fn new(first: Option<&App>, page: PageView<V>) -> Self {
        let first = first.map(FirstView::from).unwrap_or_default();
        Self { first, page }
    }

    pub(super) fn of_catalogue(first: Option<&CatalogueView>, page: PageView<V>) -> Self {
        let first = first.map(FirstView::from).unwrap_or_default();
        Self { first, page }
    }
}

impl<V: View> View for Gathered<V> {
    type Doc = Gathered<V::Doc>;
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

impl From<&CatalogueView> for FirstView {
    fn from(entry: &CatalogueView) -> Self {
        Self {
            name: Some(entry.name.clone()),
            description: Some(entry.description.clone()),
            url: Some(entry.url.clone()),
            icon: entry.image_link.clone(),
            ..Self::default()
        }
    }
}
