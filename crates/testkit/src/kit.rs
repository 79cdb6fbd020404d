//! An organization with people of each level, an outsider with another, and a client without a port.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use apps::{Apps, Catalog, Sources};
use auth::encryption::Encryptor;
use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request};
use events::Events;
use events::sqlite::Embedded;
use exports::Exports;
use http_body_util::BodyExt;
use identity::{Identity, IdentityDeps, Providers};
use outbound::{Dialer, Dns, Http, Policy, Roots};
use sandbox::{Limits, Program, Sandbox};
use serde_json::Value;
use service::access::Actor;
use service::keys::{Label, NewKey};
use service::mail::EmailMessage;
use service::operators::{NewOperator, Operator};
use service::organizations::NewOrganization;
use service::sessions::SignedIn;
use service::users::{NewUser, User};
use service::{Clock, Email, Instance, Level, Name, OrganizationId, RandomSource, Scope, Service, TeamId, Time};
use tower::ServiceExt;

use crate::databases::{Backend, Database};
use crate::external::Folder;

/// When tests happen.
pub const NOW: &str = "2026-11-15T09:30:00Z";

pub struct Kit {
    pub service: Service,
    pub identity: Identity,
    pub organization: OrganizationId,
    pub team: TeamId,
    pub owner: Person,
    pub admin: Person,
    pub member: Person,
    /// Owns another organization and knows nothing of the first.
    pub outsider: Person,
    pub other: OrganizationId,
    pub other_team: TeamId,
    pub app: Router,
    pub events: Events,
    pub exports: Exports,
    pub apps: Apps,
    pub database: Database,
    folder: Folder,
}

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

/// Somebody with a key for everything.
#[derive(Debug, Clone)]
pub struct Person {
    pub user: User,
    pub key: String,
}

#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Value,
}

impl Reply {
    pub fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().expect("a header is text"))
    }

    /// The body's text at a place such as `/results/0/id`.
    pub fn text(&self, pointer: &str) -> &str {
        self.body
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_else(|| panic!("no text at {pointer}: {self:?}"))
    }

    pub fn code(&self) -> (u16, &str) {
        (self.status, self.body["code"].as_str().unwrap_or_default())
    }
}

impl Kit {
    pub async fn new(backend: Backend) -> Self {
        Self::with(backend, api::Settings::default()).await
    }

    pub async fn with(backend: Backend, settings: api::Settings) -> Self {
        Self::of(backend, settings, Surroundings::default()).await
    }

    pub async fn of(backend: Backend, settings: api::Settings, surroundings: Surroundings) -> Self {
        let Surroundings { start, instance, deps } = surroundings;
        let database = Database::migrated(backend).await;
        let service = Service::new(
            database.open().await,
            Clock::manual(start),
            RandomSource::System,
            instance,
        );
        let owner = person(&service, "olga@example.com", "Olga", "Owner").await;
        let admin = person(&service, "adam@example.com", "Adam", "Admin").await;
        let member = person(&service, "mia@example.com", "Mia", "Member").await;
        let outsider = person(&service, "otto@elsewhere.example", "Otto", "Outsider").await;
        let (organization, team) = organization_of(&service, "Acme", &owner).await;
        let (other, other_team) = organization_of(&service, "Elsewhere", &outsider).await;
        for (person, level) in [(&admin, Level::Admin), (&member, Level::Member)] {
            let added = service
                .add_member(&Actor::system(), organization, &person.user, level)
                .await;
            added.expect("a member is added");
        }
        let identity = Identity::new(service.clone(), deps);
        let folder = Folder::new();
        let events = Events::Embedded(Embedded::open(&folder.join("events.sqlite")).expect("a store of events"));
        let exports = exporting(&service, &events, &folder);
        let apps = running(&service, &events, folder.join("apps"));
        let app = api::router(identity.clone(), exports.clone(), apps.clone(), settings, None);
        Self {
            service,
            identity,
            organization,
            team,
            owner,
            admin,
            member,
            outsider,
            other,
            other_team,
            app,
            events,
            exports,
            apps,
            database,
            folder,
        }
    }

    /// The same people and things, on a server that was started again as this instance.
    pub async fn restarted(mut self, settings: api::Settings, instance: Instance) -> Self {
        let (store, clock) = (self.database.open().await, self.service.clock().clone());
        self.service = Service::new(store, clock, RandomSource::System, instance);
        self.identity = Identity::new(self.service.clone(), deps());
        self.exports = exporting(&self.service, &self.events, &self.folder);
        self.apps = running(&self.service, &self.events, self.local_apps());
        self.app = api::router(
            self.identity.clone(),
            self.exports.clone(),
            self.apps.clone(),
            settings,
            None,
        );
        self
    }

