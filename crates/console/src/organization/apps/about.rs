//! What is said of an app, instead of what its code says.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use serde::Deserialize;
use serde_json::json;
use service::access::ChangeApps;
use service::pipeline::{App, AppFields, AppPatch};
use service::{Error, Service};

use super::collection::AtApp;
use super::frame::frame_below;
use super::new_source_app;
use super::permissions::may_share;
use crate::choices::{Area, Switch};
use crate::curl::{AsCurl, Call};
use crate::failure::{Failure, Problems};
use crate::field::Field;
use crate::organization::OrganizationAccess;
use crate::organization::frame::Frame;
use crate::page::{go_to, page_again};
use crate::state::Console;
use crate::visitor::Sent;

/// As much as the API takes, too.
const MAX_DESCRIPTION: usize = 2000;

pub(super) fn routes() -> Router<Console> {
    Router::new().route(
        "/organizations/{organization}/apps/{collection}/{app}/edit/",
        get(ask).post(save),
    )
}

#[derive(Template)]
#[template(path = "organization/apps/about.html")]
struct AboutPage {
    frame: Frame,
    alerts: Vec<String>,
    base: String,
    name: Field,
    description: Area,
    /// None: the organization may not change it.
    is_for_all: Option<Switch>,
    curl: AsCurl,
}

/// A switch that is off is not sent at all.
#[derive(Deserialize)]
struct AboutForm {
    name: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    is_global: String,
    /// Whether the form had the switch: without it, its being off means nothing.
    #[serde(default)]
    offers_is_global: String,
}

impl AboutForm {
    fn of(app: &App) -> Self {
        Self {
            name: app.name.to_string(),
            description: app.description.clone(),
            is_global: if app.is_global { "yes" } else { "" }.to_owned(),
            offers_is_global: String::new(),
        }
    }

    fn is_for_all(&self) -> bool {
        self.is_global == "yes"
    }

    /// What is left empty is taken back, and the code says it again. A switch that was not there leaves it as it is; one that
    /// was made up is for the service to refuse.
    fn patch(&self) -> service::Result<AppPatch> {
        let description = self.description.replace("\r\n", "\n");
        let description = description.trim();
        if description.chars().count() > MAX_DESCRIPTION {
            let detail = format!("this must have at most {MAX_DESCRIPTION} characters");
            return Err(Error::invalid("description", "max_length", detail));
        }
        Ok(AppPatch {
            plugin_type: None,
            rest: AppFields {
                name: Some(new_source_app::name(&self.name)?),
                description: Some((!description.is_empty()).then(|| description.to_owned())),
                is_global: (self.offers_is_global == "yes" || self.is_for_all()).then_some(self.is_for_all()),
                ..AppFields::default()
            },
        })
    }
}

async fn ask(
    State(service): State<Service>,
    access: OrganizationAccess<ChangeApps>,
    at: AtApp,
) -> Result<Response, Failure> {
    let app = service.app(&access.caller, at.collection(), at.app).await?;
    form(&service, &access, at, &app, &AboutForm::of(&app), &Problems::default()).await
}

async fn save(
    State(service): State<Service>,
    mut access: OrganizationAccess<ChangeApps>,
    at: AtApp,
    Sent(typed): Sent<AboutForm>,
) -> Result<Response, Failure> {
    match change(&service, &access, at, typed.patch()).await {
        Ok(_) => Ok(go_to(&access.path(&format!("{}?done=app-saved", at.path())))),
        Err(error) => {
            let problems = Problems::try_from(error)?;
            access.hold_slot(&service).await?;
            let app = service.app(&access.caller, at.collection(), at.app).await?;
            form(&service, &access, at, &app, &typed, &problems).await
        }
    }
}

async fn change(
    service: &Service,
    access: &OrganizationAccess<ChangeApps>,
    at: AtApp,
    patch: service::Result<AppPatch>,
) -> service::Result<App> {
    service
        .update_app(
            &access.caller,
            at.collection(),
            at.app,
            &patch?,
            &service::no_precondition,
        )
        .await
}

async fn form(
    service: &Service,
    access: &OrganizationAccess<ChangeApps>,
    at: AtApp,
    app: &App,
    typed: &AboutForm,
    problems: &Problems,
) -> Result<Response, Failure> {
    let offers_switch = if app.is_global {
        service.is_operator(access.caller.user).await?
    } else {
        may_share(service, access).await?
    };
    let mut body = json!({ "name": typed.name, "description": typed.description });
    if offers_switch {
        body["is_global"] = json!(typed.is_for_all());
    }
    let call = Call::patch::<ChangeApps>("Edit the app", access.api(&at.api())).sending(body);
    let name = Field::text("name", "Name", "off")
        .at_most(200)
        .holding(typed.name.clone());
    let description = Area::new("description", "Description", 3, typed.description.clone()).optional();
    let switch = || {
        Switch::new(
            "is_global",
            "Share with all organizations",
            "Its code receives the settings they enter, including secrets. You can stop sharing while no other organization has set it up.",
            typed.is_for_all(),
        )
    };
    let shown = AboutPage {
        frame: frame_below(access, at, app.name.to_string()),
        alerts: problems.besides(&["name", "description"]),
        base: access.path(&at.path()),
        name: name
            .optional()
            .hint("Leave a field empty to use the value from plugin.json.")
            .judged(problems),
        description: description.wrong(problems.of("description").into_iter().collect()),
        is_for_all: offers_switch.then(switch),
        curl: AsCurl::new(service, [call]),
    };
    Ok(page_again(problems, &shown))
}
