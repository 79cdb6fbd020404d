//! Pipeline apps: three collections with the same operations.

mod configs;
mod gathered;
mod views;

use std::collections::BTreeMap;

use aide::axum::ApiRouter;
use aide::axum::routing::{get_with, patch_with, post_with};
use apps::{Apps, SourceChange, Wanted};
use axum::extract::State;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::Value;
use service::access::{ChangeApps, ReadApps};
use service::pipeline::{App, AppPatch, Collection, NewApp};
use service::{AppId, Invalid, Service};

use crate::Api;
use crate::activity::ActivityView;
use crate::http::access::Allowed;
use crate::http::body::Body;
use crate::http::conditional::IfMatch;
use crate::http::error::Problem;
use crate::http::page::{Listed, Paging};
use crate::http::path::Id;
use crate::http::query::Query;
use crate::http::reply::{Created, NoContent, Reply};
use crate::openapi::operation;
use gathered::{FirstView, Gathered, gathered};
use views::{AppView, CatalogView, ConfigView, SourceView, UpgradeView, VersionView};

pub(crate) const TAG: &str = "Pipeline apps";

/// A collection as a type, so that each operation of each stands in the route table.
pub(crate) trait In: Send + Sync + 'static {
    const COLLECTION: Collection;
}

macro_rules! collections {
    ($($name:ident),+) => {$(
        pub(crate) struct $name;

        impl In for $name {
            const COLLECTION: Collection = Collection::$name;
        }
    )+};
}

collections!(Destinations, FrontendApps, ImportApps);

pub(crate) fn routes() -> ApiRouter<Api> {
    macro_rules! collection {
        ($in:ty, $name:literal) => {
            items!($in, $name)
                .merge(lists!($in, $name))
                .merge(code!($in, $name))
                .merge(configs::routes!($in, $name))
        };
    }
    ApiRouter::new()
        .merge(collection!(Destinations, "pipeline_destinations"))
        .merge(collection!(FrontendApps, "pipeline_frontend_apps"))
        .merge(collection!(ImportApps, "pipeline_import_apps"))
}

macro_rules! below {
    ($name:literal, $rest:literal) => {
        concat!("/api/organizations/{organization_id}/", $name, "/", $rest)
    };
}
use below;

macro_rules! items {
    ($in:ty, $name:literal) => {
        ApiRouter::<Api>::new()
            .api_route(
                below!($name, ""),
                get_with(
                    list::<$in>,
                    operation(concat!($name, "_list"), TAG, "List apps, newest first"),
                )
                .post_with(
                    create::<$in>,
                    operation(concat!($name, "_create"), TAG, "Install or create an app"),
                ),
            )
            .api_route(
                below!($name, "{id}/"),
                get_with(
                    retrieve::<$in>,
                    operation(concat!($name, "_retrieve"), TAG, "Retrieve an app"),
                )
                .patch_with(
                    update::<$in>,
                    operation(concat!($name, "_partial_update"), TAG, "Update an app"),
                )
                .delete_with(
                    destroy::<$in>,
                    operation(concat!($name, "_destroy"), TAG, "Delete an app and its configurations"),
                ),
            )
    };
}
use items;

macro_rules! lists {
    ($in:ty, $name:literal) => {
        ApiRouter::<Api>::new()
            .api_route(
                below!($name, "activity/"),
                get_with(
                    activity::<$in>,
                    operation(
                        concat!($name, "_activity_retrieve"),
                        TAG,
                        "List activity on apps and their configurations, newest first",
                    ),
                ),
            )
            .api_route(
                below!($name, "unused/"),
                get_with(
                    unused::<$in>,
                    operation(
                        concat!($name, "_unused_retrieve"),
                        TAG,
                        "List apps that no team has enabled",
                    ),
                ),
            )
            .api_route(
                below!($name, "repository/"),
                get_with(
                    repository::<$in>,
                    operation(
                        concat!($name, "_repository_retrieve"),
                        TAG,
                        "List apps that can be installed",
                    ),
                ),
            )
            .api_route(
                below!($name, "exports_unsubscribe_configs/"),
                get_with(
                    enabled_configs::<$in>,
                    operation(
                        concat!($name, "_exports_unsubscribe_configs_retrieve"),
                        TAG,
                        "List enabled configurations",
                    ),
                ),
            )
    };
}
use lists;

