//! What is cached.

use auth::key::SecretHash;

use super::{Weigh, rows_of};
use crate::activity::ActivityFilter;
use crate::batch_exports::ExportSelection;
use crate::id::{OrganizationId, TeamId, UserId};
use crate::members::MemberFilter;
use crate::page::Window;

/// What a cached value is about. Everything it depends on is part of the key.
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

impl Weigh for CacheKey {
    fn rows(&self) -> usize {
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let teams = |teams: &[TeamId]| size_of_val(teams);
        rows_of(match self {
            Self::Members(_, filter, _) => text(&filter.email) + text(&filter.search),
            Self::Exports(_, of, _, _) => teams(of),
            Self::Activity(_, of, filter, _) => teams(of) + text(&filter.scope) + text(&filter.item),
            _ => 0,
        })
    }
}
