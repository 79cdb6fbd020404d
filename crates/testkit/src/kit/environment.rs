//! When and where a kit is, and what it can reach: this machine alone.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use apps::{Apps, Catalog, Sources};
use auth::encryption::Encryptor;
use events::Events;
use exports::Exports;
use identity::{IdentityDeps, Providers};
use outbound::{Dialer, Dns, Http, Policy, Roots};
use sandbox::{Limits, Program, Sandbox};
use service::{Instance, Service, Time};

use crate::external::Folder;

/// When tests happen.
pub const NOW: &str = "2026-11-15T09:30:00Z";

/// When and where a kit is, and what it can reach.
pub struct Surroundings {
    pub start: Time,
    pub instance: Instance,
    pub deps: IdentityDeps,
}

impl Default for Surroundings {
    fn default() -> Self {
        Self {
            start: NOW.parse().expect("a time"),
            instance: instance(),
            deps: deps(),
        }
    }
}

/// Exports that may write below the folder, and reach nothing but this machine.
pub(super) fn exporting(service: &Service, events: &Events, folder: &Folder) -> Exports {
    let root = folder.join("exports");
    std::fs::create_dir_all(&root).expect("a folder for exports");
    let deps = exports::ExportsDeps {
        export_root: Some(root),
        ..exports_deps()
    };
    Exports::new(service.clone(), events.clone(), deps, 4)
}

/// Apps that run in real processes, and reach nothing but this machine.
pub fn running(service: &Service, events: &Events, local_apps: PathBuf) -> Apps {
    Apps::new(service.clone(), events.clone(), apps_deps(local_apps))
}

/// What these have of the outside.
pub fn apps_deps(local: PathBuf) -> apps::AppsDeps {
    std::fs::create_dir_all(&local).expect("a folder for apps");
    let http = exports_deps().http;
    let limits = Limits {
        load_time: Duration::from_secs(8),
        call_time: Duration::from_secs(3),
        ..Limits::default()
    };
    apps::AppsDeps {
        sandbox: Sandbox::new(Program::new(sandbox_program()), limits),
        sources: Sources {
            local_root: Some(local),
            ..Sources::new(http.clone(), http.clone())
        },
        catalog: Catalog::new(None, http.clone()),
        http,
        slots: 2,
    }
}

/// What cargo has built beside the tests: `target/debug/sandbox-child`.
fn sandbox_program() -> PathBuf {
    let tests = std::env::current_exe().expect("the test knows where it is");
    let folders = tests.ancestors().skip(1).take(2);
    let mut found = folders
        .map(|folder| folder.join("sandbox-child"))
        .filter(|file| file.exists());
    found.next().expect("cargo builds sandbox-child with the workspace")
}

/// What destinations may reach in tests: this machine. No name is looked up: nobody out there hears of tests.
pub fn exports_deps() -> exports::ExportsDeps {
    let loopback = ["127.0.0.0/8", "::1/128"].map(|network| network.parse().expect("a network"));
    let dialer = Dialer::with_names(Policy::new(loopback.to_vec()), Arc::new(NoNames));
    exports::ExportsDeps {
        http: Http::new(dialer.clone(), &Roots::public()).expect("a client"),
        dialer,
        roots: Roots::public(),
        export_root: None,
    }
}

/// A name server that gives the same private address for every name, and remembers what it was asked for.
#[derive(Debug, Clone, Default)]
pub struct RecordingResolver(Arc<std::sync::Mutex<Vec<String>>>);

impl RecordingResolver {
    /// What it says of every name.
    pub const ADDRESS: &str = "10.1.2.3";

    /// All names it was asked for since the last time.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().expect("nobody panics here"))
    }
}

#[async_trait::async_trait]
impl outbound::Resolve for RecordingResolver {
    async fn resolve(&self, name: &str) -> std::io::Result<Vec<std::net::IpAddr>> {
        self.0.lock().expect("nobody panics here").push(name.to_owned());
        Ok(vec![Self::ADDRESS.parse().expect("an address")])
    }
}

/// Knows no name.
struct NoNames;

#[async_trait::async_trait]
impl outbound::Resolve for NoNames {
    async fn resolve(&self, _: &str) -> std::io::Result<Vec<std::net::IpAddr>> {
        Err(std::io::Error::other("names are not looked up in tests"))
    }
}

/// An instance without mail.
pub fn instance() -> Instance {
    let encryptor = Encryptor::new(["a secret key for tests, long enough to be one"]).expect("a key");
    Instance::plain(encryptor)
}

/// Ways out that lead nowhere but to this machine.
pub fn deps() -> IdentityDeps {
    let loopback = ["127.0.0.0/8", "::1/128"].map(|network| network.parse().expect("a network"));
    let dialer = Dialer::new(Policy::new(loopback.to_vec()));
    IdentityDeps {
        http: Http::new(dialer, &Roots::public()).expect("a client"),
        // Nobody listens there.
        dns: Dns::new(&[([127, 0, 0, 1], 9).into()]).expect("a resolver"),
        mailer: None,
        providers: Providers::default(),
    }
}
