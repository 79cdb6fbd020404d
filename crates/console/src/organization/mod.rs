//! Everything below an organization.

mod access;
mod activity;
mod activity_entry;
mod apps;
mod attention;
mod confirm;
mod deletion;
mod domains;
mod exports;
mod first_steps;
mod frame;
mod invites;
mod member;
mod members;
mod memberships;
mod name;
mod new_invites;
mod overview;
mod pasted;
mod recent_runs;
mod settings;
mod team;
mod teams;

pub(crate) use access::OrganizationAccess;
pub(crate) use memberships::{Membership, memberships_in};
pub(crate) use name::name;

use axum::Router;

use crate::state::Console;

pub(crate) fn routes() -> Router<Console> {
    Router::new()
        .merge(overview::routes())
        .merge(members::routes())
        .merge(member::routes())
        .merge(invites::routes())
        .merge(new_invites::routes())
        .merge(teams::routes())
        .merge(team::routes())
        .merge(domains::routes())
        .merge(exports::routes())
        .merge(apps::routes())
        .merge(activity::routes())
        .merge(settings::routes())
        .merge(deletion::routes())
}

/// Those that have a limit of their own: code is long.
pub(crate) fn large_routes() -> Router<Console> {
    apps::large_routes()
}
