//! Domains: whose addresses sign in here, and how.

mod attempts;
mod checks;
mod deletion;
mod disconnection;
mod domain;
mod enforcement;
mod frame;
mod list;
mod oidc;
mod recovery;
mod saml;
mod value;
mod verification;

pub(super) use frame::below;

use axum::Router;

use crate::state::Console;

pub(super) fn routes() -> Router<Console> {
    Router::new()
        .merge(list::routes())
        .merge(domain::routes())
        .merge(verification::routes())
        .merge(checks::routes())
        .merge(saml::routes())
        .merge(oidc::routes())
        .merge(disconnection::routes())
        .merge(enforcement::routes())
        .merge(recovery::routes())
        .merge(deletion::routes())
}
