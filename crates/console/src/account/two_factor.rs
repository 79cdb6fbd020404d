//! The second factor: setting it up, its backup codes, and doing without.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use identity::cookies;
use serde::Deserialize;
use serde_json::json;
use service::{Error, Service};

use super::frame::Frame;
use crate::curl::Call;
use crate::failure::{Failure, Problems};
use crate::field::Field;
use crate::page::{encoded_text, go_to, page, page_again, with_cookie};
use crate::state::Console;
use crate::visitor::{Account, PageQuery, Sent};

const HERE: &str = "/account/two-factor/";

pub(super) fn routes() -> Router<Console> {
    Router::new()
        .route(HERE, get(show))
        .route("/account/two-factor/set-up/", get(async || go_to(HERE)).post(begin))
        .route("/account/two-factor/confirm/", get(async || go_to(HERE)).post(confirm))
        .route("/account/two-factor/backup-codes/", get(ask_for_codes).post(make_codes))
        .route("/account/two-factor/remove/", get(ask_to_remove).post(remove))
}

#[derive(Template)]
#[template(path = "account/two_factor.html")]
struct StatePage {
    frame: Frame,
    alerts: Vec<String>,
    is_on: bool,
    backup_codes: i64,
    has_password: bool,
}

#[derive(Template)]
#[template(path = "account/two_factor_set_up.html")]
struct SetUpPage {
    frame: Frame,
    alerts: Vec<String>,
    /// Shown once: after a wrong code the app has it already.
    picture: Option<Picture>,
    code: Field,
}

struct Picture {
    qr_svg: String,
    secret: String,
}

#[derive(Template)]
#[template(path = "account/backup_codes.html")]
struct CodesPage {
    frame: Frame,
    is_new: bool,
    codes: Vec<String>,
    /// All of them as a file, without asking the server again.
    file: String,
}

/// A code proves that it is the person who asks, and not whoever found an open browser.
#[derive(Template)]
#[template(path = "account/two_factor_code.html")]
struct CodePage {
    frame: Frame,
    alerts: Vec<String>,
    heading: &'static str,
    text: &'static str,
    button: &'static str,
    is_dangerous: bool,
    code: Field,
}

#[derive(Deserialize)]
struct Code {
    token: String,
}

async fn show(State(service): State<Service>, account: Account, asked: PageQuery) -> Result<Response, Failure> {
    state_page(&service, &account, &asked.done, &Problems::default()).await
}

async fn state_page(
    service: &Service,
    account: &Account,
    done: &str,
    problems: &Problems,
) -> Result<Response, Failure> {
    let standing = service.standing(account.person.user).await?;
    let shown = StatePage {
        frame: Frame::new(account, HERE)
            .noting(done)
            .teaching(service, account, calls(standing.is_2fa_enabled)),
        alerts: problems.besides(&[]),
        is_on: standing.is_2fa_enabled,
        backup_codes: standing.backup_codes,
        has_password: standing.has_password,
    };
    Ok(page_again(problems, &shown))
}

fn calls(is_on: bool) -> Vec<Call> {
    let call = |title, below: &str| Call::in_session("POST", title, format!("/api/users/@me/two_factor/{below}"));
    let code = json!({ "token": "123456" });
    if is_on {
        vec![
            call("Create new backup codes", "backup_codes/").sending(code.clone()),
            call("Turn off two-factor authentication", "remove/").sending(code),
        ]
    } else {
        vec![
            call("Start setup", ""),
            call("Confirm with a code", "confirm/").sending(code),
        ]
    }
}

async fn begin(State(service): State<Service>, account: Account) -> Result<Response, Failure> {
    match service.begin_second_factor(&account.person).await {
        Ok(set_up) => {
            let picture = Picture {
                qr_svg: set_up.qr_svg,
                secret: grouped(&set_up.secret),
            };
            Ok(page(&set_up_page(&account, Some(picture), &Problems::default())))
        }
        Err(error) => state_page(&service, &account, "", &Problems::try_from(error)?).await,
    }
}

