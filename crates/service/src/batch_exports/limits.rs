//! How many exports and backfills there may be: the scheduler goes through all of them, and each makes runs.

use super::sql;
use super::types::BatchExport;
use crate::db::Session;
use crate::error::{Error, Result};
use crate::id::OrganizationId;
use crate::transaction::WriteTx;

const MAX_EXPORTS: i64 = 500;
/// Of one export, and not finished.
const MAX_BACKFILLS: i64 = 100;
/// Of all exports of an organization: the scheduler looks at each of them every second.
const MAX_BACKFILLS_OF_ALL: i64 = 1000;

/// The organization is locked: nobody else adds one at the same time.
pub(super) async fn room_for_export(db: &mut Session, organization: OrganizationId) -> Result<()> {
    if sql::exports::count(db, organization).await? < MAX_EXPORTS {
        return Ok(());
    }
    let detail = format!("An organization can have at most {MAX_EXPORTS} batch exports. Delete one first.");
    Err(Error::refused("too_many_exports", detail))
}

/// The export is locked. Of others backfills may begin at the same time, so there may be a few more of all.
pub(super) async fn room_for_backfill(db: &mut WriteTx, export: &BatchExport) -> Result<()> {
    let (whose, most) = if sql::backfills::count_open(db, export.id).await? >= MAX_BACKFILLS {
        ("A batch export", MAX_BACKFILLS)
    } else if sql::backfills::count_open_of(db, export.organization_id).await? >= MAX_BACKFILLS_OF_ALL {
        ("An organization", MAX_BACKFILLS_OF_ALL)
    } else {
        return Ok(());
    };
    let detail =
        format!("{whose} can have at most {most} unfinished backfills. Wait for one to finish, or cancel one.");
    Err(Error::refused("too_many_backfills", detail))
}
