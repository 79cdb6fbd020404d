//! What an organization is called, and what it asks of its members.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use serde::Deserialize;
use serde_json::json;
use service::Service;
use service::access::{ChangeOrganization, DeleteOrganization, ReadOrganization};
use service::organizations::{OrganizationPatch, Seen};

use super::OrganizationAccess;
use super::frame::{Frame, Section};
use crate::choices::Switch;
use crate::curl::{AsCurl, Call};
use crate::failure::{Failure, Problems};
use crate::field::Field;
use crate::form_version::FormVersion;
use crate::page::{go_to, page_again};
use crate::show;
use crate::state::Console;
use crate::visitor::{PageQuery, Sent};

pub(super) fn routes() -> Router<Console> {
    Router::new().route("/organizations/{organization}/settings/", get(show_settings).post(save))
}

#[derive(Template)]
#[template(path = "organization/settings.html")]
struct SettingsPage {
    frame: Frame,
    alerts: Vec<String>,
    facts: Facts,
    /// For those who may change them.
    form: Option<Form>,
    may_delete: bool,
    curl: AsCurl,
}

struct Facts {
    id: String,
    slug: String,
    created: String,
    tells_of_joining: bool,
    asks_for_second_factor: bool,
}

struct Form {
    seen: FormVersion,
    name: Field,
    tells_of_joining: Switch,
    asks_for_second_factor: Switch,
}

/// Switches that are off are not sent at all.
#[derive(Deserialize)]
struct Settings {
    name: String,
    #[serde(default)]
    is_member_join_email_enabled: String,
    #[serde(default)]
    enforce_2fa: String,
    #[serde(default)]
    seen: FormVersion,
}

impl Settings {
    fn of<P>(access: &OrganizationAccess<P>) -> Self {
        let word = |is_on: bool| if is_on { "yes" } else { "" }.to_owned();
        Self {
            name: access.organization.name.to_string(),
            is_member_join_email_enabled: word(access.organization.is_member_join_email_enabled),
            enforce_2fa: word(access.organization.enforce_2fa),
            seen: FormVersion::of(access.organization.updated_at),
        }
    }

    fn tells_of_joining(&self) -> bool {
        self.is_member_join_email_enabled == "yes"
    }

    fn asks_for_second_factor(&self) -> bool {
        self.enforce_2fa == "yes"
    }

    fn form(&self, problems: &Problems) -> Form {
        let name = Field::text("name", "Name", "organization").at_most(64);
        Form {
            seen: self.seen.clone(),
            name: name.holding(self.name.clone()).judged(problems),
            tells_of_joining: Switch::new(
                "is_member_join_email_enabled",
                "Email members when someone joins",
                "",
                self.tells_of_joining(),
            ),
            asks_for_second_factor: Switch::new(
                "enforce_2fa",
                "Require two-factor authentication",
                "Members who signed in with only a password lose access until they set up two-factor authentication. \
                 This includes you. API keys keep working.",
                self.asks_for_second_factor(),
            ),
        }
    }
}

async fn show_settings(
    State(service): State<Service>,
    access: OrganizationAccess<ReadOrganization>,
    asked: PageQuery,
) -> Response {
    let settings = Settings::of(&access);
    settings_page(&service, &access, &settings, &asked.done, &Problems::default())
}

async fn save(
    State(service): State<Service>,
    access: OrganizationAccess<ChangeOrganization>,
    Sent(settings): Sent<Settings>,
) -> Result<Response, Failure> {
    match change(&service, &access, &settings).await {
        Ok(_) => Ok(go_to(&access.path("settings/?done=saved"))),
        Err(error) => {
            let problems = Problems::try_from(error)?;
            Ok(settings_page(&service, &access, &settings, "", &problems))
        }
    }
}

async fn change(
    service: &Service,
    access: &OrganizationAccess<ChangeOrganization>,
    settings: &Settings,
) -> service::Result<Seen> {
    let patch = OrganizationPatch {
        name: Some(super::name(&settings.name)?),
        is_member_join_email_enabled: Some(settings.tells_of_joining()),
        enforce_2fa: Some(settings.asks_for_second_factor()),
    };
    let precondition = |now: &Seen| settings.seen.fits(now.organization.updated_at);
    service.update_organization(&access.caller, &patch, &precondition).await
}

fn settings_page<P: service::access::Permission>(
    service: &Service,
    access: &OrganizationAccess<P>,
    settings: &Settings,
    done: &str,
    problems: &Problems,
) -> Response {
    let organization = &access.organization;
    let may_change = access.may::<ChangeOrganization>();
    let body = json!({
        "name": settings.name,
        "is_member_join_email_enabled": settings.tells_of_joining(),
        "enforce_2fa": settings.asks_for_second_factor(),
    });
    let read = Call::get::<ReadOrganization>("Read the organization", access.api(""));
    let write = Call::patch::<ChangeOrganization>("Change the settings", access.api("")).sending(body);
    let shown = SettingsPage {
        frame: Frame::new(access, Section::Settings).noting(done),
        alerts: problems.besides(&["name"]),
        facts: Facts {
            id: organization.id.to_string(),
            slug: organization.slug.clone(),
            created: show::day(organization.created_at),
            tells_of_joining: organization.is_member_join_email_enabled,
            asks_for_second_factor: organization.enforce_2fa,
        },
        form: may_change.then(|| settings.form(problems)),
        may_delete: access.may::<DeleteOrganization>(),
        curl: AsCurl::new(service, [read].into_iter().chain(may_change.then_some(write))),
    };
    page_again(problems, &shown)
}
