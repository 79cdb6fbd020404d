//! What is done to one key: another value, less reach, its end. Each is asked about first, as it breaks what uses the key.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use serde_json::json;
use service::keys::{Key, KeyPatch};
use service::{Error, KeyId, Service, no_precondition};

use super::keys::{API, HERE, MadePage, can_be_narrowed};
use super::{Frame, key_scopes};
use crate::Console;
use crate::curl::Call;
use crate::failure::{Failure, Problems};
use crate::page::{go_to, page, page_again};
use crate::visitor::{Account, Id};

pub(super) fn routes() -> Router<Console> {
    Router::new()
        .route("/account/keys/{id}/roll/", get(ask_to_roll).post(roll))
        .route("/account/keys/{id}/narrow/", get(ask_to_narrow).post(narrow))
        .route("/account/keys/{id}/delete/", get(ask_to_delete).post(delete))
}

#[derive(Clone, Copy)]
enum ActivityEntry {
    Roll,
    Narrow,
    Delete,
}

#[derive(Template)]
#[template(path = "account/key_confirm.html")]
struct SurePage {
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
    ask(&service, &account, id, ActivityEntry::Roll).await
}

async fn ask_to_narrow(
    State(service): State<Service>,
    account: Account,
    Id(id): Id<KeyId>,
) -> Result<Response, Failure> {
    ask(&service, &account, id, ActivityEntry::Narrow).await
}

async fn ask_to_delete(
    State(service): State<Service>,
    account: Account,
    Id(id): Id<KeyId>,
) -> Result<Response, Failure> {
    ask(&service, &account, id, ActivityEntry::Delete).await
}

async fn roll(State(service): State<Service>, account: Account, Id(id): Id<KeyId>) -> Result<Response, Failure> {
    match service.roll_key(&account.person, id).await {
        Ok(fresh) => Ok(page(&MadePage::new(&service, &account, fresh, false).await)),
        Err(error) => refused(&service, &account, id, ActivityEntry::Roll, error).await,
    }
}

async fn narrow(State(service): State<Service>, account: Account, Id(id): Id<KeyId>) -> Result<Response, Failure> {
    let key = service.key(&account.person, id).await?;
    // There is nothing to take away, perhaps because somebody was faster.
    if !can_be_narrowed(&key) {
        return Ok(go_to(HERE));
    }
    let patch = KeyPatch {
        scopes: Some(key.needed_scopes()),
        ..KeyPatch::default()
    };
    match service.update_key(&account.person, id, &patch, &no_precondition).await {
        Ok(_) => Ok(go_to("/account/keys/?done=key-narrowed")),
        Err(error) => refused(&service, &account, id, ActivityEntry::Narrow, error).await,
    }
}

async fn delete(State(service): State<Service>, account: Account, Id(id): Id<KeyId>) -> Result<Response, Failure> {
    match service.delete_key(&account.person, id, &no_precondition).await {
        Ok(()) => Ok(go_to("/account/keys/?done=key-deleted")),
        Err(error) => refused(&service, &account, id, ActivityEntry::Delete, error).await,
    }
}

async fn ask(service: &Service, account: &Account, id: KeyId, deed: ActivityEntry) -> Result<Response, Failure> {
    let key = service.key(&account.person, id).await?;
    Ok(page(&sure(service, account, &key, deed, &Problems::default())))
}

async fn refused(
    service: &Service,
    account: &Account,
    id: KeyId,
    deed: ActivityEntry,
    error: Error,
) -> Result<Response, Failure> {
    let problems = Problems::try_from(error)?;
    let key = service.key(&account.person, id).await?;
    Ok(page_again(&problems, &sure(service, account, &key, deed, &problems)))
}

fn sure(service: &Service, account: &Account, key: &Key, deed: ActivityEntry, problems: &Problems) -> SurePage {
    let api = format!("{API}{}/", key.id);
    let needed = key.needed_scopes();
    let (heading, text, button, call) = match deed {
        ActivityEntry::Roll => (
            "Roll this key?",
            "The old value stops working immediately. Anything that uses it needs the new one, which is shown only once.",
            "Roll key",
            Call::in_session("POST", "Roll the key", format!("{api}roll/")),
        ),
        ActivityEntry::Narrow => (
            "Remove unused scopes?",
            "Its value stays the same. It keeps only what it has used since it was created:",
            "Remove unused scopes",
            Call::in_session("PATCH", "Remove unused scopes", api).sending(json!({ "scopes": needed })),
        ),
        ActivityEntry::Delete => (
            "Delete this key?",
            "Requests with it will fail immediately. This cannot be undone.",
            "Delete key",
            Call::in_session("DELETE", "Delete the key", api),
        ),
    };
    let left = match deed {
        ActivityEntry::Narrow => needed.iter().map(|&scope| key_scopes::in_words(scope)).collect(),
        ActivityEntry::Roll | ActivityEntry::Delete => Vec::new(),
    };
    SurePage {
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
