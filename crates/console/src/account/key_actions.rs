//! What is done to one key: another value, less reach, its end. Each is asked about first, as it breaks what uses the key.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use serde_json::json;
use service::keys::{Key, KeyPatch};
use service::{Error, KeyId, Service, no_precondition};

use super::frame::Frame;
use super::key_created::CreatedPage;
use super::key_scopes;
use super::keys::{API, HERE, has_removable_scopes};
use crate::curl::Call;
use crate::failure::{Failure, Problems};
use crate::page::{go_to, page, page_again};
use crate::state::Console;
use crate::visitor::{Account, Id};

pub(super) fn routes() -> Router<Console> {
    Router::new()
        .route("/account/keys/{id}/roll/", get(ask_to_roll).post(roll))
        .route(
            "/account/keys/{id}/remove-unused-scopes/",
            get(ask_to_remove_scopes).post(remove_scopes),
        )
        .route("/account/keys/{id}/delete/", get(ask_to_delete).post(delete))
}

#[derive(Clone, Copy)]
enum KeyAction {
    Roll,
    RemoveScopes,
    Delete,
}

#[derive(Template)]
#[template(path = "account/key_confirm.html")]
struct ConfirmPage {
    frame: Frame,
    alerts: Vec<String>,
    heading: &'static str,
    text: &'static str,
    /// What the key may still do afterwards; empty where that does not change.
    left: Vec<String>,
    button: &'static str,
    label: String,
    mask: String,
}

async fn ask_to_roll(State(service): State<Service>, account: Account, Id(id): Id<KeyId>) -> Result<Response, Failure> {
    ask(&service, &account, id, KeyAction::Roll).await
}

async fn ask_to_remove_scopes(
    State(service): State<Service>,
    account: Account,
    Id(id): Id<KeyId>,
) -> Result<Response, Failure> {
    ask(&service, &account, id, KeyAction::RemoveScopes).await
}

async fn ask_to_delete(
    State(service): State<Service>,
    account: Account,
    Id(id): Id<KeyId>,
) -> Result<Response, Failure> {
    ask(&service, &account, id, KeyAction::Delete).await
}

async fn roll(State(service): State<Service>, account: Account, Id(id): Id<KeyId>) -> Result<Response, Failure> {
    match service.roll_key(&account.person, id).await {
        Ok(fresh) => Ok(page(&CreatedPage::new(&service, &account, fresh, false).await)),
        Err(error) => refused(&service, &account, id, KeyAction::Roll, error).await,
    }
}

async fn remove_scopes(
    State(service): State<Service>,
    account: Account,
    Id(id): Id<KeyId>,
) -> Result<Response, Failure> {
    let key = service.key(&account.person, id).await?;
    // There is nothing to take away, perhaps because somebody was faster.
    if !has_removable_scopes(&key) {
        return Ok(go_to(HERE));
    }
    let patch = KeyPatch {
        scopes: Some(key.needed_scopes()),
        ..KeyPatch::default()
    };
    match service.update_key(&account.person, id, &patch, &no_precondition).await {
        Ok(_) => Ok(go_to("/account/keys/?done=unused-scopes-removed")),
        Err(error) => refused(&service, &account, id, KeyAction::RemoveScopes, error).await,
    }
}

async fn delete(State(service): State<Service>, account: Account, Id(id): Id<KeyId>) -> Result<Response, Failure> {
    match service.delete_key(&account.person, id, &no_precondition).await {
        Ok(()) => Ok(go_to("/account/keys/?done=key-deleted")),
        Err(error) => refused(&service, &account, id, KeyAction::Delete, error).await,
    }
}

async fn ask(service: &Service, account: &Account, id: KeyId, action: KeyAction) -> Result<Response, Failure> {
    let key = service.key(&account.person, id).await?;
    Ok(page(&confirm_page(
        service,
        account,
        &key,
        action,
        &Problems::default(),
    )))
}

async fn refused(
    service: &Service,
    account: &Account,
    id: KeyId,
    action: KeyAction,
    error: Error,
) -> Result<Response, Failure> {
    let problems = Problems::try_from(error)?;
    let key = service.key(&account.person, id).await?;
    Ok(page_again(
        &problems,
        &confirm_page(service, account, &key, action, &problems),
    ))
}

fn confirm_page(
    service: &Service,
    account: &Account,
    key: &Key,
    action: KeyAction,
    problems: &Problems,
) -> ConfirmPage {
    let api = format!("{API}{}/", key.id);
    let needed = key.needed_scopes();
    let (heading, text, button, call) = match action {
        KeyAction::Roll => (
            "Roll this key?",
            "The old value stops working immediately. Anything that uses it needs the new one, which is shown only once.",
            "Roll key",
            Call::in_session("POST", "Roll the key", format!("{api}roll/")),
        ),
        KeyAction::RemoveScopes => (
            "Remove unused scopes?",
            "Its value stays the same. It keeps only what it has used since it was created:",
            "Remove unused scopes",
            Call::in_session("PATCH", "Remove unused scopes", api).sending(json!({ "scopes": needed })),
        ),
        KeyAction::Delete => (
            "Delete this key?",
            "Requests with it will fail immediately. This cannot be undone.",
            "Delete key",
            Call::in_session("DELETE", "Delete the key", api),
        ),
    };
    let left = match action {
        KeyAction::RemoveScopes => needed.iter().map(|&scope| key_scopes::in_words(scope)).collect(),
        KeyAction::Roll | KeyAction::Delete => Vec::new(),
    };
    ConfirmPage {
        frame: Frame::new(account, HERE).below().teaching(service, account, [call]),
        alerts: problems.besides(&[]),
        heading,
        text,
        left,
        button,
        label: key.label.to_string(),
        mask: key.mask_value.clone(),
    }
}
