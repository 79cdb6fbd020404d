//! Personal API keys: the list.

use std::collections::HashMap;

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use service::keys::Key;
use service::{KeyId, OrganizationId, Scope, Service, Time, Window};

use super::frame::Frame;
use super::{key_scopes, profile};
use crate::curl::Call;
use crate::failure::Failure;
use crate::page::page;
use crate::show;
use crate::state::Console;
use crate::visitor::{Account, PageQuery};

pub(super) const HERE: &str = "/account/keys/";
pub(super) const API: &str = "/api/personal_api_keys/";

pub(super) fn routes() -> Router<Console> {
    Router::new().route(HERE, get(list))
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
    /// In the words of people.
    can: String,
    scopes: Vec<String>,
    /// What it never needed, once it was used at all.
    unused: Vec<String>,
    /// All that it needed, where the rest can be removed.
    needed: Option<Vec<String>>,
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
            can: can(key),
            scopes: written(&key.scopes),
            unused: unused(key),
            needed: (!is_expired && has_removable_scopes(key)).then(|| written(&key.needed_scopes())),
            organizations: restrictions(key, names),
            used: key.last_used_at.map_or("Never used".to_owned(), |time| {
                format!("Last used {}", show::ago(time, now))
            }),
            created: show::day(key.created_at),
            expires,
            is_expired,
        }
    }
}

pub(super) fn can(key: &Key) -> String {
    let each: Vec<String> = key.scopes.iter().map(|&scope| key_scopes::in_words(scope)).collect();
    each.join("; ")
}

/// Of a key that was never used, everything is unused: that it was never used says as much.
fn unused(key: &Key) -> Vec<String> {
    if key.used_scopes.is_empty() {
        return Vec::new();
    }
    written(&key.unused_scopes())
}

/// As the API names them.
fn written(scopes: &[Scope]) -> Vec<String> {
    scopes.iter().map(ToString::to_string).collect()
}

/// Whether less would have done so far.
pub(super) fn has_removable_scopes(key: &Key) -> bool {
    let needed = key.needed_scopes();
    let is_same = needed.len() == key.scopes.len() && needed.iter().all(|scope| key.scopes.contains(scope));
    !needed.is_empty() && !is_same
}

fn restrictions(key: &Key, names: &HashMap<OrganizationId, String>) -> String {
    if key.scoped_organizations.is_empty() {
        return "All your organizations".to_owned();
    }
    let shown = key.scoped_organizations.iter().map(|id| match names.get(id) {
        Some(name) => name,
        None => "an organization you can't see right now",
    });
    shown.collect::<Vec<_>>().join(", ")
}

async fn list(State(service): State<Service>, account: Account, asked: PageQuery) -> Result<Response, Failure> {
    let organizations = profile::organizations(&service, &account).await?;
    let names = organizations
        .items
        .iter()
        .map(|seen| (seen.organization.id, seen.organization.name.to_string()));
    let names: HashMap<_, _> = names.collect();
    let now = service.clock().now();
    let keys = service.keys(&account.person, Window::new(None, None)).await?;
    Ok(page(&KeysPage {
        frame: Frame::new(&account, HERE).noting(&asked.done).teaching(
            &service,
            &account,
            [Call::in_session("GET", "List your keys", API)],
        ),
        keys: keys.items.iter().map(|key| Row::new(key, &names, now)).collect(),
    }))
}
