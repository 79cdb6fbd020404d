//! Backfills: runs for time that the schedule has left behind.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::activity::Recorded;
use crate::clock::Time;
use crate::db::columns::{parse_by_name, read_as_text};
use crate::id::{BackfillId, ExportId, OrganizationId};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(inline)]
pub enum BackfillStatus {
    Running,
    Completed,
    /// Some of its runs failed permanently.
    Failed,
    Cancelled,
}

#[derive(Debug, Clone, Serialize, sqlx::FromRow)]
pub struct Backfill {
    pub id: BackfillId,
    #[serde(skip)]
    pub organization_id: OrganizationId,
    #[sqlx(rename = "batch_export_id")]
    pub batch_export: ExportId,
    pub start_at: Time,
    pub end_at: Time,
    #[sqlx(try_from = "String")]
    pub status: BackfillStatus,
    pub is_resend: bool,
    #[serde(skip)]
    pub(crate) scheduled_until: Time,
    pub total_runs: i64,
    #[serde(skip)]
    pub skipped_runs: i64,
    pub created_at: Time,
    pub finished_at: Option<Time>,
    pub updated_at: Time,
    /// How many of its runs are over, those that were not needed included.
    #[serde(skip)]
    pub finished_runs: i64,
}

/// The range to backfill.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{ "start_at": "2026-11-01T00:00:00Z", "end_at": "2026-11-08T00:00:00Z" }]))]
pub struct BackfillRequest {
    /// The start, in RFC 3339 with a time zone, rounded down to the interval. Defaults to the earliest data.
    #[serde(default)]
    #[schemars(extend("x-nullable" = true))]
    pub start_at: Option<Time>,
    /// The end, rounded up to the interval. Defaults to the last complete interval.
    #[serde(default)]
    #[schemars(extend("x-nullable" = true))]
    pub end_at: Option<Time>,
    /// Whether delivered intervals are exported again.
    #[serde(default)]
    pub resend: Option<bool>,
}

/// What a request would come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackfillPlan {
    pub start_at: Time,
    pub end_at: Time,
    /// Including runs that were already delivered.
    pub intervals: i64,
}

impl BackfillStatus {
    const ALL: [Self; 4] = [Self::Running, Self::Completed, Self::Failed, Self::Cancelled];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "Running",
            Self::Completed => "Completed",
            Self::Failed => "Failed",
            Self::Cancelled => "Cancelled",
        }
    }
}

parse_by_name!(BackfillStatus);
read_as_text!(BackfillStatus);

impl Backfill {
    /// From 0 to 1.
    #[expect(clippy::cast_precision_loss, reason = "nobody looks at the sixteenth digit")]
    pub fn progress(&self) -> f64 {
        match self.total_runs {
            0 => 1.0,
            total => (self.finished_runs as f64 / total as f64).min(1.0),
        }
    }

    pub(in super::super) fn end_with(&mut self, status: BackfillStatus, now: Time) {
        (self.status, self.finished_at, self.updated_at) = (status, Some(now), now);
    }
}

impl Recorded for Backfill {
    const SCOPE: &'static str = "BatchExportBackfill";

    fn organization(&self) -> Option<OrganizationId> {
        Some(self.organization_id)
    }

    fn item(&self) -> String {
        self.id.to_string()
    }

    fn name(&self) -> String {
        let format = |time: Time| time.format("%Y-%m-%d %H:%M").to_string();
        format!("{} to {}", format(self.start_at), format(self.end_at))
    }
}
