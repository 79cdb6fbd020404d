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

use super::Inside;
use super::confirm::{ConfirmPage, is_confirmed, typed_name};
use super::frame::{Frame, Section};
use super::teams::TeamForm;
use crate::curl::{AsCurl, Call};
use crate::failure::{Failure, Problems};
use crate::field::Field;
use crate::page::{go_to, page_again};
use crate::seen::SeenAt;
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
#[template(path = "inside/team.html")]
struct TeamPage {
    frame: Frame,
    alerts: Vec<String>,
    id: TeamId,
    /// As it is kept, whatever the form holds.
    title: String,
    token: String,
    shown_timezone: String,
    created: String,
    seen: SeenAt,
    /// For those who may change them.
    fields: Option<(Field, Field)>,
    curl: AsCurl,
}

async fn show_team(
    State(service): State<Service>,
    inside: Inside<ReadTeams>,
    Id(id): Id<TeamId>,
    asked: PageQuery,
) -> Result<Response, Failure> {
    let team = service.team(&inside.caller, id).await?;
    let typed = TeamForm {
        name: team.name.to_string(),
        timezone: team.timezone.clone(),
        seen: SeenAt::of(team.updated_at),
    };
    Ok(team_page(
        &service,
        &inside,
        &team,
        &typed,
        &asked.done,
        &Problems::default(),
    ))
}

async fn save(
    State(service): State<Service>,
    inside: Inside<ChangeTeams>,
    Id(id): Id<TeamId>,
    Sent(typed): Sent<TeamForm>,
) -> Result<Response, Failure> {
    match change(&service, &inside, id, &typed).await {
        Ok(_) => Ok(go_to(&inside.path(&format!("teams/{id}/?done=saved")))),
        Err(error) => {
            let problems = Problems::try_from(error)?;
            let team = service.team(&inside.also(&service).await?, id).await?;
            Ok(team_page(&service, &inside, &team, &typed, "", &problems))
        }
    }
}

async fn change(
    service: &Service,
    inside: &Inside<ChangeTeams>,
    id: TeamId,
    typed: &TeamForm,
) -> service::Result<Team> {
    let patch = TeamPatch {
        name: Some(super::name(&typed.name)?),
        timezone: Some(typed.timezone.trim().to_owned().into()),
    };
    let unchanged = |now: &Team| typed.seen.fits(now.updated_at);
    service.update_team(&inside.caller, id, &patch, &unchanged).await
}

fn team_page<P: Permission>(
    service: &Service,
    inside: &Inside<P>,
    team: &Team,
    typed: &TeamForm,
    done: &str,
    problems: &Problems,
) -> Response {
    let may_change = inside.may::<ChangeTeams>();
    let api = inside.api(&format!("teams/{}/", team.id));
    let body = json!({ "name": typed.name, "timezone": typed.timezone });
    let read = Call::get::<ReadTeams>("Read the team", &api);
    let write = Call::patch::<ChangeTeams>("Change the team", &api).sending(body);
    let shown = TeamPage {
        frame: Frame::new(inside, Section::Teams).below().noting(done),
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
    inside: Inside<ChangeTeams>,
    Id(id): Id<TeamId>,
) -> Result<Response, Failure> {
    let team = service.team(&inside.also(&service).await?, id).await?;
    sure(&service, &inside, &team, &Problems::default()).await
}

async fn delete(
    State(service): State<Service>,
    inside: Inside<ChangeTeams>,
    Id(id): Id<TeamId>,
    Sent(ConfirmForm { confirmation }): Sent<ConfirmForm>,
) -> Result<Response, Failure> {
    let team = service.team(&inside.also(&service).await?, id).await?;
    let deleted = match is_confirmed(team.name.as_str(), &confirmation) {
        Ok(()) => service.delete_team(&inside.caller, id, &service::no_precondition).await,
        Err(error) => Err(error),
    };
    match deleted {
        Ok(()) => Ok(go_to(&inside.path("teams/?done=team-deleted"))),
        Err(error) => sure(&service, &inside, &team, &Problems::try_from(error)?).await,
    }
}

async fn sure(
    service: &Service,
    inside: &Inside<ChangeTeams>,
    team: &Team,
    problems: &Problems,
) -> Result<Response, Failure> {
    let below = format!("teams/{}/", team.id);
    let call = Call::delete::<ChangeTeams>("Delete the team", inside.api(&below));
    let mut losses = vec!["its token: events sent with it will be rejected".to_owned()];
    let reader = inside.also::<ReadExports>(service).await?;
    let exports = service.batch_exports_of_team(&reader, team.id).await?;
    if exports > 0 {
        losses.push(format!("{} and their runs", show::counted(exports, "batch export")));
    }
    losses.push("the configurations of its pipeline apps".to_owned());
    let shown = ConfirmPage {
        frame: Frame::new(inside, Section::Teams)
            .below()
            .through(&below, team.name.to_string()),
        alerts: problems.besides(&["confirmation"]),
        heading: format!("Delete the team {}?", team.name),
        text: "This can't be undone. This will also delete:".to_owned(),
        losses,
        typed: Some(typed_name(team.name.as_str(), problems)),
        button: "Delete team",
        back: inside.path(&below),
        curl: AsCurl::new(service, [call]),
    };
    Ok(page_again(problems, &shown))
}
