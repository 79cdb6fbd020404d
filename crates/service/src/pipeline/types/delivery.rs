//! How far configurations have got in their teams' events.

use crate::clock::Time;
use crate::id::{AppConfigId, OrganizationId, TeamId};

/// How often an app may fail to start before it is disabled.
pub(in super::super) const MAX_STARTS: i64 = 5;
/// After so many events in a row that failed, the configuration is disabled.
pub const MAX_FAILURES: i64 = 20;

/// How far a configuration has got in its team's events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, sqlx::FromRow)]
pub struct Cursor {
    /// Every event before this moment was handed over,
    #[sqlx(rename = "delivered_until")]
    pub until: Time,
    /// and so many of those at this very moment.
    #[sqlx(rename = "delivered_count")]
    pub count: i64,
}

/// A configuration that may be taken, and where it would go on.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct DueApp {
    #[sqlx(rename = "id")]
    pub config: AppConfigId,
    #[sqlx(rename = "organization_id")]
    pub organization: OrganizationId,
    pub due_at: Time,
    #[sqlx(rename = "team_id")]
    pub team: TeamId,
    #[sqlx(flatten)]
    pub cursor: Cursor,
}

/// Where to go on in the list of those that are due: by organization, and there by how long they have waited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DueAfter {
    pub(in super::super) organization: OrganizationId,
    pub(in super::super) due_at: Time,
    pub(in super::super) config: AppConfigId,
}

/// The last second of the year 9999: later ones have another form as text.
const LATEST: Time = Time::from_timestamp(253_402_300_799, 0).expect("it exists");

impl DueAfter {
    /// Before all others.
    pub const START: Self = Self {
        organization: OrganizationId::NONE,
        due_at: Time::UNIX_EPOCH,
        config: AppConfigId(0),
    };

    /// Behind all others of the same organization.
    #[must_use]
    pub fn end_of_organization(self) -> Self {
        Self {
            due_at: LATEST,
            config: AppConfigId(i64::MAX),
            ..self
        }
    }

    pub fn this(due: &DueApp) -> Self {
        Self {
            organization: due.organization,
            due_at: due.due_at,
            config: due.config,
        }
    }
}
