//! Apps to choose from, and installing one with a click.

use apps::{Apps, CatalogueEntry};
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

use super::shelf::Shelf;
use super::{frame, may_install};
use crate::Console;
use crate::curl::{AsCurl, Call};
use crate::failure::{Failure, Problems};
use crate::inside::Inside;
use crate::inside::frame::Frame;
use crate::page::{go_to, page_again};
use crate::paging::{PageNumber, Pages};
use crate::visitor::{InQuery, Sent};

pub(super) fn routes() -> Router<Console> {
    Router::new().route(
        "/organizations/{organization}/apps/{collection}/catalogue/",
        get(show_catalogue).post(install),
    )
}

#[derive(Template)]
#[template(path = "inside/apps/catalogue.html")]
struct CataloguePage {
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
    fn new(entry: &CatalogueEntry, installed: &[String]) -> Self {
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

async fn show_catalogue(
    State(apps): State<Apps>,
    inside: Inside<ReadApps>,
    shelf: Shelf,
    InQuery(asked): InQuery<CatalogQuery>,
) -> Result<Response, Failure> {
    let place = PageNumber::read(&asked.page);
    catalogue_page(&apps, &inside, shelf, place, &Problems::default()).await
}

#[derive(Deserialize)]
struct Chosen {
    url: String,
}

async fn install(
    State(apps): State<Apps>,
    inside: Inside<ChangeApps>,
    shelf: Shelf,
    Sent(Chosen { url }): Sent<Chosen>,
) -> Result<Response, Failure> {
    let new = NewApp {
        plugin_type: PluginType::Repository,
        url: Some(url),
        source: None,
        rest: AppFields::default(),
    };
    match apps.create(&inside.caller, shelf.0, &new).await {
        Ok(app) => {
            let place = format!("{}{}/?done=app-installed", shelf.path(), app.id);
            Ok(go_to(&inside.path(&place)))
        }
        Err(error) => {
            let problems = Problems::try_from(error)?;
            catalogue_page(&apps, &inside, shelf, PageNumber::read(""), &problems).await
        }
    }
}

async fn catalogue_page<P: Permission>(
    apps: &Apps,
    inside: &Inside<P>,
    shelf: Shelf,
    place: PageNumber,
    problems: &Problems,
) -> Result<Response, Failure> {
    let service = apps.service();
    let reader = inside.also::<ReadApps>(service).await?;
    let entries = apps.catalogue(&reader, shelf.0, place.window()).await?;
    let installed = installed(service, inside, shelf).await?;
    let base = inside.path(&shelf.path());
    let repository = inside.api(&format!("{}repository/", shelf.api()));
    let list = Call::get::<ReadApps>("List what can be installed", repository);
    let example = entries.items.first().map(|entry| {
        let body = json!({ "plugin_type": "repository", "url": entry.url });
        Call::post::<ChangeApps>("Install one", inside.api(&shelf.api())).sending(body)
    });
    let shown = CataloguePage {
        frame: frame(inside, shelf),
        alerts: super::changes::said(problems),
        title: shelf.title(),
        entries: entries.items.iter().map(|entry| Row::new(entry, &installed)).collect(),
        pages: Pages::new(&format!("{base}catalogue/"), &[], place, entries.count),
        may_install: may_install(service, inside).await?,
        curl: AsCurl::new(service, [list].into_iter().chain(example)),
        base,
    };
    Ok(page_again(problems, &shown))
}

/// The addresses of the apps that are there already.
async fn installed<P: Permission>(service: &Service, inside: &Inside<P>, shelf: Shelf) -> Result<Vec<String>, Failure> {
    let reader = inside.also::<ReadApps>(service).await?;
    let window = Window::new(Some(Window::MAX_LIMIT), None);
    let apps = service.apps(&reader, shelf.0, window).await?;
    Ok(apps.items.into_iter().filter_map(|app| app.url).collect())
}
