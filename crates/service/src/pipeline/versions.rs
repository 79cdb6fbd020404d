//! The code of an app: what it consists of, what was found in it, and the versions before.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{App, AppName, Derived, Files, empty_object};
use crate::clock::Time;
use crate::error::{Error, Result};

/// So many versions of an app are kept, the current one included.
pub(super) const KEPT: i64 = 10;

/// What the files of an app may have in sum, and what is run of them, each as it is kept: as JSON.
const MOST_BYTES: usize = 8 << 20;

/// How long the parts of a version are, as they are kept.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeptBytes {
    pub(super) files: usize,
    pub(super) code: usize,
}

impl KeptBytes {
    /// Whoever adds a file to those that are there adds to all of them.
    pub(super) fn check(self) -> Result<()> {
        let most = MOST_BYTES >> 20;
        let detail = if self.files > MOST_BYTES {
            format!("the files of an app can have at most {most} MB in total, as JSON")
        } else if self.code > MOST_BYTES {
            format!("the compiled code of an app can have at most {most} MB in total, as JSON")
        } else {
            return Ok(());
        };
        Err(Error::invalid("source", "max_length", detail))
    }
}

/// The same before anything is made of the files.
pub fn check_source(files: &Files) -> Result<()> {
    let files = serde_json::to_string(files).map_or(usize::MAX, |text| text.len());
    KeptBytes { files, code: 0 }.check()
}

/// What whoever read an app's code found in it. Each part is kept apart, and read by those who need it.
#[derive(Debug, Clone, PartialEq)]
pub struct Package {
    pub files: Files,
    /// Over all of them.
    pub sha256: String,
    /// As it is run. What is in it is between those who read and those who run code.
    pub code: Value,
    pub offers: Offers,
}

/// Where code that was fetched comes from.
#[derive(Debug, Clone, Default)]
pub struct Fetched {
    /// What it is called there.
    pub tag: Option<String>,
    /// The URL that the app has from now on, if it is another.
    pub url: Option<String>,
}

/// What an app says of itself, and what it has for browsers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Offers {
    pub name: Option<String>,
    pub description: String,
    pub icon: Option<String>,
    pub config_schema: Value,
    pub capabilities: Value,
    pub metrics: Value,
    pub public_jobs: Value,
    /// The hosts it reaches, and no others; none: it does not say.
    #[serde(default)]
    pub hosts: Option<Vec<String>>,
    /// For browsers, if it has a part for them.
    pub site: Option<String>,
    pub frontend: Option<String>,
}

/// What was said of a version's code when it became current: by the code itself, or by those who wrote otherwise. It never changes
/// while other organizations may run the version.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Manifest {
    pub(super) config_schema: Value,
    pub(super) capabilities: Value,
    pub(super) metrics: Value,
    pub(super) public_jobs: Value,
    #[serde(default)]
    pub(super) hosts: Option<Vec<String>>,
    pub(super) written: Vec<Derived>,
}

impl Manifest {
    pub(super) fn of(app: &App) -> Self {
        Self {
            config_schema: app.config_schema.clone(),
            capabilities: app.capabilities.clone(),
            metrics: app.metrics.clone(),
            public_jobs: app.public_jobs.clone(),
            hosts: app.hosts.clone(),
            written: app.written.iter().copied().filter(|field| field.is_run()).collect(),
        }
    }

    /// Whether it tells those who run the code the same.
    pub(super) fn runs_like(&self, other: &Self) -> bool {
        let written = self.written.clone();
        *self
            == Self {
                written,
                ..other.clone()
            }
    }
}

impl From<Offers> for Manifest {
    fn from(offers: Offers) -> Self {
        Self {
            config_schema: offers.config_schema,
            capabilities: offers.capabilities,
            metrics: offers.metrics,
            public_jobs: offers.public_jobs,
            hosts: offers.hosts,
            written: Vec::new(),
        }
    }
}

impl Derived {
    /// Whether it decides how the code is run, rather than how the app is shown.
    const fn is_run(self) -> bool {
        match self {
            Self::Name | Self::Description | Self::Icon => false,
            Self::ConfigSchema | Self::Capabilities | Self::Metrics | Self::PublicJobs => true,
        }
    }
}

/// One state of an app's code, to be compared with another.
#[derive(Debug, Clone)]
pub struct Version {
    pub tag: Option<String>,
    pub files: Files,
    pub offers: Offers,
}

/// A version without its code, which may be large.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct VersionName {
    pub number: i64,
    pub tag: Option<String>,
    /// Over all files; none if it was kept before there were checksums.
    pub sha256: Option<String>,
    pub created_at: Time,
}

/// The same with what is in it, by name.
#[derive(Debug, Clone)]
pub struct VersionSeen {
    pub name: VersionName,
    pub is_current: bool,
    pub files: Vec<String>,
    pub capabilities: Value,
}

/// What stands before the checksum in the URL of an app that is pinned.
const PIN: &str = "#sha256=";

impl App {
    /// Whether its URL names the only code that it may have.
    pub fn is_pinned(&self) -> bool {
        self.url.as_ref().is_some_and(|url| url.contains(PIN))
    }

    /// The URL of an app that is pinned says which code it has.
    pub(super) fn pin_to(&mut self, sha256: Option<&str>) -> Result<()> {
        let Some((address, _)) = self.url.as_ref().and_then(|url| url.split_once(PIN)) else {
            return Ok(());
        };
        let detail = "this app is pinned to a checksum, and that version has no stored checksum";
        let sha256 = sha256.ok_or_else(|| Error::refused("pinned", detail))?;
        self.url = Some(format!("{address}{PIN}{sha256}"));
        Ok(())
    }

    /// The same app with the code of another version, and what was said of it then.
    pub(super) fn at(mut self, version: i64, manifest: Option<Manifest>) -> Self {
        self.version = version;
        // Without code there is nothing to run.
        let manifest = manifest.unwrap_or_else(|| Manifest {
            config_schema: self.config_schema.clone(),
            capabilities: empty_object(),
            metrics: empty_object(),
            public_jobs: empty_object(),
            hosts: Some(Vec::new()),
            written: Vec::new(),
        });
        self.written.retain(|field| !field.is_run());
        self.written.extend(manifest.written);
        self.config_schema = manifest.config_schema;
        self.capabilities = manifest.capabilities;
        self.metrics = manifest.metrics;
        self.public_jobs = manifest.public_jobs;
        self.hosts = manifest.hosts;
        self
    }

    /// Takes over what the code says, where nobody wrote otherwise.
    pub(super) fn take_over(&mut self, offers: &Offers) {
        let is_ours = |field: Derived| !self.written.contains(&field);
        let named = offers.name.as_deref().and_then(|name| AppName::new(name).ok());
        if let Some(name) = named.filter(|_| is_ours(Derived::Name)) {
            self.name = name;
        }
        if is_ours(Derived::Description) {
            self.description.clone_from(&offers.description);
        }
        if is_ours(Derived::Icon) {
            self.icon.clone_from(&offers.icon);
        }
        if is_ours(Derived::ConfigSchema) {
            self.config_schema = offers.config_schema.clone();
        }
        if is_ours(Derived::Capabilities) {
            self.capabilities = offers.capabilities.clone();
        }
        if is_ours(Derived::Metrics) {
            self.metrics = offers.metrics.clone();
        }
        if is_ours(Derived::PublicJobs) {
            self.public_jobs = offers.public_jobs.clone();
        }
        self.hosts.clone_from(&offers.hosts);
    }
}
