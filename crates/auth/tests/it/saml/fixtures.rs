//! Keys, certificates and documents that another stack made, see `make.py` beside them.

use auth::saml::{Certificates, Expected, IdentityProvider, ServiceProvider};
use chrono::{DateTime, Utc};

macro_rules! fixture {
    ($name:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/saml/", $name))
    };
}
pub(crate) use fixture;

pub(crate) const REQUEST: &str = "_request1";
pub(crate) const PLAIN: &str = "https://idp.test/plain";

/// A minute after everything was issued.
pub(crate) fn now() -> DateTime<Utc> {
    at("2026-11-15T12:01:00Z")
}

pub(crate) fn at(time: &str) -> DateTime<Utc> {
    time.parse().expect("a time")
}

pub(crate) fn sp() -> ServiceProvider {
    ServiceProvider {
        entity_id: "https://hedgerow.test/saml".to_owned(),
        acs_url: "https://hedgerow.test/saml/acs".to_owned(),
    }
}

pub(crate) fn idp(entity_id: &str, certificates: &str) -> IdentityProvider {
    IdentityProvider {
        entity_id: entity_id.to_owned(),
        sso_url: "https://idp.test/sso".to_owned(),
        certificates: Certificates::parse(certificates).expect("certificates"),
    }
}

pub(crate) fn expected<'a>(sp: &'a ServiceProvider, idp: &'a IdentityProvider) -> Expected<'a> {
    Expected {
        sp,
        idp,
        request_id: Some(REQUEST),
        allows_unsolicited: false,
        now: now(),
    }
}