macro_rules! code {
    ($in:ty, $name:literal) => {
        ApiRouter::<Api>::new()
            .api_route(
                below!($name, "{id}/check_for_updates/"),
                get_with(
                    check_for_updates::<$in>,
                    operation(concat!($name, "_check_for_updates_retrieve"), TAG, "Check for updates"),
                ),
            )
            .api_route(
                below!($name, "{id}/source/"),
                get_with(
                    source::<$in>,
                    operation(
                        concat!($name, "_source_retrieve"),
                        TAG,
                        "Retrieve an app's source files",
                    ),
                ),
            )
            .api_route(
                below!($name, "{id}/update_source/"),
                patch_with(
                    update_source::<$in>,
                    operation(
                        concat!($name, "_update_source_partial_update"),
                        TAG,
                        "Update an app's source files",
                    ),
                ),
            )
            .api_route(
                below!($name, "{id}/upgrade/"),
                post_with(
                    upgrade::<$in>,
                    operation(
                        concat!($name, "_upgrade_create"),
                        TAG,
                        "Upgrade to the latest tag, or to a given tag",
                    ),
                )
                .get_with(
                    preview_upgrade::<$in>,
                    operation(concat!($name, "_upgrade_retrieve"), TAG, "Preview an upgrade"),
                ),
            )
            .api_route(
                below!($name, "{id}/rollback/"),
                post_with(
                    roll_back::<$in>,
                    operation(
                        concat!($name, "_rollback_create"),
                        TAG,
                        "Roll back to an earlier version",
                    ),
                ),
            )
            .api_route(
                below!($name, "{id}/versions/"),
                get_with(
                    versions::<$in>,
                    operation(
                        concat!($name, "_versions_list"),
                        TAG,
                        "List stored versions, newest first",
                    ),
                ),
            )
    };
}
use code;

async fn list<C: In>(
    State(service): State<Service>,
    Allowed(caller): Allowed<ReadApps>,
    paging: Paging,
) -> Result<Listed<AppView<'static>>, Problem> {
    let page = service.apps(&caller, C::COLLECTION, paging.window).await?;
    Ok(paging.reply(page.map(AppView::from)).await)
}

async fn create<C: In>(
    State(apps): State<Apps>,
    Allowed(caller): Allowed<ChangeApps>,
    Body(new): Body<NewApp>,
) -> Result<Created<AppView<'static>>, Problem> {
    let app = apps.create(&caller, C::COLLECTION, &new).await?;
    Ok(Created::new(&AppView::from(&app)).at(at(&app, "")))
}

async fn retrieve<C: In>(
    State(service): State<Service>,
    Allowed(caller): Allowed<ReadApps>,
    Id(id): Id<AppId>,
) -> Result<Reply<AppView<'static>>, Problem> {
    let app = service.app(&caller, C::COLLECTION, id).await?;
    Ok(Reply::new(&AppView::from(&app)))
}

async fn update<C: In>(
    State(service): State<Service>,
    Allowed(caller): Allowed<ChangeApps>,
    Id(id): Id<AppId>,
    if_match: IfMatch,
    Body(patch): Body<AppPatch>,
) -> Result<Reply<AppView<'static>>, Problem> {
    let unchanged = |app: &App| if_match.fits(&AppView::from(app));
    let app = service
        .update_app(&caller, C::COLLECTION, id, &patch, &unchanged)
        .await?;
    Ok(Reply::new(&AppView::from(&app)))
}

async fn destroy<C: In>(
    State(service): State<Service>,
    Allowed(caller): Allowed<ChangeApps>,
    Id(id): Id<AppId>,
    if_match: IfMatch,
) -> Result<NoContent, Problem> {
    let unchanged = |app: &App| if_match.fits(&AppView::from(app));
    service.delete_app(&caller, C::COLLECTION, id, &unchanged).await?;
    Ok(NoContent)
}

async fn check_for_updates<C: In>(
    State(apps): State<Apps>,
    Allowed(caller): Allowed<ReadApps>,
    Id(id): Id<AppId>,
) -> Result<Reply<AppView<'static>>, Problem> {
    let app = apps.check_for_updates(&caller, C::COLLECTION, id).await?;
    Ok(Reply::new(&AppView::from(&app)))
}

async fn source<C: In>(
    State(service): State<Service>,
    Allowed(caller): Allowed<ReadApps>,
    Id(id): Id<AppId>,
) -> Result<Reply<SourceView<'static>>, Problem> {
    let found = service.app_with_files(&caller, C::COLLECTION, id).await?;
    Ok(Reply::new(&SourceView::from(&found)))
}

async fn update_source<C: In>(
    State(apps): State<Apps>,
    Allowed(caller): Allowed<ChangeApps>,
    Id(id): Id<AppId>,
    Body(wish): Body<SourceWish>,
) -> Result<Reply<SourceView<'static>>, Problem> {
    let found = apps.update_source(&caller, C::COLLECTION, id, &wish.change()?).await?;
    Ok(Reply::new(&SourceView::from(&found)))
}

async fn upgrade<C: In>(
    State(apps): State<Apps>,
    Allowed(caller): Allowed<ChangeApps>,
    Id(id): Id<AppId>,
    Body(wish): Body<UpgradeWish>,
) -> Result<Reply<UpgradeView<'static>>, Problem> {
    let (app, difference) = apps.upgrade(&caller, C::COLLECTION, id, &wish.into()).await?;
    Ok(Reply::new(&UpgradeView::new(&app, &difference)))
}

async fn preview_upgrade<C: In>(
    State(apps): State<Apps>,
    Allowed(caller): Allowed<ChangeApps>,
    Id(id): Id<AppId>,
    Query(wish): Query<UpgradeWish>,
) -> Result<Reply<UpgradeView<'static>>, Problem> {
    let (app, upgrade) = apps.preview_upgrade(&caller, C::COLLECTION, id, &wish.into()).await?;
    Ok(Reply::new(&UpgradeView::preview(&app, upgrade)))
}

