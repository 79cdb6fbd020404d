//! What the system is told to keep from this process, before it sees anything that an app's author wrote.

mod landlock;
mod limits;
mod rights;
mod system_calls;

pub(crate) use limits::allow_processor;

use crate::Limits;
use crate::layers::{Layer, Layers, State};

/// The layers that this process is to have. Some can be left out, to see what the others hold back: for tests.
#[derive(Debug, Default)]
pub struct Confinement {
    without: Vec<Layer>,
}

impl Confinement {
    #[must_use]
    pub fn without(mut self, layers: &[Layer]) -> Self {
        self.without.extend(layers);
        self
    }

    /// Takes from this process what it does not need, for good. It must have one thread.
    ///
    /// The order matters: each step takes rights that those before it need.
    pub fn apply(&self, limits: &Limits) -> Layers {
        limits::give_way();
        let mapped = limits::mapped();
        let mut layers = Layers::default();
        let wanted = |layer: &Layer| !self.without.contains(layer);
        let mut note = |layer, state| layers.note(layer, state);
        if wanted(&Layer::Descriptors) {
            note(Layer::Descriptors, State::of(rights::close_descriptors()));
        }
        rights::leave(&wanted, &mut note);
        if wanted(&Layer::NoNewPrivileges) {
            note(Layer::NoNewPrivileges, State::of(rights::set_no_new_privileges()));
        }
        for (layer, restrict) in landlock::LAYERS {
            if wanted(&layer) {
                note(layer, restrict());
            }
        }
        if wanted(&Layer::Limits) {
            note(Layer::Limits, State::of(limits::limit(limits, mapped)));
        }
        if wanted(&Layer::SystemCalls) {
            note(Layer::SystemCalls, State::of(system_calls::allow_few()));
        }
        layers
    }
}
