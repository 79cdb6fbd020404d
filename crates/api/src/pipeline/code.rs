//! The code of apps: its files, its versions, and newer ones.

use std::collections::BTreeMap;

use apps::{Apps, SourceChange, Wanted};
use axum::extract::State;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::Value;
use service::access::{ChangeApps, ReadApps};
use service::pipeline::AppPatch;
use service::{AppId, Invalid, Page, Service};

use super::collections::In;
use super::views::{AppView, SourceView, UpgradeView, VersionView};
use crate::http::access::Allowed;
use crate::http::body::Body;
use crate::http::error::Problem;
use crate::http::page::{Listed, Paging};
use crate::http::path::Id;
use crate::http::query::Query;
use crate::http::reply::Reply;

macro_rules! routes {
    ($in:ty, $name:literal) => {
        Routes::new()
            .route(
                below!($name, "{id}/check_for_updates/"),
                get(
                    code::check_for_updates::<$in>,
                    operation(concat!($name, "_check_for_updates_retrieve"), TAG, "Check for updates"),
                ),
            )
            .route(
                below!($name, "{id}/source/"),
                get(
                    code::source::<$in>,
                    operation(
                        concat!($name, "_source_retrieve"),
                        TAG,
                        "Retrieve an app's source files",
                    ),
                ),
            )
            .route(
                below!($name, "{id}/update_source/"),
                patch(
                    code::update_source::<$in>,
                    operation(
                        concat!($name, "_update_source_partial_update"),
                        TAG,
                        "Update an app's source files",
                    ),
                ),
            )
            .route(
                below!($name, "{id}/upgrade/"),
                post(
                    code::upgrade::<$in>,
                    operation(
                        concat!($name, "_upgrade_create"),
                        TAG,
                        "Upgrade to the latest tag, or to a given tag",
                    ),
                )
                .get(
                    code::preview_upgrade::<$in>,
                    operation(concat!($name, "_upgrade_retrieve"), TAG, "Preview an upgrade"),
                ),
            )
            .route(
                below!($name, "{id}/rollback/"),
                post(
                    code::roll_back::<$in>,
                    operation(
                        concat!($name, "_rollback_create"),
                        TAG,
                        "Roll back to an earlier version",
                    ),
                ),
            )
            .route(
                below!($name, "{id}/versions/"),
                get(
                    code::versions::<$in>,
                    operation(
                        concat!($name, "_versions_list"),
                        TAG,
                        "List stored versions, newest first",
                    ),
                ),
            )
    };
}
pub(super) use routes;

pub(super) async fn check_for_updates<C: In>(
    State(apps): State<Apps>,
    Allowed(caller): Allowed<ReadApps>,
    Id(id): Id<AppId>,
) -> Result<Reply<AppView<'static>>, Problem> {
    let app = apps.check_for_updates(&caller, C::COLLECTION, id).await?;
    Ok(Reply::new(&AppView::from(&app)))
}

pub(super) async fn source<C: In>(
    State(service): State<Service>,
    Allowed(caller): Allowed<ReadApps>,
    Id(id): Id<AppId>,
) -> Result<Reply<SourceView<'static>>, Problem> {
    let found = service.app_with_files(&caller, C::COLLECTION, id).await?;
    Ok(Reply::new(&SourceView::from(&found)))
}

pub(super) async fn update_source<C: In>(
    State(apps): State<Apps>,
    Allowed(caller): Allowed<ChangeApps>,
    Id(id): Id<AppId>,
    Body(patch): Body<SourcePatch>,
) -> Result<Reply<SourceView<'static>>, Problem> {
    let found = apps.update_source(&caller, C::COLLECTION, id, &patch.change()?).await?;
    Ok(Reply::new(&SourceView::from(&found)))
}

pub(super) async fn upgrade<C: In>(
    State(apps): State<Apps>,
    Allowed(caller): Allowed<ChangeApps>,
    Id(id): Id<AppId>,
    Body(request): Body<UpgradeRequest>,
) -> Result<Reply<UpgradeView<'static>>, Problem> {
    let (app, difference) = apps.upgrade(&caller, C::COLLECTION, id, &request.into()).await?;
    Ok(Reply::new(&UpgradeView::new(&app, &difference)))
}

pub(super) async fn preview_upgrade<C: In>(
    State(apps): State<Apps>,
    Allowed(caller): Allowed<ChangeApps>,
    Id(id): Id<AppId>,
    Query(request): Query<UpgradeRequest>,
) -> Result<Reply<UpgradeView<'static>>, Problem> {
    let (app, upgrade) = apps
        .preview_upgrade(&caller, C::COLLECTION, id, &request.into())
        .await?;
    Ok(Reply::new(&UpgradeView::preview(&app, upgrade)))
}

pub(super) async fn roll_back<C: In>(
    State(service): State<Service>,
    Allowed(caller): Allowed<ChangeApps>,
    Id(id): Id<AppId>,
    Body(request): Body<RollbackRequest>,
) -> Result<Reply<UpgradeView<'static>>, Problem> {
    let (app, difference) = service
        .roll_back_app(&caller, C::COLLECTION, id, request.version)
        .await?;
    Ok(Reply::new(&UpgradeView::new(&app, &difference)))
}

pub(super) async fn versions<C: In>(
    State(service): State<Service>,
    Allowed(caller): Allowed<ReadApps>,
    Id(id): Id<AppId>,
    paging: Paging,
) -> Result<Listed<VersionView>, Problem> {
    let versions = service.app_versions(&caller, C::COLLECTION, id).await?;
    let page = Page::cut(versions, paging.window);
    Ok(paging.reply(page.map(VersionView::from)).await)
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
pub(super) struct SourcePatch {
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

impl SourcePatch {
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
pub(super) struct UpgradeRequest {
    /// The tag, branch or commit to upgrade to. Defaults to the latest tag.
    #[schemars(length(max = 200), extend("x-nullable" = true))]
    tag: Option<String>,
    /// The required SHA-256 checksum of the files, in hexadecimal. Required for an app that is pinned to a checksum;
    /// the app is then pinned to this one.
    #[schemars(length(min = 64, max = 64), extend("pattern" = "^[0-9a-fA-F]{64}$", "x-nullable" = true))]
    sha256: Option<String>,
}

impl From<UpgradeRequest> for Wanted {
    fn from(UpgradeRequest { tag, sha256 }: UpgradeRequest) -> Self {
        Self { tag, sha256 }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{}]))]
pub(super) struct RollbackRequest {
    /// The version to roll back to. Defaults to the previous version.
    version: Option<i64>,
}
