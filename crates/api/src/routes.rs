//! The operations of the API.

use crate::http::routing::Routes;
use crate::{
    account, activity, batch_exports, domains, export_runs, instance, invites, keys, members, organizations, pipeline,
    sign_in, signup, teams,
};

/// One line a resource: everything else about it is in its own file.
pub(crate) fn routes() -> Routes {
    Routes::new()
        .merge(organizations::routes())
        .merge(teams::routes())
        .merge(members::routes())
        .merge(invites::routes())
        .merge(domains::routes())
        .merge(batch_exports::routes())
        .merge(export_runs::routes())
        .merge(pipeline::routes())
        .merge(activity::routes())
        .merge(keys::routes())
        .merge(sign_in::routes())
        .merge(signup::routes())
        .merge(account::routes())
        .merge(instance::routes())
}
