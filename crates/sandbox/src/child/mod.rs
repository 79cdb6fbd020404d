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
mod read;
mod serve;
mod transpile;

use std::process::exit;
use std::rc::Rc;

use crate::wire::Task;

/// Reads or runs an app, as the parent process says over standard input. Never returns.
pub fn child() -> ! {
    let pipe = Rc::new(pipe::Pipe::new());
    let task = pipe.read().and_then(|line| serde_json::from_str(&line).ok());
    match task {
        Some(Task::Read { files, limits }) => {
            confine::confine(&limits, limits.load_time);
            pipe.report(&read::read(&files, &limits, &pipe));
        }
        Some(Task::Open { code, meta, limits }) => {
            confine::confine(&limits, limits.load_time);
            serve::serve(code, &meta, limits, &pipe);
        }
        // Nobody, or nobody who knows how, started this.
        None => exit(2),
    }
    exit(0)
}
