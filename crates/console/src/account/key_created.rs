//! A personal API key's one sight.

use askama::Template;
use service::Service;
use service::keys::Fresh;

use super::frame::Frame;
use super::keys::{HERE, can};
use super::{first_request, profile};
use crate::curl;
use crate::show;
use crate::visitor::Account;

/// A key's one sight.
#[derive(Template)]
#[template(path = "account/key_created.html")]
pub(super) struct CreatedPage {
    frame: Frame,
    label: String,
    secret: String,
    can: String,
    expires: String,
    is_new: bool,
    /// What the first request does, and how a shell is told to make it.
    first: (&'static str, String),
}

impl CreatedPage {
    pub(super) async fn new(service: &Service, account: &Account, fresh: Fresh, is_new: bool) -> Self {
        // It is shown once: nothing that goes wrong now may keep it from being shown.
        let memberships = profile::organizations(service, account).await.ok();
        let organization = memberships.and_then(|page| page.items.first().map(|seen| seen.organization.id));
        let (words, call) = first_request::of(&fresh.key, organization);
        Self {
            first: (words, curl::first_command(service, &fresh.secret, &call)),
            frame: Frame::new(account, HERE).below(),
            label: fresh.key.label.to_string(),
            can: can(&fresh.key),
            expires: fresh.key.expires_at.map_or("Never".to_owned(), show::day),
            secret: fresh.secret,
            is_new,
        }
    }
}
