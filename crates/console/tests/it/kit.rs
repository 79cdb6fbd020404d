//! A service on a fresh database, its pages behind the real middleware, and a browser that keeps cookies.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use auth::encryption::Encryptor;
use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request};
use http_body_util::BodyExt;
use identity::{Identity, IdentityDeps, Providers};
use outbound::{Dialer, Dns, Http, Policy, Roots};
use service::access::{Actor, Caller, ChangeDomains, ChangeOrganization, WriteInvites};
use service::credentials::Credential;
use service::domains::{DnsLookup, DomainPatch, NewDomain};
use service::invites::NewInvite;
use service::operators::{NewOperator, Operator};
use service::organizations::{NewOrganization, OrganizationPatch, OrganizationRef};
use service::sign_in::SignIn;
use service::sso::Sso;
use service::users::{NewUser, User};
use service::{Clock, DomainId, Email, Instance, Level, Name, OrganizationId, RandomSource, Service, TeamId, Time};
use tempfile::TempDir;
use testkit::databases::{Backend, Database};
use tower::ServiceExt;

pub(crate) const PASSWORD: &str = "correct horse battery";
pub(crate) const CERTIFICATE: &str = include_str!("../../../auth/tests/fixtures/saml/rsa.crt");

pub(crate) struct Kit {
    pub(crate) service: Service,
    pub(crate) exports: exports::Exports,
    pub(crate) app: Router,
    pub(crate) organization: OrganizationId,
    pub(crate) database: Database,
    folder: TempDir,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) html: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().expect("a header is text"))
    }

    /// Where the browser is sent to.
    pub(crate) fn place(&self) -> (u16, &str) {
        (self.status, self.header("location"))
    }

    pub(crate) fn says(&self, text: &str) -> bool {
        self.html.contains(text)
    }

    pub(crate) fn h1(&self) -> &str {
        between(&self.html, "<h1>", "</h1>").unwrap_or_default()
    }

    /// What the page says to type into a shell.
    pub(crate) fn commands(&self) -> Vec<String> {
        let shown = self.html.split("<pre id=\"curl-").skip(1);
        let inner = shown.map(|rest| between(rest, ">", "</pre>").expect("a command ends"));
        inner.map(unescaped).collect()
    }
}

/// The text between two others.
pub(crate) fn between<'a>(text: &'a str, start: &str, end: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(start)?;
    rest.split_once(end).map(|(inner, _)| inner)
}

/// As a browser shows it.
pub(crate) fn unescaped(html: &str) -> String {
    let signs = [
        ("&#60;", "<"),
        ("&#62;", ">"),
        ("&#34;", "\""),
        ("&#39;", "'"),
        ("&#38;", "&"),
    ];
    let whole = html.to_owned();
    signs.iter().fold(whole, |text, (code, sign)| text.replace(code, sign))
}

impl Kit {
    pub(crate) async fn new() -> Self {
        let now: Time = "2026-11-15T09:30:00Z".parse().expect("a time");
        Self::starting_at(Clock::manual(now), "http://127.0.0.1:8000").await
    }

    pub(crate) async fn starting_at(clock: Clock, site_url: &str) -> Self {
        Self::reaching(deps(&[]), clock, site_url, api::Settings::default()).await
    }

    /// One where everybody may ask so often.
    pub(crate) async fn limited_to(rate: &str) -> Self {
        let settings = api::Settings {
            rate_limit: Some(rate.parse().expect("a rate")),
            ..api::Settings::default()
        };
        let now: Time = "2026-11-15T09:30:00Z".parse().expect("a time");
        Self::reaching(deps(&[]), Clock::manual(now), "http://127.0.0.1:8000", settings).await
    }

    /// One that asks this name server.
    pub(crate) async fn asking(server: SocketAddr) -> Self {
        let now: Time = "2026-11-15T09:30:00Z".parse().expect("a time");
        let settings = api::Settings::default();
        Self::reaching(deps(&[server]), Clock::manual(now), "http://127.0.0.1:8000", settings).await
    }

