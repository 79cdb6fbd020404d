//! One's own account.

mod first_request;
mod frame;
mod key_actions;
mod key_created;
mod key_scopes;
mod keys;
mod new_key;
mod operators;
mod password;
mod profile;
mod sessions;
mod two_factor;

use axum::Router;

use crate::state::Console;

pub(crate) fn routes() -> Router<Console> {
    Router::new()
        .merge(profile::routes())
        .merge(password::routes())
        .merge(two_factor::routes())
        .merge(sessions::routes())
        .merge(keys::routes())
        .merge(key_actions::routes())
        .merge(new_key::routes())
        .merge(operators::routes())
}
