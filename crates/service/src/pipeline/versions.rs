//! The code of an app: what it consists of, what was found in it, and the versions before.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{App, AppName, Derived, Files};
use crate::clock::Time;

/// So many versions of an app are kept, the current one included.
pub(super) const KEPT: i64 = 10;

/// What whoever read an app's code found in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Package {
    #[serde(skip)]
    pub files: Files,
    /// As it is run. What is in it is between those who read and those who run code.
    #[serde(skip)]
    pub code: Value,
    pub name: Option<String>,
    pub description: String,
    pub icon: Option<String>,
    pub config_schema: Value,
    pub capabilities: Value,
    pub metrics: Value,
    pub public_jobs: Value,
    /// For browsers, if it has a part for them.
    pub site: Option<String>,
    pub frontend: Option<String>,
}

/// One state of an app's code.
#[derive(Debug, Clone)]
pub struct Version {
    pub number: i64,
    pub tag: Option<String>,
    pub package: Package,
    pub created_at: Time,
}

/// A version without its code, which may be large.
#[derive(Debug, Clone)]
pub struct VersionName {
    pub number: i64,
    pub tag: Option<String>,
    pub created_at: Time,
}

impl App {
    /// Takes over what the code says, where nobody wrote otherwise.
    pub(super) fn take_over(&mut self, package: &Package) {
        let is_ours = |field: Derived| !self.written.contains(&field);
        let named = package.name.as_deref().and_then(|name| AppName::new(name).ok());
        if let Some(name) = named.filter(|_| is_ours(Derived::Name)) {
            self.name = name;
        }
        if is_ours(Derived::Description) {
            self.description.clone_from(&package.description);
        }
        if is_ours(Derived::Icon) {
            self.icon.clone_from(&package.icon);
        }
        if is_ours(Derived::ConfigSchema) {
            self.config_schema = package.config_schema.clone();
        }
        if is_ours(Derived::Capabilities) {
            self.capabilities = package.capabilities.clone();
        }
        if is_ours(Derived::Metrics) {
            self.metrics = package.metrics.clone();
        }
        if is_ours(Derived::PublicJobs) {
            self.public_jobs = package.public_jobs.clone();
        }
    }
}
