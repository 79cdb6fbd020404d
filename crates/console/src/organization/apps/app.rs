//! One app: what it is, what it can do, who uses it, and the code it had before.

use apps::Apps;
use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::{get, post};
use service::access::{ChangeApps, Permission, ReadApps};
use service::pipeline::{App, AppUse, PluginType, VersionName};
use service::{AppConfigId, Service, Time, Window};

use super::capabilities::offers;
use super::collection::AtApp;
use super::frame::frame;
use super::labels::{newer_tag, origin, version};
use super::permissions::may_change;
use crate::curl::{AsCurl, Call};
use crate::failure::{Failure, Problems};
use crate::organization::OrganizationAccess;
use crate::organization::frame::Frame;
use crate::page::{go_to, page_again};
use crate::show;
use crate::state::Console;
use crate::visitor::PageQuery;

pub(super) fn routes() -> Router<Console> {
    Router::new()
        .route("/organizations/{organization}/apps/{collection}/{app}/", get(show_app))
        .route(
            "/organizations/{organization}/apps/{collection}/{app}/check/",
            post(check),
        )
}

#[derive(Template)]
#[template(path = "organization/apps/app.html")]
struct AppPage {
    frame: Frame,
    alerts: Vec<String>,
    base: String,
    scope: &'static str,
    facts: Facts,
    offers: Vec<String>,
    configs: Vec<Config>,
    versions: Vec<EarlierVersion>,
    may_change: bool,
    curl: AsCurl,
}

struct Facts {
    id: String,
    name: String,
    description: String,
    origin: String,
    version: String,
    newer: Option<String>,
    /// Of another organization, which alone may change it.
    owner: Option<String>,
    is_for_all: bool,
    is_fetched: bool,
    is_folder: bool,
    made: String,
    changed: String,
}

impl Facts {
    fn new<P>(app: &App, access: &OrganizationAccess<P>, now: Time) -> Self {
        let is_here = app.organization_id == access.organization.id;
        Self {
            id: app.id.to_string(),
            name: app.name.to_string(),
            description: app.description.clone(),
            origin: origin(app),
            version: version(app.version, app.tag.as_deref()),
            newer: newer_tag(app),
            owner: (!is_here).then(|| app.organization_name.clone()),
            is_for_all: app.is_global,
            is_fetched: app.plugin_type.is_remote(),
            is_folder: app.plugin_type == PluginType::Local && app.url.is_some(),
            made: show::day(app.created_at),
            changed: show::ago(app.updated_at, now),
        }
    }
}

struct Config {
    id: AppConfigId,
    team: String,
    is_on: bool,
    order: i64,
    error: Option<String>,
    changed: String,
}

impl Config {
    fn new(config: &AppUse, now: Time) -> Self {
        Self {
            id: config.id,
            team: config.team_name.clone(),
            is_on: config.enabled,
            order: config.order,
            error: config.latest_error.clone(),
            changed: show::ago(config.updated_at, now),
        }
    }
}

/// Code that can be gone back to.
struct EarlierVersion {
    number: i64,
    tag: String,
    made: String,
    is_current: bool,
}

impl EarlierVersion {
    fn new(version: &VersionName, app: &App, now: Time) -> Self {
        Self {
            number: version.number,
            tag: version.tag.clone().unwrap_or_default(),
            made: show::ago(version.created_at, now),
            is_current: version.number == app.version,
        }
    }
}

async fn show_app(
    State(service): State<Service>,
    access: OrganizationAccess<ReadApps>,
    at: AtApp,
    asked: PageQuery,
) -> Result<Response, Failure> {
    app_page(&service, &access, at, &asked.done, &Problems::default()).await
}

/// Asks where the app comes from whether there is something newer.
async fn check(
    State(apps): State<Apps>,
    mut access: OrganizationAccess<ReadApps>,
    at: AtApp,
) -> Result<Response, Failure> {
    match apps.check_for_updates(&access.caller, at.collection(), at.app).await {
        Ok(app) => {
            let done = newer_tag(&app).map_or("app-is-up-to-date", |_| "app-can-be-updated");
            Ok(go_to(&access.path(&format!("{}?done={done}", at.path()))))
        }
        Err(error) => {
            access.hold_slot(apps.service()).await?;
            app_page(apps.service(), &access, at, "", &Problems::try_from(error)?).await
        }
    }
}

async fn app_page(
    service: &Service,
    access: &OrganizationAccess<ReadApps>,
    at: AtApp,
    done: &str,
    problems: &Problems,
) -> Result<Response, Failure> {
    let (caller, collection) = (&access.caller, at.collection());
    let app = service.app(caller, collection, at.app).await?;
    let all = Window::new(Some(Window::MAX_LIMIT), None);
    let configs = service.app_uses(caller, collection, at.app, all).await?;
    let versions = service.app_version_names(caller, collection, at.app).await?;
    let now = service.clock().now();
    let may_change = may_change(service, access, &app).await?;
    let shown = AppPage {
        frame: frame(access, at.collection).noting(done),
        alerts: problems.besides(&[]),
        base: access.path(&at.path()),
        scope: collection.scope(),
        facts: Facts::new(&app, access, now),
        offers: offers(&app),
        configs: configs.items.iter().map(|config| Config::new(config, now)).collect(),
        versions: versions
            .iter()
            .map(|version| EarlierVersion::new(version, &app, now))
            .collect(),
        may_change,
        curl: AsCurl::new(service, calls(access, at, &app, may_change)),
    };
    Ok(page_again(problems, &shown))
}

fn calls<P: Permission>(access: &OrganizationAccess<P>, at: AtApp, app: &App, may_change: bool) -> Vec<Call> {
    let api = access.api(&at.api());
    let mut calls = vec![
        Call::get::<ReadApps>("Read the app", &api),
        Call::get::<ReadApps>("List its configurations", format!("{api}configs/")),
        Call::get::<ReadApps>("List its versions", format!("{api}versions/")),
    ];
    if app.plugin_type.is_remote() {
        let path = format!("{api}check_for_updates/");
        calls.push(Call::get::<ReadApps>("Check for updates", path));
    }
    if may_change && (app.plugin_type.is_remote() || app.plugin_type == PluginType::Local) {
        let path = format!("{api}upgrade/");
        calls.push(Call::post::<ChangeApps>("Update to the latest version", path));
    }
    calls
}
