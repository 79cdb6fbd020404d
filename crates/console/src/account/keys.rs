//! Personal API keys: the list, a new value, and the end.

use std::collections::HashMap;

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use service::keys::Key;
use service::{KeyId, OrganizationId, Service, Time, Window, whatever};

use super::{Frame, profile};
use crate::Console;
use crate::failure::{Failure, Problems};
use crate::page::{go_to, page, page_again};
use crate::show;
use crate::visitor::{Account, Asked, Id};

pub(super) const HERE: &str = "/account/keys/";

pub(super) fn routes() -> Router<Console> {
    Router::new()
        .route(HERE, get(list))
        .route("/account/keys/{id}/roll/", get(ask_to_roll).post(roll))
        .route("/account/keys/{id}/delete/", get(ask_to_delete).post(delete))
}

#[derive(Template)]
#[template(path = "account/keys.html")]
struct KeysPage {
    frame: Frame,
    keys: Vec<Row>,
}

struct Row {
    id: KeyId,
    label: String,
    mask: String,
    scopes: Vec<String>,
    organizations: String,
    used: String,
    created: String,
    expires: String,
    is_expired: bool,
}

impl Row {
    fn new(key: &Key, names: &HashMap<OrganizationId, String>, now: Time) -> Self {
        let is_expired = key.expires_at.is_some_and(|end| end <= now);
        let expires = match key.expires_at {
            None => "Never expires".to_owned(),
            Some(end) if is_expired => format!("Expired {}", show::day(end)),
            Some(end) => format!("Expires {}", show::day(end)),
        };
        Self {
            id: key.id,
            label: key.label.to_string(),
            mask: key.mask_value.clone(),
            scopes: key.scopes.iter().map(ToString::to_string).collect(),
            organizations: reach(key, names),
            used: key
                .last_used_at
                .map_or("Never used".to_owned(), |time| format!("Used {}", show::ago(time, now))),
            created: show::day(key.created_at),
            expires,
            is_expired,
        }
    }
}

fn reach(key: &Key, names: &HashMap<OrganizationId, String>) -> String {
    if key.scoped_organizations.is_empty() {
        return "All your organizations".to_owned();
    }
    let shown = key.scoped_organizations.iter().map(|id| match names.get(id) {
        Some(name) => name,
        None => "an organization you do not see now",
    });
    shown.collect::<Vec<_>>().join(", ")
}

async fn list(State(service): State<Service>, account: Account, asked: Asked) -> Result<Response, Failure> {
    let organizations = profile::organizations(&service, &account).await?.items;
    let names = organizations
        .into_iter()
        .map(|seen| (seen.organization.id, seen.organization.name.to_string()));
    let names: HashMap<_, _> = names.collect();
    let now = service.clock().now();
    let keys = service.keys(&account.person, Window::new(None, None)).await?;
    Ok(page(&KeysPage {
        frame: Frame::new(&account, HERE).noting(&asked.done),
        keys: keys.items.iter().map(|key| Row::new(key, &names, now)).collect(),
    }))
}

/// A key's one sight.
#[derive(Template)]
#[template(path = "account/key_made.html")]
pub(super) struct MadePage {
    frame: Frame,
    label: String,
    secret: String,
    is_new: bool,
}

impl MadePage {
    pub(super) fn new(account: &Account, fresh: service::keys::Fresh, is_new: bool) -> Self {
        Self {
            frame: Frame::new(account, HERE),
            label: fresh.key.label.to_string(),
            secret: fresh.secret,
            is_new,
        }
    }
}

/// Asks once more before something that breaks what uses the key.
#[derive(Template)]
#[template(path = "account/key_sure.html")]
struct SurePage {
    frame: Frame,
    alerts: Vec<String>,
    heading: &'static str,
    text: &'static str,
    button: &'static str,
    label: String,
    mask: String,
}

async fn ask_to_roll(State(service): State<Service>, account: Account, Id(id): Id<KeyId>) -> Result<Response, Failure> {
    let key = service.key(&account.person, id).await?;
    Ok(page(&roll_page(&account, &key, &Problems::default())))
}

async fn roll(State(service): State<Service>, account: Account, Id(id): Id<KeyId>) -> Result<Response, Failure> {
    match service.roll_key(&account.person, id).await {
        Ok(fresh) => Ok(page(&MadePage::new(&account, fresh, false))),
        Err(error) => {
            let problems = Problems::try_from(error)?;
            let key = service.key(&account.person, id).await?;
            Ok(page_again(&problems, &roll_page(&account, &key, &problems)))
        }
    }
}

async fn ask_to_delete(
    State(service): State<Service>,
    account: Account,
    Id(id): Id<KeyId>,
) -> Result<Response, Failure> {
    let key = service.key(&account.person, id).await?;
    Ok(page(&delete_page(&account, &key, &Problems::default())))
}

async fn delete(State(service): State<Service>, account: Account, Id(id): Id<KeyId>) -> Result<Response, Failure> {
    match service.delete_key(&account.person, id, &whatever).await {
        Ok(()) => Ok(go_to("/account/keys/?done=key-deleted")),
        Err(error) => {
            let problems = Problems::try_from(error)?;
            let key = service.key(&account.person, id).await?;
            Ok(page_again(&problems, &delete_page(&account, &key, &problems)))
        }
    }
}

fn roll_page(account: &Account, key: &Key, problems: &Problems) -> SurePage {
    SurePage {
        frame: Frame::new(account, HERE),
        alerts: problems.besides(&[]),
        heading: "Give this key a new value?",
        text: "The old value stops working at once. Whatever uses it needs the new one, which is shown once.",
        button: "Make a new value",
        label: key.label.to_string(),
        mask: key.mask_value.clone(),
    }
}

fn delete_page(account: &Account, key: &Key, problems: &Problems) -> SurePage {
    SurePage {
        heading: "Delete this key?",
        text: "Whatever uses it stops working at once. This cannot be undone.",
        button: "Delete the key",
        ..roll_page(account, key, problems)
    }
}
