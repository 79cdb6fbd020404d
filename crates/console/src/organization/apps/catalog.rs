//! Apps to choose from, and installing one with a click.

use apps::{Apps, CatalogEntry};
use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use serde::Deserialize;
use serde_json::json;
use service::access::{ChangeApps, Permission, ReadApps};
use service::pipeline::{AppFields, NewApp, PluginType};
use service::{Service, Window};

use super::collection::CollectionPages;
use super::frame::frame;
use super::permissions::may_install;
use crate::curl::{AsCurl, Call};
use crate::failure::{Failure, Problems};
use crate::organization::OrganizationAccess;
use crate::organization::frame::Frame;
use crate::page::{go_to, page_again};
use crate::paging::{PageNumber, Pages};
use crate::state::Console;
use crate::visitor::{InQuery, Sent};

pub(super) fn routes() -> Router<Console> {
    Router::new().route(
        "/organizations/{organization}/apps/{collection}/catalog/",
        get(show_catalog).post(install),
    )
}

#[derive(Template)]
#[template(path = "organization/apps/catalog.html")]
struct CatalogPage {
    frame: Frame,
    alerts: Vec<String>,
    title: &'static str,
    base: String,
    entries: Vec<Row>,
    pages: Pages,
    may_install: bool,
    curl: AsCurl,
}

struct Row {
    name: String,
    description: String,
    url: String,
    /// As it is shown.
    address: String,
    maintainer: String,
    is_verified: bool,
    is_installed: bool,
}

impl Row {
    fn new(entry: &CatalogEntry, installed: &[String]) -> Self {
        Self {
            name: entry.name.clone(),
            description: entry.description.clone(),
            address: entry.url.trim_start_matches("https://").to_owned(),
            maintainer: entry.maintainer.clone(),
            is_verified: entry.verified,
            is_installed: installed.contains(&entry.url),
            url: entry.url.clone(),
        }
    }
}

#[derive(Debug, Default, Deserialize)]
struct CatalogQuery {
    #[serde(default)]
    page: String,
}

async fn show_catalog(
    State(apps): State<Apps>,
    mut access: OrganizationAccess<ReadApps>,
    collection: CollectionPages,
    InQuery(asked): InQuery<CatalogQuery>,
) -> Result<Response, Failure> {
    let place = PageNumber::read(&asked.page);
    catalog_page(&apps, &mut access, collection, place, &Problems::default()).await
}

#[derive(Deserialize)]
struct InstallForm {
    url: String,
}

async fn install(
    State(apps): State<Apps>,
    mut access: OrganizationAccess<ChangeApps>,
    collection: CollectionPages,
    Sent(InstallForm { url }): Sent<InstallForm>,
) -> Result<Response, Failure> {
    let new = NewApp {
        plugin_type: PluginType::Repository,
        url: Some(url),
        source: None,
        rest: AppFields::default(),
    };
    match apps.create(&access.caller, collection.0, &new).await {
        Ok(app) => {
            let place = format!("{}{}/?done=app-installed", collection.path(), app.id);
            Ok(go_to(&access.path(&place)))
        }
        Err(error) => {
            let problems = Problems::try_from(error)?;
            catalog_page(&apps, &mut access, collection, PageNumber::read(""), &problems).await
        }
    }
}

async fn catalog_page<P: Permission>(
    apps: &Apps,
    access: &mut OrganizationAccess<P>,
    collection: CollectionPages,
    place: PageNumber,
    problems: &Problems,
) -> Result<Response, Failure> {
    let service = apps.service();
    let reader = access.also::<ReadApps>(service).await?;
    // The catalog may come from a host that is slow.
    access.give_up_slot();
    let entries = apps.catalog(&reader, collection.0, place.window()).await?;
    access.hold_slot(service).await?;
    let installed = installed(service, access, collection).await?;
    let base = access.path(&collection.path());
    let repository = access.api(&format!("{}repository/", collection.api()));
    let list = Call::get::<ReadApps>("List the catalog", repository);
    let example = entries.items.first().map(|entry| {
        let body = json!({ "plugin_type": "repository", "url": entry.url });
        Call::post::<ChangeApps>("Install an app", access.api(&collection.api())).sending(body)
    });
    let shown = CatalogPage {
        frame: frame(access, collection),
        alerts: super::changes::said(problems),
        title: collection.title(),
        entries: entries.items.iter().map(|entry| Row::new(entry, &installed)).collect(),
        pages: Pages::new(&format!("{base}catalog/"), &[], place, entries.count),
        may_install: may_install(service, access).await?,
        curl: AsCurl::new(service, [list].into_iter().chain(example)),
        base,
    };
    Ok(page_again(problems, &shown))
}

/// The addresses of the apps that are there already.
async fn installed<P: Permission>(
    service: &Service,
    access: &OrganizationAccess<P>,
    collection: CollectionPages,
) -> Result<Vec<String>, Failure> {
    let reader = access.also::<ReadApps>(service).await?;
    let window = Window::new(Some(Window::MAX_LIMIT), None);
    let apps = service.apps(&reader, collection.0, window).await?;
    Ok(apps.items.into_iter().filter_map(|app| app.url).collect())
}
