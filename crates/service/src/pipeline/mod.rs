//! Pipeline apps: what they are, the code they have, and how teams use them.
//!
//! An app belongs to an organization and to the collection it was made in. Its code comes in versions, of which one is
//! current. A configuration is one team's use of an app; while it is on, the app is run for that team.

mod cases;
mod code;
mod configs;
mod difference;
mod history;
mod hosts;
mod limits;
mod lists;
mod logs;
mod lookup;
mod pins;
mod reached;
mod rules;
mod runnable;
mod schedule;
pub mod schema;
mod scripts;
mod settle;
mod sharing;
mod sites;
mod sizes;
mod sql;
mod storage;
mod tags;
mod targets;
mod tasks;
mod types;
mod upgrades;
mod uses;
mod values;
mod work;

pub use code::source_changed;
pub use difference::{Difference, FieldChange};
pub use hosts::AllowedHosts;
pub use runnable::Runnable;
pub(crate) use scripts::Scripts;
pub(crate) use sharing::not_in_use;
pub use sites::SiteApp;
pub use tasks::{AppTask, TaskOutcome};
pub use types::{
    App, AppConfig, AppFields, AppLog, AppLogFilter, AppLogLevel, AppLogSource, AppMetadata, AppName, AppPatch, AppUse,
    AppWithFiles, Collection, ConfigPatch, Cursor, Derived, DueAfter, DueApp, Fetched, Files, MAX_FAILURES, NewApp,
    NewConfig, Package, PluginType, ReachedHost, Script, TaskKind, UseCount, Version, VersionName, VersionSeen,
    check_source,
};
pub use upgrades::ConfigUpgrade;
pub use uses::AppsSeen;
pub use work::{AppJob, Step, Stop};
