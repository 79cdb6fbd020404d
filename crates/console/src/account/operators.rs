//! The operators of the instance, for each other.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::{get, post};
use serde::Deserialize;
use serde_json::json;
use service::operators::NewOperator;
use service::{Service, UserUuid, Window};

use super::frame::Frame;
use crate::curl::Call;
use crate::failure::{Failure, Problems};
use crate::field::Field;
use crate::page::{go_to, page_again};
use crate::state::Console;
use crate::visitor::{Account, Id, PageQuery, Sent};

const HERE: &str = "/account/operators/";

pub(super) fn routes() -> Router<Console> {
    Router::new()
        .route(HERE, get(list).post(add))
        .route("/account/operators/{uuid}/remove/", post(remove))
}

#[derive(Template)]
#[template(path = "account/operators.html")]
struct OperatorsPage {
    frame: Frame,
    alerts: Vec<String>,
    email: Field,
    operators: Vec<Row>,
    /// How many there are besides those that are shown.
    more: i64,
}

struct Row {
    uuid: UserUuid,
    name: String,
    email: String,
    is_you: bool,
}

#[derive(Deserialize)]
struct OperatorForm {
    email: String,
}

async fn list(State(service): State<Service>, account: Account, asked: PageQuery) -> Result<Response, Failure> {
    shown(&service, &account, "", &asked.done, &Problems::default()).await
}

async fn add(
    State(service): State<Service>,
    account: Account,
    Sent(form): Sent<OperatorForm>,
) -> Result<Response, Failure> {
    let operator = service.operator(&account.person).await?;
    let new = NewOperator {
        email: form.email.clone(),
    };
    match service.add_operator(&operator, &new).await {
        Ok(_) => Ok(go_to("/account/operators/?done=operator-added")),
        Err(error) => shown(&service, &account, &form.email, "", &Problems::try_from(error)?).await,
    }
}

async fn remove(State(service): State<Service>, account: Account, Id(uuid): Id<UserUuid>) -> Result<Response, Failure> {
    let operator = service.operator(&account.person).await?;
    match service.remove_operator(&operator, uuid).await {
        Ok(()) if uuid == account.user.uuid => Ok(go_to("/account/?done=operator-removed")),
        Ok(()) => Ok(go_to("/account/operators/?done=operator-removed")),
        Err(error) => shown(&service, &account, "", "", &Problems::try_from(error)?).await,
    }
}

async fn shown(
    service: &Service,
    account: &Account,
    email: &str,
    done: &str,
    problems: &Problems,
) -> Result<Response, Failure> {
    let operator = service.operator(&account.person).await?;
    let page = service.operators(&operator, Window::new(None, None)).await?;
    let frame = Frame::new(account, "/account/").below().noting(done);
    let row = |user: &service::users::User| Row {
        uuid: user.uuid,
        name: user.called(),
        email: user.email.clone(),
        is_you: user.id == account.user.id,
    };
    let shown = OperatorsPage {
        frame: frame.teaching(service, account, calls(email)),
        alerts: problems.besides(&["email"]),
        email: Field::text("email", "Email", "off")
            .keyboard("email")
            .at_most(254)
            .holding(email)
            .judged(problems),
        more: page.count - i64::try_from(page.items.len()).unwrap_or(i64::MAX),
        operators: page.items.iter().map(row).collect(),
    };
    Ok(page_again(problems, &shown))
}

fn calls(email: &str) -> [Call; 2] {
    const API: &str = "/api/instance/operators/";
    [
        Call::in_session("GET", "List the operators", API),
        Call::in_session("POST", "Add an operator", API).sending(json!({ "email": email })),
    ]
}
