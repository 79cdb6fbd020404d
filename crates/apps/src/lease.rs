//! How long a task or a configuration stays with the worker that claimed it.

use std::time::Duration;

use service::Result;

use crate::errors::log;

/// A third of the lease: two may go missing.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(10);

/// Whether somebody else has it by now. If the database is away for a moment, the lease says for how long that is fine.
pub(crate) fn is_lost(kept: Result<bool>) -> bool {
    match kept {
        Ok(is_held) => !is_held,
        Err(error) => {
            log(&error);
            false
        }
    }
}
