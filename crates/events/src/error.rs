//! What can go wrong with the store.

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
    /// A failure shared by several callers.
    #[error("{0}")]
    Shared(#[source] std::sync::Arc<Error>),
    #[error("the rows could not be encoded")]
    Arrow(#[from] arrow_schema::ArrowError),
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
