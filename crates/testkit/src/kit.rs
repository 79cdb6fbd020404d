//! An organization with people of each level, an outsider with another, and a client without a port.

mod client;
mod environment;
mod people;

use std::path::PathBuf;
use std::sync::Arc;

use apps::{Apps, Sources};
use axum::Router;
use events::Events;
use events::sqlite::Embedded;
use exports::Exports;
use identity::{Identity, IdentityDeps};
use outbound::{Dialer, Http, Policy, Roots};
use service::access::Actor;
use service::keys::NewKey;
use service::mail::EmailMessage;
use service::operators::{NewOperator, Operator};
use service::sessions::SignedIn;
use service::users::NewUser;
use service::{Clock, Instance, Level, OrganizationId, RandomSource, Scope, Service, TeamId};
use sqlx::{AssertSqlSafe, Connection, SqliteConnection};

pub use self::client::{Reply, bearer, with_json};
use self::environment::exporting;
pub use self::environment::{NOW, RecordingResolver, Surroundings, apps_deps, deps, exports_deps, instance, running};
pub use self::people::{Person, everything, organization_of};
use self::people::{new_user, person, person_of};
use crate::databases::{Backend, Database};
use crate::external::Folder;

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

    /// From now on the events of this team cannot be read.
    pub async fn damage_events(&self, team: TeamId) {
        let url = format!("sqlite:{}", self.events_file().display());
        let mut file = SqliteConnection::connect(&url).await.expect("the file opens");
        let sql = format!("ALTER TABLE event_{} RENAME COLUMN inserted_at TO damaged", team.0);
        let done = sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut file).await;
        done.expect("the table is changed");
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

    /// Takes all emails that wait, as the mail server would: the recipient and what it says.
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
