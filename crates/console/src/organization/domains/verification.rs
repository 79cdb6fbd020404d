//! The record that proves a domain: what it has to be, and what was seen of it.

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::post;
use identity::Identity;
use service::access::ChangeDomains;
use service::domains::Domain;
use service::{DomainId, Time};

use super::frame::below;
use super::value::Value;
use crate::failure::Failure;
use crate::organization::OrganizationAccess;
use crate::page::go_to;
use crate::show;
use crate::state::Console;
use crate::visitor::Id;

pub(super) fn routes() -> Router<Console> {
    Router::new().route("/organizations/{organization}/domains/{domain}/verify/", post(verify))
}

pub(super) struct Verification {
    pub(super) record: Vec<Value>,
    /// As many forms of DNS providers want it: they add the domain by themselves.
    pub(super) short_name: String,
    pub(super) is_verified: bool,
    /// The record may be seen at any time: by whoever asks first, or by us as long as we go on looking.
    pub(super) is_pending: bool,
    pub(super) tag_class: &'static str,
    pub(super) tag: &'static str,
    pub(super) words: String,
    /// What was seen, if it was not what it should be.
    pub(super) finding: Option<String>,
    /// When was looked last, and when again.
    pub(super) looks: String,
}

impl Verification {
    pub(super) fn new(domain: &Domain, now: Time) -> Self {
        let short_name = domain.record().split('.').next().unwrap_or_default().to_owned();
        let (tag_class, tag, words) = standing(domain, now);
        Self {
            record: vec![
                Value::new("record-name", "Name", "", domain.record()),
                Value::new("record-type", "Type", "", "TXT"),
                Value::new("record-value", "Value", "", domain.verification_challenge.clone()),
            ],
            short_name,
            is_verified: domain.is_verified(),
            is_pending: !domain.is_verified() && (domain.checked_at.is_none() || domain.next_check(now).is_some()),
            tag_class,
            tag,
            words,
            finding: domain
                .verification_error
                .as_ref()
                .map(|finding| show::sentence(&finding.detail)),
            looks: looks(domain, now),
        }
    }
}

fn standing(domain: &Domain, now: Time) -> (&'static str, &'static str, String) {
    match (domain.verified_at, domain.grace_ends_at()) {
        (Some(_), Some(end)) => {
            let end = show::until(end, now);
            let words =
                format!("The DNS record is missing. Restore it, or the domain will no longer be verified {end}.");
            ("tag-warning", "Record missing", words)
        }
        (Some(since), None) => {
            let words = format!("Since {}. Keep the record in place.", show::day(since));
            ("tag-good", "Verified", words)
        }
        (None, _) => {
            let words = "The domain has no effect until the record is found.".to_owned();
            ("tag-warning", "Not verified", words)
        }
    }
}

fn looks(domain: &Domain, now: Time) -> String {
    let Some(checked_at) = domain.checked_at else {
        return "Not checked yet. Add the record, then select Check now. After that, we check automatically."
            .to_owned();
    };
    let last = format!("Last checked {}.", show::ago(checked_at, now));
    match domain.next_check(now).map(|next| show::until(next, now)) {
        Some(next) if domain.is_verified() => format!("{last} Next check {next}."),
        Some(next) => format!("{last} Next check {next}, even if you close this page."),
        None => format!("{last} Automatic checks have stopped. Select Check now when you've added the record."),
    }
}

async fn verify(
    State(identity): State<Identity>,
    access: OrganizationAccess<ChangeDomains>,
    Id(id): Id<DomainId>,
) -> Result<Response, Failure> {
    let domain = identity.verify_domain(&access.caller, id).await?;
    let done = match domain.verification_error.as_ref().map(|finding| finding.code.as_str()) {
        None if domain.is_verified() => "domain-verified",
        None | Some("dns_no_record" | "dns_mismatch") => "domain-record-not-found",
        // Nobody answered, somebody else has it, or it is verified but something else is wrong.
        Some(_) => "domain-checked",
    };
    Ok(go_to(&access.path(&format!("{}?done={done}", below(id)))))
}