async fn roll_back<C: In>(
    State(service): State<Service>,
    Allowed(caller): Allowed<ChangeApps>,
    Id(id): Id<AppId>,
    Body(wish): Body<RollBackWish>,
) -> Result<Reply<UpgradeView<'static>>, Problem> {
    let (app, difference) = service.roll_back_app(&caller, C::COLLECTION, id, wish.version).await?;
    Ok(Reply::new(&UpgradeView::new(&app, &difference)))
}

async fn versions<C: In>(
    State(service): State<Service>,
    Allowed(caller): Allowed<ReadApps>,
    Id(id): Id<AppId>,
    paging: Paging,
) -> Result<Listed<VersionView>, Problem> {
    let versions = service.app_versions(&caller, C::COLLECTION, id).await?;
    let page = service::Page::cut(versions, paging.window);
    Ok(paging.reply(page.map(VersionView::from)).await)
}

async fn activity<C: In>(
    State(service): State<Service>,
    Allowed(caller): Allowed<ReadApps>,
    paging: Paging,
) -> Result<Reply<Gathered<ActivityView<'static>>>, Problem> {
    let (page, first) = service.app_activity(&caller, C::COLLECTION, paging.window).await?;
    let first = first.as_ref().map(FirstView::from);
    Ok(gathered(&paging, first, page.map(ActivityView::from)).await)
}

async fn unused<C: In>(
    State(service): State<Service>,
    Allowed(caller): Allowed<ReadApps>,
    paging: Paging,
) -> Result<Reply<Gathered<AppView<'static>>>, Problem> {
    let page = service.unused_apps(&caller, C::COLLECTION, paging.window).await?;
    let first = page.items.first().map(FirstView::from);
    Ok(gathered(&paging, first, page.map(AppView::from)).await)
}

async fn repository<C: In>(
    State(apps): State<Apps>,
    Allowed(caller): Allowed<ReadApps>,
    paging: Paging,
) -> Result<Reply<Gathered<CatalogView>>, Problem> {
    let page = apps.catalog(&caller, C::COLLECTION, paging.window).await?;
    let view = page.map(CatalogView::from);
    let first = view.items.first().map(FirstView::from);
    Ok(gathered(&paging, first, view).await)
}

async fn enabled_configs<C: In>(
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

fn at(app: &App, rest: &str) -> String {
    format!(
        "/api/organizations/{}/{}/{}/{rest}",
        app.organization_id, app.collection, app.id
    )
}

/// No other field has a dot in its name, so that a name with one is that of a file.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(extend(
    "examples" = [{ "source": { "index.ts": "export function onEvent(event) { console.log(event.event) }", "old.ts": null } }],
    "patternProperties" = { "\\.": {
        "type": ["string", "null"], "x-nullable": true,
        "description": "A file sent next to `source` instead of inside it, as PostHog's clients do. Null deletes it."
    } }
))]
struct SourceWish {
    /// Files by name; null deletes a file. Omitted files do not change.
    #[serde(default)]
    #[schemars(schema_with = "files_to_change")]
    source: Option<BTreeMap<String, Option<String>>>,
    #[serde(flatten)]
    patch: AppPatch,
    #[serde(flatten)]
    #[schemars(skip)]
    rest: BTreeMap<String, Value>,
}

fn files_to_change(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "additionalProperties": { "type": ["string", "null"], "x-nullable": true } })
}

impl SourceWish {
    fn change(self) -> Result<SourceChange, Problem> {
        let mut files = self.source.unwrap_or_default();
        for (name, text) in self.rest.into_iter().filter(|(name, _)| name.contains('.')) {
            if files.contains_key(&name) {
                return Err(Problem::Validation(vec![Invalid {
                    field: Some(name.into()),
                    code: "invalid_input",
                    detail: "This file was sent twice. Send it either in source or next to it.".to_owned(),
                }]));
            }
            files.insert(name, text.as_str().map(str::to_owned));
        }
        Ok(SourceChange {
            files,
            patch: self.patch,
            seen: None,
        })
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{ "tag": "v1.2.0" }]))]
struct UpgradeWish {
    /// The tag, branch or commit to upgrade to. Defaults to the latest tag.
    #[schemars(length(max = 200), extend("x-nullable" = true))]
    tag: Option<String>,
    /// The required SHA-256 checksum of the files, in hexadecimal. Required for an app that is pinned to a checksum;
    /// the app is then pinned to this one.
    #[schemars(length(min = 64, max = 64), extend("pattern" = "^[0-9a-fA-F]{64}$", "x-nullable" = true))]
    sha256: Option<String>,
}

impl From<UpgradeWish> for Wanted {
    fn from(UpgradeWish { tag, sha256 }: UpgradeWish) -> Self {
        Self { tag, sha256 }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{}]))]
struct RollBackWish {
    /// The version to roll back to. Defaults to the previous version.
    version: Option<i64>,
}
