//! What the tests share: a kit at the time of the external services, domains, and what is left behind by a sign-in.

use std::fmt::Debug;
use std::sync::LazyLock;

use identity::{IdentityDeps, LoginRequest, cookies};
use serde_json::{Value, json};
use service::access::{Actor, Request};
use service::domains::DnsLookup;
use service::{Clock, DomainId, Email, Error, Instance, OrganizationId};
use testkit::databases::Backend;
use testkit::external::Person;
use testkit::kit::{Person as Somebody, Surroundings, deps, instance, with_json};
use testkit::{Kit, Reply};

/// A domain of Acme, where the kit's own people have their addresses.
pub(crate) const OURS: &str = "example.com";
/// A domain of the other organization.
pub(crate) const THEIRS: &str = "example.org";
/// The secret of a browser, as its cookie holds it.
pub(crate) const BROWSER: &str = "the secret of one browser";

/// A kit whose clock shows what the clocks of external services show, until a test moves it.
pub(crate) async fn kit(backend: Backend) -> Kit {
    kit_of(backend, instance(), deps()).await
}

pub(crate) async fn kit_of(backend: Backend, instance: Instance, deps: IdentityDeps) -> Kit {
    let surroundings = Surroundings {
        start: Clock::System.now(),
        instance,
        deps,
    };
    Kit::of(backend, api::Settings::default(), surroundings).await
}

/// Keys and certificates of an external service that was just started are not valid before it was.
pub(crate) fn catch_up(kit: &Kit) {
    let clock = kit.service.clock();
    clock.advance(Clock::System.now() - clock.now());
}

pub(crate) fn zoe() -> Person {
    Person::new("zoe@example.com", "Zoë", "O'Neill & Sons")
}

/// Somebody whom the provider knows by something else than their address.
pub(crate) fn known_as(subject: &str, email: &str) -> Person {
    Person {
        id: subject.to_owned(),
        ..Person::new(email, "Some", "Body")
    }
}

/// A domain, and the organization that added it.
#[derive(Debug, Clone)]
pub(crate) struct Added {
    pub(crate) id: DomainId,
    pub(crate) organization: OrganizationId,
    pub(crate) key: String,
    pub(crate) challenge: String,
    pub(crate) record: String,
    pub(crate) entity_id: String,
    pub(crate) acs: String,
}

impl Added {
    /// The address of the domain, or of something below it.
    pub(crate) fn at(&self, rest: &str) -> String {
        format!("/api/organizations/{}/domains/{}/{rest}", self.organization, self.id)
    }
}

/// Adds a domain to Acme.
pub(crate) async fn add(kit: &Kit, name: &str) -> Added {
    add_to(kit, kit.organization, &kit.owner, name).await
}

/// Adds a domain to the other organization.
pub(crate) async fn add_elsewhere(kit: &Kit, name: &str) -> Added {
    add_to(kit, kit.other, &kit.outsider, name).await
}

async fn add_to(kit: &Kit, organization: OrganizationId, owner: &Somebody, name: &str) -> Added {
    let path = format!("/api/organizations/{organization}/domains/");
    let reply = kit.post(&owner.key, &path, json!({ "domain": name })).await;
    assert_eq!(reply.status, 201, "{reply:?}");
    Added {
        id: serde_json::from_value(reply.body["id"].clone()).unwrap(),
        organization,
        key: owner.key.clone(),
        challenge: reply.text("/verification_challenge").to_owned(),
        record: reply.text("/verification_record").to_owned(),
        entity_id: reply.text("/saml_sp_entity_id").to_owned(),
        acs: reply.text("/saml_sp_acs_url").to_owned(),
    }
}

/// As if the record had been seen.
pub(crate) async fn prove(kit: &Kit, domain: &Added) {
    let seen = DnsLookup::Texts(vec![domain.challenge.clone()]);
    let settled = kit
        .service
        .settle_domain(&Actor::system(), domain.organization, domain.id, &seen)
        .await;
    assert!(settled.unwrap().is_verified());
}

pub(crate) async fn change(kit: &Kit, domain: &Added, patch: Value) -> Reply {
    let reply = kit.patch(&domain.key, &domain.at(""), patch).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    reply
}

/// The code of the rule that was broken.
pub(crate) fn rule<T: Debug>(result: Result<T, Error>) -> &'static str {
    match result {
        Err(Error::Invalid(problems)) => problems[0].code,
        other => panic!("this should have been refused: {other:?}"),
    }
}

/// What sign-ins leave behind: users, sessions, memberships, links.
pub(crate) async fn traces(kit: &Kit) -> [i64; 4] {
    [
        kit.database.column("SELECT count(*) FROM app_user").await[0],
        kit.database.column("SELECT count(*) FROM session").await[0],
        kit.database.column("SELECT count(*) FROM member").await[0],
        kit.database.column("SELECT count(*) FROM user_identity").await[0],
    ]
}

