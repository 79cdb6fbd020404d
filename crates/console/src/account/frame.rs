//! What stands around every page of one's account.

use service::Service;

use crate::curl::{AsCurl, Call};
use crate::visitor::Account;

const MENU: [(&str, &str); 6] = [
    ("/", "Your organization"),
    ("/account/", "Account"),
    ("/account/password/", "Password"),
    ("/account/two-factor/", "Two-factor"),
    ("/account/sessions/", "Sessions"),
    ("/account/keys/", "API keys"),
];

/// What stands around every page: who is signed in, and the menu.
pub(super) struct Frame {
    pub(super) name: String,
    here: &'static str,
    /// Whether the page is one below it.
    is_below: bool,
    pub(super) notice: &'static str,
    pub(super) curl: Option<AsCurl>,
}

pub(super) struct MenuItem {
    pub(super) path: &'static str,
    pub(super) title: &'static str,
    /// As browsers are told: whether one is on its page, or somewhere below it.
    pub(super) current: Option<&'static str>,
}

impl Frame {
    pub(super) fn new(account: &Account, here: &'static str) -> Self {
        Self {
            name: account.user.called(),
            here,
            is_below: false,
            notice: "",
            curl: None,
        }
    }

    /// A page below that of the menu.
    pub(super) fn below(mut self) -> Self {
        self.is_below = true;
        self
    }

    /// Shows how the same is done over the API.
    pub(super) fn teaching(
        mut self,
        service: &Service,
        account: &Account,
        calls: impl IntoIterator<Item = Call>,
    ) -> Self {
        self.curl = Some(AsCurl::in_session(service, &account.user.email, calls));
        self
    }

    /// Says what has just happened.
    pub(super) fn noting(mut self, done: &str) -> Self {
        self.notice = notice(done);
        self
    }

    pub(super) fn menu(&self) -> impl Iterator<Item = MenuItem> {
        let current = if self.is_below { "true" } else { "page" };
        MENU.into_iter().map(move |(path, title)| MenuItem {
            path,
            title,
            current: (path == self.here).then_some(current),
        })
    }
}

fn notice(done: &str) -> &'static str {
    match done {
        "saved" => "Saved.",
        "password-changed" => "Password changed. All your other sessions were signed out.",
        "required" => "An organization you belong to requires two-factor authentication. Set it up to continue.",
        "removed" => "Two-factor authentication is off. You now sign in with your password alone.",
        "revoked" => "Session revoked.",
        "others-revoked" => "All your other sessions were signed out.",
        "unused-scopes-removed" => "Unused scopes removed.",
        "key-deleted" => "Key deleted. Requests with it now fail.",
        "operator-added" => "Operator added.",
        "operator-removed" => "Operator removed.",
        _ => "",
    }
}
