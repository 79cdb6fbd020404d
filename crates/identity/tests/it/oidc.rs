//! `OpenID` Connect, with a certified provider: as an organization's own, and as the whole instance's.

use identity::{CompletedLogin, IdentityDeps, Provider, Providers, Target};
use serde_json::json;
use service::access::Actor;
use service::sso::{Sso, VerifiedIdentity};
use service::{Error, Instance, Level, Result};
use testkit::databases::Backend;
use testkit::external::{OidcOptions, OidcProvider, Person, SamlIdp, SamlOptions};
use testkit::kit::{deps, instance};
use testkit::{Kit, on_both};
use tokio::task::JoinSet;
use url::Url;

use crate::scene::{
    Added, BROWSER, OURS, THEIRS, activities, add, add_elsewhere, attempts, catch_up, change, expect_refused,
    fresh_key, get_as, kit, kit_of, known_as, level, login_request, login_request_as, post_as, prove, request, rule,
    set_password, traces, zoe,
};

const PASSWORD: &str = "correct horse battery";

/// Acme with a proven domain and a provider, whose people join by signing in.
struct Scene {
    kit: Kit,
    domain: Added,
    provider: OidcProvider,
}

impl Scene {
    async fn new(backend: Backend) -> Self {
        let kit = kit(backend).await;
        let domain = add(&kit, OURS).await;
        prove(&kit, &domain).await;
        let provider = OidcProvider::start(&kit.service.instance().oidc_redirect_url(domain.id));
        connect(&kit, &domain, &provider).await;
        change(&kit, &domain, json!({ "jit_provisioning_enabled": true })).await;
        Self { kit, domain, provider }
    }

    fn target(&self) -> Target {
        Target::Domain(self.domain.id)
    }

    async fn back(&self, person: &Person) -> Back {
        back(&self.kit, &self.provider, self.target(), person).await
    }

    async fn sign_in(&self, person: &Person) -> Result<CompletedLogin> {
        finish(&self.kit, &self.back(person).await).await
    }

    async fn expect_refused(&self, rule: &str, person: &Person) {
        let back = self.back(person).await;
        expect_refused(&self.kit, &self.domain, rule, finish(&self.kit, &back)).await;
    }
}

async fn connect(kit: &Kit, domain: &Added, provider: &OidcProvider) {
    let settings = json!({
        "oidc_issuer": provider.issuer(), "oidc_client_id": provider.client_id(),
        "oidc_client_secret": provider.client_secret(),
    });
    let reply = change(kit, domain, settings).await;
    assert_eq!(reply.body["has_oidc"], true);
    assert!(!reply.body.to_string().contains(provider.client_secret()), "{reply:?}");
}

/// What the browser brings back from the provider.
#[derive(Debug)]
struct Back {
    target: Target,
    state: String,
    code: String,
    error: String,
}

impl Back {
    fn read(target: Target, address: &str) -> Self {
        let url = Url::parse(address).unwrap();
        let field = |wanted: &str| {
            let mut found = url.query_pairs().filter(|(name, _)| name == wanted);
            found.next().map(|(_, value)| value.into_owned()).unwrap_or_default()
        };
        Self {
            target,
            state: field("state"),
            code: field("code"),
            error: field("error"),
        }
    }
}

async fn back(kit: &Kit, provider: &OidcProvider, target: Target, person: &Person) -> Back {
    catch_up(kit);
    let login_request = login_request_as(kit, &person.email, "/members/").await;
    let url = kit.identity.start_oidc(target, &login_request).await.unwrap();
    Back::read(target, &provider.sign_in(&url, person))
}

async fn finish(kit: &Kit, back: &Back) -> Result<CompletedLogin> {
    Box::pin(
        kit.identity
            .finish_oidc(back.target, &back.state, &back.code, BROWSER, &request()),
    )
    .await
}

