//! Other code for an app, newer or older, with what it changes shown first.

use apps::{Apps, Upgrade, Wanted, different_files};
use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use serde::Deserialize;
use serde_json::json;
use service::access::{ChangeApps, ReadApps};
use service::pipeline::{App, PluginType};
use service::{Error, Service};

use super::changes::{Changes, said};
use super::collection::AtApp;
use super::diff::Diff;
use super::frame::frame_below;
use super::labels::version;
use crate::curl::{AsCurl, Call};
use crate::failure::{Failure, Problems};
use crate::organization::OrganizationAccess;
use crate::organization::frame::Frame;
use crate::page::{go_to, page_again};
use crate::state::Console;
use crate::visitor::{Id, Sent};

pub(super) fn routes() -> Router<Console> {
    Router::new()
        .route(
            "/organizations/{organization}/apps/{collection}/{app}/update/",
            get(preview).post(upgrade),
        )
        .route(
            "/organizations/{organization}/apps/{collection}/{app}/roll-back/{version}/",
            get(look_back).post(roll_back),
        )
}

#[derive(Template)]
#[template(path = "organization/apps/upgrade.html")]
pub(super) struct UpgradePage {
    pub(super) frame: Frame,
    pub(super) alerts: Vec<String>,
    pub(super) heading: String,
    pub(super) text: String,
    pub(super) changes: Option<Changes>,
    pub(super) diff: Option<Diff>,
    /// None: there is nothing to do.
    pub(super) button: Option<&'static str>,
    /// What is shown, sent along so that nothing else is taken.
    pub(super) seen: Vec<(&'static str, String)>,
    pub(super) back: String,
    pub(super) curl: AsCurl,
}

async fn preview(
    State(apps): State<Apps>,
    mut access: OrganizationAccess<ChangeApps>,
    at: AtApp,
) -> Result<Response, Failure> {
    access.give_up_slot();
    let service = apps.service();
    let found = apps
        .preview_upgrade(&access.caller, at.collection(), at.app, &Wanted::default())
        .await;
    // Afterwards, as many may wait for a download.
    let app = service.app(&access.caller, at.collection(), at.app).await?;
    match found {
        Ok((_, found)) => {
            let mut page = update_page(service, &access, at, &app, found.as_ref());
            let (files, _permit) = found.map(|found| (found.files, found.permit)).unzip();
            page.diff = Diff::of(files.unwrap_or_default()).await.1;
            Ok(page_again(&Problems::default(), &page))
        }
        Err(error) => refused(service, &access, at, &app, error),
    }
}

#[derive(Deserialize)]
struct Seen {
    #[serde(default)]
    tag: String,
    #[serde(default)]
    sha256: String,
}

/// What was shown is what is taken over, whatever has come out since.
async fn upgrade(
    State(apps): State<Apps>,
    access: OrganizationAccess<ChangeApps>,
    at: AtApp,
    Sent(Seen { tag, sha256 }): Sent<Seen>,
) -> Result<Response, Failure> {
    let wanted = Wanted {
        tag: Some(tag).filter(|tag| !tag.is_empty()),
        sha256: Some(sha256).filter(|sha256| !sha256.is_empty()),
    };
    match apps.upgrade(&access.caller, at.collection(), at.app, &wanted).await {
        Ok(_) => Ok(go_to(&access.path(&format!("{}?done=app-updated", at.path())))),
        Err(error) => {
            let app = apps.service().app(&access.caller, at.collection(), at.app).await?;
            refused(apps.service(), &access, at, &app, error)
        }
    }
}

fn refused(
    service: &Service,
    access: &OrganizationAccess<ChangeApps>,
    at: AtApp,
    app: &App,
    error: Error,
) -> Result<Response, Failure> {
    let problems = Problems::try_from(error)?;
    let shown = UpgradePage {
        alerts: said(&problems),
        text: "No changes were made.".to_owned(),
        ..update_page(service, access, at, app, None)
    };
    Ok(page_again(&problems, &shown))
}

fn update_page(
    service: &Service,
    access: &OrganizationAccess<ChangeApps>,
    at: AtApp,
    app: &App,
    found: Option<&Upgrade>,
) -> UpgradePage {
    let path = access.api(&format!("{}upgrade/", at.api()));
    let tag = found.and_then(|found| found.tag.clone()).unwrap_or_default();
    let sha256 = found.map(|found| found.sha256.clone()).unwrap_or_default();
    let look = Call::get::<ChangeApps>("Preview the update", path.clone());
    let call = Call::post::<ChangeApps>("Update to the latest version", path);
    let present = version(app.version, app.tag.as_deref());
    let text = match found {
        None => format!("Already up to date: {present}."),
        Some(_) if tag.is_empty() => "The files in the folder have changed.".to_owned(),
        Some(_) => format!("Current version: {present}. Latest version: {tag}."),
    };
    let is_folder = app.plugin_type == PluginType::Local;
    UpgradePage {
        frame: frame_below(access, at, app.name.to_string()),
        alerts: Vec::new(),
        heading: if is_folder {
            format!("Reload {}", app.name)
        } else {
            format!("Update {}", app.name)
        },
        text,
        changes: found.map(|found| Changes::new(&found.difference, &found.files)),
        diff: None,
        button: found.map(|_| if is_folder { "Reload" } else { "Update" }),
        curl: AsCurl::new(
            service,
            [
                look,
                if tag.is_empty() {
                    call
                } else {
                    call.sending(json!({ "tag": tag, "sha256": sha256 }))
                },
            ],
        ),
        seen: vec![("tag", tag), ("sha256", sha256)],
        back: access.path(&at.path()),
    }
}

async fn look_back(
    State(service): State<Service>,
    access: OrganizationAccess<ChangeApps>,
    at: AtApp,
    Id(number): Id<i64>,
) -> Result<Response, Failure> {
    back_page(&service, &access, at, number, &Problems::default()).await
}

async fn roll_back(
    State(service): State<Service>,
    access: OrganizationAccess<ChangeApps>,
    at: AtApp,
    Id(number): Id<i64>,
) -> Result<Response, Failure> {
    let wanted = Some(number);
    match service
        .roll_back_app(&access.caller, at.collection(), at.app, wanted)
        .await
    {
        Ok(_) => Ok(go_to(&access.path(&format!("{}?done=app-rolled-back", at.path())))),
        Err(error) => back_page(&service, &access, at, number, &Problems::try_from(error)?).await,
    }
}

async fn back_page(
    service: &Service,
    access: &OrganizationAccess<ChangeApps>,
    at: AtApp,
    number: i64,
    problems: &Problems,
) -> Result<Response, Failure> {
    let reader = access.also::<ReadApps>(service).await?;
    let found = service.app_with_files(&reader, at.collection(), at.app).await?;
    let wanted = service
        .app_version(&access.caller, at.collection(), at.app, number)
        .await?;
    let (files, diff) = Diff::of(different_files(&found.files, &wanted.files)).await;
    let app = &found.app;
    let path = access.api(&format!("{}rollback/", at.api()));
    let call = Call::post::<ChangeApps>("Restore the version", path).sending(json!({ "version": number }));
    let shown = UpgradePage {
        frame: frame_below(access, at, app.name.to_string()),
        alerts: said(problems),
        heading: format!("Restore version {number} of {}", app.name),
        text: match &wanted.tag {
            Some(tag) => format!("This is {tag}. The current version is kept, so you can switch back."),
            None => "The current version is kept, so you can switch back.".to_owned(),
        },
        changes: Some(Changes::new(&app.difference_with(&wanted.metadata), &files)),
        diff,
        button: (number != app.version).then_some("Restore this version"),
        seen: vec![("version", number.to_string())],
        back: access.path(&at.path()),
        curl: AsCurl::new(service, [call]),
    };
    Ok(page_again(problems, &shown))
}
