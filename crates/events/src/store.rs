//! The store: what both engines do for it.

use boxed::boxed;
use hogql::Model;
use uuid::Uuid;

use crate::clickhouse::{ClickHouse, SETTLED_AFTER};
use crate::rows::{Portion, Rows};
use crate::sqlite::Embedded;
use crate::{Hold, Incoming, Result, Scan, Time};

/// The store. Cheap to clone; every clone is the same store.
#[derive(Debug, Clone)]
pub enum Events {
    Embedded(Embedded),
    ClickHouse(ClickHouse),
}

impl Events {
    /// Stores what a team's programs sent. When this returns, it survives a crash.
    ///
    /// `now` is the clock's time; the ingestion time is that, or later if a line was drawn later.
    #[boxed]
    pub async fn append(&self, team: i64, events: Vec<Incoming>, now: Time) -> Result<()> {
        self.append_holding(Hold::default(), team, events, now).await
    }

    /// The same, with something that stays until it is done.
    #[boxed]
    pub async fn append_holding(&self, hold: Hold, team: i64, events: Vec<Incoming>, now: Time) -> Result<()> {
        match self {
            Self::Embedded(store) => store.append(hold, team, events, now).await,
            Self::ClickHouse(store) => store.append(hold, team, events, now).await,
        }
    }

    /// Draws a line: from now on nothing is stored with an ingestion time before `until`, and all that was is visible.
    #[boxed]
    pub async fn settle(&self, until: Time) -> Result<()> {
        match self {
            Self::Embedded(store) => store.settle(until).await,
            Self::ClickHouse(_) => Ok(()),
        }
    }

    /// How long after the end of an interval its rows can be read.
    pub fn delay(&self) -> chrono::TimeDelta {
        match self {
            Self::Embedded(_) => chrono::TimeDelta::zero(),
            Self::ClickHouse(_) => SETTLED_AFTER,
        }
    }

    /// Reads rows in batches, without holding more than a few of them. Dropping [`Rows`] ends the reading.
    pub fn scan(&self, scan: Scan) -> Rows {
        self.scan_in(Portion::LARGE, scan)
    }

    /// The same one row at a time, for somebody who shows them: a row of more than so many bytes ends it.
    pub fn scan_to_show(&self, scan: Scan, most_bytes: usize) -> Rows {
        self.scan_in(Portion::shown(most_bytes), scan)
    }

    pub(crate) fn scan_in(&self, portion: Portion, scan: Scan) -> Rows {
        match self {
            Self::Embedded(store) => store.scan(scan, portion),
            Self::ClickHouse(store) => store.scan(&scan, portion),
        }
    }

    /// How many rows a scan would give.
    #[boxed]
    pub async fn count(&self, scan: Scan) -> Result<u64> {
        match self {
            Self::Embedded(store) => store.count(scan).await,
            Self::ClickHouse(store) => store.count(scan).await,
        }
    }

    /// The earliest ingestion time of a team's rows.
    #[boxed]
    pub async fn earliest(&self, team: i64, model: Model) -> Result<Option<Time>> {
        match self {
            Self::Embedded(store) => store.earliest(team, model).await,
            Self::ClickHouse(store) => store.earliest(team, model).await,
        }
    }

    /// Claims the store for an instance. Returns the instance that claimed it first.
    #[boxed]
    pub async fn claim(&self, instance: Uuid) -> Result<Uuid> {
        match self {
            Self::Embedded(store) => store.claim(instance).await,
            Self::ClickHouse(store) => store.claim(instance).await,
        }
    }

    /// The highest number of a team that something is stored for.
    #[boxed]
    pub async fn highest_team(&self) -> Result<i64> {
        match self {
            Self::Embedded(store) => store.highest_team().await,
            Self::ClickHouse(store) => store.highest_team().await,
        }
    }

    /// Whether the store answers.
    #[boxed]
    pub async fn ping(&self) -> Result<()> {
        match self {
            Self::Embedded(store) => store.ping().await,
            Self::ClickHouse(store) => store.ping().await,
        }
    }

    /// Deletes everything of a team that is gone.
    #[boxed]
    pub async fn forget_team(&self, team: i64) -> Result<()> {
        match self {
            Self::Embedded(store) => store.forget_team(team).await,
            Self::ClickHouse(store) => store.forget_team(team).await,
        }
    }

    pub fn kind(&self) -> &'static str {
        match self {
            Self::Embedded(_) => "embedded",
            Self::ClickHouse(_) => "clickhouse",
        }
    }
}
