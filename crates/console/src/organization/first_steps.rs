//! What to begin with in a new organization.

use chrono::TimeDelta;
use service::access::{ChangeDomains, ChangeExports, ReadOrganization, WriteInvites};
use service::{Error, Service, Window};

use super::OrganizationAccess;
use crate::failure::Failure;

/// So long an organization is new. Who has not taken a step by then does without it.
const NEW: TimeDelta = TimeDelta::weeks(2);

/// Something to do, and what it is good for.
pub(super) struct Step {
    pub(super) path: String,
    pub(super) title: &'static str,
    pub(super) text: &'static str,
}

/// How much there is of what would make them needless.
#[derive(Clone, Copy)]
pub(super) struct Present {
    pub(super) members: i64,
    pub(super) invites: i64,
    pub(super) domains: i64,
    pub(super) exports: i64,
    pub(super) apps: i64,
}

/// Those that are left, as far as they may be taken.
pub(super) async fn left(
    service: &Service,
    access: &OrganizationAccess<ReadOrganization>,
    present: Present,
) -> Result<Vec<Step>, Failure> {
    if service.clock().now() - access.organization.created_at > NEW {
        return Ok(Vec::new());
    }
    let mut steps = Vec::new();
    if present.members <= 1 && present.invites == 0 && access.may::<WriteInvites>() {
        steps.push(Step {
            path: access.path("invites/new/"),
            title: "Invite people",
            text: "Paste the email addresses of the people you work with. Each gets an invitation link.",
        });
    }
    if present.domains == 0 && access.may::<ChangeDomains>() {
        steps.push(Step {
            path: access.path("domains/new/"),
            title: "Add a domain",
            text: "Verify ownership to enable SSO for your domain.",
        });
    }
    if present.exports + present.apps == 0 && access.may::<ChangeExports>() {
        steps.push(Step {
            path: access.path("exports/new/"),
            title: "Create an export",
            text: "Send events or persons to a bucket, a warehouse or a server on a schedule.",
        });
    }
    if makes_a_first_key(service, access).await? {
        steps.push(Step {
            path: "/account/keys/new/".to_owned(),
            title: "Create an API key",
            text: "Automate what you do here. You choose its permissions, and get a sample request to try it.",
        });
    }
    Ok(steps)
}

/// Who may not manage keys in this session is not led to them.
async fn makes_a_first_key(service: &Service, access: &OrganizationAccess<ReadOrganization>) -> Result<bool, Failure> {
    match service.keys(&access.account.person, Window::new(Some(1), None)).await {
        Ok(keys) => Ok(keys.count == 0),
        Err(Error::Forbidden(_)) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
