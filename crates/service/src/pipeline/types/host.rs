//! Where apps connect to.

use crate::clock::Time;

/// A host that a configuration's app sent requests to, or tried to.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct ReachedHost {
    pub host: String,
    /// False: the latest request was refused.
    pub is_allowed: bool,
    pub first_at: Time,
    pub last_at: Time,
}
