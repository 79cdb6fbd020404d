//! Apps, read and run at arm's length: everything an app's author wrote is parsed, transpiled and executed in a child
//! process, with hard limits, and reaches the outside through a [`Host`] alone.
//!
//! [`Sandbox::read`] finds what an app offers, [`Sandbox::open`] starts it for calls. The binary that uses this crate
//! hands its hidden subcommand to [`child()`]. No database, no network and no files are known here.

mod budget;
mod child;
mod code;
mod failure;
mod fair_queue;
mod host;
mod instance;
mod json;
mod layers;
mod limits;
mod manifest;
mod process;
mod program;
mod reading;
mod sandbox;
mod spares;
mod wire;

pub use budget::{Budget, Reservation};
pub use child::{Confinement, child};
pub use code::{Code, Files, Module, Target};
pub use failure::{Failure, Fault, Unread};
pub use host::{FetchRequest, FetchResponse, Host, HostCall, Level, MetricChange};
pub use instance::{Instance, PreparedCall};
pub use json::Json;
pub use layers::{Layer, Layers, State, Strictness};
pub use limits::Limits;
pub use manifest::Manifest;
pub use program::Program;
pub use reading::{Capabilities, Reading};
pub use sandbox::Sandbox;
pub use wire::{Attachment, Meta};
