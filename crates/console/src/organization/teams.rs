//! Teams: the list, and a new one.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use serde::Deserialize;
use serde_json::json;
use service::access::{ChangeTeams, ReadTeams};
use service::teams::{NewTeam, Team};
use service::{Service, TeamId};

use super::OrganizationAccess;
use super::frame::{Frame, Section};
use crate::curl::{AsCurl, Call};
use crate::failure::{Failure, Problems};
use crate::field::Field;
use crate::form_version::FormVersion;
use crate::page::{go_to, page, page_again};
use crate::paging::{PageNumber, Pages};
use crate::show;
use crate::state::Console;
use crate::visitor::{InQuery, Sent};

pub(super) fn routes() -> Router<Console> {
    Router::new()
        .route("/organizations/{organization}/teams/", get(list))
        .route("/organizations/{organization}/teams/new/", get(ask).post(create))
}

#[derive(Template)]
#[template(path = "organization/teams.html")]
struct TeamsPage {
    frame: Frame,
    teams: Vec<Row>,
    pages: Pages,
    may_change: bool,
    curl: AsCurl,
}

struct Row {
    id: TeamId,
    name: String,
    token: String,
    timezone: String,
    created: String,
}

impl From<&Team> for Row {
    fn from(team: &Team) -> Self {
        Self {
            id: team.id,
            name: team.name.to_string(),
            token: team.api_token.clone(),
            timezone: team.timezone.clone(),
            created: show::day(team.created_at),
        }
    }
}

#[derive(Debug, Default, Deserialize)]
struct TeamsQuery {
    #[serde(default)]
    page: String,
    #[serde(default)]
    done: String,
}

async fn list(
    State(service): State<Service>,
    access: OrganizationAccess<ReadTeams>,
    InQuery(asked): InQuery<TeamsQuery>,
) -> Result<Response, Failure> {
    let place = PageNumber::read(&asked.page);
    let teams = service.teams(&access.caller, place.window()).await?;
    let call = Call::get::<ReadTeams>("List the teams", access.api("teams/"));
    Ok(page(&TeamsPage {
        frame: Frame::new(&access, Section::Teams).noting(&asked.done),
        pages: Pages::new(&access.path("teams/"), &[], place, teams.count),
        teams: teams.items.iter().map(Row::from).collect(),
        may_change: access.may::<ChangeTeams>(),
        curl: AsCurl::new(&service, [call]),
    }))
}

#[derive(Template)]
#[template(path = "organization/team_new.html")]
struct NewPage {
    frame: Frame,
    alerts: Vec<String>,
    name: Field,
    timezone: Field,
    curl: AsCurl,
}

/// What a team can be told, as it was typed.
#[derive(Deserialize)]
pub(super) struct TeamForm {
    pub(super) name: String,
    pub(super) timezone: String,
    /// Of a team that is there already.
    #[serde(default)]
    pub(super) seen: FormVersion,
}

impl TeamForm {
    pub(super) fn name_field(&self, problems: &Problems) -> Field {
        let field = Field::text("name", "Name", "off").at_most(64);
        field.holding(self.name.clone()).judged(problems)
    }

    pub(super) fn timezone_field(&self, problems: &Problems) -> Field {
        // Some browsers show no suggestions where they are not to complete anything.
        let field = Field::text("timezone", "Time zone", "").suggesting(service::teams::timezones());
        field
            .hint("Type to search, such as Europe/Berlin or UTC.")
            .holding(self.timezone.clone())
            .judged(problems)
    }
}

async fn ask(State(service): State<Service>, access: OrganizationAccess<ChangeTeams>) -> Response {
    let typed = TeamForm {
        name: String::new(),
        timezone: "UTC".to_owned(),
        seen: FormVersion::default(),
    };
    form(&service, &access, &typed, &Problems::default())
}

async fn create(
    State(service): State<Service>,
    access: OrganizationAccess<ChangeTeams>,
    Sent(typed): Sent<TeamForm>,
) -> Result<Response, Failure> {
    match make(&service, &access, &typed).await {
        Ok(team) => Ok(go_to(&access.path(&format!("teams/{}/?done=team-created", team.id)))),
        Err(error) => Ok(form(&service, &access, &typed, &Problems::try_from(error)?)),
    }
}

async fn make(service: &Service, access: &OrganizationAccess<ChangeTeams>, typed: &TeamForm) -> service::Result<Team> {
    let new = NewTeam {
        name: super::name(&typed.name)?,
        timezone: Some(typed.timezone.trim().to_owned().into()),
    };
    service.create_team(&access.caller, &new).await
}

fn form(
    service: &Service,
    access: &OrganizationAccess<ChangeTeams>,
    typed: &TeamForm,
    problems: &Problems,
) -> Response {
    let name = if typed.name.is_empty() { "Web" } else { &typed.name };
    let body = json!({ "name": name, "timezone": typed.timezone });
    let call = Call::post::<ChangeTeams>("Create a team", access.api("teams/")).sending(body);
    let shown = NewPage {
        frame: Frame::new(access, Section::Teams).below(),
        alerts: problems.besides(&["name", "timezone"]),
        name: typed.name_field(problems),
        timezone: typed.timezone_field(problems),
        curl: AsCurl::new(service, [call]),
    };
    page_again(problems, &shown)
}
