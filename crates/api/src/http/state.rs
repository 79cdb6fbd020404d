//! What handlers and extractors share.

use std::ops::Deref;
use std::sync::Arc;

use apps::Apps;
use axum::extract::FromRef;
use exports::Exports;
use identity::Identity;
use service::Service;

use crate::http::body_memory::BodyMemory;
use crate::http::limits::Limits;
use crate::http::meters::Meters;
use crate::http::response_memory::ResponseMemory;
use crate::http::settings::Settings;

/// The state of the router. Every layer clones it for every request, so it is one pointer.
#[derive(Debug, Clone)]
pub(crate) struct Api(Arc<Shared>);

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) service: Service,
    identity: Identity,
    exports: Exports,
    apps: Apps,
    pub(crate) settings: Settings,
    pub(super) limits: Arc<Limits>,
    pub(super) body_memory: Arc<BodyMemory>,
    pub(super) response_memory: Arc<ResponseMemory>,
    pub(super) meters: Meters,
}

impl Api {
    pub(crate) fn new(identity: Identity, exports: Exports, apps: Apps, settings: Settings) -> Self {
        Self(Arc::new(Shared {
            service: identity.service().clone(),
            identity,
            exports,
            apps,
            limits: Arc::new(Limits::new(settings.rate_limit)),
            settings,
            body_memory: Arc::default(),
            response_memory: Arc::default(),
            meters: Meters::default(),
        }))
    }
}

impl Deref for Api {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

impl FromRef<Api> for Service {
    fn from_ref(api: &Api) -> Self {
        api.service.clone()
    }
}

impl FromRef<Api> for Identity {
    fn from_ref(api: &Api) -> Self {
        api.identity.clone()
    }
}

impl FromRef<Api> for Exports {
    fn from_ref(api: &Api) -> Self {
        api.exports.clone()
    }
}

impl FromRef<Api> for Apps {
    fn from_ref(api: &Api) -> Self {
        api.apps.clone()
    }
}
