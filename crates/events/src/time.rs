//! When something happened.

use chrono::{DateTime, Utc};

/// A moment in UTC, in whole microseconds.
pub type Time = DateTime<Utc>;