    /// The same with a mail server: what would be sent waits for [`Kit::emails`].
    pub async fn with_mail(self) -> Self {
        let instance = Instance {
            site_url: "https://hedgerow.test".to_owned(),
            sends_mail: true,
            ..instance()
        };
        self.restarted(api::Settings::default(), instance).await
    }

    /// Where the store of events keeps them.
    pub fn events_file(&self) -> PathBuf {
        self.folder.join("events.sqlite")
    }

    /// Where exports of the kind `File` write.
    pub fn export_root(&self) -> PathBuf {
        self.folder.join("exports")
    }

    /// Makes all runs that are due and carries them out, one after the other.
    pub async fn run_exports(&self) {
        while self.exports.schedule().await.expect("runs are made") | self.exports.step().await.expect("a run is done")
        {
        }
    }

    /// Where apps of the type `local` lie.
    pub fn local_apps(&self) -> PathBuf {
        self.folder.join("apps")
    }

    /// The same, with another place to take apps from.
    #[must_use]
    pub fn with_app_mirror(mut self, mirror: &str) -> Self {
        let mut deps = apps_deps(self.local_apps());
        deps.sources.mirror = Some(mirror.parse().expect("an address"));
        self.apps = Apps::new(self.service.clone(), self.events.clone(), deps);
        self.app = api::router(
            self.identity.clone(),
            self.exports.clone(),
            self.apps.clone(),
            api::Settings::default(),
            None,
        );
        self
    }

    /// The same on a server that may reach public addresses only, and to which every name is at a private one.
    #[must_use]
    pub fn behind_a_lying_name_server(mut self, asked: &RecordingResolver) -> Self {
        let dialer = Dialer::with_names(Policy::default(), Arc::new(asked.clone()));
        let http = Http::new(dialer.clone(), &Roots::public()).expect("a client");
        let theirs = exports::ExportsDeps {
            http: http.clone(),
            dialer,
            ..exports_deps()
        };
        let mut apps = apps_deps(self.local_apps());
        apps.sources = Sources::new(http.clone(), http.clone());
        apps.http = http.clone();
        self.identity = Identity::new(self.service.clone(), IdentityDeps { http, ..deps() });
        self.exports = Exports::new(self.service.clone(), self.events.clone(), theirs, 4);
        self.apps = Apps::new(self.service.clone(), self.events.clone(), apps);
        self.app = api::router(
            self.identity.clone(),
            self.exports.clone(),
            self.apps.clone(),
            api::Settings::default(),
            None,
        );
        self
    }

    /// Hands over everything that has come in, and does all that is due.
    pub async fn run_apps(&self) {
        while self.apps.step().await.expect("apps are run") {}
    }

    /// Takes all letters that wait, as the mail server would: the recipient and what it says.
    pub async fn emails(&self) -> Vec<(String, EmailMessage)> {
        let mut emails = Vec::new();
        while let Some(mail) = self.service.next_mail().await.expect("the outbox opens") {
            self.service.mail_is_sent(&mail).await.expect("it is noted");
            emails.push((mail.to, mail.email));
        }
        emails
    }

    pub fn person(&self, level: Level) -> &Person {
        match level {
            Level::Owner => &self.owner,
            Level::Admin => &self.admin,
            Level::Member => &self.member,
        }
    }

    /// Another user with a key.
    pub async fn someone(&self, email: &str) -> Person {
        person(&self.service, email, "Some", "One").await
    }

    /// The same, and the address is known to be theirs.
    pub async fn proven(&self, email: &str) -> Person {
        let new = NewUser {
            is_email_verified: true,
            ..new_user(email, "Some", "One")
        };
        person_of(&self.service, new).await
    }

    /// Another member of the organization.
    pub async fn join(&self, email: &str, level: Level) -> Person {
        let person = self.someone(email).await;
        let added = self
            .service
            .add_member(&Actor::system(), self.organization, &person.user, level)
            .await;
        added.expect("a member is added");
        person
    }

    /// Makes somebody an operator of the instance.
    pub async fn make_operator(&self, person: &Person) {
        let email = person.user.email.clone();
        let machine = Operator::of_the_machine();
        let added = self.service.add_operator(&machine, &NewOperator { email }).await;
        added.expect("an operator is added");
    }

    /// Another key of somebody, for these scopes only.
    pub async fn key(&self, person: &Person, scopes: &[Scope]) -> String {
        let new = NewKey {
            scopes: scopes.to_vec(),
            ..everything()
        };
        self.key_like(person, new).await
    }

