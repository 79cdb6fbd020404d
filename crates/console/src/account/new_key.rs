//! Making a personal API key by picking what it is for.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use chrono::TimeDelta;
use serde_json::json;
use service::keys::{Label, NewKey};
use service::{Error, Invalid, Object, OrganizationId, Scope, Service, Time};

use super::frame::Frame;
use super::key_created::CreatedPage;
use super::key_scopes::{self, Purpose, Subject};
use super::keys::{API, HERE};
use super::profile;
use crate::curl::Call;
use crate::failure::{Failure, Problems};
use crate::field::Field;
use crate::page::{page, page_again};
use crate::show;
use crate::state::Console;
use crate::visitor::{Account, Sent};

pub(super) fn routes() -> Router<Console> {
    Router::new().route("/account/keys/new/", get(ask).post(create))
}

/// How long keys last, in days, the shortest first.
const LIFETIMES: [(&str, &str); 5] = [
    ("7", "7 days"),
    ("30", "30 days"),
    ("90", "90 days"),
    ("365", "1 year"),
    ("", "No expiration"),
];
/// Chosen until another is.
const USUAL_LIFETIME: &str = "90";

#[derive(Template)]
#[template(path = "account/key_new.html")]
struct NewKeyPage {
    frame: Frame,
    alerts: Vec<String>,
    label: Field,
    purposes: Vec<Purpose>,
    subjects: Vec<Subject>,
    scopes_problem: Option<String>,
    is_scope_focused: bool,
    organizations: Vec<Choice>,
    lifetimes: Vec<Choice>,
    lifetime_problem: Option<String>,
}

struct Choice {
    value: String,
    title: String,
    is_chosen: bool,
}

/// The form, field by field: some come more than once.
struct NewKeyForm(Vec<(String, String)>);

impl NewKeyForm {
    fn all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        let fields = self.0.iter().filter(move |(field, _)| field == name);
        fields.map(|(_, value)| value.as_str())
    }

    fn one(&self, name: &str) -> &str {
        self.all(name).next().unwrap_or_default()
    }

    fn scopes(&self) -> Vec<Scope> {
        key_scopes::scopes(self.one("purpose"), |name| self.one(name))
    }

    /// None before anything was sent.
    fn purpose(&self) -> Option<&str> {
        (!self.0.is_empty()).then(|| self.one("purpose"))
    }

    fn organizations(&self) -> Vec<OrganizationId> {
        self.all("scoped_organizations")
            .filter_map(|id| id.parse().ok())
            .collect()
    }

    fn lifetime(&self) -> &str {
        let is_given = self.0.iter().any(|(field, _)| field == "expires_at");
        if is_given {
            self.one("expires_at")
        } else {
            USUAL_LIFETIME
        }
    }

    /// What the service is asked for, or all that is missing.
    fn new_key(&self, now: Time) -> Result<NewKey, Error> {
        let mut missing = Vec::new();
        let label = Label::new(self.one("label"));
        if let Err(mut invalid) = label.clone() {
            invalid.field = Some("label".into());
            missing.push(invalid);
        }
        let scopes = self.scopes();
        if scopes.is_empty() {
            missing.push(Invalid {
                field: Some("scopes".into()),
                code: "min_length",
                detail: "choose at least one permission".to_owned(),
            });
        }
        if !LIFETIMES.iter().any(|(days, _)| *days == self.lifetime()) {
            missing.push(Invalid {
                field: Some("expires_at".into()),
                code: "invalid_choice",
                detail: "choose one of the options".to_owned(),
            });
        }
        let (Ok(label), true) = (label, missing.is_empty()) else {
            return Err(Error::Invalid(missing));
        };
        Ok(NewKey {
            label,
            scopes,
            scoped_organizations: Some(self.organizations()),
            scoped_teams: None,
            expires_at: self.expires_at(now),
        })
    }

    fn expires_at(&self, now: Time) -> Option<Time> {
        let days = self.lifetime().parse().ok().and_then(TimeDelta::try_days)?;
        now.checked_add_signed(days)
    }

    /// The same as the API takes it, or an example.
    fn call(&self, now: Time) -> Call {
        let (label, scopes) = (self.one("label"), self.scopes());
        let example = [Scope::Read(Object::Organization)];
        let body = json!({
            "label": if label.is_empty() { "CI" } else { label },
            "scopes": if scopes.is_empty() { &example[..] } else { &scopes },
            "scoped_organizations": self.organizations(),
            "expires_at": self.expires_at(now).map(show::exactly),
        });
        Call::in_session("POST", "Create a key", API).sending(body)
    }
}

async fn ask(State(service): State<Service>, account: Account) -> Result<Response, Failure> {
    // Asked for before the form is filled in, not after.
    if !account.person.has_recent_proof(service.clock().now()) {
        return Err(service::Error::ReauthenticationNeeded.into());
    }
    form(&service, &account, &NewKeyForm(Vec::new()), &Problems::default()).await
}

async fn create(
    State(service): State<Service>,
    account: Account,
    Sent(sent): Sent<Vec<(String, String)>>,
) -> Result<Response, Failure> {
    let chosen = NewKeyForm(sent);
    let made = match chosen.new_key(service.clock().now()) {
        Ok(new) => service.create_key(&account.person, &new).await,
        Err(error) => Err(error),
    };
    match made {
        Ok(fresh) => Ok(page(&CreatedPage::new(&service, &account, fresh, true).await)),
        Err(error) => form(&service, &account, &chosen, &Problems::try_from(error)?).await,
    }
}

async fn form(
    service: &Service,
    account: &Account,
    chosen: &NewKeyForm,
    problems: &Problems,
) -> Result<Response, Failure> {
    let memberships = profile::organizations(service, account).await?;
    let reached = chosen.organizations();
    let organizations = memberships.items.iter().map(|seen| Choice {
        value: seen.organization.id.to_string(),
        title: seen.organization.name.to_string(),
        is_chosen: reached.contains(&seen.organization.id),
    });
    let lifetimes = LIFETIMES.map(|(value, title)| Choice {
        value: value.to_owned(),
        title: title.to_owned(),
        is_chosen: value == chosen.lifetime(),
    });
    let label = Field::text("label", "Label", "off")
        .at_most(40)
        .holding(chosen.one("label"));
    let shown = NewKeyPage {
        frame: Frame::new(account, HERE)
            .below()
            .teaching(service, account, [chosen.call(service.clock().now())]),
        alerts: problems.besides(&["label", "scopes", "expires_at"]),
        label: label.hint("For example “CI” or “Backup script”.").judged(problems),
        purposes: key_scopes::purposes(chosen.purpose()),
        subjects: key_scopes::subjects(|name| chosen.one(name)),
        scopes_problem: problems.of("scopes"),
        is_scope_focused: problems.first_field() == Some("scopes"),
        organizations: organizations.collect(),
        lifetimes: lifetimes.into(),
        lifetime_problem: problems.of("expires_at"),
    };
    Ok(page_again(problems, &shown))
}
