//! Why a use case did not happen. Knows nothing of HTTP.

mod database;

use std::borrow::Cow;
use std::time::Duration;

use database::{is_damage, is_deadlock, is_outage};

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The key or session is unknown, expired or revoked.
    #[error("Invalid credentials.")]
    BadCredential,
    #[error("{} not found.", capitalized(.0))]
    NotFound(&'static str),
    #[error("{0}")]
    Forbidden(String),
    #[error("{}", summary(.0))]
    Invalid(Vec<Invalid>),
    /// The session needs a second factor to reach this.
    #[error(
        "This organization requires two-factor authentication. Set it up at /account/two-factor/ and sign in with it."
    )]
    SecondFactorNeeded,
    /// The session is fine, but the person must have shown lately that it is them.
    #[error(
        "Reauthentication required. Send your password, or a code from your authenticator app, to \
         /api/login/confirm/, or sign in again."
    )]
    ReauthenticationNeeded,
    /// Too many attempts; the address or the account has to wait.
    #[error("Too many attempts. Try again in {} seconds.", .0.as_secs() + 1)]
    Throttled(Duration),
    /// As much was done in this hour as is allowed.
    #[error("{detail}. Try again in {} seconds.", .wait.as_secs() + 1)]
    LimitReached { detail: String, wait: Duration },
    /// There is no room for it at the moment.
    #[error("{detail}. Try again in {} seconds.", .wait.as_secs())]
    Unavailable { detail: String, wait: Duration },
    /// Something else happened at the same time, or is in the way.
    #[error("{detail}")]
    Conflict { code: &'static str, detail: String },
    /// The thing is no longer what the caller last saw.
    #[error("This {0} has changed since you last read it. Fetch the latest version and try again.")]
    Stale(&'static str),
    /// It is away, full, or busy with something else: what was asked for can be asked for again.
    #[error("The database is unavailable.")]
    Outage(#[source] sqlx::Error),
    /// What is in the file cannot be what was written to it.
    #[error("The database file is corrupt. Stop the server and restore a backup.")]
    Damaged(#[source] sqlx::Error),
    #[error("Database error.")]
    Database(#[source] sqlx::Error),
    #[error("Database migration failed.")]
    Migration(#[from] sqlx::migrate::MigrateError),
    #[error(transparent)]
    Password(#[from] auth::password::HashError),
    #[error(transparent)]
    Encrypted(#[from] auth::encryption::EncryptionError),
}

/// One thing that is wrong with the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invalid {
    /// The field, if one is to blame; nested ones joined with `__`.
    pub field: Option<Cow<'static, str>>,
    pub code: &'static str,
    pub detail: String,
}

impl From<sqlx::Error> for Error {
    fn from(cause: sqlx::Error) -> Self {
        if is_outage(&cause) {
            Self::Outage(cause)
        } else if is_damage(&cause) {
            Self::Damaged(cause)
        } else {
            Self::Database(cause)
        }
    }
}

impl From<std::io::Error> for Error {
    fn from(cause: std::io::Error) -> Self {
        Self::from(sqlx::Error::Io(cause))
    }
}

/// Marks an answer to a change that met another in the database and was undone: it may be tried again immediately.
#[derive(Debug, Clone, Copy)]
pub struct Undone;

impl Error {
    /// Whether it was a change that met another and was undone, as nobody could go on otherwise.
    pub fn is_undone(&self) -> bool {
        matches!(self, Self::Outage(cause) if is_deadlock(cause))
    }

    /// When to try again after an outage.
    pub const OUTAGE_WAIT: Duration = Duration::from_secs(2);

    /// One field that breaks one rule.
    pub fn invalid(field: &'static str, code: &'static str, detail: impl Into<String>) -> Self {
        Self::Invalid(vec![Invalid {
            field: Some(Cow::Borrowed(field)),
            code,
            detail: detail.into(),
        }])
    }

    /// A rule that no single field breaks.
    pub fn refused(code: &'static str, detail: impl Into<String>) -> Self {
        Self::Invalid(vec![Invalid {
            field: None,
            code,
            detail: detail.into(),
        }])
    }

    /// The mistakes of a list with one item, as those of the item alone.
    #[must_use]
    pub(crate) fn of_only_item(self) -> Self {
        let Self::Invalid(mut problems) = self else { return self };
        for problem in &mut problems {
            let inner = problem.field.as_deref().and_then(|field| field.strip_prefix("0__"));
            if let Some(inner) = inner.map(str::to_owned) {
                problem.field = Some(inner.into());
            }
        }
        Self::Invalid(problems)
    }

    /// Turns a broken unique constraint into the caller's mistake; other failures stay ours.
    pub(crate) fn on_unique(self, invalid: impl FnOnce() -> Self) -> Self {
        match &self {
            Self::Database(sqlx::Error::Database(cause)) if cause.is_unique_violation() => invalid(),
            _ => self,
        }
    }

    /// The same for a reference to something that is not there.
    pub(crate) fn on_dangling(self, invalid: impl FnOnce() -> Self) -> Self {
        match &self {
            Self::Database(sqlx::Error::Database(cause)) if cause.is_foreign_key_violation() => invalid(),
            _ => self,
        }
    }
}

fn summary(problems: &[Invalid]) -> String {
    problems
        .iter()
        .map(|problem| match &problem.field {
            Some(field) => format!("{field}: {}", problem.detail),
            None => problem.detail.clone(),
        })
        .collect::<Vec<_>>()
        .join(" ")
}

fn capitalized(thing: &str) -> String {
    let mut letters = thing.chars();
    let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
    format!("{first}{}", letters.as_str())
}

impl Invalid {
    /// How many an answer names, and whoever looks for them finds: a list of thousands helps nobody, and can be much longer than the input.
    pub const MAX: usize = 100;

    /// The same mistake, in an item of a list.
    #[must_use]
    pub fn in_item(mut self, place: usize) -> Self {
        self.field = Some(match self.field {
            Some(field) => format!("{place}__{field}").into(),
            None => place.to_string().into(),
        });
        self
    }
}