    pub async fn key_like(&self, person: &Person, new: NewKey) -> String {
        let fresh = self
            .service
            .create_key(&SignedIn::on_behalf_of(&person.user), &new)
            .await;
        fresh.expect("a key is made").secret
    }

    /// The address of something below the organization; of the organization itself when empty.
    pub fn at(&self, rest: &str) -> String {
        format!("/api/organizations/{}/{rest}", self.organization)
    }

    /// The same below the other organization, which the outsider owns.
    pub fn at_other(&self, rest: &str) -> String {
        format!("/api/organizations/{}/{rest}", self.other)
    }

    pub async fn get(&self, key: &str, path: &str) -> Reply {
        self.send(bearer("GET", path, key).body(Body::empty()).expect("a request"))
            .await
    }

    pub async fn delete(&self, key: &str, path: &str) -> Reply {
        self.send(bearer("DELETE", path, key).body(Body::empty()).expect("a request"))
            .await
    }

    pub async fn post(&self, key: &str, path: &str, body: Value) -> Reply {
        self.send(with_json(bearer("POST", path, key), &body)).await
    }

    pub async fn patch(&self, key: &str, path: &str, body: Value) -> Reply {
        self.send(with_json(bearer("PATCH", path, key), &body)).await
    }

    pub async fn send(&self, mut request: Request<Body>) -> Reply {
        api::end_path_with_slash(&mut request);
        let response = self.app.clone().oneshot(request).await.expect("the app always answers");
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.expect("the answer is whole").to_bytes();
        let body = if bytes.is_empty() {
            Value::Null
        } else {
            serde_json::from_slice(&bytes).unwrap_or_default()
        };
        Reply {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body,
        }
    }
}

/// Exports that may write below the folder, and reach nothing but this machine.
fn exporting(service: &Service, events: &Events, folder: &Folder) -> Exports {
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

/// What most keys of tests are like.
pub fn everything() -> NewKey {
    NewKey {
        label: Label::new("Test key").expect("a label"),
        scopes: vec![Scope::Everything],
        scoped_organizations: None,
        scoped_teams: None,
        expires_at: None,
    }
}

pub fn bearer(method: &str, path: &str, key: &str) -> axum::http::request::Builder {
    Request::builder()
        .method(method)
        .uri(path)
        .header("host", "hedgerow.test")
        .header("authorization", format!("Bearer {key}"))
}

pub fn with_json(request: axum::http::request::Builder, body: &Value) -> Request<Body> {
    let request = request.header("content-type", "application/json");
    request.body(Body::from(body.to_string())).expect("a request")
}

async fn person(service: &Service, email: &str, first_name: &str, last_name: &str) -> Person {
    person_of(service, new_user(email, first_name, last_name)).await
}

fn new_user(email: &str, first_name: &str, last_name: &str) -> NewUser {
    NewUser {
        email: Email::new(email).expect("an address"),
        first_name: first_name.to_owned(),
        last_name: last_name.to_owned(),
        password: None,
        is_email_verified: false,
    }
}

async fn person_of(service: &Service, new: NewUser) -> Person {
    let user = service
        .create_user(&Actor::system(), &new)
        .await
        .expect("a user is made");
    let fresh = service
        .create_key(&SignedIn::on_behalf_of(&user), &everything())
        .await
        .expect("a key is made");
    Person {
        user,
        key: fresh.secret,
    }
}

/// An organization with a team.
pub async fn organization_of(service: &Service, name: &str, owner: &Person) -> (OrganizationId, TeamId) {
    let name = Name::new(name).expect("a name");
    let new = NewOrganization {
        name,
        is_member_join_email_enabled: None,
        enforce_2fa: None,
    };
    let seen = service
        .create_organization_for(&Actor::system(), &new, &owner.user)
        .await;
    let seen = seen.expect("an organization is made");
    (seen.organization.id, seen.teams[0].id)
}

/// Writes a test once and runs it on each database. What it takes is a [`Kit`], or anything made from a backend alone.
#[macro_export]
macro_rules! on_both {
    ($($(#[$attribute:meta])* async fn $name:ident($kit:ident: $type:ty) $body:block)+) => {$(
        mod $name {
            #[allow(clippy::wildcard_imports, unused_imports, reason = "a test sees what its file sees")]
            use super::*;

            async fn test($kit: $type) $body

            $(#[$attribute])*
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn sqlite() {
                test(<$type>::new($crate::databases::Backend::Sqlite).await).await;
            }

            $(#[$attribute])*
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn postgres() {
                test(<$type>::new($crate::databases::Backend::Postgres).await).await;
            }
        }
    )+};
}
