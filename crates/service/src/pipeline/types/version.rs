//! The code of an app: what it consists of, what was found in it, and the versions before.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{App, Derived, Files};
use crate::clock::Time;
use crate::error::{Error, Result};

/// So many versions of an app are kept, the current one included.
pub(in super::super) const KEPT: i64 = 10;

/// What the files of an app may have in sum, and what is run of them, each as it is kept: as JSON.
const MAX_BYTES: usize = 8 << 20;

/// What a script for browsers may have, compiled: JSX becomes several times as long, and anybody can ask for it.
const MAX_SCRIPT_BYTES: usize = 1 << 20;

/// How long the parts of a version are, as they are kept.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct KeptBytes {
    pub(in super::super) files: usize,
    pub(in super::super) code: usize,
}

impl KeptBytes {
    /// Whoever adds a file to those that are there adds to all of them.
    pub(in super::super) fn check(self) -> Result<()> {
        let most = MAX_BYTES >> 20;
        let detail = if self.files > MAX_BYTES {
            format!("the files of an app can have at most {most} MiB in total, as JSON")
        } else if self.code > MAX_BYTES {
            format!("the compiled code of an app can have at most {most} MiB in total, as JSON")
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
    pub metadata: AppMetadata,
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
pub struct AppMetadata {
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
pub(in super::super) struct Manifest {
    pub(in super::super) config_schema: Value,
    pub(in super::super) capabilities: Value,
    pub(in super::super) metrics: Value,
    pub(in super::super) public_jobs: Value,
    #[serde(default)]
    pub(in super::super) hosts: Option<Vec<String>>,
    pub(in super::super) overrides: Vec<Derived>,
}

impl Manifest {
    pub(in super::super) fn of(app: &App) -> Self {
        Self {
            config_schema: app.config_schema.clone(),
            capabilities: app.capabilities.clone(),
            metrics: app.metrics.clone(),
            public_jobs: app.public_jobs.clone(),
            hosts: app.hosts.clone(),
            overrides: app.overrides.iter().copied().filter(|field| field.is_run()).collect(),
        }
    }

    /// Whether it tells those who run the code the same.
    pub(in super::super) fn runs_like(&self, other: &Self) -> bool {
        let overrides = self.overrides.clone();
        *self
            == Self {
                overrides,
                ..other.clone()
            }
    }
}

impl From<AppMetadata> for Manifest {
    fn from(metadata: AppMetadata) -> Self {
        Self {
            config_schema: metadata.config_schema,
            capabilities: metadata.capabilities,
            metrics: metadata.metrics,
            public_jobs: metadata.public_jobs,
            hosts: metadata.hosts,
            overrides: Vec::new(),
        }
    }
}

/// One state of an app's code, to be compared with another.
#[derive(Debug, Clone)]
pub struct Version {
    pub tag: Option<String>,
    pub files: Files,
    pub metadata: AppMetadata,
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

/// A part of an app that runs in browsers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Script {
    /// For pages of the team's own sites.
    Site,
    /// For pages that show the app itself.
    Frontend,
}

impl Script {
    /// What [`AppMetadata`] calls it.
    pub(in super::super) const fn name(self) -> &'static str {
        match self {
            Self::Site => "site",
            Self::Frontend => "frontend",
        }
    }

    /// Whether it is not too long, compiled.
    pub(in super::super) fn check(self, compiled: &str) -> Result<()> {
        if compiled.len() <= MAX_SCRIPT_BYTES {
            return Ok(());
        }
        let (field, file) = match self {
            Self::Site => ("source__site.ts", "site.ts"),
            Self::Frontend => ("source__frontend.tsx", "frontend.tsx"),
        };
        let detail = format!("the compiled {file} can have at most {} MiB", MAX_SCRIPT_BYTES >> 20);
        Err(Error::invalid(field, "max_length", detail))
    }
}
