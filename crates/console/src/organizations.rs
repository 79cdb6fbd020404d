//! The organizations one belongs to: all of them, switching, and a new one.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::{get, post};
use serde::Deserialize;
use serde_json::json;
use service::access::{CreateOrganization, ReadOrganization};
use service::credentials::Credential;
use service::organizations::{NewOrganization, OrganizationRef, Seen};
use service::users::UserPatch;
use service::{Error, OrganizationId, Service};

use crate::curl::{AsCurl, Call};
use crate::failure::{Failure, Problems};
use crate::field::Field;
use crate::organization::{self, Membership, memberships_in};
use crate::page::{go_to, page, page_again};
use crate::paging::{PageNumber, Pages};
use crate::state::Console;
use crate::visitor::{Account, InQuery, Sent, Visitor};

const HERE: &str = "/organizations/";
const API: &str = "/api/organizations/";

pub(crate) fn routes() -> Router<Console> {
    Router::new()
        .route("/", get(home))
        .route(HERE, get(list))
        .route("/organizations/switch/", post(switch))
        .route("/organizations/new/", get(ask).post(create))
}

/// Where one was last, or what there is to choose from.
async fn home(State(service): State<Service>, visitor: Visitor) -> Result<Response, Failure> {
    let Some(session) = &visitor.session else {
        return Ok(go_to("/login/"));
    };
    let current = service.allowed::<ReadOrganization>(
        Credential::Session(session),
        Some(OrganizationRef::Current),
        visitor.request.clone(),
    );
    match current.await {
        Ok(caller) => Ok(go_to(&overview(caller.organization))),
        // The list says why something is missing there.
        Err(Error::NotFound(_) | Error::SecondFactorNeeded) => Ok(go_to(HERE)),
        Err(error) => Err(error.into()),
    }
}

fn overview(id: OrganizationId) -> String {
    format!("/organizations/{id}/")
}

#[derive(Template)]
#[template(path = "organizations/list.html")]
struct ListPage {
    person: String,
    organizations: Vec<Row>,
    pages: Pages,
    /// Whether organizations may be hidden until there is a second factor.
    lacks_second_factor: bool,
    curl: AsCurl,
}

struct Row {
    membership: Membership,
    /// Where one begins after signing in.
    is_current: bool,
}

#[derive(Debug, Default, Deserialize)]
struct Part {
    #[serde(default)]
    page: String,
}

async fn list(
    State(service): State<Service>,
    account: Account,
    InQuery(part): InQuery<Part>,
) -> Result<Response, Failure> {
    let place = PageNumber::read(&part.page);
    let memberships = memberships_in(&service, &account, place.window()).await?;
    let standing = service.standing(account.person.user).await?;
    let row = |membership: Membership| Row {
        is_current: standing.current_organization_id == Some(membership.id),
        membership,
    };
    Ok(page(&ListPage {
        person: account.user.called(),
        pages: Pages::new(HERE, &[], place, memberships.count),
        organizations: memberships.items.into_iter().map(row).collect(),
        lacks_second_factor: account.person.needs_second_factor && !account.person.has_second_factor,
        curl: AsCurl::new(
            &service,
            [Call::get::<ReadOrganization>("List your organizations", API)],
        ),
    }))
}

#[derive(Deserialize)]
struct SwitchForm {
    organization: String,
}

async fn switch(
    State(service): State<Service>,
    account: Account,
    Sent(sent): Sent<SwitchForm>,
) -> Result<Response, Failure> {
    let id: OrganizationId = sent.organization.parse().map_err(|_| Failure::NoSuchPage)?;
    let patch = UserPatch {
        first_name: None,
        last_name: None,
        current_organization: Some(id),
    };
    match service
        .update_user(&account.person, &patch, &service::no_precondition)
        .await
    {
        // Who came through one organization's identity provider has nothing to remember: there is only that one.
        Ok(_) | Err(Error::Forbidden(_)) => Ok(go_to(&overview(id))),
        // What one does not belong to is not there.
        Err(Error::Invalid(_)) => Err(Failure::NoSuchPage),
        Err(error) => Err(error.into()),
    }
}

#[derive(Template)]
#[template(path = "organizations/new.html")]
struct NewPage {
    person: String,
    alerts: Vec<String>,
    name: Field,
    curl: AsCurl,
}

#[derive(Default, Deserialize)]
struct NewOrganizationForm {
    name: String,
}

async fn ask(State(service): State<Service>, account: Account) -> Response {
    form(&service, &account, NewOrganizationForm::default(), &Problems::default())
}

async fn create(
    State(service): State<Service>,
    account: Account,
    Sent(wanted): Sent<NewOrganizationForm>,
) -> Result<Response, Failure> {
    match found(&service, &account, &wanted).await {
        Ok(seen) => Ok(go_to(&format!("{}?done=created", overview(seen.organization.id)))),
        Err(error) => Ok(form(&service, &account, wanted, &Problems::try_from(error)?)),
    }
}

async fn found(service: &Service, account: &Account, wanted: &NewOrganizationForm) -> Result<Seen, Error> {
    let new = NewOrganization {
        name: organization::name(&wanted.name)?,
        is_member_join_email_enabled: None,
        enforce_2fa: None,
    };
    let credential = Credential::Session(&account.session);
    let principal = service
        .principal::<CreateOrganization>(credential, account.request())
        .await?;
    service.create_organization(&principal, &new).await
}

fn form(service: &Service, account: &Account, wanted: NewOrganizationForm, problems: &Problems) -> Response {
    let shown_name = if wanted.name.is_empty() { "Acme" } else { &wanted.name };
    let call = Call::post::<CreateOrganization>("Create an organization", API).sending(json!({ "name": shown_name }));
    let curl = AsCurl::new(service, [call]);
    let name = Field::text("name", "Organization name", "organization")
        .at_most(64)
        .focused();
    let shown = NewPage {
        person: account.user.called(),
        alerts: problems.besides(&["name"]),
        name: name
            .hint("You can change it later.")
            .holding(wanted.name)
            .judged(problems),
        curl,
    };
    page_again(problems, &shown)
}
