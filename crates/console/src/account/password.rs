//! Another password.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use serde::Deserialize;
use serde_json::json;
use service::Service;
use service::sign_in::NewPassword;

use super::frame::Frame;
use crate::curl::Call;
use crate::failure::{Failure, Problems};
use crate::field::Field;
use crate::page::{go_to, page_again};
use crate::state::Console;
use crate::visitor::{Account, PageQuery, Sent};

const HERE: &str = "/account/password/";

pub(super) fn routes() -> Router<Console> {
    Router::new().route(HERE, get(show).post(change))
}

#[derive(Template)]
#[template(path = "account/password.html")]
struct PasswordPage {
    frame: Frame,
    alerts: Vec<String>,
    /// So that password managers know what the new one belongs to.
    email: Field,
    /// None for those who have no password yet.
    current: Option<Field>,
    password: Field,
}

#[derive(Deserialize)]
struct Passwords {
    current_password: Option<String>,
    password: String,
}

async fn show(State(service): State<Service>, account: Account, asked: PageQuery) -> Result<Response, Failure> {
    password_page(&service, &account, &asked.done, &Problems::default()).await
}

async fn change(
    State(service): State<Service>,
    account: Account,
    Sent(sent): Sent<Passwords>,
) -> Result<Response, Failure> {
    let new = NewPassword {
        current_password: sent.current_password,
        password: sent.password,
    };
    match service.change_password(&account.person, &new).await {
        Ok(()) => Ok(go_to("/account/password/?done=password-changed")),
        Err(error) => password_page(&service, &account, "", &Problems::try_from(error)?).await,
    }
}

async fn password_page(
    service: &Service,
    account: &Account,
    done: &str,
    problems: &Problems,
) -> Result<Response, Failure> {
    let standing = service.standing(account.person.user).await?;
    let current = Field::password("current_password", "Current password", "current-password").judged(problems);
    let body = json!({ "current_password": "YOUR PASSWORD", "password": "A NEW PASSWORD" });
    let call = Call::in_session("POST", "Change your password", "/api/users/@me/password/").sending(body);
    let shown = PasswordPage {
        frame: Frame::new(account, HERE)
            .noting(done)
            .teaching(service, account, [call]),
        alerts: problems.besides(&["current_password", "password"]),
        email: Field::email().holding(&account.user.email).fixed(),
        current: standing.has_password.then_some(current),
        password: Field::new_password("New password").judged(problems),
    };
    Ok(page_again(problems, &shown))
}
