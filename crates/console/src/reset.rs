//! A forgotten password: a link by mail, and a new one.

use askama::Template;
use axum::Router;
use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::get;
use serde::Deserialize;
use service::Service;

use crate::failure::{Failure, Problems};
use crate::field::Field;
use crate::page::{go_to, page, page_again};
use crate::state::Console;
use crate::visitor::{Sent, Visitor};

pub(crate) fn routes() -> Router<Console> {
    Router::new()
        .route("/reset/", get(ask).post(send_link))
        .route("/reset/{token}/", get(open_link).post(set_password))
}

#[derive(Template)]
#[template(path = "reset/ask.html")]
struct AskPage {
    alerts: Vec<String>,
    email: Field,
}

/// The same for everybody, whether there is an account or not.
#[derive(Template)]
#[template(path = "reset/sent.html")]
struct SentPage {
    email: String,
}

#[derive(Template)]
#[template(path = "reset/new_password.html")]
struct NewPasswordPage {
    alerts: Vec<String>,
    password: Field,
}

#[derive(Template)]
#[template(path = "reset/expired.html")]
struct ExpiredPage;

#[derive(Deserialize)]
struct Address {
    email: String,
}

#[derive(Deserialize)]
struct Password {
    password: String,
}

async fn ask() -> Response {
    page(&ask_page("", &Problems::default()))
}

async fn send_link(
    State(service): State<Service>,
    visitor: Visitor,
    Sent(Address { email }): Sent<Address>,
) -> Result<Response, Failure> {
    match service.ask_for_reset(&email, visitor.request).await {
        Ok(()) => Ok(page(&SentPage { email })),
        Err(error) => {
            let problems = Problems::try_from(error)?;
            Ok(page_again(&problems, &ask_page(&email, &problems)))
        }
    }
}

fn ask_page(email: &str, problems: &Problems) -> AskPage {
    AskPage {
        alerts: problems.besides(&["email"]),
        email: Field::email().holding(email).focused().judged(problems),
    }
}

async fn open_link(State(service): State<Service>, Path(token): Path<String>) -> Result<Response, Failure> {
    match service.reset_is_open(&token).await {
        Ok(()) => Ok(page(&new_password_page(&Problems::default()))),
        Err(error) => Ok(page_again(&Problems::try_from(error)?, &ExpiredPage)),
    }
}

async fn set_password(
    State(service): State<Service>,
    visitor: Visitor,
    Path(token): Path<String>,
    Sent(Password { password }): Sent<Password>,
) -> Result<Response, Failure> {
    let problems = match service.reset_password(&token, &password, visitor.request).await {
        Ok(_) => return Ok(go_to("/login/?done=password-set")),
        Err(error) => Problems::try_from(error)?,
    };
    if problems.has("expired") {
        return Ok(page_again(&problems, &ExpiredPage));
    }
    Ok(page_again(&problems, &new_password_page(&problems)))
}

fn new_password_page(problems: &Problems) -> NewPasswordPage {
    NewPasswordPage {
        alerts: problems.besides(&["password"]),
        password: Field::new_password("New password").focused().judged(problems),
    }
}
