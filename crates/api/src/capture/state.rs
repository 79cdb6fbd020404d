//! What all requests that capture share.

use events::Events;
use service::Service;

use super::budget::{Budget, DEFAULT_BYTES};
use super::readers::Readers;
use crate::http::meters::Meters;
use crate::http::response_memory::ResponseMemory;
use crate::http::settings::Settings;

/// Behind one pointer: every request clones it for each layer that it passes.
#[derive(Debug)]
pub(super) struct Capture {
    pub(super) service: Service,
    pub(super) events: Events,
    pub(super) settings: Settings,
    pub(super) budget: Budget,
    pub(super) readers: Readers,
    pub(super) response_memory: ResponseMemory,
    pub(super) meters: Meters,
}

impl Capture {
    pub(super) fn new(service: Service, events: Events, settings: Settings) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self {
            service,
            events,
            budget: Budget::new(settings.capture_memory.unwrap_or(DEFAULT_BYTES)),
            readers: Readers::new(processors),
            settings,
            response_memory: ResponseMemory::default(),
            meters: Meters::default(),
        }
    }
}
