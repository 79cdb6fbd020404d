//! A destination that may be saved: only the check of where it leads makes one.

use async_trait::async_trait;
use serde_json::{Map, Value};

use super::destination::{self, Destination, Kind};
use crate::access::{Caller, ChangeExports};
use crate::error::Result;

/// Decides whether this server may connect to a destination, and can use it. The service knows neither the address policy
/// nor the network, so `exports` implements it, and nobody else.
#[async_trait]
pub trait DestinationCheck: Sync {
    async fn check_destination(&self, caller: &Caller<ChangeExports>, destination: &Destination) -> Result<()>;
}

/// A whole configuration, secrets included, that has passed a [`DestinationCheck`]. There is no other way to make one, and
/// an export takes over no other destination.
pub(super) struct CheckedDestination {
    kind: Kind,
    config: Map<String, Value>,
}

impl CheckedDestination {
    pub(super) async fn new(
        caller: &Caller<ChangeExports>,
        kind: Kind,
        config: Map<String, Value>,
        check: &dyn DestinationCheck,
    ) -> Result<Self> {
        let destination = destination::read(kind, &config)?;
        check.check_destination(caller, &destination).await?;
        Ok(Self { kind, config })
    }

    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    pub(super) fn config(&self) -> &Map<String, Value> {
        &self.config
    }

    /// Whether this is the destination that was checked.
    pub(super) fn is(&self, kind: Kind, config: &Map<String, Value>) -> bool {
        self.kind == kind && self.config == *config
    }
}
