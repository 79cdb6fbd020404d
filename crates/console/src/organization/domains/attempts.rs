//! What became of the last sign-ins through a domain.

use service::access::ReadAttempts;
use service::sso::Attempt;
use service::{DomainId, Service, Time};

use crate::failure::Failure;
use crate::organization::OrganizationAccess;
use crate::show;

pub(super) struct Row {
    pub(super) time: String,
    pub(super) exactly: String,
    pub(super) email: String,
    pub(super) method: String,
    /// Why not, and the name of the rule; none if the person got in.
    pub(super) refusal: Option<(String, String)>,
    /// Where from, as far as one can tell.
    pub(super) address: String,
}

impl Row {
    fn new(attempt: &Attempt, now: Time) -> Self {
        let refusal = attempt.rule.as_ref();
        Self {
            time: show::ago(attempt.created_at, now),
            exactly: show::exactly(attempt.created_at),
            email: attempt.email.clone(),
            method: show::method(&attempt.method).to_owned(),
            refusal: refusal.map(|rule| (show::sentence(&attempt.detail), rule.clone())),
            address: attempt.address.clone(),
        }
    }
}

/// Newest first. None for those who may not see them.
pub(super) async fn read<P>(
    service: &Service,
    access: &OrganizationAccess<P>,
    domain: DomainId,
    now: Time,
) -> Result<Option<Vec<Row>>, Failure>
where
    P: service::access::Permission,
{
    if !access.may::<ReadAttempts>() {
        return Ok(None);
    }
    let reader = access.also::<ReadAttempts>(service).await?;
    let attempts = service.sso_attempts(&reader, domain).await?;
    Ok(Some(attempts.iter().map(|attempt| Row::new(attempt, now)).collect()))
}
