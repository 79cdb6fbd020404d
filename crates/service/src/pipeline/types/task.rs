//! What apps do without an event.

use crate::db::columns::{parse_by_name, read_as_text};
use crate::id::{AppConfigId, AppTaskId};

/// The functions that are called by the clock.
pub(in super::super) const SCHEDULED: [&str; 3] = ["runEveryMinute", "runEveryHour", "runEveryDay"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskKind {
    Schedule,
    Job,
}

impl TaskKind {
    const ALL: [Self; 2] = [Self::Schedule, Self::Job];

    pub(in super::super) fn as_str(self) -> &'static str {
        match self {
            Self::Schedule => "schedule",
            Self::Job => "job",
        }
    }
}

parse_by_name!(TaskKind);
read_as_text!(TaskKind);

/// One row of the queue.
#[derive(Debug, Clone, sqlx::FromRow)]
pub(in super::super) struct Waiting {
    pub(in super::super) id: AppTaskId,
    #[sqlx(rename = "config_id")]
    pub(in super::super) config: AppConfigId,
    #[sqlx(try_from = "String")]
    pub(in super::super) kind: TaskKind,
    pub(in super::super) name: String,
    pub(in super::super) payload: String,
    pub(in super::super) attempt: i64,
}
