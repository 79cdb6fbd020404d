//! Pipeline apps: the three collections, what is in them, the code of each, and how teams use them.

mod about;
mod app;
mod capabilities;
mod catalog;
mod changes;
mod collection;
mod config_fields;
mod config_form;
mod config_new;
mod config_removal;
mod config_upgrade;
mod diff;
mod editor;
mod files;
mod highlight;
mod install_from_url;
mod lexer;
mod list;
mod logs;
mod new_source_app;
mod removal;
mod source;
mod upgrade;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use service::access::{ChangeApps, Permission, ReadApps, ReadTeams};
use service::pipeline::{App, AppUse, AppsSeen, PluginType};
use service::{Error, Service, TeamId, Window};

use super::Inside;
use super::frame::{Frame, Section};
use crate::Console;
use crate::failure::Failure;
use collection::{AtApp, AtConfig, CollectionPages};

/// As much as the API takes.
const MOST_SOURCE: usize = 1024 * 1024;
/// In a form, most signs of code take three times their room.
const MOST_BYTES: usize = 3 * MOST_SOURCE + 64 * 1024;

pub(super) fn routes() -> Router<Console> {
    Router::new()
        .merge(list::routes())
        .merge(catalog::routes())
        .merge(install_from_url::routes())
        .merge(app::routes())
        .merge(about::routes())
        .merge(upgrade::routes())
        .merge(removal::routes())
        .merge(config_removal::routes())
        .merge(config_upgrade::routes())
        .merge(logs::routes())
}

/// What an overview shows of apps: at most so many of each kind. Where the organization may not have any, there are none.
pub(super) async fn seen<P: Permission>(
    service: &Service,
    inside: &Inside<P>,
    window: Window,
) -> Result<AppsSeen, Failure> {
    let reader = inside.also::<ReadApps>(service).await?;
    match service.apps_seen(&reader, window).await {
        Err(Error::Forbidden(_)) => Ok(AppsSeen::default()),
        seen => Ok(seen?),
    }
}

/// Where what is newer of an app is shown, below the organization.
pub(super) fn update(app: &App) -> String {
    format!("{}{}/update/", CollectionPages(app.collection).path(), app.id)
}

/// Where what an app was told for a team is shown, below the organization.
pub(super) fn configuration(used: &AppUse) -> String {
    let at = AtApp {
        collection: CollectionPages(used.collection),
        app: used.app_id,
    };
    AtConfig { at, config: used.id }.path()
}

/// Forms that hold code or files.
pub(super) fn large_routes() -> Router<Console> {
    Router::new()
        .merge(new_source_app::routes())
        .merge(source::routes())
        .merge(files::routes())
        .merge(config_form::routes())
        .merge(config_new::routes())
        .layer(DefaultBodyLimit::max(MOST_BYTES))
}

/// What stands around a page below a collection.
fn frame<P>(inside: &Inside<P>, collection: CollectionPages) -> Frame {
    let frame = Frame::new(inside, Section::Apps).below();
    frame.through(&collection.path(), collection.title())
}

/// The same for a page below an app.
fn frame_below<P>(inside: &Inside<P>, at: AtApp, name: impl Into<String>) -> Frame {
    frame(inside, at.collection).through(&at.path(), name)
}

/// Whether to offer what changes apps: the organization may not be allowed to.
async fn may_install<P: Permission>(service: &Service, inside: &Inside<P>) -> Result<bool, Failure> {
    let caller = inside.also::<ChangeApps>(service).await?;
    is_allowed(service.may_change_apps(&caller).await)
}

/// Whether to offer publishing an app for every organization.
async fn may_share(service: &Service, inside: &Inside<ChangeApps>) -> Result<bool, Failure> {
    is_allowed(service.may_share_apps(&inside.caller).await)
}

fn is_allowed(answer: service::Result<()>) -> Result<bool, Failure> {
    match answer {
        Ok(()) => Ok(true),
        Err(Error::Forbidden(_)) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// The same for one app: those of other organizations can be used, but not changed.
async fn may_change<P: Permission>(service: &Service, inside: &Inside<P>, app: &App) -> Result<bool, Failure> {
    Ok(app.organization_id == inside.organization.id && may_install(service, inside).await?)
}

/// Where the code of an app comes from, as people would say it.
fn origin(app: &App) -> String {
    match (app.plugin_type, &app.url) {
        (PluginType::Source | PluginType::Inline, _) => "Custom code".to_owned(),
        (PluginType::Local, Some(url)) => format!("Folder {}", url.trim_start_matches("file:")),
        (PluginType::Local, None) => "Local folder".to_owned(),
        (_, Some(url)) => url.trim_start_matches("https://").to_owned(),
        (_, None) => "Unknown".to_owned(),
    }
}

/// What is newer than what it has.
fn newer_tag(app: &App) -> Option<String> {
    app.latest_tag.clone().filter(|latest| app.tag.as_ref() != Some(latest))
}

/// Its tag, or else its number.
fn version(number: i64, tag: Option<&str>) -> String {
    match (number, tag) {
        (_, Some(tag)) if !tag.is_empty() => tag.to_owned(),
        (0, _) => "No code yet".to_owned(),
        (number, _) => format!("Version {number}"),
    }
}

/// The teams to choose from, oldest first, by what they are called.
async fn teams<P: Permission>(service: &Service, inside: &Inside<P>) -> Result<Vec<(TeamId, String)>, Failure> {
    let reader = inside.also::<ReadTeams>(service).await?;
    let window = Window::new(Some(Window::MAX_LIMIT), None);
    let teams = service.teams(&reader, window).await?.items;
    Ok(teams.into_iter().map(|team| (team.id, team.name.to_string())).collect())
}

fn name_of(team: TeamId, teams: &[(TeamId, String)]) -> String {
    let found = teams.iter().find(|(id, _)| *id == team);
    found.map_or_else(|| format!("Team {team}"), |(_, name)| name.clone())
}
