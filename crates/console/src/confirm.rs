//! Confirming that it is the person who is signed in, before what would outlast an open browser.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use identity::cookies;
use serde::Deserialize;
use service::Service;
use service::sign_in::Confirmation;

use crate::failure::{Failure, Problems};
use crate::field::Field;
use crate::login::{SignInMethod, ways};
use crate::page::{go_to, page_again, with_cookie};
use crate::state::Console;
use crate::visitor::{Account, PageQuery, Sent};

pub(crate) fn routes() -> Router<Console> {
    Router::new().route("/login/confirm/", get(ask).post(confirm))
}

#[derive(Template)]
#[template(path = "login/confirm.html")]
struct ConfirmPage {
    alerts: Vec<String>,
    email: Field,
    /// For those who have one.
    password: Option<Field>,
    code: Option<Field>,
    /// For those who have neither: signing in again is the proof.
    ways: Vec<SignInMethod>,
    next: String,
}

#[derive(Deserialize)]
struct ConfirmForm {
    #[serde(default)]
    password: String,
    #[serde(default)]
    token: String,
    #[serde(default)]
    next: String,
}

async fn ask(State(service): State<Service>, account: Account, asked: PageQuery) -> Result<Response, Failure> {
    confirm_page(&service, &account, &asked.next, &Problems::default()).await
}

async fn confirm(
    State(service): State<Service>,
    account: Account,
    Sent(sent): Sent<ConfirmForm>,
) -> Result<Response, Failure> {
    let given = |text: String| (!text.is_empty()).then_some(text);
    let proof = Confirmation {
        password: given(sent.password),
        token: given(sent.token),
    };
    match service.confirm_person(&account.person, &proof).await {
        Ok(session) => {
            let response = go_to(identity::own_path(&sent.next));
            Ok(with_cookie(response, &cookies::set(cookies::SESSION, &session)))
        }
        Err(error) => confirm_page(&service, &account, &sent.next, &Problems::try_from(error)?).await,
    }
}

async fn confirm_page(
    service: &Service,
    account: &Account,
    next: &str,
    problems: &Problems,
) -> Result<Response, Failure> {
    let standing = service.standing(account.person.user).await?;
    let next = identity::own_path(next).to_owned();
    let password = Field::password("password", "Password", "current-password").focused();
    let code = Field::code("Code from your authenticator app, or a backup code");
    let ways = if standing.has_password || standing.is_2fa_enabled {
        Vec::new()
    } else {
        let precheck = service.precheck(&account.user.email).await?;
        ways(service, &precheck, &next)
    };
    let shown = ConfirmPage {
        alerts: problems.besides(&["password", "token"]),
        email: Field::email().holding(&account.user.email).fixed(),
        password: standing.has_password.then(|| password.judged(problems)),
        code: (!standing.has_password && standing.is_2fa_enabled).then(|| code.focused().judged(problems)),
        ways,
        next,
    };
    Ok(page_again(problems, &shown))
}
