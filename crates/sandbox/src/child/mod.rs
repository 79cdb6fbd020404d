//! The child process: everything an app's author wrote is handled here, and nowhere else.

mod bridge;
mod browser;
mod confine;
mod engine;
mod graph;
mod natives;
mod packages;
mod pipe;
mod position;
mod prelude;
mod read;
mod serve;
mod transpile;

use std::process::exit;
use std::rc::Rc;

use serde::de::DeserializeOwned;

pub use confine::Confinement;

use self::bridge::Bridge;
use crate::Limits;
use crate::layers::Strictness;
use crate::wire::{Report, Task};

/// Reads or runs an app, as the parent process says over standard input. Never returns.
pub fn child() -> ! {
    let pipe = Rc::new(pipe::Pipe::new());
    // So far nothing of an app is known here, and what can be taken away is taken away now.
    let limits: Limits = next(&pipe);
    let layers = Confinement::default().apply(&limits);
    let is_enough = layers.are_enough(Strictness::BestEffort);
    pipe.report(&Report::Confined(layers));
    if !is_enough {
        exit(2);
    }
    let bridge = Bridge::new(limits, pipe.clone());
    let outcome = engine::with_engine(&bridge, |app| match next(&pipe) {
        Task::Read { files } => pipe.report(&read::read(&files, app)),
        Task::Open { code, meta } => serve::serve(code, &meta, app),
    });
    if let Err(failure) = outcome {
        pipe.report(&Report::Failed(failure));
    }
    exit(0)
}

/// What the next line says.
fn next<T: DeserializeOwned>(pipe: &pipe::Pipe) -> T {
    let said = pipe.read().and_then(|line| serde_json::from_str(&line).ok());
    // Nobody, or nobody who knows how, started this.
    said.unwrap_or_else(|| exit(2))
}
