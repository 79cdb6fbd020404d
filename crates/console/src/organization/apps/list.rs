//! The apps of a collection, who uses them, and how that goes.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use serde::Deserialize;
use service::access::ReadApps;
use service::pipeline::{App, Collection, UseCount};
use service::{AppId, Service};

use super::collection::{CollectionPages, Tab};
use super::labels::{newer_tag, origin, version};
use super::permissions::may_install;
use crate::curl::{AsCurl, Call};
use crate::failure::Failure;
use crate::organization::OrganizationAccess;
use crate::organization::frame::{Frame, Section};
use crate::page::page;
use crate::paging::{PageNumber, Pages};
use crate::show;
use crate::state::Console;
use crate::visitor::InQuery;

pub(super) fn routes() -> Router<Console> {
    Router::new()
        .route("/organizations/{organization}/apps/", get(first))
        .route("/organizations/{organization}/apps/{collection}/", get(list))
}

#[derive(Template)]
#[template(path = "organization/apps/list.html")]
struct ListPage {
    frame: Frame,
    tabs: Vec<Tab>,
    about: &'static str,
    base: String,
    scope: &'static str,
    apps: Vec<Row>,
    pages: Pages,
    may_install: bool,
    curl: AsCurl,
}

struct Row {
    id: AppId,
    name: String,
    description: String,
    origin: String,
    version: String,
    newer: Option<String>,
    /// Of another organization, which alone may change it.
    owner: Option<String>,
    on: String,
    is_on: bool,
    problems: i64,
}

impl Row {
    fn new<P>(app: &App, counts: &[UseCount], access: &OrganizationAccess<P>) -> Self {
        let counted = counts.iter().find(|count| count.app == app.id);
        let (on, problems) = counted.map_or((0, 0), |count| (count.enabled, count.troubled));
        let is_here = app.organization_id == access.organization.id;
        Self {
            id: app.id,
            name: app.name.to_string(),
            description: app.description.clone(),
            origin: origin(app),
            version: version(app.version, app.tag.as_deref()),
            newer: newer_tag(app),
            owner: (!is_here).then(|| app.organization_name.clone()),
            on: show::counted(on, "configuration"),
            is_on: on > 0,
            problems,
        }
    }
}

#[derive(Debug, Default, Deserialize)]
struct AppsQuery {
    #[serde(default)]
    page: String,
    #[serde(default)]
    done: String,
}

async fn first(
    state: State<Service>,
    access: OrganizationAccess<ReadApps>,
    asked: InQuery<AppsQuery>,
) -> Result<Response, Failure> {
    list(state, access, CollectionPages(Collection::Destinations), asked).await
}

async fn list(
    State(service): State<Service>,
    access: OrganizationAccess<ReadApps>,
    collection: CollectionPages,
    InQuery(asked): InQuery<AppsQuery>,
) -> Result<Response, Failure> {
    let place = PageNumber::read(&asked.page);
    let apps = service.apps(&access.caller, collection.0, place.window()).await?;
    let ids: Vec<AppId> = apps.items.iter().map(|app| app.id).collect();
    let counts = service.app_use_counts(&access.caller, &ids).await?;
    let base = access.path(&collection.path());
    let row = |app: &App| Row::new(app, &counts, &access);
    let call = Call::get::<ReadApps>("List the apps", access.api(&collection.api()));
    Ok(page(&ListPage {
        frame: Frame::new(&access, Section::Apps).noting(&asked.done),
        tabs: collection.tabs(),
        about: collection.about(),
        scope: collection.0.scope(),
        apps: apps.items.iter().map(row).collect(),
        pages: Pages::new(&base, &[], place, apps.count),
        may_install: may_install(&service, &access).await?,
        curl: AsCurl::new(&service, [call]),
        base,
    }))
}
