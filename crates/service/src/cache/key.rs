//! What is remembered.

use auth::key::SecretHash;

use crate::activity::ActivityFilter;
use crate::batch_exports::ExportSelection;
use crate::id::{OrganizationId, TeamId, UserId};
use crate::members::MemberFilter;
use crate::page::Window;

/// What a remembered value answers. Everything it depends on is part of the key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum CacheKey {
    Key(SecretHash, Option<OrganizationId>),
    Organization(OrganizationId, UserId),
    /// For somebody whose credential is not restricted.
    Organizations(UserId, Window),
    Members(OrganizationId, MemberFilter, Window),
    Invites(OrganizationId, Window),
    /// With the teams that a key is restricted to, here and below.
    Exports(OrganizationId, Vec<TeamId>, ExportSelection, Window),
    Activity(OrganizationId, Vec<TeamId>, ActivityFilter, Window),
    /// By the hash of its token, which has a known length.
    Team(SecretHash),
    SiteApps(TeamId),
}
