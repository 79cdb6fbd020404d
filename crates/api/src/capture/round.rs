//! Lines of several who take turns.

pub(super) use service::round::{Queue, Round};
