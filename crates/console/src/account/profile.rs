//! Who one is here, and where one belongs.

use std::sync::Arc;

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use serde::Deserialize;
use serde_json::json;
use service::access::ReadOrganization;
use service::credentials::Credential;
use service::organizations::Seen;
use service::users::UserPatch;
use service::{OrganizationId, Page, Service, Window};

use super::frame::Frame;
use crate::curl::Call;
use crate::failure::{Failure, Problems};
use crate::field::Field;
use crate::page::{go_to, page_again};
use crate::show;
use crate::state::Console;
use crate::visitor::{Account, PageQuery, Sent};

pub(super) fn routes() -> Router<Console> {
    Router::new().route("/account/", get(show_profile).post(save))
}

#[derive(Template)]
#[template(path = "account/profile.html")]
struct ProfilePage {
    frame: Frame,
    alerts: Vec<String>,
    email: String,
    first_name: Field,
    last_name: Field,
    organizations: Vec<Membership>,
    /// How many there are besides those that are shown.
    more: i64,
    /// Whether organizations may be hidden until there is a second factor.
    lacks_second_factor: bool,
    is_operator: bool,
}

struct Membership {
    id: OrganizationId,
    name: String,
    level: &'static str,
    members: String,
    asks_for_second_factor: bool,
}

impl From<&Seen> for Membership {
    fn from(seen: &Seen) -> Self {
        Self {
            id: seen.organization.id,
            name: seen.organization.name.to_string(),
            level: show::level(seen.level),
            members: show::counted(seen.organization.member_count, "member"),
            asks_for_second_factor: seen.organization.enforce_2fa,
        }
    }
}

#[derive(Deserialize)]
struct Names {
    first_name: String,
    last_name: String,
}

async fn show_profile(State(service): State<Service>, account: Account, asked: PageQuery) -> Result<Response, Failure> {
    let names = Names {
        first_name: account.user.first_name.clone(),
        last_name: account.user.last_name.clone(),
    };
    profile(&service, &account, &names, &asked.done, &Problems::default()).await
}

async fn save(State(service): State<Service>, account: Account, Sent(names): Sent<Names>) -> Result<Response, Failure> {
    let patch = UserPatch {
        first_name: Some(names.first_name.clone()),
        last_name: Some(names.last_name.clone()),
        current_organization: None,
    };
    match service
        .update_user(&account.person, &patch, &service::no_precondition)
        .await
    {
        Ok(_) => Ok(go_to("/account/?done=saved")),
        Err(error) => profile(&service, &account, &names, "", &Problems::try_from(error)?).await,
    }
}

async fn profile(
    service: &Service,
    account: &Account,
    names: &Names,
    done: &str,
    problems: &Problems,
) -> Result<Response, Failure> {
    let memberships = organizations(service, account).await?;
    let first_name = Field::text("first_name", "First name", "given-name").holding(&names.first_name);
    let last_name = Field::text("last_name", "Last name", "family-name").holding(&names.last_name);
    let shown = ProfilePage {
        frame: Frame::new(account, "/account/")
            .noting(done)
            .teaching(service, account, calls(names)),
        alerts: problems.besides(&["first_name", "last_name"]),
        email: account.user.email.clone(),
        first_name: first_name.judged(problems),
        last_name: last_name.optional().judged(problems),
        more: memberships.count - i64::try_from(memberships.items.len()).unwrap_or(i64::MAX),
        organizations: memberships.items.iter().map(Membership::from).collect(),
        lacks_second_factor: account.person.needs_second_factor && !account.person.has_second_factor,
        is_operator: service.is_operator(account.user.id).await?,
    };
    Ok(page_again(problems, &shown))
}

fn calls(names: &Names) -> [Call; 2] {
    const API: &str = "/api/users/@me/";
    let body = json!({ "first_name": names.first_name, "last_name": names.last_name });
    [
        Call::in_session("GET", "Read your account", API),
        Call::in_session("PATCH", "Change your name", API).sending(body),
    ]
}

pub(super) async fn organizations(service: &Service, account: &Account) -> Result<Arc<Page<Seen>>, Failure> {
    let credential = Credential::Session(&account.session);
    let principal = service
        .principal::<ReadOrganization>(credential, account.request())
        .await?;
    Ok(service.organizations(&principal, Window::new(None, None)).await?)
}
