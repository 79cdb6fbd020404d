//! Changes that begin some time after access was checked, by somebody who may have lost their access in the meantime.

use std::time::Duration;

use crate::db::Session;
use crate::db::caller::{self, CredentialHash, Grant};
use crate::error::{Error, Result};
use crate::id::OrganizationId;
use crate::transaction::WriteTx;
use crate::{keys, sessions};

/// How long after its access check a change can start without another check. Otherwise a client that delays its own request
/// could still use it after losing access.
const PROMPT: Duration = Duration::from_millis(100);

/// What was asked for may still be allowed, so it is worth sending again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// What allows the change at hand, if it was checked a while ago.
pub(crate) fn grant() -> Option<Grant> {
    caller::grant().filter(|grant| grant.checked_at.elapsed() > PROMPT)
}

/// Makes sure, with the organization locked, that whoever changes something in it may still do so: nobody takes access away
/// without that lock.
pub(crate) async fn expect_access_to(db: &mut WriteTx, organization: OrganizationId) -> Result<()> {
    match grant() {
        Some(grant) if grant.organization.is_some_and(|(id, _)| id == organization) => expect_access(db, grant).await,
        _ => Ok(()),
    }
}

/// The same however short ago that was, for what lets somebody in again who loses their access at the same moment. The account is locked, too.
pub(crate) async fn expect_access_now(db: &mut WriteTx) -> Result<()> {
    match caller::grant() {
        Some(grant) => expect_access(db, grant).await,
        None => Ok(()),
    }
}

pub(crate) async fn expect_access(db: &mut WriteTx, grant: Grant) -> Result<()> {
    let now = db.now;
    expect_unchanged(db, &grant, now).await?;
    caller::renew(grant);
    Ok(())
}

async fn expect_unchanged(db: &mut Session, grant: &Grant, now: crate::Time) -> Result<()> {
    let organization = grant.organization.map(|(id, _)| id);
    let (level, is_same) = match &grant.credential {
        CredentialHash::Key(hash) => {
            let found = keys::sql::owner(db, hash, organization).await?;
            let row = found.filter(|row| row.expires_at.is_none_or(|end| end > now));
            let row = row.ok_or(Error::BadCredential)?;
            (row.level, grant.changed_at == Some(row.updated_at))
        }
        CredentialHash::Session(hash) => {
            let found = sessions::sql::owner(db, hash, organization).await?;
            let row = found.filter(|row| row.is_valid(now)).ok_or(Error::BadCredential)?;
            (row.level, row.has_second_factor || row.enforce_2fa != Some(true))
        }
    };
    match (grant.organization, level) {
        (None, _) if is_same => Ok(()),
        (Some((_, before)), Some(level)) if level >= before && is_same => Ok(()),
        (Some(_), None) => Err(Error::NotFound("organization")),
        _ => Err(changed_in_between()),
    }
}

/// Nothing was done; a retry gets the response that fits the current access.
fn changed_in_between() -> Error {
    Error::Unavailable {
        detail: "Your access was changed while this request was waiting".to_owned(),
        wait: RETRY_AFTER,
    }
}
