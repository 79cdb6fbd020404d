//! Verification in DNS: what was seen, what it means, and what is said about it.

use chrono::TimeDelta;
use serde::{Deserialize, Serialize};

use super::Domain;
use crate::clock::Time;

/// A lost record is waited for this long before the domain has no effect any more.
pub(super) const GRACE: TimeDelta = TimeDelta::days(7);
/// How often verified domains are looked at again.
pub(super) const RECHECK: TimeDelta = TimeDelta::days(1);
/// The same for domains whose record somebody has asked for and waits to be seen.
pub(super) const RECHECK_UNVERIFIED: TimeDelta = TimeDelta::minutes(2);
/// Whoever takes a verified domain to look at it keeps others from it for this long. It is not renewed.
pub(super) const LEASE: TimeDelta = TimeDelta::hours(1);
/// For how long after a domain was added somebody may be waiting.
pub(super) const WAITING: TimeDelta = TimeDelta::days(7);

/// What was seen in DNS, by whoever looked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DnsLookup {
    /// The texts at the record's name; each record's parts joined.
    Texts(Vec<String>),
    NoRecord,
    Timeout,
    Failed(String),
}

/// Why a domain is not proven.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    pub code: String,
    pub detail: String,
}

impl Finding {
    pub(super) fn new(code: &str, detail: String) -> Self {
        Self {
            code: code.to_owned(),
            detail,
        }
    }
}

impl DnsLookup {
    pub(super) fn shows(&self, challenge: &str) -> bool {
        matches!(self, Self::Texts(texts) if texts.iter().any(|text| text == challenge))
    }

    /// Nobody answered, so nothing is known: that proves nothing and disproves nothing.
    fn is_silence(&self) -> bool {
        matches!(self, Self::Timeout | Self::Failed(_))
    }

    /// What was seen, if it is not the proof.
    pub fn problem(&self, domain: &Domain) -> Option<Finding> {
        let (record, value) = (domain.record(), &domain.verification_challenge);
        let to_do = format!("Add a TXT record named {record} with the value {value}.");
        match self {
            seen if seen.shows(value) => None,
            Self::Texts(texts) => {
                let seen = texts.iter().map(|text| shortened(text)).collect::<Vec<_>>().join(", ");
                let detail = format!("The TXT record at {record} is {seen}, which is not the expected value. {to_do}");
                Some(Finding::new("dns_mismatch", detail))
            }
            Self::NoRecord => {
                let detail =
                    format!("No TXT record was found at {record}. {to_do} New records can take up to an hour to show.");
                Some(Finding::new("dns_no_record", detail))
            }
            Self::Timeout => {
                let detail = format!("The DNS lookup of {record} timed out. Try again.");
                Some(Finding::new("dns_timeout", detail))
            }
            Self::Failed(reason) => {
                let detail = format!("The DNS lookup of {record} failed: {reason}");
                Some(Finding::new("dns_error", detail))
            }
        }
    }
}

/// As much of a stranger's text as is worth showing.
fn shortened(text: &str) -> String {
    let clean: String = text.chars().filter(|c| !c.is_control()).take(80).collect();
    format!("\"{clean}\"")
}

/// What a look at DNS does to a domain that nobody else has.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Proven,
    /// Not proven, or still proven with the record missing: the grace runs.
    Unproven,
    /// The record of a verified domain was seen to be missing for the first time.
    Lost,
    /// It was missing for too long.
    Expired,
}

impl Domain {
    /// When the record is looked for again without anybody asking. Never before somebody has asked once: a name that
    /// is looked up too early is remembered as missing for a while.
    pub fn next_check(&self, now: Time) -> Option<Time> {
        let checked_at = self.checked_at?;
        if self.is_verified() {
            return Some(checked_at + RECHECK);
        }
        (now - self.created_at < WAITING).then_some(checked_at + RECHECK_UNVERIFIED)
    }

    /// Until when a verified domain whose record is missing counts as verified.
    pub fn grace_ends_at(&self) -> Option<Time> {
        self.lost_at.map(|lost_at| lost_at + GRACE)
    }

    /// Decides what a look-up means. A verified domain survives silence, and a missing record for a while.
    pub(super) fn see(&mut self, lookup: &DnsLookup, now: Time) -> Outcome {
        self.checked_at = Some(now);
        self.verification_error = lookup.problem(self).map(sqlx::types::Json);
        if self.verification_error.is_none() {
            self.verified_at = self.verified_at.or(Some(now));
            self.lost_at = None;
            return Outcome::Proven;
        }
        if !self.is_verified() || lookup.is_silence() {
            return Outcome::Unproven;
        }
        match self.lost_at {
            None => {
                self.lost_at = Some(now);
                Outcome::Lost
            }
            Some(lost_at) if now - lost_at >= GRACE => {
                self.verified_at = None;
                self.lost_at = None;
                Outcome::Expired
            }
            Some(_) => Outcome::Unproven,
        }
    }
}
