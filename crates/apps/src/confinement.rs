//! Whether the system keeps apps apart from the server as well as it should, for the operator to know.

use std::sync::PoisonError;
use std::time::Duration;

use sandbox::{Layer, Layers};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::apps::Apps;

/// When it is looked again whether apps may run.
const AGAIN: Duration = Duration::from_mins(1);

impl Apps {
    /// Waits until apps may run here, and says what is missing. False: told to stop.
    pub(crate) async fn until_confined(&self, stop: &CancellationToken) -> bool {
        let sandbox = &self.core.sandbox;
        while !stop.is_cancelled() {
            match sandbox.check().await {
                Ok(layers) => {
                    tell(&layers);
                    let is_enough = sandbox.takes(&layers);
                    *self.core.layers.lock().unwrap_or_else(PoisonError::into_inner) = Some(layers);
                    if is_enough {
                        return true;
                    }
                    tracing::error!("apps are disabled: required sandbox layers are missing");
                }
                Err(failure) => tracing::error!(%failure, "apps are disabled: the sandbox process does not start"),
            }
            tokio::select! {
                () = stop.cancelled() => {}
                () = sleep(AGAIN) => {}
            }
        }
        false
    }

    /// The layers of the sandbox that this system does not have, as far as is known by now.
    pub fn missing_layers(&self) -> Vec<Layer> {
        let layers = self.core.layers.lock().unwrap_or_else(PoisonError::into_inner);
        let missing = layers.as_ref().map(Layers::missing).unwrap_or_default();
        missing.into_iter().map(|(layer, _)| layer).collect()
    }
}

fn tell(layers: &Layers) {
    for layer in Layer::ALL {
        let holds = !layers.state(layer).is_missing();
        metrics::gauge!("hedgerow_sandbox_layer", "layer" => layer.name()).set(f64::from(u8::from(holds)));
    }
    for (layer, reason) in layers.missing() {
        tracing::warn!(
            layer = layer.name(),
            reason,
            "sandbox layer unavailable: {}",
            layer.advice()
        );
    }
}
