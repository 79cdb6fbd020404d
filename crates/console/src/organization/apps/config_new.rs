//! A team begins to use an app.

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use serde_json::{Map, Value, json};
use service::access::ChangeApps;
use service::pipeline::schema::{self, Field};
use service::pipeline::{AppConfig, NewConfig};
use service::{Error, Service, TeamId};

use super::collection::{AtApp, AtConfig};
use super::config_fields::ConfigForm;
use super::config_form::{ConfigPage, Form, besides, form, patch};
use super::frame::frame_below;
use super::teams::teams;
use crate::choices::Select;
use crate::curl::{AsCurl, Call};
use crate::failure::{Failure, Problems};
use crate::organization::OrganizationAccess;
use crate::page::{go_to, page_again};
use crate::state::Console;
use crate::visitor::Sent;

pub(super) fn routes() -> Router<Console> {
    Router::new().route(
        "/organizations/{organization}/apps/{collection}/{app}/configurations/new/",
        get(ask).post(create),
    )
}

async fn ask(
    State(service): State<Service>,
    access: OrganizationAccess<ChangeApps>,
    at: AtApp,
) -> Result<Response, Failure> {
    let typed = ConfigForm::default().with("enabled", "yes").with("order", "0");
    new_page(&service, &access, at, &typed, &Problems::default()).await
}

async fn create(
    State(service): State<Service>,
    mut access: OrganizationAccess<ChangeApps>,
    at: AtApp,
    Sent(pairs): Sent<Vec<(String, String)>>,
) -> Result<Response, Failure> {
    let typed = ConfigForm::sent(pairs);
    match make(&service, &access, at, &typed).await {
        Ok(config) => {
            let there = AtConfig { at, config: config.id };
            Ok(go_to(&access.path(&format!("{}?done=app-set-up", there.path()))))
        }
        Err(error) => {
            let problems = Problems::try_from(error)?;
            access.hold_slot(&service).await?;
            new_page(&service, &access, at, &typed, &problems).await
        }
    }
}

async fn make(
    service: &Service,
    access: &OrganizationAccess<ChangeApps>,
    at: AtApp,
    typed: &ConfigForm,
) -> service::Result<AppConfig> {
    let rest = {
        // It may be large, and is not kept while the new configuration waits for others.
        let app = service.app(&access.caller, at.collection(), at.app).await?;
        patch(typed, &schema::fields(&app.config_schema), &Map::new(), None)
    };
    let team: Option<TeamId> = typed.get("team_id").parse().ok();
    let team = team.ok_or_else(|| Error::invalid("team_id", "invalid_choice", "choose one of these teams"))?;
    let new = NewConfig {
        team_id: Some(team),
        version: typed.get("version").parse().ok(),
        rest: rest?,
    };
    service
        .create_app_config(&access.caller, at.collection(), at.app, &new)
        .await
}

async fn new_page(
    service: &Service,
    access: &OrganizationAccess<ChangeApps>,
    at: AtApp,
    typed: &ConfigForm,
    problems: &Problems,
) -> Result<Response, Failure> {
    let app = service.app(&access.caller, at.collection(), at.app).await?;
    let fields = schema::fields(&app.config_schema);
    let teams = teams(service, access).await?;
    let ids: Vec<String> = teams.iter().map(|(id, _)| id.to_string()).collect();
    let options = ids
        .iter()
        .zip(&teams)
        .map(|(id, (_, name))| (id.as_str(), name.as_str()));
    let team = Select::new("team_id", "Team", options, typed.get("team_id")).judged(problems);
    let shown_values: Map<String, Value> = fields.iter().map(|field| (field.key.clone(), example(field))).collect();
    let body = json!({ "team_id": teams.first().map(|(id, _)| id.0), "enabled": false, "config": shown_values });
    let path = access.api(&format!("{}configs/", at.api()));
    let call = Call::post::<ChangeApps>("Set up the app for a team", path).sending(body);
    let shown = ConfigPage {
        frame: frame_below(access, at, app.name.to_string()),
        alerts: besides(problems, &fields),
        title: format!("Set up {}", app.name),
        action: access.path(&format!("{}configurations/new/", at.path())),
        back: access.path(&at.path()),
        facts: None,
        form: Form {
            team: Some(team),
            version: Some(app.version),
            ..form(typed, &fields, &[], problems)
        },
        curl: AsCurl::new(service, [call]),
    };
    Ok(page_again(problems, &shown))
}

/// Something that fits.
fn example(field: &Field) -> Value {
    match field.kind.as_str() {
        "choice" => field.choices.first().map_or(Value::Null, |choice| json!(choice)),
        "json" => json!({}),
        "attachment" => json!({ "file_name": "a.txt", "content_type": "text/plain", "contents": "" }),
        _ => json!("…"),
    }
}
