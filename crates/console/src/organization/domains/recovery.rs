//! Recovery codes: an owner's way in when single sign-on lets nobody in.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use service::Service;
use service::access::MakeRecoveryCodes;

use crate::failure::Failure;
use crate::organization::OrganizationAccess;
use crate::organization::frame::{Frame, Section};
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
#[template(path = "organization/domains/recovery.html")]
struct RecoveryPage {
    frame: Frame,
    made: Option<CreatedCodes>,
}

struct CreatedCodes {
    codes: Vec<String>,
    /// All of them as a file, without asking the server again.
    file: String,
}

async fn offer(access: OrganizationAccess<MakeRecoveryCodes>) -> Response {
    recovery_page(&access, None)
}

async fn make(
    State(service): State<Service>,
    access: OrganizationAccess<MakeRecoveryCodes>,
) -> Result<Response, Failure> {
    let codes = service.create_recovery_codes(&access.caller).await?.0;
    let text = format!(
        "Hedgerow recovery codes of {} for {}. Each works once.\n\n{}\n",
        access.account.user.email,
        access.organization.name,
        codes.join("\n")
    );
    let file = format!("data:text/plain;charset=utf-8,{}", encoded_text(&text));
    Ok(recovery_page(&access, Some(CreatedCodes { codes, file })))
}

fn recovery_page(access: &OrganizationAccess<MakeRecoveryCodes>, made: Option<CreatedCodes>) -> Response {
    page(&RecoveryPage {
        frame: Frame::new(access, Section::Domains).below(),
        made,
    })
}
