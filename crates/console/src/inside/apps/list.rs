//! The apps of a collection, who uses them, and how that goes.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use serde::Deserialize;
use service::access::ReadApps;
use service::pipeline::{App, AppConfig, Collection};
use service::{AppId, Service};

use super::shelf::{Shelf, Tab};
use super::{may_install, newer_tag, origin, version};
use crate::Console;
use crate::curl::{AsCurl, Call};
use crate::failure::Failure;
use crate::inside::Inside;
use crate::inside::frame::{Frame, Section};
use crate::page::page;
use crate::paging::{Pages, Place};
use crate::show;
use crate::visitor::InQuery;

pub(super) fn routes() -> Router<Console> {
    Router::new()
        .route("/organizations/{organization}/apps/", get(first))
        .route("/organizations/{organization}/apps/{collection}/", get(list))
}

#[derive(Template)]
#[template(path = "inside/apps/list.html")]
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
    problems: usize,
}

impl Row {
    fn new<P>(app: &App, configs: &[AppConfig], inside: &Inside<P>) -> Self {
        let own = configs.iter().filter(|config| config.app_id == app.id);
        let on = own.clone().filter(|config| config.enabled).count();
        let is_here = app.organization_id == inside.organization.id;
        Self {
            id: app.id,
            name: app.name.to_string(),
            description: app.description.clone(),
            origin: origin(app),
            version: version(app.version, app.tag.as_deref()),
            newer: newer_tag(app),
            owner: (!is_here).then(|| app.organization_name.clone()),
            on: show::counted(i64::try_from(on).unwrap_or(i64::MAX), "configuration"),
            is_on: on > 0,
            problems: own.filter(|config| config.latest_error.is_some()).count(),
        }
    }
}

#[derive(Debug, Default, Deserialize)]
struct Asked {
    #[serde(default)]
    page: String,
    #[serde(default)]
    done: String,
}

async fn first(state: State<Service>, inside: Inside<ReadApps>, asked: InQuery<Asked>) -> Result<Response, Failure> {
    list(state, inside, Shelf(Collection::Destinations), asked).await
}

async fn list(
    State(service): State<Service>,
    inside: Inside<ReadApps>,
    shelf: Shelf,
    InQuery(asked): InQuery<Asked>,
) -> Result<Response, Failure> {
    let place = Place::read(&asked.page);
    let apps = service.apps(&inside.caller, shelf.0, place.window()).await?;
    let configs = service.app_configs_in(&inside.caller, shelf.0).await?;
    let base = inside.path(&shelf.path());
    let row = |app: &App| Row::new(app, &configs, &inside);
    let call = Call::get::<ReadApps>("List the apps", inside.api(&shelf.api()));
    Ok(page(&ListPage {
        frame: Frame::new(&inside, Section::Apps).noting(&asked.done),
        tabs: shelf.tabs(),
        about: shelf.about(),
        scope: shelf.0.scope(),
        apps: apps.items.iter().map(row).collect(),
        pages: Pages::new(&base, &[], place, apps.count),
        may_install: may_install(&service, &inside).await?,
        curl: AsCurl::new(&service, [call]),
        base,
    }))
}
