//! One's own account.

mod keys;
mod new_key;
mod password;
mod profile;
mod sessions;
mod two_factor;

use axum::Router;

use crate::Console;
use crate::visitor::Account;

pub(crate) fn routes() -> Router<Console> {
    Router::new()
        .merge(profile::routes())
        .merge(password::routes())
        .merge(two_factor::routes())
        .merge(sessions::routes())
        .merge(keys::routes())
        .merge(new_key::routes())
}

const MENU: [(&str, &str); 5] = [
    ("/account/", "Account"),
    ("/account/password/", "Password"),
    ("/account/two-factor/", "Two-factor"),
    ("/account/sessions/", "Sessions"),
    ("/account/keys/", "API keys"),
];

/// What stands around every page: who is signed in, and the menu.
struct Frame {
    name: String,
    here: &'static str,
    notice: &'static str,
}

struct MenuItem {
    path: &'static str,
    title: &'static str,
    is_here: bool,
}

impl Frame {
    fn new(account: &Account, here: &'static str) -> Self {
        Self {
            name: account.user.called(),
            here,
            notice: "",
        }
    }

    /// Says what has just happened.
    fn noting(mut self, done: &str) -> Self {
        self.notice = notice(done);
        self
    }

    fn menu(&self) -> impl Iterator<Item = MenuItem> {
        MENU.into_iter().map(|(path, title)| MenuItem {
            path,
            title,
            is_here: path == self.here,
        })
    }
}

fn notice(done: &str) -> &'static str {
    match done {
        "joined" => "Welcome. You have joined the organization.",
        "saved" => "Saved.",
        "password-changed" => "Your password is changed. You are signed out everywhere else.",
        "needed" => {
            "An organization you belong to asks for two-factor sign-in. Set it up here; everything else opens afterwards."
        }
        "removed" => "Two-factor sign-in is off. Your password alone lets you in.",
        "ended" => "The session has ended.",
        "others-ended" => "You are signed out everywhere else.",
        "key-deleted" => "The key is deleted. Whatever used it gets no answer any more.",
        _ => "",
    }
}
