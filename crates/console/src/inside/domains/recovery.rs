//! Recovery codes: an owner's way in when single sign-on lets nobody in.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use service::Service;
use service::access::MakeRecoveryCodes;

use crate::failure::Failure;
use crate::inside::Inside;
use crate::inside::frame::{Frame, Section};
use crate::page::{encoded_text, page};
use crate::state::Console;

pub(super) fn routes() -> Router<Console> {
    Router::new().route(
        "/organizations/{organization}/domains/recovery-codes/",
        get(offer).post(make),
    )
}

/// No command does the same: a key cannot make these.
#[derive(Template)]
#[template(path = "inside/domains/recovery.html")]
struct RecoveryPage {
    frame: Frame,
    made: Option<CreatedCodes>,
}

struct CreatedCodes {
    codes: Vec<String>,
    /// All of them as a file, without asking the server again.
    file: String,
}

async fn offer(inside: Inside<MakeRecoveryCodes>) -> Response {
    recovery_page(&inside, None)
}

async fn make(State(service): State<Service>, inside: Inside<MakeRecoveryCodes>) -> Result<Response, Failure> {
    let codes = service.create_recovery_codes(&inside.caller).await?.0;
    let text = format!(
        "Hedgerow recovery codes of {} for {}. Each works once.\n\n{}\n",
        inside.account.user.email,
        inside.organization.name,
        codes.join("\n")
    );
    let file = format!("data:text/plain;charset=utf-8,{}", encoded_text(&text));
    Ok(recovery_page(&inside, Some(CreatedCodes { codes, file })))
}

fn recovery_page(inside: &Inside<MakeRecoveryCodes>, made: Option<CreatedCodes>) -> Response {
    page(&RecoveryPage {
        frame: Frame::new(inside, Section::Domains).below(),
        made,
    })
}
