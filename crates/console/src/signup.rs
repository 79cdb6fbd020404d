//! Accepting an invite: as oneself, or with a new account.

use askama::Template;
use axum::Router;
use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::get;
use serde::Deserialize;
use service::Service;
use service::invites::{Invited, NewAccount};

use crate::failure::{Failure, Problems};
use crate::field::Field;
use crate::login::{SignInMethod, enforced};
use crate::new_session::opened;
use crate::page::{go_to, page, page_again, with_next};
use crate::show::{article, level};
use crate::state::Console;
use crate::visitor::{PageQuery, Sent, Visitor};

pub(crate) fn routes() -> Router<Console> {
    Router::new().route("/signup/{token}/", get(show).post(accept))
}

/// What every page about an open invite says.
struct Invitation {
    organization: String,
    article: &'static str,
    level: &'static str,
    email: String,
}

#[derive(Template)]
#[template(path = "signup/new_account.html")]
struct NewAccountPage {
    invitation: Invitation,
    alerts: Vec<String>,
    email: Field,
    first_name: Field,
    last_name: Field,
    password: Field,
    /// For those who have an account, and come back here.
    sign_in: String,
}

#[derive(Template)]
#[template(path = "signup/join.html")]
struct JoinPage {
    invitation: Invitation,
    alerts: Vec<String>,
}

#[derive(Template)]
#[template(path = "signup/single_sign_on.html")]
struct SingleSignOnPage {
    invitation: Invitation,
    way: SignInMethod,
}

