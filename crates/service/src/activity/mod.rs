//! The activity log: every write, who did it and what changed, in the transaction of the write itself.

mod budget;
mod cases;
mod entry;
mod record;
mod sql;

pub(crate) use budget::Budget;
pub use entry::{Change, ChangeKind};
pub(crate) use entry::{Entry, Recorded};
pub(crate) use record::insert;
pub(crate) use sql::page;

use serde_json::value::RawValue;

use crate::cache::{Weigh, rows_of};
use crate::clock::Time;
use crate::id::{ActivityId, KeyId, UserUuid};
use crate::users::User;

/// One recorded action.
#[derive(Debug, Clone)]
pub struct Activity {
    pub id: ActivityId,
    /// Nobody: the command line did it.
    pub user: Option<User>,
    pub key: Option<KeyId>,
    pub scope: String,
    pub item: String,
    pub activity: String,
    pub name: String,
    pub changes: Vec<Change<Box<RawValue>>>,
    pub request: String,
    pub created_at: Time,
}

/// What a change takes in memory besides its values.
const CHANGE_BYTES: usize = 100;

impl Weigh for Activity {
    fn rows(&self) -> usize {
        let bytes = |change: &Change<Box<RawValue>>| change.before.get().len() + change.after.get().len();
        // With the user, and what each change takes besides.
        1 + rows_of(self.changes.iter().map(|change| CHANGE_BYTES + bytes(change)).sum())
    }
}

/// Which actions to list; all of them when empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ActivityFilter {
    pub user: Option<UserUuid>,
    pub scope: Option<String>,
    pub item: Option<String>,
    pub after: Option<Time>,
    pub before: Option<Time>,
}