on_both! {
    async fn a_new_person_joins_and_is_known_again(scene: Scene) {
        let kit = &scene.kit;
        let before = traces(kit).await;
        let login = scene.sign_in(&zoe()).await.unwrap();
        assert_eq!(login.next, "/members/");
        assert_eq!((&*login.user.email, &*login.user.first_name), ("zoe@example.com", "Zoë"));
        assert_eq!(level(kit, "zoe@example.com").await, Some(1));
        assert_eq!(get_as(kit, &login.session, &kit.at("")).await.status, 200);
        let again = scene.sign_in(&zoe()).await.unwrap();
        assert_eq!(again.user.id, login.user.id);
        let [users, sessions, members, links] = before;
        assert_eq!(traces(kit).await, [users + 1, sessions + 2, members + 1, links + 1]);

        change(kit, &scene.domain, json!({ "jit_provisioning_enabled": false })).await;
        scene.expect_refused("jit_not_enabled", &Person::new("yan@example.com", "Yan", "Y")).await;
        let invite = json!({ "target_email": "yan@example.com", "level": 8 });
        assert_eq!(kit.post(&kit.owner.key, &kit.at("invites/"), invite).await.status, 201);
        scene.sign_in(&Person::new("yan@example.com", "Yan", "Y")).await.unwrap();
        assert_eq!(level(kit, "yan@example.com").await, Some(8));
    }

    async fn a_provider_cannot_vouch_for_what_is_not_its_organizations(scene: Scene) {
        let kit = &scene.kit;
        let theirs = add_elsewhere(kit, THEIRS).await;
        prove(kit, &theirs).await;
        for address in ["otto@example.org", "otto@elsewhere.example", "somebody@example.net"] {
            scene.expect_refused("email_domain_mismatch", &known_as("s", address)).await;
        }
        let person = kit.proven("yan@example.com").await;
        kit.service.add_member(&Actor::system(), kit.other, &person.user, Level::Admin).await.unwrap();
        scene.expect_refused("belongs_elsewhere", &known_as("y", "yan@example.com")).await;

        let person = kit.join("zoe@example.com", Level::Owner).await;
        kit.service.add_member(&Actor::system(), kit.other, &person.user, Level::Owner).await.unwrap();
        let session = scene.sign_in(&zoe()).await.unwrap().session;
        let path = format!("/api/organizations/{}/", kit.other);
        assert_eq!(get_as(kit, &session, &path).await.status, 404);
        let key = json!({ "label": "mine", "scopes": ["*"] });
        assert_eq!(post_as(kit, &session, "/api/personal_api_keys/", key).await.status, 403);
    }

    async fn the_subject_is_who_somebody_is_and_not_the_address(scene: Scene) {
        let first = scene.sign_in(&known_as("s-1", "zoe@example.com")).await.unwrap();
        let renamed = scene.sign_in(&known_as("s-1", "zoe.new@example.com")).await.unwrap();
        assert_eq!(renamed.user.id, first.user.id);
        scene.expect_refused("subject_mismatch", &known_as("s-2", "zoe@example.com")).await;

        let next = OidcProvider::start(&scene.kit.service.instance().oidc_redirect_url(scene.domain.id));
        connect(&scene.kit, &scene.domain, &next).await;
        let came = back(&scene.kit, &next, scene.target(), &known_as("s-1", "yan@example.com")).await;
        assert_eq!(finish(&scene.kit, &came).await.unwrap().user.email, "yan@example.com");
        let came = back(&scene.kit, &next, scene.target(), &known_as("s-2", "zoe@example.com")).await;
        assert_eq!(finish(&scene.kit, &came).await.unwrap().user.id, first.user.id);
    }

    async fn state_and_code_are_good_once_and_in_one_browser(scene: Scene) {
        let kit = &scene.kit;
        let before = traces(kit).await;
        let came = scene.back(&zoe()).await;
        let elsewhere = kit.identity.finish_oidc(came.target, &came.state, &came.code, "another browser", &request()).await;
        assert_eq!(rule(elsewhere), "unknown_state");
        let made_up = kit.identity.finish_oidc(came.target, "made-up", &came.code, BROWSER, &request()).await;
        assert_eq!(rule(made_up), "unknown_state");
        assert_eq!(traces(kit).await, before);
        finish(kit, &came).await.unwrap();
        assert_eq!(rule(finish(kit, &came).await), "unknown_state");
        // The old code under a new state.
        let other = scene.back(&zoe()).await;
        let mixed = Back { state: other.state, ..came };
        expect_refused(kit, &scene.domain, "invalid_grant", finish(kit, &mixed)).await;
        // One that took too long.
        let late = scene.back(&zoe()).await;
        kit.service.clock().advance(chrono::TimeDelta::minutes(16));
        assert_eq!(rule(finish(kit, &late).await), "unknown_state");
    }

    async fn what_one_provider_began_no_other_ends(scene: Scene) {
        let kit = &scene.kit;
        let theirs = add_elsewhere(kit, THEIRS).await;
        prove(kit, &theirs).await;
        // A hostile provider has the browser sign in at an honest one, in the hope of being brought its code.
        for target in [Target::Domain(theirs.id), Target::Instance(Sso::Google), Target::Instance(Sso::Oidc)] {
            let came = Back { target, ..scene.back(&zoe()).await };
            assert_eq!(rule(finish(kit, &came).await), "unknown_state");
        }
    }

    async fn a_request_of_saml_is_not_one_of_oidc(scene: Scene) {
        let (kit, domain) = (&scene.kit, &scene.domain);
        let idp = SamlIdp::start(SamlOptions::default());
        let settings = json!({
            "saml_entity_id": idp.entity_id(), "saml_acs_url": idp.sso_url(), "saml_x509_cert": idp.certificate_pem(),
        });
        change(kit, domain, settings).await;
        let came = scene.back(&zoe()).await;
        let begun = kit.identity.start_saml(domain.id, &login_request("/")).await.unwrap();
        let ids: Vec<String> = kit.database.column("SELECT id FROM sso_request WHERE method = 'saml'").await;
        let mixed = Back { state: ids[0].clone(), ..came };
        assert_eq!(rule(finish(kit, &mixed).await), "unknown_state");
        let response = idp.answer(begun.as_str(), &zoe()).response;
        let ended = kit.identity.finish_saml(domain.id, &response, Some(BROWSER), &request()).await;
        assert_eq!(rule(ended), "in_response_to_mismatch");
        // Nor the other way round.
        kit.identity.start_oidc(scene.target(), &login_request("/")).await.unwrap();
        let states: Vec<String> = kit.database.column("SELECT id FROM sso_request WHERE method = 'oidc'").await;
        let stored = kit.service.domain_for_sign_in(domain.id).await.unwrap();
        let us = stored.service_provider(kit.service.instance());
        let now = kit.service.clock().now();
        let url = auth::saml::sign_in_url(&us, &stored.identity_provider().unwrap(), &states[0], "", now).unwrap();
        let response = idp.answer(url.as_str(), &zoe()).response;
        let ended = kit.identity.finish_saml(domain.id, &response, Some(BROWSER), &request()).await;
        assert_eq!(rule(ended), "in_response_to_mismatch");
    }

    async fn whoever_changes_their_mind_leaves_a_note(scene: Scene) {
        let kit = &scene.kit;
        let url = kit.identity.start_oidc(scene.target(), &login_request("/")).await.unwrap();
        let came = Back::read(scene.target(), &scene.provider.cancel(&url));
        assert_eq!((&*came.error, &*came.code), ("access_denied", ""));
        let before = traces(kit).await;
        // Of another browser: nobody is told anything.
        kit.identity.note_oidc_error(&came.state, &came.error, "another browser", &request()).await.unwrap();
        assert!(attempts(kit, &scene.domain).await.is_empty());
        kit.identity.note_oidc_error(&came.state, &came.error, BROWSER, &request()).await.unwrap();
        kit.identity.note_oidc_error(&came.state, &came.error, BROWSER, &request()).await.unwrap();
        assert_eq!(attempts(kit, &scene.domain).await, ["provider_error"]);
        assert!(!activities(kit, &scene.domain).await.contains(&"sign_in_refused".to_owned()), "anybody can do that");
        assert_eq!(traces(kit).await, before);
    }

    async fn wrong_settings_are_refused_by_name(scene: Scene) {
        let (kit, domain) = (&scene.kit, &scene.domain);
        change(kit, domain, json!({ "oidc_client_secret": "not the secret" })).await;
        scene.expect_refused("invalid_client", &zoe()).await;
        for (issuer, rule_broken) in [
            (format!("{}/", scene.provider.issuer()), "wrong_issuer"),
            (scene.provider.issuer().replace("127.0.0.1", "localhost"), "wrong_issuer"),
            (format!("{}/nothing", scene.provider.issuer()), "discovery_failed"),
            ("http://127.0.0.1:9".to_owned(), "provider_unreachable"),
        ] {
            let settings = json!({ "oidc_issuer": issuer, "oidc_client_secret": scene.provider.client_secret() });
            change(kit, domain, settings).await;
            let begun = kit.identity.start_oidc(scene.target(), &login_request("/")).await;
            assert_eq!(rule(begun), rule_broken, "{issuer}");
        }
        // Whoever changes where the secret goes must know it.
        let reply = kit.patch(&domain.key, &domain.at(""), json!({ "oidc_issuer": "https://evil.example" })).await;
        assert_eq!(reply.code(), (400, "required"), "{reply:?}");
        change(kit, domain, json!({ "oidc_client_secret": "" })).await;
        let begun = kit.identity.start_oidc(scene.target(), &login_request("/")).await;
        assert!(matches!(begun, Err(Error::NotFound(_))), "{begun:?}");
    }

    async fn enforcement_accepts_it_and_refuses_a_password(scene: Scene) {
        let (kit, domain) = (&scene.kit, &scene.domain);
        set_password(kit, "adam@example.com", PASSWORD).await;
        let owner = scene.sign_in(&Person::new("olga@example.com", "Olga", "Owner")).await.unwrap();
        let key = fresh_key(kit, &owner.session).await;
        let reply = kit.patch(&key, &domain.at(""), json!({ "sso_enforcement": "oidc" })).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        let password = json!({ "email": "adam@example.com", "password": PASSWORD });
        let refused = kit.post("", "/api/login/", password).await;
        assert_eq!(refused.code().1, "sso_enforced", "{refused:?}");
        scene.sign_in(&Person::new("adam@example.com", "Adam", "Admin")).await.unwrap();
        let precheck = kit.post("", "/api/login/precheck/", json!({ "email": "x@example.com" })).await;
        assert_eq!(precheck.text("/sso_enforcement"), "oidc");
        // Keys keep working.
        assert_eq!(kit.get(&kit.member.key, &kit.at("")).await.status, 200);
    }

    async fn a_domain_that_is_not_proven_has_no_provider(scene: Scene) {
        let theirs = add_elsewhere(&scene.kit, THEIRS).await;
        connect(&scene.kit, &theirs, &scene.provider).await;
        let begun = scene.kit.identity.start_oidc(Target::Domain(theirs.id), &login_request("/")).await;
        assert!(matches!(begun, Err(Error::NotFound("domain"))), "{begun:?}");
    }
}

