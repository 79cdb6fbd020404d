//! Sign-ins that were sent to an identity provider: each comes back once, in the browser it left in.

use boxed::boxed;
use chrono::TimeDelta;
use serde::{Deserialize, Serialize};

use super::{Sso, sql};
use crate::Service;
use crate::error::Result;
use crate::id::{DomainId, OrganizationId};
use crate::sessions::OwnProof;

/// For as long as somebody may take to sign in elsewhere.
const GOOD_FOR: TimeDelta = TimeDelta::minutes(15);

/// A sign-in on its way.
#[derive(Debug, Clone)]
pub struct PendingLogin {
    pub sso: Sso,
    pub domain: Option<(OrganizationId, DomainId)>,
    /// Whose account the browser is signed in to.
    pub signed_in_as: Option<OwnProof>,
    /// Where to go when it is done.
    pub next: String,
    pub nonce: String,
    pub pkce_verifier: String,
}

#[derive(Serialize, Deserialize)]
struct Details {
    signed_in_as: Option<OwnProof>,
    next: String,
    nonce: String,
    pkce_verifier: String,
}

impl Details {
    fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("details are plain text")
    }
}

impl Service {
    /// Notes a sign-in that is sent away under this id, from the browser that holds this secret.
    #[boxed]
    pub async fn begin_login(&self, id: &str, login: &PendingLogin, browser: &str) -> Result<()> {
        let details = Details {
            signed_in_as: login.signed_in_as,
            next: login.next.clone(),
            nonce: login.nonce.clone(),
            pkce_verifier: login.pkce_verifier.clone(),
        };
        let plain = details.to_json();
        let mut db = self.write().await?;
        let encrypted = db.encrypt(&self.core.instance.encryptor, &place(id), &plain);
        let row = sql::Request {
            id: id.to_owned(),
            organization_id: login.domain.map(|(organization, _)| organization),
            domain_id: login.domain.map(|(_, domain)| domain),
            method: login.sso.to_string(),
            details: encrypted,
        };
        let expires_at = db.now + GOOD_FOR;
        sql::insert_request(&mut db, &row, &auth::key::hash(browser), expires_at).await?;
        db.commit_unrecorded().await
    }

    /// Takes a sign-in that comes back. `None` if it is unknown, too late, was taken, or left in another browser.
    #[boxed]
    pub async fn complete_login(&self, id: &str, browser: &str) -> Result<Option<PendingLogin>> {
        let mut db = self.write().await?;
        let taken = sql::take_request(&mut db, id, &auth::key::hash(browser)).await?;
        db.commit_unrecorded().await?;
        let Some(row) = taken else { return Ok(None) };
        let plain = self.core.instance.encryptor.decrypt(&place(id), &row.details)?;
        let (Ok(sso), Ok(details)) = (row.method.parse(), serde_json::from_slice::<Details>(&plain)) else {
            return Ok(None);
        };
        Ok(Some(PendingLogin {
            sso,
            domain: row.organization_id.zip(row.domain_id),
            signed_in_as: details.signed_in_as,
            next: details.next,
            nonce: details.nonce,
            pkce_verifier: details.pkce_verifier,
        }))
    }
}

fn place(id: &str) -> String {
    format!("sso_request/{id}/details")
}