/// The rules of the last attempts, newest first; an empty one is somebody who got in.
pub(crate) async fn attempts(kit: &Kit, domain: &Added) -> Vec<String> {
    let reply = kit.get(&domain.key, &domain.at("attempts/")).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let results = reply.body["results"].as_array().unwrap();
    results
        .iter()
        .map(|attempt| attempt["rule"].as_str().unwrap_or_default().to_owned())
        .collect()
}

/// The kinds of the last entries in the organization's log, newest first.
pub(crate) async fn activities(kit: &Kit, domain: &Added) -> Vec<String> {
    let path = format!("/api/organizations/{}/activity/", domain.organization);
    let reply = kit.get(&domain.key, &path).await;
    let results = reply.body["results"].as_array().unwrap();
    let activities = results.iter().map(|entry| entry["activity"].as_str().unwrap());
    activities.map(str::to_owned).collect()
}

/// Makes sure that a sign-in was refused by this rule, that administrators can see it, and that nothing came of it.
pub(crate) async fn expect_refused<T: Debug>(
    kit: &Kit,
    domain: &Added,
    wanted: &str,
    sign_in: impl Future<Output = Result<T, Error>>,
) {
    // Two entries of one moment have no order.
    kit.service.clock().advance(chrono::TimeDelta::milliseconds(1));
    let before = traces(kit).await;
    assert_eq!(rule(sign_in.await), wanted);
    assert_eq!(traces(kit).await, before, "{wanted}");
    assert_eq!(attempts(kit, domain).await[0], wanted);
    // What anybody can bring about is not kept for good.
    let is_kept = activities(kit, domain).await[0] == "sign_in_refused";
    assert_eq!(is_kept, is_from_idp(kit).await, "{wanted}");
}

/// Whether the last attempt came with the provider's valid word.
async fn is_from_idp(kit: &Kit) -> bool {
    let sql = "SELECT CASE WHEN is_from_idp THEN 1 ELSE 0 END FROM sso_attempt ORDER BY id DESC LIMIT 1";
    kit.database.column::<i32>(sql).await[0] == 1
}

/// What a browser with this session sees.
pub(crate) async fn get_as(kit: &Kit, session: &str, path: &str) -> Reply {
    kit.send(browser("GET", path, session).body(String::new().into()).unwrap())
        .await
}

pub(crate) async fn post_as(kit: &Kit, session: &str, path: &str, body: Value) -> Reply {
    kit.send(with_json(browser("POST", path, session), &body)).await
}

fn browser(method: &str, path: &str, session: &str) -> axum::http::request::Builder {
    axum::http::Request::builder()
        .method(method)
        .uri(path)
        .header("host", "hedgerow.test")
        .header("cookie", format!("{}={session}", cookies::SESSION))
}

pub(crate) fn request() -> Request {
    Request {
        id: "one-request".into(),
        ..Request::default()
    }
}

/// The level of a member of Acme, if the address is one's.
pub(crate) async fn level(kit: &Kit, email: &str) -> Option<i64> {
    let reply = kit
        .get(&kit.admin.key, &kit.at(&format!("members/?email={email}")))
        .await;
    reply.body["results"][0]["level"].as_i64()
}

/// A key of whoever has signed in: the ones from before the first proof of their address are gone.
pub(crate) async fn fresh_key(kit: &Kit, session: &str) -> String {
    let new = json!({ "label": "mine", "scopes": ["*"] });
    let reply = post_as(kit, session, "/api/personal_api_keys/", new).await;
    reply.text("/value").to_owned()
}

pub(crate) async fn set_password(kit: &Kit, email: &str, password: &str) {
    let email = service::Email::new(email).unwrap();
    let set = kit.service.set_password(&Actor::system(), &email, password).await;
    set.unwrap();
}

/// The browser of this person sets out. An owner is signed in already: otherwise nobody may vouch for them.
pub(crate) async fn login_request_as<'a>(kit: &Kit, email: &str, next: &'a str) -> LoginRequest<'a> {
    let email = Email::new(email).unwrap();
    let signed_in_as = match level(kit, email.as_str()).await {
        Some(15) => Some(kit.own_proof(&kit.service.user_by_email(&email).await.unwrap()).await),
        _ => None,
    };
    LoginRequest {
        signed_in_as,
        ..login_request(next)
    }
}

/// A browser that nobody is signed in with sets out.
pub(crate) fn login_request(next: &str) -> LoginRequest<'_> {
    static REQUEST: LazyLock<Request> = LazyLock::new(Request::default);
    LoginRequest {
        next,
        browser: BROWSER,
        signed_in_as: None,
        request: &REQUEST,
    }
}
