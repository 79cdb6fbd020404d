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
mod frame;
mod highlight;
mod install_from_url;
mod labels;
mod lexer;
mod list;
mod logs;
mod new_source_app;
mod permissions;
mod removal;
mod source;
mod teams;
mod upgrade;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use service::access::{Permission, ReadApps};
use service::pipeline::{App, AppUse, AppsSeen};
use service::{Error, Service, Window};

use super::OrganizationAccess;
use crate::failure::Failure;
use crate::state::Console;
use collection::{AtApp, AtConfig, CollectionPages};
use editor::MAX_SOURCE;

/// In a form, most signs of code take three times their room.
const MAX_BYTES: usize = 3 * MAX_SOURCE + 64 * 1024;

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
    access: &OrganizationAccess<P>,
    window: Window,
) -> Result<AppsSeen, Failure> {
    let reader = access.also::<ReadApps>(service).await?;
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
        .layer(DefaultBodyLimit::max(MAX_BYTES))
}
