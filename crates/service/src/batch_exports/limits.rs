//! How many exports and backfills there may be: the scheduler goes through all of them, and each makes runs.

use super::sql;
use crate::db::Session;
use crate::error::{Error, Result};
use crate::id::{ExportId, OrganizationId};
use crate::transaction::WriteTx;

const MOST_EXPORTS: i64 = 500;
/// Of one export, and not finished.
const MOST_BACKFILLS: i64 = 100;

/// The organization is locked: nobody else adds one at the same time.
pub(super) async fn room_for_export(db: &mut Session, organization: OrganizationId) -> Result<()> {
    if sql::exports::count(db, organization).await? < MOST_EXPORTS {
        return Ok(());
    }
    let detail = format!("An organization can have at most {MOST_EXPORTS} batch exports. Delete one first.");
    Err(Error::refused("too_many_exports", detail))
}

/// The export is locked.
pub(super) async fn room_for_backfill(db: &mut WriteTx, export: ExportId) -> Result<()> {
    if sql::backfills::count_open(db, export).await? < MOST_BACKFILLS {
        return Ok(());
    }
    let detail = format!(
        "A batch export can have at most {MOST_BACKFILLS} unfinished backfills. Wait for one to finish, or cancel \
         one."
    );
    Err(Error::refused("too_many_backfills", detail))
}
