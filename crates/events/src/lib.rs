//! Where events and persons live: one small interface, an embedded store and ClickHouse behind it.
//!
//! Every row has an ingestion time, and exports select by nothing else. [`Events::settle`] draws a line: after it, no row
//! is ever stored with an ingestion time before that line, so an interval that was read once is complete.

pub mod capture;
pub mod clickhouse;
mod elements;
pub mod import;
mod left_out;
pub mod persons;
mod remembered;
mod rows;
mod scalars;
mod size;
pub mod sqlite;
mod stored;
mod turns;

use std::fmt;
use std::net::IpAddr;

use chrono::{DateTime, Utc};
use hogql::{Model, Query};
use serde_json::{Map, Value};
use uuid::Uuid;

use rows::Portion;
pub use rows::{MOST_ROW_BYTES, Rows, Sender, schema};
pub use stored::{Most, Stored, StoredEvents};
use turns::{Owner, Source, Turn};

/// A moment in UTC, in whole microseconds.
pub type Time = DateTime<Utc>;

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What happened to the data. Its sources are for the log.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the event store failed")]
    Sqlite(#[source] rusqlite::Error),
    /// What a query makes of a row is larger than anybody may ask for.
    #[error("a row of the query is too large")]
    TooLarge,
    /// The event of this number is larger than any may be.
    #[error("event {0} is too large")]
    EventTooLarge(usize),
    #[error("the events file is corrupt, restore a backup: {0}")]
    Damaged(String),
    #[error("the event store's disk failed")]
    Io(#[from] std::io::Error),
    #[error("ClickHouse could not be reached")]
    Unreachable(#[from] outbound::HttpError),
    /// ClickHouse answered with an error; `code` is its own.
    #[error("ClickHouse returned an error: {message}")]
    Refused { code: u32, message: String },
    #[error("ClickHouse timed out")]
    TooSlow,
    #[error("the response from ClickHouse is incomplete")]
    CutOff,
    #[error("the ClickHouse URL {0}")]
    Address(&'static str),
    /// What befell several callers at once.
    #[error("{0}")]
    Shared(#[source] std::sync::Arc<Error>),
    #[error("the rows could not be encoded")]
    Arrow(#[from] arrow::error::ArrowError),
    #[error("the event store has stopped")]
    Stopped,
}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(rusqlite::ErrorCode::TooBig) => Self::TooLarge,
            Some(rusqlite::ErrorCode::OperationInterrupted) => Self::Stopped,
            Some(rusqlite::ErrorCode::DatabaseCorrupt | rusqlite::ErrorCode::NotADatabase) => {
                Self::Damaged(error.to_string())
            }
            _ => Self::Sqlite(error),
        }
    }
}

/// Something that happened, as a program told it, before it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Incoming {
    /// None: the sender named none, and one is made.
    pub uuid: Option<Uuid>,
    pub event: String,
    pub distinct_id: String,
    /// With `$set` and `$set_once` inside, wherever the sender put them.
    pub properties: Map<String, Value>,
    /// When it happened, already set right for a sender whose clock is off.
    pub timestamp: Time,
}

/// How large an event may be, as JSON, but what belongs to language models: SDKs send up to 8 MiB of that in one event.
pub const MOST_EVENT_BYTES: usize = 1024 * 1024;
const MOST_AI_EVENT_BYTES: usize = 8 * 1024 * 1024 + 64 * 1024;

fn most_bytes(event: &str) -> usize {
    if event.starts_with("$ai_") {
        MOST_AI_EVENT_BYTES
    } else {
        MOST_EVENT_BYTES
    }
}

impl Incoming {
    /// Whether it is larger than a store takes. Most are seen to be small without being written.
    pub fn is_too_large(&self) -> bool {
        let most = most_bytes(&self.event);
        size::most_of_object(&self.properties) > most && size::of_object(&self.properties) > most
    }
}

/// Which rows, in which shape: those of a team whose ingestion time is in `[start, end)`, oldest first.
#[derive(Debug, Clone)]
pub struct Scan {
    pub team: i64,
    pub query: Query,
    /// None: from the beginning.
    pub start: Option<Time>,
    pub end: Time,
    /// None: all of them.
    pub limit: Option<usize>,
}

/// What is kept as long as events are in memory, such as what was reserved for them: whoever sent them may go before they are stored.
#[derive(Debug, Default)]
pub struct Hold {
    _held: Option<Box<dyn fmt::Debug + Send + Sync>>,
    /// Who takes the turn at writing, if that is not the team.
    organization: Option<u128>,
    /// The neighborhood it came from, if it came from outside.
    source: Option<IpAddr>,
}

impl Hold {
    pub fn of(held: impl fmt::Debug + Send + Sync + 'static) -> Self {
        Self {
            _held: Some(Box::new(held)),
            ..Self::default()
        }
    }

    /// All teams of an organization share one turn at writing.
    #[must_use]
    pub fn in_turn_of(self, organization: u128) -> Self {
        Self {
            organization: Some(organization),
            ..self
        }
    }

    /// All that comes from one neighborhood shares one turn at writing, whoever's token it has.
    #[must_use]
    pub fn sent_from(self, neighborhood: IpAddr) -> Self {
        Self {
            source: Some(neighborhood),
            ..self
        }
    }

    fn turn(&self, team: i64) -> Turn {
        Turn {
            source: self.source.map_or(Source::Inside, Source::Neighborhood),
            owner: self.organization.map_or(Owner::Team(team), Owner::Organization),
        }
    }
}

/// The store. Cheap to clone; every clone is the same store.
#[derive(Debug, Clone)]
pub enum Events {
    Embedded(sqlite::Embedded),
    ClickHouse(clickhouse::ClickHouse),
}

impl Events {
    /// Stores what a team's programs sent. When this returns, it survives a crash.
    ///
    /// `now` is the clock's time; the ingestion time is that, or later if a line was drawn later.
    pub async fn append(&self, team: i64, events: Vec<Incoming>, now: Time) -> Result<()> {
        self.append_holding(Hold::default(), team, events, now).await
    }

    /// The same, with something that stays until it is done.
    pub async fn append_holding(&self, hold: Hold, team: i64, events: Vec<Incoming>, now: Time) -> Result<()> {
        match self {
            Self::Embedded(store) => store.append(hold, team, events, now).await,
            Self::ClickHouse(store) => store.append(hold, team, events, now).await,
        }
    }

    /// Draws a line: from now on nothing is stored with an ingestion time before `until`, and all that was is visible.
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
            Self::ClickHouse(_) => clickhouse::SETTLED_AFTER,
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

    fn scan_in(&self, portion: Portion, scan: Scan) -> Rows {
        match self {
            Self::Embedded(store) => store.scan(scan, portion),
            Self::ClickHouse(store) => store.scan(&scan, portion),
        }
    }

    /// How many rows a scan would give.
    pub async fn count(&self, scan: Scan) -> Result<u64> {
        match self {
            Self::Embedded(store) => store.count(scan).await,
            Self::ClickHouse(store) => store.count(scan).await,
        }
    }

    /// The earliest ingestion time of a team's rows.
    pub async fn earliest(&self, team: i64, model: Model) -> Result<Option<Time>> {
        match self {
            Self::Embedded(store) => store.earliest(team, model).await,
            Self::ClickHouse(store) => store.earliest(team, model).await,
        }
    }

    /// Says whose events these are, and is told whose they have been since this was first said.
    pub async fn claim(&self, instance: Uuid) -> Result<Uuid> {
        match self {
            Self::Embedded(store) => store.claim(instance).await,
            Self::ClickHouse(store) => store.claim(instance).await,
        }
    }

    /// The highest number of a team that something is stored for.
    pub async fn highest_team(&self) -> Result<i64> {
        match self {
            Self::Embedded(store) => store.highest_team().await,
            Self::ClickHouse(store) => store.highest_team().await,
        }
    }

    /// Whether the store answers.
    pub async fn ping(&self) -> Result<()> {
        match self {
            Self::Embedded(store) => store.ping().await,
            Self::ClickHouse(store) => store.ping().await,
        }
    }

    /// Deletes everything of a team that is gone.
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
