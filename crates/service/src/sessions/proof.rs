//! What somebody proved when they signed in, looked at again before something is done that would outlast it. Whoever takes it away has the
//! account locked, or the organization that vouched: so it is looked at with these locked, too.

use serde::{Deserialize, Serialize};

use super::{SignedIn, sql};
use crate::error::{Error, Result};
use crate::id::{SessionId, UserId};
use crate::transaction::WriteTx;
use crate::{organizations, users};

/// Whose account a browser is signed in to by something that the person alone has, and by which session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnProof {
    pub user: UserId,
    pub session: SessionId,
}

impl OwnProof {
    /// Whether it is of this account, and the session was not ended in the meantime.
    pub(crate) async fn holds_for(self, db: &mut WriteTx, user: UserId) -> Result<bool> {
        if self.user != user {
            return Ok(false);
        }
        users::sql::lock(db, user).await?;
        sql::is_there(db, self.session).await
    }
}

/// Whoever becomes an owner loses what a provider opened for them, and whoever proves their address what others had opened before. A
/// request that came just before leaves nothing behind.
pub(crate) async fn expect_still_signed_in(db: &mut WriteTx, person: &SignedIn) -> Result<()> {
    if let Some(organization) = person.authenticated_by {
        organizations::sql::lock(db, organization).await?;
    }
    users::sql::lock(db, person.user).await?;
    match person.session {
        Some(session) if !sql::is_there(db, session).await? => Err(Error::BadCredential),
        _ => Ok(()),
    }
}