    async fn reaching(deps: IdentityDeps, clock: Clock, site_url: &str, settings: api::Settings) -> Self {
        let folder = TempDir::with_prefix("hedgerow-").expect("a folder for events and apps");
        let database = Database::migrated(Backend::Sqlite).await;
        let store = database.open().await;
        let encryptor = Encryptor::new(["a secret that is long enough to encrypt with"]).expect("a key");
        let instance = Instance {
            site_url: site_url.to_owned(),
            providers: vec![Sso::GitHub],
            ..Instance::plain(encryptor)
        };
        let service = Service::new(store, clock, RandomSource::System, instance);
        let owner = person(&service, "olga@example.com", "Olga", "Owner").await;
        let new = NewOrganization {
            name: Name::new("Acme").expect("a name"),
            is_member_join_email_enabled: None,
            enforce_2fa: None,
        };
        let made = service.create_organization_for(&Actor::system(), &new, &owner).await;
        let organization = made.expect("an organization is made").organization.id;
        let identity = Identity::new(service.clone(), deps);
        let exports = exports(&service, folder.path());
        let apps = testkit::kit::running(&service, &store_of(folder.path()), folder.path().join("apps"));
        let pages = console::router(identity.clone(), exports.clone(), apps.clone());
        let app = api::router(identity, exports.clone(), apps, settings, Some(pages));
        Self {
            service,
            exports,
            app,
            organization,
            database,
            folder,
        }
    }

    pub(crate) async fn person(&self, email: &str) -> User {
        person(&self.service, email, "Some", "One").await
    }

    /// A page below the organization.
    pub(crate) fn at(&self, below: &str) -> String {
        format!("/organizations/{}/{below}", self.organization)
    }

    /// The folder of the server that apps may come from.
    pub(crate) fn local_apps(&self) -> PathBuf {
        self.folder.path().join("apps")
    }

    pub(crate) async fn make_operator(&self, email: &str) {
        let new = NewOperator {
            email: email.to_owned(),
        };
        let added = self.service.add_operator(&Operator::of_the_machine(), &new).await;
        added.expect("an operator is added");
    }

    /// Somebody who belongs to the organization.
    pub(crate) async fn member(&self, email: &str, level: Level) -> User {
        let user = self.person(email).await;
        let added = self
            .service
            .add_member(&Actor::system(), self.organization, &user, level)
            .await;
        added.expect("a member is added");
        user
    }

    pub(crate) async fn first_team(&self) -> TeamId {
        let team = self.service.first_team(self.organization).await;
        team.expect("teams are read").expect("there is always one").id
    }

    /// A browser of nobody.
    pub(crate) fn browser(&self) -> Browser<'_> {
        Browser {
            kit: self,
            cookies: BTreeMap::new(),
            site: "same-origin",
        }
    }

    /// A browser in which somebody has signed in with a password.
    pub(crate) async fn signed_in(&self, email: &str) -> Browser<'_> {
        let mut browser = self.browser();
        let answer = browser
            .post("/login/", &[("email", email), ("password", PASSWORD)])
            .await;
        assert_eq!(answer.place(), (303, "/"), "{answer:?}");
        browser
    }

    /// The owner, allowed to do what the type says.
    pub(crate) async fn owner_may<P: service::access::Permission>(&self) -> Caller<P> {
        let opened = self
            .service
            .sign_in("olga@example.com", PASSWORD, service::access::Request::default());
        let SignIn::Done { session, .. } = opened.await.expect("the owner signs in") else {
            panic!("no second factor was set up")
        };
        let organization = Some(OrganizationRef::Id(self.organization));
        let allowed = self.service.allowed(
            Credential::Session(&session),
            organization,
            service::access::Request::default(),
        );
        allowed.await.expect("the owner may do all")
    }

    /// From now on, members reach the organization with a second factor only.
    pub(crate) async fn ask_for_second_factor(&self) {
        let caller: Caller<ChangeOrganization> = self.owner_may().await;
        let patch = OrganizationPatch {
            name: None,
            is_member_join_email_enabled: None,
            enforce_2fa: Some(true),
        };
        let changed = self
            .service
            .update_organization(&caller, &patch, &service::no_precondition)
            .await;
        changed.expect("the owner may");
    }

    /// An invite's secret.
    pub(crate) async fn invite(&self, email: &str) -> String {
        let new = NewInvite {
            target_email: email.to_owned(),
            first_name: Some("Ann".to_owned()),
            level: Some(Level::Admin),
            message: None,
            send_email: None,
        };
        let caller: Caller<WriteInvites> = self.owner_may().await;
        let mut fresh = self
            .service
            .create_invites(&caller, &[new])
            .await
            .expect("an invite is made");
        fresh.remove(0).token
    }

    /// A verified domain whose addresses sign in with SAML.
    pub(crate) async fn domain(&self, name: &str, enforcement: &str) -> DomainId {
        self.domain_at("https://idp.example.net/sso", name, enforcement).await
    }

    /// The same, with an identity provider at this address.
    pub(crate) async fn domain_at(&self, sign_in_url: &str, name: &str, enforcement: &str) -> DomainId {
        let caller: Caller<ChangeDomains> = self.owner_may().await;
        let settings = DomainPatch {
            saml_entity_id: Some("https://idp.example.net/".to_owned()),
            saml_acs_url: Some(sign_in_url.to_owned()),
            saml_x509_cert: Some(CERTIFICATE.to_owned()),
            jit_provisioning_enabled: Some(true),
            sso_enforcement: Some(enforcement.to_owned()),
            ..DomainPatch::default()
        };
        let new = NewDomain {
            domain: name.to_owned(),
            settings,
        };
        let domain = self
            .service
            .create_domain(&caller, &new)
            .await
            .expect("a domain is added");
        let seen = DnsLookup::Texts(vec![domain.verification_challenge.clone()]);
        let settled = self
            .service
            .settle_domain(&Actor::system(), self.organization, domain.id, &seen)
            .await;
        assert!(settled.expect("the domain is looked at").is_verified());
        domain.id
    }
}

