//! A newer version of an app for a configuration of another organization, with what it changes shown before it is taken.

use apps::different_files;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use serde::Deserialize;
use serde_json::json;
use service::Service;
use service::access::{ChangeApps, ReadApps};

use super::changes::{Changes, said};
use super::collection::AtConfig;
use super::diff::Diff;
use super::frame::frame_below;
use super::upgrade::UpgradePage;
use crate::curl::{AsCurl, Call};
use crate::failure::{Failure, Problems};
use crate::organization::OrganizationAccess;
use crate::page::{go_to, page_again};
use crate::state::Console;
use crate::visitor::Sent;

pub(super) fn routes() -> Router<Console> {
    Router::new().route(
        "/organizations/{organization}/apps/{collection}/{app}/configurations/{config}/update/",
        get(review).post(upgrade),
    )
}

#[derive(Deserialize)]
struct ConsentForm {
    version: i64,
}

async fn review(
    State(service): State<Service>,
    access: OrganizationAccess<ChangeApps>,
    at: AtConfig,
) -> Result<Response, Failure> {
    shown(&service, &access, at, &Problems::default()).await
}

/// The version that was shown is the one that is taken: if there is another by now, that is shown instead.
async fn upgrade(
    State(service): State<Service>,
    access: OrganizationAccess<ChangeApps>,
    at: AtConfig,
    Sent(ConsentForm { version }): Sent<ConsentForm>,
) -> Result<Response, Failure> {
    let (collection, app) = (at.at.collection(), at.at.app);
    let upgraded = service.upgrade_app_config(&access.caller, collection, app, at.config, version);
    match upgraded.await {
        Ok(_) => Ok(go_to(&access.path(&format!("{}?done=config-upgraded", at.path())))),
        Err(error) => shown(&service, &access, at, &Problems::try_from(error)?).await,
    }
}

async fn shown(
    service: &Service,
    access: &OrganizationAccess<ChangeApps>,
    at: AtConfig,
    problems: &Problems,
) -> Result<Response, Failure> {
    let reader = access.also::<ReadApps>(service).await?;
    let found = service
        .preview_config_upgrade(&reader, at.at.collection(), at.at.app, at.config)
        .await?;
    let (config, latest) = (&found.config, &found.latest);
    let (files, diff) = Diff::of(different_files(&found.files_before, &found.files_after)).await;
    let is_newest = config.version == latest.version;
    let path = access.api(&format!("{}upgrade/", at.api()));
    let look = Call::get::<ReadApps>("Preview the update", path.clone());
    let take =
        Call::post::<ChangeApps>("Update to the latest version", path).sending(json!({ "version": latest.version }));
    let shown = UpgradePage {
        frame: frame_below(access, at.at, latest.name.to_string()),
        alerts: said(problems),
        heading: format!("Update {}", latest.name),
        text: if is_newest {
            format!(
                "This configuration already runs the latest version ({}).",
                config.version
            )
        } else {
            format!(
                "This configuration runs version {}. {} has published version {}, which will receive this configuration's values, \
                 including secrets, and your events.",
                config.version, latest.organization_name, latest.version
            )
        },
        changes: (!is_newest).then(|| Changes::new(&found.difference, &files)),
        diff,
        button: (!is_newest).then_some("Update"),
        seen: vec![("version", latest.version.to_string())],
        back: access.path(&at.path()),
        curl: AsCurl::new(service, [look, take]),
    };
    Ok(page_again(problems, &shown))
}