/// An instance that is registered at a provider as GitLab and as Google.
struct Shared {
    kit: Kit,
    provider: OidcProvider,
}

impl Shared {
    async fn new(backend: Backend) -> Self {
        Self::with(backend, true).await
    }

    async fn with(backend: Backend, are_emails_verified: bool) -> Self {
        let instance = Instance {
            providers: vec![Sso::Google, Sso::GitLab],
            ..instance()
        };
        let provider = OidcProvider::start_with(&OidcOptions {
            redirect_uri: [Sso::Google, Sso::GitLab]
                .map(|sso| instance.sso_redirect_url(sso))
                .join(" "),
            are_emails_verified,
        });
        let registered = Provider {
            client_id: provider.client_id().to_owned(),
            client_secret: provider.client_secret().into(),
            url: Some(provider.issuer().to_owned()),
        };
        let deps = IdentityDeps {
            providers: Providers {
                google: Some(registered.clone()),
                gitlab: Some(registered),
                github: None,
            },
            ..deps()
        };
        let kit = kit_of(backend, instance, deps).await;
        Self { kit, provider }
    }

    async fn sign_in(&self, sso: Sso, person: &Person) -> Result<CompletedLogin> {
        let came = back(&self.kit, &self.provider, Target::Instance(sso), person).await;
        finish(&self.kit, &came).await
    }

