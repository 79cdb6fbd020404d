//! After the password: a code. And for owners who are locked out: another code.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use identity::cookies;
use serde::Deserialize;
use service::Service;

use crate::failure::{Failure, Problems};
use crate::field::Field;
use crate::new_session::opened;
use crate::page::{go_to, page, page_again, with_cookie};
use crate::state::Console;
use crate::visitor::{PageQuery, Sent, Visitor};

pub(crate) fn routes() -> Router<Console> {
    Router::new()
        .route("/login/second-factor/", get(ask_for_code).post(take_code))
        .route("/login/recovery/", get(ask_for_recovery).post(take_recovery))
}

#[derive(Template)]
#[template(path = "login/second_factor.html")]
struct CodePage {
    alerts: Vec<String>,
    code: Field,
    next: String,
}

#[derive(Deserialize)]
struct Code {
    token: String,
    #[serde(default)]
    next: String,
}

async fn ask_for_code(visitor: Visitor, asked: PageQuery) -> Response {
    if visitor.challenge.is_none() {
        return go_to("/login/");
    }
    page(&code_page(&asked.next, &Problems::default()))
}

async fn take_code(
    State(service): State<Service>,
    visitor: Visitor,
    Sent(sent): Sent<Code>,
) -> Result<Response, Failure> {
    let challenge = visitor.challenge.clone().unwrap_or_default();
    let entered = service.sign_in_with_code(&challenge, &sent.token, visitor.request.clone());
    let problems = match entered.await {
        Ok((_, session)) => return opened(&service, visitor, &session, &sent.next).await,
        Err(error) => Problems::try_from(error)?,
    };
    if problems.has("2fa_expired") {
        let response = go_to("/login/?done=too-late");
        return Ok(with_cookie(response, &cookies::end(cookies::CHALLENGE)));
    }
    Ok(page_again(&problems, &code_page(&sent.next, &problems)))
}

fn code_page(next: &str, problems: &Problems) -> CodePage {
    let hint = "The 6-digit code from your authenticator app, or a backup code.";
    CodePage {
        alerts: problems.besides(&["token"]),
        code: Field::code("Code").hint(hint).focused().judged(problems),
        next: identity::own_path(next).to_owned(),
    }
}

#[derive(Template)]
#[template(path = "login/recovery.html")]
struct RecoveryPage {
    alerts: Vec<String>,
    email: Field,
    code: Field,
}

#[derive(Deserialize)]
struct Recovery {
    email: String,
    code: String,
}

async fn ask_for_recovery() -> Response {
    page(&recovery_page("", &Problems::default()))
}

async fn take_recovery(
    State(service): State<Service>,
    visitor: Visitor,
    Sent(sent): Sent<Recovery>,
) -> Result<Response, Failure> {
    let entered = service.sign_in_with_recovery_code(&sent.email, &sent.code, visitor.request.clone());
    match entered.await {
        Ok((_, session)) => opened(&service, visitor, &session, "/").await,
        Err(error) => {
            let problems = Problems::try_from(error)?;
            Ok(page_again(&problems, &recovery_page(&sent.email, &problems)))
        }
    }
}

fn recovery_page(email: &str, problems: &Problems) -> RecoveryPage {
    let code = Field::text("code", "Recovery code", "off").at_most(60);
    RecoveryPage {
        alerts: problems.besides(&["email", "code"]),
        email: Field::email().holding(email).focused().judged(problems),
        code: code
            .hint("Six groups of four characters. Each code works once.")
            .judged(problems),
    }
}
