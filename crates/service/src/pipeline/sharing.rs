//! Apps for all organizations: who may publish them, and when they can be taken back.

use super::lookup::{ROOT, grant};
use super::sql;
use super::types::App;
use crate::access::{Caller, ChangeApps};
use crate::db::Session;
use crate::error::{Error, Result};
use crate::id::OrganizationId;
use crate::operators;
use crate::transaction::WriteTx;

/// An app for all organizations runs with what each of them entrusts to it: that it exists, and what others are offered as its next
/// version, is decided by those who run the instance.
pub(super) async fn publish(db: &mut WriteTx, caller: &Caller<ChangeApps>, level: i16) -> Result<()> {
    grant(level, ROOT)?;
    operators::may_publish(db, caller).await
}

/// What everybody can use from now on outlasts an open browser that somebody found. New versions wait for consent anyway.
pub(super) async fn publish_first(db: &mut WriteTx, caller: &Caller<ChangeApps>, level: i16) -> Result<()> {
    caller.expect_recent_proof(db.now)?;
    publish(db, caller, level).await
}

/// An app for all becomes its organization's own again. What others have set up for it, secrets included, is theirs: it is not taken
/// from them.
pub(super) async fn take_back(db: &mut WriteTx, caller: &Caller<ChangeApps>, app: &App) -> Result<()> {
    operators::may_publish(db, caller).await?;
    // From here on nobody begins to use it.
    sql::apps::lock(db, app.id).await?;
    match sql::configs::count_of_others(db, app.organization_id, Some(app.id)).await? {
        0 => Ok(()),
        count => Err(Error::invalid("is_global", "in_use", in_use("this app", count))),
    }
}

/// The same for whoever would delete the organization with all its apps.
pub(crate) async fn not_in_use(db: &mut Session, organization: OrganizationId) -> Result<()> {
    match sql::configs::count_of_others(db, organization, None).await? {
        0 => Ok(()),
        count => Err(Error::refused("in_use", in_use("apps of this organization", count))),
    }
}

fn in_use(what: &str, count: i64) -> String {
    format!("other organizations still use {what}: they must delete their configurations first, {count} in all")
}
