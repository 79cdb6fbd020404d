//! What handlers and extractors share.

use apps::Apps;
use axum::extract::FromRef;
use exports::Exports;
use identity::Identity;
use service::Service;

/// The state of the router, of which every request gets a clone.
#[derive(Debug, Clone)]
pub(crate) struct Console {
    pub(crate) identity: Identity,
    pub(crate) exports: Exports,
    pub(crate) apps: Apps,
}

impl FromRef<Console> for Identity {
    fn from_ref(console: &Console) -> Self {
        console.identity.clone()
    }
}

impl FromRef<Console> for Service {
    fn from_ref(console: &Console) -> Self {
        console.identity.service().clone()
    }
}

impl FromRef<Console> for Exports {
    fn from_ref(console: &Console) -> Self {
        console.exports.clone()
    }
}

impl FromRef<Console> for Apps {
    fn from_ref(console: &Console) -> Self {
        console.apps.clone()
    }
}
