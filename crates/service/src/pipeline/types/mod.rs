//! What apps, their versions and their configurations are. Everything else here is about them, and they know nothing of it.

mod app;
mod app_use;
mod config;
mod delivery;
mod host;
mod input;
mod log;
mod task;
mod version;

pub(super) use app::empty_object;
pub use app::{App, AppName, AppWithFiles, Collection, Derived, Files, PluginType};
pub use app_use::{AppUse, UseCount};
pub use config::AppConfig;
pub(super) use delivery::MAX_STARTS;
pub use delivery::{Cursor, DueAfter, DueApp, MAX_FAILURES};
pub use host::ReachedHost;
pub use input::{AppFields, AppPatch, ConfigPatch, NewApp, NewConfig};
pub use log::{AppLog, AppLogFilter, AppLogLevel, AppLogSource};
pub use task::TaskKind;
pub(super) use task::{SCHEDULED, Waiting};
pub use version::{AppMetadata, Fetched, Package, Script, Version, VersionName, VersionSeen, check_source};
pub(super) use version::{KEPT, KeptBytes, Manifest};