async fn confirm(
    State(service): State<Service>,
    account: Account,
    Sent(Code { token }): Sent<Code>,
) -> Result<Response, Failure> {
    match service.confirm_second_factor(&account.person, &token).await {
        Ok(confirmed) => {
            let shown = page(&codes_page(&account, confirmed.backup_codes, true));
            Ok(match confirmed.session {
                Some(session) => with_cookie(shown, &cookies::set(cookies::SESSION, &session)),
                None => shown,
            })
        }
        Err(error) => {
            let problems = Problems::try_from(error)?;
            Ok(page_again(&problems, &set_up_page(&account, None, &problems)))
        }
    }
}

fn set_up_page(account: &Account, picture: Option<Picture>, problems: &Problems) -> SetUpPage {
    let code = Field::code("Code from the app")
        .hint("Six digits, new every 30 seconds.")
        .keyboard("numeric");
    SetUpPage {
        frame: Frame::new(account, HERE).below(),
        alerts: problems.besides(&["token"]),
        code: code.judged(problems),
        picture,
    }
}

async fn ask_for_codes(account: Account) -> Response {
    page(&backup_codes_form(&account, &Problems::default()))
}

async fn make_codes(
    State(service): State<Service>,
    account: Account,
    Sent(Code { token }): Sent<Code>,
) -> Result<Response, Failure> {
    match service.replace_backup_codes(&account.person, &token).await {
        Ok(codes) => Ok(page(&codes_page(&account, codes, false))),
        Err(error) => again(error, |problems| backup_codes_form(&account, problems)),
    }
}

async fn ask_to_remove(account: Account) -> Response {
    page(&removal_form(&account, &Problems::default()))
}

async fn remove(
    State(service): State<Service>,
    account: Account,
    Sent(Code { token }): Sent<Code>,
) -> Result<Response, Failure> {
    match service.remove_second_factor(&account.person, &token).await {
        Ok(()) => Ok(go_to("/account/two-factor/?done=removed")),
        Err(error) => again(error, |problems| removal_form(&account, problems)),
    }
}

fn again(error: Error, form: impl FnOnce(&Problems) -> CodePage) -> Result<Response, Failure> {
    let problems = Problems::try_from(error)?;
    Ok(page_again(&problems, &form(&problems)))
}

fn backup_codes_form(account: &Account, problems: &Problems) -> CodePage {
    CodePage {
        frame: Frame::new(account, HERE).below(),
        alerts: problems.besides(&["token"]),
        heading: "New backup codes",
        text: "You'll get ten new codes. The old ones stop working immediately.",
        button: "Create new codes",
        is_dangerous: false,
        code: Field::code("Code from your authenticator app")
            .keyboard("numeric")
            .focused()
            .judged(problems),
    }
}

fn removal_form(account: &Account, problems: &Problems) -> CodePage {
    CodePage {
        frame: Frame::new(account, HERE).below(),
        alerts: problems.besides(&["token"]),
        heading: "Turn off two-factor authentication",
        text: "You'll sign in with your password alone. Your backup codes will be deleted.",
        button: "Turn off",
        is_dangerous: true,
        code: Field::code("Code from your authenticator app, or a backup code")
            .focused()
            .judged(problems),
    }
}

fn codes_page(account: &Account, codes: Vec<String>, is_new: bool) -> CodesPage {
    let lines = codes.join("\n");
    let text = format!(
        "Backup codes for {} at Hedgerow. Each works once.\n\n{lines}\n",
        account.user.email
    );
    CodesPage {
        frame: Frame::new(account, HERE).below(),
        is_new,
        codes,
        file: format!("data:text/plain;charset=utf-8,{}", encoded_text(&text)),
    }
}

/// Easier to type from: groups of four.
fn grouped(secret: &str) -> String {
    let letters: Vec<char> = secret.chars().collect();
    let groups = letters.chunks(4).map(|group| group.iter().collect::<String>());
    groups.collect::<Vec<_>>().join(" ")
}
