//! What to try a new key with: something that it may read.

use service::access::{Permission, ReadApps, ReadExports, ReadMembers, ReadOrganization};
use service::keys::Key;
use service::{OrganizationId, Scope};

use super::keys;
use crate::curl::Call;

/// What a request does, and the request. `organization` is one that the person belongs to, if there is any.
pub(super) fn of(key: &Key, organization: Option<OrganizationId>) -> (&'static str, Call) {
    let may = |scope: Scope| key.scopes.iter().any(|held| held.covers(scope));
    if may(ReadOrganization::SCOPE) {
        let call = Call::get::<ReadOrganization>("List your organizations", "/api/organizations/");
        return ("It lists the organizations the key can access.", call);
    }
    let reached = key.scoped_organizations.first().copied().or(organization);
    // A key for some teams does not reach everything of their organization.
    if let Some(id) = reached.filter(|_| key.scoped_teams.is_empty()) {
        let below = |path: &str| format!("/api/organizations/{id}/{path}");
        if may(ReadMembers::SCOPE) {
            let call = Call::get::<ReadMembers>("List the members", below("members/"));
            return ("It lists the members.", call);
        }
        if may(ReadExports::SCOPE) {
            let call = Call::get::<ReadExports>("List the batch exports", below("batch_exports/"));
            return ("It lists the batch exports.", call);
        }
        if may(ReadApps::SCOPE) {
            let call = Call::get::<ReadApps>("List the destinations", below("pipeline_destinations/"));
            return ("It lists the pipeline destinations.", call);
        }
    }
    let call = Call::get::<ReadOrganization>("Read the key", format!("{}@current/", keys::API));
    ("It shows what the key can do.", call)
}