async fn person(service: &Service, email: &str, first_name: &str, last_name: &str) -> User {
    let new = NewUser {
        email: Email::new(email).expect("an address"),
        first_name: first_name.to_owned(),
        last_name: last_name.to_owned(),
        password: Some(PASSWORD.to_owned()),
        is_email_verified: false,
    };
    service
        .create_user(&Actor::system(), &new)
        .await
        .expect("a user is made")
}

/// Without a name server, nobody is asked.
fn deps(servers: &[SocketAddr]) -> IdentityDeps {
    let http = Http::new(Dialer::new(Policy::default()), &Roots::public());
    IdentityDeps {
        http: http.expect("a client"),
        dns: Dns::new(servers).expect("a resolver"),
        mailer: None,
        providers: Providers::default(),
    }
}

/// Keeps cookies, and sends what browsers send.
pub(crate) struct Browser<'a> {
    kit: &'a Kit,
    pub(crate) cookies: BTreeMap<String, String>,
    /// Whose page sends it, as browsers say it.
    pub(crate) site: &'static str,
}

impl Browser<'_> {
    pub(crate) async fn get(&mut self, path: &str) -> Answer {
        self.send("GET", path, String::new()).await
    }

    pub(crate) async fn post(&mut self, path: &str, form: &[(&str, &str)]) -> Answer {
        let mut body = url::form_urlencoded::Serializer::new(String::new());
        self.send("POST", path, body.extend_pairs(form).finish()).await
    }

    async fn send(&mut self, method: &str, path: &str, body: String) -> Answer {
        let cookies: Vec<String> = self
            .cookies
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "hedgerow.test")
            .header("sec-fetch-site", self.site)
            .header(
                "user-agent",
                "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0",
            )
            .header("content-type", "application/x-www-form-urlencoded")
            .header("cookie", cookies.join("; "))
            .body(Body::from(body));
        let sent = self.kit.app.clone().oneshot(request.expect("a request")).await;
        let (parts, body) = sent.expect("the app always answers").into_parts();
        for cookie in parts.headers.get_all("set-cookie") {
            self.keep(cookie.to_str().expect("a cookie is text"));
        }
        let bytes = body.collect().await.expect("the answer is whole").to_bytes();
        Answer {
            status: parts.status.as_u16(),
            headers: parts.headers,
            html: String::from_utf8(bytes.to_vec()).expect("pages are text"),
        }
    }

    fn keep(&mut self, cookie: &str) {
        let (pair, rest) = cookie.split_once(';').expect("a cookie has attributes");
        assert!(rest.contains("Secure") && rest.contains("HttpOnly"), "{cookie}");
        let (name, value) = pair.split_once('=').expect("a cookie has a value");
        if rest.contains("Max-Age=0") {
            self.cookies.remove(name);
        } else {
            self.cookies.insert(name.to_owned(), value.to_owned());
        }
    }
}

/// Exports that nobody carries out, unless a test does.
fn exports(service: &Service, folder: &std::path::Path) -> exports::Exports {
    exports::Exports::new(service.clone(), store_of(folder), testkit::kit::exports_deps(), 0)
}

fn store_of(folder: &std::path::Path) -> events::Events {
    let store = events::sqlite::Embedded::open(&folder.join("events.sqlite")).expect("a store of events");
    events::Events::Embedded(store)
}
