//! One team: its token, its name, and its end.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use serde::Deserialize;
use serde_json::json;
use service::access::{ChangeTeams, Permission, ReadExports, ReadTeams};
use service::teams::{Team, TeamPatch};
use service::{Service, TeamId};

use super::OrganizationAccess;
use super::confirm::{ConfirmPage, is_confirmed, typed_name};
use super::frame::{Frame, Section};
use super::teams::TeamForm;
use crate::curl::{AsCurl, Call};
use crate::failure::{Failure, Problems};
use crate::field::Field;
use crate::form_version::FormVersion;
use crate::page::{go_to, page_again};
use crate::show;
use crate::state::Console;
use crate::visitor::{Id, PageQuery, Sent};

pub(super) fn routes() -> Router<Console> {
    Router::new()
        .route("/organizations/{organization}/teams/{team}/", get(show_team).post(save))
        .route(
            "/organizations/{organization}/teams/{team}/delete/",
            get(ask).post(delete),
        )
}

#[derive(Template)]
#[template(path = "organization/team.html")]
struct TeamPage {
    frame: Frame,
    alerts: Vec<String>,
    id: TeamId,
    /// As it is kept, whatever the form holds.
    title: String,
    token: String,
    shown_timezone: String,
    created: String,
    seen: FormVersion,
    /// For those who may change them.
    fields: Option<(Field, Field)>,
    curl: AsCurl,
}

async fn show_team(
    State(service): State<Service>,
    access: OrganizationAccess<ReadTeams>,
    Id(id): Id<TeamId>,
    asked: PageQuery,
) -> Result<Response, Failure> {
    let team = service.team(&access.caller, id).await?;
    let typed = TeamForm {
        name: team.name.to_string(),
        timezone: team.timezone.clone(),
        seen: FormVersion::of(team.updated_at),
    };
    Ok(team_page(
        &service,
        &access,
        &team,
        &typed,
        &asked.done,
        &Problems::default(),
    ))
}

async fn save(
    State(service): State<Service>,
    access: OrganizationAccess<ChangeTeams>,
    Id(id): Id<TeamId>,
    Sent(typed): Sent<TeamForm>,
) -> Result<Response, Failure> {
    match change(&service, &access, id, &typed).await {
        Ok(_) => Ok(go_to(&access.path(&format!("teams/{id}/?done=saved")))),
        Err(error) => {
            let problems = Problems::try_from(error)?;
            let team = service.team(&access.also(&service).await?, id).await?;
            Ok(team_page(&service, &access, &team, &typed, "", &problems))
        }
    }
}

async fn change(
    service: &Service,
    access: &OrganizationAccess<ChangeTeams>,
    id: TeamId,
    typed: &TeamForm,
) -> service::Result<Team> {
    let patch = TeamPatch {
        name: Some(super::name(&typed.name)?),
        timezone: Some(typed.timezone.trim().to_owned().into()),
    };
    let precondition = |now: &Team| typed.seen.fits(now.updated_at);
    service.update_team(&access.caller, id, &patch, &precondition).await
}

fn team_page<P: Permission>(
    service: &Service,
    access: &OrganizationAccess<P>,
    team: &Team,
    typed: &TeamForm,
    done: &str,
    problems: &Problems,
) -> Response {
    let may_change = access.may::<ChangeTeams>();
    let api = access.api(&format!("teams/{}/", team.id));
    let body = json!({ "name": typed.name, "timezone": typed.timezone });
    let read = Call::get::<ReadTeams>("Read the team", &api);
    let write = Call::patch::<ChangeTeams>("Change the team", &api).sending(body);
    let shown = TeamPage {
        frame: Frame::new(access, Section::Teams).below().noting(done),
        alerts: problems.besides(&["name", "timezone"]),
        id: team.id,
        title: team.name.to_string(),
        token: team.api_token.clone(),
        shown_timezone: team.timezone.clone(),
        created: show::day(team.created_at),
        seen: typed.seen.clone(),
        fields: may_change.then(|| (typed.name_field(problems), typed.timezone_field(problems))),
        curl: AsCurl::new(service, [read].into_iter().chain(may_change.then_some(write))),
    };
    page_again(problems, &shown)
}

#[derive(Deserialize)]
struct ConfirmForm {
    confirmation: String,
}

async fn ask(
    State(service): State<Service>,
    access: OrganizationAccess<ChangeTeams>,
    Id(id): Id<TeamId>,
) -> Result<Response, Failure> {
    let team = service.team(&access.also(&service).await?, id).await?;
    confirm_page(&service, &access, &team, &Problems::default()).await
}

async fn delete(
    State(service): State<Service>,
    access: OrganizationAccess<ChangeTeams>,
    Id(id): Id<TeamId>,
    Sent(ConfirmForm { confirmation }): Sent<ConfirmForm>,
) -> Result<Response, Failure> {
    let team = service.team(&access.also(&service).await?, id).await?;
    let deleted = match is_confirmed(team.name.as_str(), &confirmation) {
        Ok(()) => service.delete_team(&access.caller, id, &service::no_precondition).await,
        Err(error) => Err(error),
    };
    match deleted {
        Ok(()) => Ok(go_to(&access.path("teams/?done=team-deleted"))),
        Err(error) => confirm_page(&service, &access, &team, &Problems::try_from(error)?).await,
    }
}

async fn confirm_page(
    service: &Service,
    access: &OrganizationAccess<ChangeTeams>,
    team: &Team,
    problems: &Problems,
) -> Result<Response, Failure> {
    let below = format!("teams/{}/", team.id);
    let call = Call::delete::<ChangeTeams>("Delete the team", access.api(&below));
    let mut losses = vec!["its token: events sent with it will be rejected".to_owned()];
    let reader = access.also::<ReadExports>(service).await?;
    let exports = service.batch_exports_of_team(&reader, team.id).await?;
    if exports > 0 {
        losses.push(format!("{} and their runs", show::counted(exports, "batch export")));
    }
    losses.push("the configurations of its pipeline apps".to_owned());
    let shown = ConfirmPage {
        frame: Frame::new(access, Section::Teams)
            .below()
            .through(&below, team.name.to_string()),
        alerts: problems.besides(&["confirmation"]),
        heading: format!("Delete the team {}?", team.name),
        text: "This can't be undone. This will also delete:".to_owned(),
        losses,
        typed: Some(typed_name(team.name.as_str(), problems)),
        button: "Delete team",
        back: access.path(&below),
        curl: AsCurl::new(service, [call]),
    };
    Ok(page_again(problems, &shown))
}