    /// Nothing came of it. Often there is no domain whose administrators could be told.
    async fn expect_refused(&self, wanted: &str, sso: Sso, person: &Person) {
        let came = back(&self.kit, &self.provider, Target::Instance(sso), person).await;
        let before = traces(&self.kit).await;
        assert_eq!(rule(finish(&self.kit, &came).await), wanted);
        assert_eq!(traces(&self.kit).await, before, "{wanted}");
    }
}

on_both! {
    async fn the_instances_providers_let_in_whoever_has_an_account(shared: Shared) {
        let kit = &shared.kit;
        for sso in [Sso::GitLab, Sso::Google] {
            let login = shared.sign_in(sso, &known_as("olga", "Olga@Example.com")).await.unwrap();
            assert_eq!(login.user.id, kit.owner.user.id);
            assert_eq!(get_as(kit, &login.session, &kit.at("")).await.status, 200);
            // Nobody's provider in particular: the session is not bound to an organization.
            fresh_key(kit, &login.session).await;
            shared.expect_refused("no_account", sso, &known_as("x", "nobody@example.net")).await;
            shared.expect_refused("subject_mismatch", sso, &known_as("not olga", "olga@example.com")).await;
        }
        let begun = kit.identity.start_oidc(Target::Instance(Sso::GitHub), &login_request("/")).await;
        assert!(matches!(begun, Err(Error::NotFound(_))), "{begun:?}");
        for domains_own in [Sso::Saml, Sso::Oidc] {
            let begun = kit.identity.start_oidc(Target::Instance(domains_own), &login_request("/")).await;
            assert!(matches!(begun, Err(Error::NotFound(_))), "{begun:?}");
        }
    }

    async fn one_person_may_come_twice_at_once(shared: Shared) {
        let kit = &shared.kit;
        shared.sign_in(Sso::Google, &known_as("olga", "olga@example.com")).await.unwrap();
        let olga = VerifiedIdentity {
            sso: Sso::GitLab,
            domain: None,
            subject: "olga".to_owned(),
            email: "olga@example.com".to_owned(),
            first_name: String::new(),
            last_name: String::new(),
            signed_in_as: None,
            session_until: None,
            assertion: None,
        };
        let mut browsers = JoinSet::new();
        for _ in 0..8 {
            let (service, olga) = (kit.service.clone(), olga.clone());
            browsers.spawn(async move { service.enter(&olga, &request()).await });
        }
        for login in browsers.join_all().await {
            assert_eq!(login.unwrap().0.id, kit.owner.user.id);
        }
        assert_eq!(kit.database.column::<i64>("SELECT count(*) FROM user_identity").await, [2]);
    }

    async fn an_account_without_membership_comes_in_only_where_its_domain_takes_it(shared: Shared) {
        let kit = &shared.kit;
        let domain = add(kit, OURS).await;
        prove(kit, &domain).await;
        kit.someone("yan@example.com").await;
        shared.expect_refused("jit_not_enabled", Sso::GitLab, &known_as("y", "yan@example.com")).await;
        shared.expect_refused("jit_not_enabled", Sso::GitLab, &known_as("n", "new@example.com")).await;
        // Its administrators are told, as if the provider were their own.
        assert_eq!(attempts(kit, &domain).await, ["jit_not_enabled", "jit_not_enabled"]);
        change(kit, &domain, json!({ "jit_provisioning_enabled": true })).await;
        shared.sign_in(Sso::GitLab, &known_as("y", "yan@example.com")).await.unwrap();
        assert_eq!(level(kit, "yan@example.com").await, Some(1));
    }

    async fn enforcement_holds_against_the_instances_providers(shared: Shared) {
        let kit = &shared.kit;
        let theirs = add_elsewhere(kit, THEIRS).await;
        prove(kit, &theirs).await;
        let person = kit.someone("x@example.org").await;
        kit.service.add_member(&Actor::system(), kit.other, &person.user, Level::Member).await.unwrap();
        shared.sign_in(Sso::GitLab, &known_as("x", "x@example.org")).await.unwrap();
        // Their owner's address is elsewhere, and a password gets him in.
        set_password(kit, "otto@elsewhere.example", PASSWORD).await;
        let idp = SamlIdp::start(SamlOptions::default());
        catch_up(kit);
        let settings = json!({
            "saml_entity_id": idp.entity_id(), "saml_acs_url": idp.sso_url(), "saml_x509_cert": idp.certificate_pem(),
            "sso_enforcement": "saml",
        });
        change(kit, &theirs, settings).await;
        shared.expect_refused("sso_enforced", Sso::GitLab, &known_as("x", "x@example.org")).await;
        shared.expect_refused("sso_enforced", Sso::Google, &known_as("x", "x@example.org")).await;
        // Another address at the provider does not help: the account's own one counts.
        shared.expect_refused("sso_enforced", Sso::GitLab, &known_as("x", "x@example.net")).await;
        change(kit, &theirs, json!({ "sso_enforcement": "gitlab" })).await;
        shared.sign_in(Sso::GitLab, &known_as("x", "x@example.org")).await.unwrap();
        shared.expect_refused("sso_enforced", Sso::Google, &known_as("x", "x@example.org")).await;
        let reply = kit.patch(&theirs.key, &theirs.at(""), json!({ "sso_enforcement": "github" })).await;
        assert_eq!(reply.code(), (400, "sso_not_ready"), "{reply:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_that_the_provider_is_not_sure_of_is_worth_nothing() {
    let shared = Shared::with(Backend::Sqlite, false).await;
    let olga = known_as("olga", "olga@example.com");
    shared.expect_refused("email_not_verified", Sso::GitLab, &olga).await;
    shared.expect_refused("email_not_verified", Sso::Google, &olga).await;
}