/// An invite that leads nowhere, why, and the way on.
#[derive(Template)]
#[template(path = "signup/closed.html")]
struct ClosedPage {
    heading: &'static str,
    text: &'static str,
    /// Whether the browser has to be somebody else's first.
    is_to_sign_out: bool,
    link: Option<(&'static str, String)>,
    next: String,
}

#[derive(Default, Deserialize)]
struct Form {
    #[serde(default)]
    first_name: String,
    #[serde(default)]
    last_name: String,
    #[serde(default)]
    password: String,
}

async fn show(
    State(service): State<Service>,
    visitor: Visitor,
    Path(token): Path<String>,
    asked: PageQuery,
) -> Result<Response, Failure> {
    let person = visitor.person(&service).await?;
    let invited = match service.invitation(&token, person.as_ref()).await {
        Ok(invited) => invited,
        Err(error) => {
            let problems = Problems::try_from(error)?;
            // Signing in through a domain's provider accepts an invite automatically.
            if asked.done == "signed-in" && person.is_some() && problems.has("invalid_input") {
                return Ok(go_to("/account/"));
            }
            return Ok(closed(&token, person.is_some(), &problems));
        }
    };
    if person.is_some() {
        let alerts = Vec::new();
        let invitation = invitation(&invited);
        return Ok(page(&JoinPage { invitation, alerts }));
    }
    stranger(&service, &token, &invited, &Form::default(), &Problems::default()).await
}

/// Somebody without an account: a form, or the way to the provider that knows them.
async fn stranger(
    service: &Service,
    token: &str,
    invited: &Invited,
    form: &Form,
    problems: &Problems,
) -> Result<Response, Failure> {
    let precheck = service.precheck(&invited.invite.target_email).await?;
    let invitation = invitation(invited);
    if let Some(way) = enforced(&precheck, &format!("/signup/{token}/?done=signed-in")) {
        return Ok(page(&SingleSignOnPage { invitation, way }));
    }
    let given = if form.first_name.is_empty() {
        &invited.invite.first_name
    } else {
        &form.first_name
    };
    let first_name = Field::text("first_name", "First name", "given-name").holding(given);
    let last_name = Field::text("last_name", "Last name", "family-name").holding(&form.last_name);
    let new = NewAccountPage {
        email: Field::email().holding(&invitation.email).fixed(),
        invitation,
        alerts: problems.besides(&["first_name", "last_name", "password"]),
        first_name: first_name.focused().judged(problems),
        last_name: last_name.optional().judged(problems),
        password: Field::new_password("Password").judged(problems),
        sign_in: with_next("/login/", &format!("/signup/{token}/")),
    };
    Ok(page_again(problems, &new))
}

async fn accept(
    State(service): State<Service>,
    visitor: Visitor,
    Path(token): Path<String>,
    Sent(form): Sent<Form>,
) -> Result<Response, Failure> {
    let person = visitor.person(&service).await?;
    let accepted = match &person {
        Some(person) => service.accept_invite(&token, person).await,
        None => {
            service
                .accept_invite_anew(&token, &new_account(&form), visitor.request.clone())
                .await
        }
    };
    let problems = match accepted {
        Ok(accepted) => {
            let there = format!("/organizations/{}/?done=joined", accepted.organization);
            return match &accepted.session {
                Some(session) => opened(&service, visitor, session, &there).await,
                None => Ok(go_to(&there)),
            };
        }
        Err(error) => Problems::try_from(error)?,
    };
    if problems.has("account_exists") {
        return Ok(closed(&token, person.is_some(), &problems));
    }
    // If the invite itself is still good, it is the form that is to blame.
    match service.invitation(&token, person.as_ref()).await {
        Ok(invited) if person.is_some() => {
            let alerts = problems.besides(&[]);
            let invitation = invitation(&invited);
            Ok(page_again(&problems, &JoinPage { invitation, alerts }))
        }
        Ok(invited) => stranger(&service, &token, &invited, &form, &problems).await,
        Err(error) => Ok(closed(&token, person.is_some(), &Problems::try_from(error)?)),
    }
}

fn new_account(form: &Form) -> NewAccount {
    NewAccount {
        first_name: Some(form.first_name.clone()),
        last_name: Some(form.last_name.clone()),
        password: Some(form.password.clone()),
    }
}

fn invitation(invited: &Invited) -> Invitation {
    Invitation {
        organization: invited.organization_name.clone(),
        article: article(invited.invite.level),
        level: level(invited.invite.level),
        email: invited.invite.target_email.clone(),
    }
}

/// Each reason has its own words and its own way on.
fn closed(token: &str, is_signed_in: bool, problems: &Problems) -> Response {
    let here = format!("/signup/{token}/");
    let account = ("Go to your account", "/account/".to_owned());
    let sign_in = ("Sign in", with_next("/login/", &here));
    let elsewhere = if is_signed_in {
        account.clone()
    } else {
        ("Go to sign-in", "/login/".to_owned())
    };
    let (heading, text, link) = if problems.has("account_exists") {
        let text = "An account with the email this invite was sent to already exists. Sign in, then join.";
        ("Sign in first", text, Some(sign_in))
    } else if problems.has("email_verification_required") {
        let text = "Open the link in the invitation email instead, or sign in first with an account that has this email. \
                    If you have neither, ask for the invite to be sent by email.";
        ("Use the link in your email", text, Some(sign_in))
    } else if problems.has("expired") {
        let text = "Invites expire after a few days. Ask the person who invited you to resend it.";
        ("This invite has expired", text, Some(elsewhere))
    } else if problems.has("invalid_recipient") {
        let text =
            "You're signed in with a different email than the one this invite was sent to. Sign out to open it again.";
        ("This invite is for a different email", text, None)
    } else if problems.has("user_already_member") {
        let text = "There's nothing else to do: you already belong to this organization.";
        ("You are already a member", text, Some(account))
    } else {
        let text =
            "It may have been used, revoked or replaced by a newer one. Ask the person who invited you to resend it.";
        ("This invite is no longer valid", text, Some(elsewhere))
    };
    let closed = ClosedPage {
        heading,
        text,
        is_to_sign_out: link.is_none(),
        link,
        next: here,
    };
    page_again(problems, &closed)
}
