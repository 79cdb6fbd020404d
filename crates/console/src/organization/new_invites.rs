//! Inviting people, as many at once as one likes to paste.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use serde::Deserialize;
use serde_json::{Value, json};
use service::access::WriteInvites;
use service::invites::{Fresh, MAX_AT_ONCE, NewInvite};
use service::{Error, Level, Service};

use super::OrganizationAccess;
use super::frame::{Frame, Section};
use super::invites::CreatedPage;
use super::pasted::{self, Pasted};
use crate::choices::{self, Area, Select, Switch};
use crate::curl::{AsCurl, Call};
use crate::failure::{Failure, Problems};
use crate::page::{page, page_again};
use crate::show;
use crate::state::Console;
use crate::visitor::Sent;

/// As long as the words in a mail may be.
const MAX_MESSAGE: usize = 2000;

pub(super) fn routes() -> Router<Console> {
    Router::new().route("/organizations/{organization}/invites/new/", get(ask).post(create))
}

#[derive(Template)]
#[template(path = "organization/invites_new.html")]
struct NewPage {
    frame: Frame,
    alerts: Vec<String>,
    addresses: Area,
    level: Select,
    message: Area,
    /// None where no mail can be sent.
    send_email: Option<Switch>,
    curl: AsCurl,
}

#[derive(Default, Deserialize)]
struct InvitesForm {
    addresses: String,
    level: String,
    #[serde(default)]
    message: String,
    #[serde(default)]
    send_email: String,
}

impl InvitesForm {
    fn is_mailed(&self) -> bool {
        self.send_email == "yes"
    }

    fn level(&self) -> Level {
        choices::level(&self.level).unwrap_or(Level::Member)
    }

    fn people(&self) -> Vec<Pasted> {
        pasted::read(&self.addresses)
    }

    /// What the service is asked for, or what it could not be asked for.
    fn new_invites(&self) -> Result<Vec<NewInvite>, Error> {
        let people = self.people();
        if people.is_empty() {
            return Err(Error::invalid(
                "addresses",
                "required",
                "enter at least one email address",
            ));
        }
        if people.len() > MAX_AT_ONCE {
            let detail = format!(
                "this list has {} addresses: invite at most {MAX_AT_ONCE} at a time",
                people.len()
            );
            return Err(Error::invalid("addresses", "max_length", detail));
        }
        let message = self.message.replace("\r\n", "\n");
        if message.chars().count() > MAX_MESSAGE {
            let detail = "use at most 2,000 characters";
            return Err(Error::invalid("message", "max_length", detail));
        }
        let invite = |person: Pasted| NewInvite {
            target_email: person.email,
            first_name: person.first_name,
            level: Some(self.level()),
            message: (!message.trim().is_empty()).then(|| message.clone()),
            send_email: Some(self.is_mailed()),
        };
        Ok(people.into_iter().map(invite).collect())
    }

    /// The same as the API takes it, or an example.
    fn body(&self) -> Value {
        let people = self.people();
        let level = i16::from(self.level());
        if people.is_empty() {
            return json!([
                { "target_email": "ann@example.com", "level": level },
                { "target_email": "ben@example.com", "level": level },
            ]);
        }
        let one = |person: &Pasted| {
            let mut invite = json!({ "target_email": person.email, "level": level });
            if let Some(name) = &person.first_name {
                invite["first_name"] = json!(name);
            }
            invite
        };
        people.iter().map(one).collect()
    }
}

async fn ask(State(service): State<Service>, access: OrganizationAccess<WriteInvites>) -> Response {
    let typed = InvitesForm {
        send_email: "yes".to_owned(),
        ..InvitesForm::default()
    };
    form(&service, &access, &typed, &Problems::default())
}

async fn create(
    State(service): State<Service>,
    access: OrganizationAccess<WriteInvites>,
    Sent(typed): Sent<InvitesForm>,
) -> Result<Response, Failure> {
    match invite(&service, &access, &typed).await {
        Ok(fresh) => {
            let is_sent = typed.is_mailed() && service.instance().sends_mail;
            let count = i64::try_from(fresh.len()).unwrap_or(i64::MAX);
            let heading = format!(
                "{} {}",
                show::counted(count, "invitation"),
                if is_sent { "sent" } else { "created" }
            );
            let call = bulk(&access, &typed);
            Ok(page(&CreatedPage::new(
                &service,
                &access,
                &fresh,
                heading,
                typed.is_mailed(),
                call,
            )))
        }
        Err(error) => Ok(form(&service, &access, &typed, &Problems::try_from(error)?)),
    }
}

async fn invite(
    service: &Service,
    access: &OrganizationAccess<WriteInvites>,
    typed: &InvitesForm,
) -> service::Result<Vec<Fresh>> {
    service.create_invites(&access.caller, &typed.new_invites()?).await
}

fn bulk(access: &OrganizationAccess<WriteInvites>, typed: &InvitesForm) -> Call {
    Call::post::<WriteInvites>("Create the invites, all or none", access.api("invites/bulk/")).sending(typed.body())
}

fn form(
    service: &Service,
    access: &OrganizationAccess<WriteInvites>,
    typed: &InvitesForm,
    problems: &Problems,
) -> Response {
    let hint = format!(
        "One per line or comma-separated. “Ann Lee <ann@example.com>” works, too. At most {MAX_AT_ONCE} at a time. \
         Each invite expires in {}.",
        show::counted(service.instance().invite_days, "day")
    );
    let wrong = wrong_addresses(problems, &typed.people());
    let addresses = Area::new("addresses", "Email addresses", 6, typed.addresses.clone()).hint(hint);
    let message = Area::new("message", "Personal message", 3, typed.message.clone()).optional();
    let sends_mail = service.instance().sends_mail;
    let shown = NewPage {
        frame: Frame::new(access, Section::Invites).below(),
        alerts: besides_addresses(problems),
        addresses: if problems.first_field().is_none() {
            addresses.focused()
        } else {
            addresses.wrong(wrong)
        },
        level: Select::level("Role", access.caller.level, typed.level()),
        message: message
            .hint("Included in the email.")
            .wrong(problems.of("message").into_iter().collect()),
        send_email: sends_mail.then(|| {
            Switch::new(
                "send_email",
                "Send invitation emails",
                "You'll also get shareable links.",
                typed.is_mailed(),
            )
        }),
        curl: AsCurl::new(service, [bulk(access, typed)]),
    };
    page_again(problems, &shown)
}

/// The service counts from nought; people look for the address.
fn wrong_addresses(problems: &Problems, people: &[Pasted]) -> Vec<String> {
    let about = |(field, detail): (Option<&str>, &str)| {
        let field = field?;
        if field == "addresses" {
            return Some(show::sentence(detail));
        }
        let place: usize = field.split_once("__")?.0.parse().ok()?;
        let email = &people.get(place)?.email;
        let is_named = detail.contains(&email.to_lowercase());
        Some(if is_named {
            // It may begin with the address, which stays as it is written.
            format!("{}.", detail.trim_end_matches('.'))
        } else {
            format!("{email}: {}", show::sentence(detail))
        })
    };
    problems.each().filter_map(about).collect()
}

/// What is wrong with none of the fields.
fn besides_addresses(problems: &Problems) -> Vec<String> {
    let others = problems.each().filter(|(field, _)| field.is_none());
    others.map(|(_, detail)| show::sentence(detail)).collect()
}
