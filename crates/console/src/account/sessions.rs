//! Where one is signed in.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::{get, post};
use service::sessions::Listed;
use service::{Service, SessionId, Time};

use super::frame::Frame;
use crate::curl::Call;
use crate::failure::Failure;
use crate::page::{go_to, page};
use crate::show;
use crate::state::Console;
use crate::visitor::{Account, Id, PageQuery};

const HERE: &str = "/account/sessions/";

pub(super) fn routes() -> Router<Console> {
    Router::new()
        .route(HERE, get(list))
        .route("/account/sessions/revoke-others/", post(revoke_others))
        .route("/account/sessions/{id}/revoke/", post(revoke))
}

#[derive(Template)]
#[template(path = "account/sessions.html")]
struct SessionsPage {
    frame: Frame,
    sessions: Vec<Row>,
    has_others: bool,
}

struct Row {
    id: SessionId,
    browser: String,
    user_agent: String,
    address: String,
    method: String,
    has_second_factor: bool,
    is_current: bool,
    used: String,
    used_exactly: String,
    opened: String,
}

impl Row {
    fn new(session: Listed, current: Option<SessionId>, now: Time) -> Self {
        Self {
            id: session.id,
            browser: show::browser(&session.user_agent),
            method: show::method(&session.method).to_owned(),
            has_second_factor: session.has_second_factor && session.method == "password",
            is_current: Some(session.id) == current,
            used: show::ago(session.last_used_at, now),
            used_exactly: show::exactly(session.last_used_at),
            opened: show::day(session.created_at),
            user_agent: session.user_agent,
            address: session.address,
        }
    }
}

async fn list(State(service): State<Service>, account: Account, asked: PageQuery) -> Result<Response, Failure> {
    let (now, current) = (service.clock().now(), account.person.session);
    let listed = service.sessions(&account.person).await?;
    let mut sessions: Vec<Row> = listed
        .into_iter()
        .map(|session| Row::new(session, current, now))
        .collect();
    // One's own comes first, the others stay as they are: newest first.
    sessions.sort_by_key(|row| !row.is_current);
    Ok(page(&SessionsPage {
        frame: Frame::new(&account, HERE)
            .noting(&asked.done)
            .teaching(&service, &account, calls()),
        has_others: sessions.len() > 1,
        sessions,
    }))
}

fn calls() -> [Call; 2] {
    const API: &str = "/api/users/@me/sessions/";
    [
        Call::in_session("GET", "List your sessions", API),
        Call::in_session("DELETE", "Revoke all other sessions", API),
    ]
}

async fn revoke(State(service): State<Service>, account: Account, Id(id): Id<SessionId>) -> Result<Response, Failure> {
    service.end_session(&account.person, id).await?;
    Ok(go_to("/account/sessions/?done=revoked"))
}

async fn revoke_others(State(service): State<Service>, account: Account) -> Result<Response, Failure> {
    service.end_other_sessions(&account.person).await?;
    Ok(go_to("/account/sessions/?done=others-revoked"))
}
