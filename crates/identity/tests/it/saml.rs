//! SAML, with two identity providers of different make.

use identity::{CompletedLogin, Identity};
use serde_json::json;
use service::access::Actor;
use service::{Level, RandomSource, Result, Service};
use testkit::databases::Backend;
use testkit::external::{Person, SamlIdp, SamlOptions, Signed, SimpleSamlIdp, SimpleSamlOptions, Visitor};
use testkit::kit::{deps, instance};
use testkit::{Kit, on_both};

use crate::scene::{
    Added, BROWSER, OURS, THEIRS, activities, add, add_elsewhere, attempts, catch_up, change, expect_refused,
    fresh_key, get_as, kit, known_as, level, login_request, login_request_as, post_as, prove, request, rule,
    set_password, traces, zoe,
};

/// Acme with a proven domain and a provider, whose people join by signing in.
struct Scene {
    kit: Kit,
    domain: Added,
    idp: SamlIdp,
}

impl Scene {
    async fn new(backend: Backend) -> Self {
        Self::with(backend, SamlOptions::default()).await
    }

    async fn with(backend: Backend, options: SamlOptions) -> Self {
        let kit = kit(backend).await;
        let domain = add(&kit, OURS).await;
        prove(&kit, &domain).await;
        change(&kit, &domain, json!({ "jit_provisioning_enabled": true })).await;
        let idp = SamlIdp::start(options);
        connect(&kit, &domain, &idp).await;
        Self { kit, domain, idp }
    }

    /// The provider's answer for somebody who comes from our sign-in page.
    async fn answer(&self, person: &Person) -> String {
        answer(&self.kit, &self.domain, &self.idp, person).await
    }

    async fn finish(&self, response: &str) -> Result<CompletedLogin> {
        finish(&self.kit.identity, &self.domain, response).await
    }

    async fn sign_in(&self, person: &Person) -> Result<CompletedLogin> {
        let response = self.answer(person).await;
        self.finish(&response).await
    }

    async fn expect_refused(&self, rule: &str, person: &Person) {
        let response = self.answer(person).await;
        expect_refused(&self.kit, &self.domain, rule, self.finish(&response)).await;
    }

    async fn change(&self, patch: serde_json::Value) {
        change(&self.kit, &self.domain, patch).await;
    }
}

async fn connect(kit: &Kit, domain: &Added, idp: &SamlIdp) {
    catch_up(kit);
    let settings = json!({
        "saml_entity_id": idp.entity_id(), "saml_acs_url": idp.sso_url(), "saml_x509_cert": idp.certificate_pem(),
    });
    let reply = change(kit, domain, settings).await;
    assert_eq!(reply.body["has_saml"], true);
}

async fn answer(kit: &Kit, domain: &Added, idp: &SamlIdp, person: &Person) -> String {
    let login_request = login_request_as(kit, &person.email, "/members/").await;
    let url = kit.identity.start_saml(domain.id, &login_request).await.unwrap();
    let answer = idp.answer(url.as_str(), person);
    assert_eq!(answer.acs, domain.acs);
    answer.response
}

async fn finish(identity: &Identity, domain: &Added, response: &str) -> Result<CompletedLogin> {
    finish_in(Some(BROWSER), identity, domain, response).await
}

async fn finish_in(
    browser: Option<&str>,
    identity: &Identity,
    domain: &Added,
    response: &str,
) -> Result<CompletedLogin> {
    Box::pin(identity.finish_saml(domain.id, response, browser, &request())).await
}

/// Another process on the same database; also what the same one is after a restart.
async fn replica(kit: &Kit) -> Identity {
    let clock = kit.service.clock().clone();
    let service = Service::new(kit.database.open().await, clock, RandomSource::System, instance());
    Identity::new(service, deps())
}

on_both! {
    async fn a_new_person_joins_at_the_lowest_level_and_is_known_again(scene: Scene) {
        let before = traces(&scene.kit).await;
        let login = scene.sign_in(&zoe()).await.unwrap();
        assert_eq!(login.next, "/members/");
        assert_eq!(login.user.email, "zoe@example.com");
        assert_eq!((&*login.user.first_name, &*login.user.last_name), ("Zoë", "O'Neill & Sons"));
        assert!(login.user.is_email_verified);
        assert_eq!(level(&scene.kit, "zoe@example.com").await, Some(1));
        let me = get_as(&scene.kit, &login.session, "/api/users/@me/").await;
        assert_eq!((me.status, me.text("/email")), (200, "zoe@example.com"));
        assert_eq!(get_as(&scene.kit, &login.session, &scene.kit.at("")).await.status, 200);

        let again = scene.sign_in(&zoe()).await.unwrap();
        assert_eq!(again.user.id, login.user.id);
        let [users, sessions, members, links] = before;
        assert_eq!(traces(&scene.kit).await, [users + 1, sessions + 2, members + 1, links + 1]);
        assert_eq!(attempts(&scene.kit, &scene.domain).await, ["", ""]);
    }

    /// Where to go next is kept on this side. A `RelayState` is neither sent nor read, so nobody can put another host into it.
    async fn nobody_is_sent_to_another_host_after_signing_in(scene: Scene) {
        for next in [
            "https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)", "https://127.0.0.1@evil.example/",
        ] {
            let login_request = login_request_as(&scene.kit, &zoe().email, next).await;
            let url = scene.kit.identity.start_saml(scene.domain.id, &login_request).await.unwrap();
            assert!(url.query_pairs().all(|(name, value)| name != "RelayState" && !value.contains("evil")), "{url}");
            let login = scene.finish(&scene.idp.answer(url.as_str(), &zoe()).response).await.unwrap();
            assert_eq!(login.next, "/", "{next}");
        }
    }

    async fn an_invite_decides_on_the_level_and_is_used_up(scene: Scene) {
        let kit = &scene.kit;
        scene.change(json!({ "jit_provisioning_enabled": false })).await;
        let invite = json!({ "target_email": "Zoe@Example.com", "level": 8 });
        assert_eq!(kit.post(&kit.owner.key, &kit.at("invites/"), invite).await.status, 201);
        scene.sign_in(&zoe()).await.unwrap();
        assert_eq!(level(kit, "zoe@example.com").await, Some(8));
        assert_eq!(kit.get(&kit.owner.key, &kit.at("invites/")).await.body["count"], 0);
        // Members need neither an invite nor automatic joining.
        scene.sign_in(&zoe()).await.unwrap();
        scene.expect_refused("jit_not_enabled", &Person::new("yan@example.com", "Yan", "Y")).await;
        // An invite that is too old is none.
        let invite = json!({ "target_email": "yan@example.com", "level": 8 });
        assert_eq!(kit.post(&kit.owner.key, &kit.at("invites/"), invite).await.status, 201);
        kit.service.clock().advance(chrono::TimeDelta::days(3));
        let url = kit.identity.start_saml(scene.domain.id, &login_request("/")).await.unwrap();
        let response = scene.idp.answer(url.as_str(), &Person::new("yan@example.com", "Yan", "Y")).response;
        expect_refused(kit, &scene.domain, "expired", scene.finish(&response)).await;
    }

    async fn the_subject_is_who_somebody_is_and_not_the_address(scene: Scene) {
        let kit = &scene.kit;
        let first = scene.sign_in(&known_as("s-1", "zoe@example.com")).await.unwrap();
        let renamed = scene.sign_in(&known_as("s-1", "zoe.new@example.com")).await.unwrap();
        assert_eq!(renamed.user.id, first.user.id);
        assert_eq!(renamed.user.email, "zoe@example.com");
        // An address of somebody who is known by another subject does not make one that person.
        scene.expect_refused("subject_mismatch", &known_as("s-2", "zoe@example.com")).await;
        // The new address is nobody's yet.
        let second = scene.sign_in(&known_as("s-2", "zoe.new@example.com")).await.unwrap();
        assert_ne!(second.user.id, first.user.id);
        // A claim of an address that is not ours does not even get to the subject.
        scene.expect_refused("email_domain_mismatch", &known_as("s-1", "zoe@example.net")).await;
        assert_eq!(level(kit, "zoe@example.com").await, Some(1));
    }

    async fn subjects_of_one_provider_mean_nothing_at_the_next(scene: Scene) {
        let first = scene.sign_in(&known_as("1", "zoe@example.com")).await.unwrap();
        let next = SamlIdp::start(SamlOptions::default());
        connect(&scene.kit, &scene.domain, &next).await;
        let response = answer(&scene.kit, &scene.domain, &next, &known_as("1", "yan@example.com")).await;
        let login = scene.finish(&response).await.unwrap();
        assert_eq!(login.user.email, "yan@example.com");
        let response = answer(&scene.kit, &scene.domain, &next, &known_as("2", "zoe@example.com")).await;
        assert_eq!(scene.finish(&response).await.unwrap().user.id, first.user.id);
    }

    async fn a_response_is_good_once_on_every_replica(scene: Scene) {
        let (kit, domain) = (&scene.kit, &scene.domain);
        let response = scene.answer(&zoe()).await;
        let other = replica(kit).await;
        let both = tokio::join!(scene.finish(&response), finish(&other, domain, &response));
        assert!(both.0.is_ok() ^ both.1.is_ok(), "{both:?}");
        expect_refused(kit, domain, "in_response_to_mismatch", scene.finish(&response)).await;
        expect_refused(kit, domain, "in_response_to_mismatch", finish(&other, domain, &response)).await;
        expect_refused(kit, domain, "in_response_to_mismatch", finish(&replica(kit).await, domain, &response)).await;
    }

    async fn an_unsolicited_response_is_refused_unless_allowed_and_good_once(scene: Scene) {
        let (kit, domain) = (&scene.kit, &scene.domain);
        let idp = SamlIdp::start(SamlOptions {
            audience: Some(domain.entity_id.clone()),
            acs: Some(domain.acs.clone()),
            ..SamlOptions::default()
        });
        connect(kit, domain, &idp).await;
        let response = idp.answer(&idp.sso_url(), &zoe()).response;
        expect_refused(kit, domain, "unsolicited", scene.finish(&response)).await;
        let no_cookie = finish_in(None, &kit.identity, domain, &response);
        expect_refused(kit, domain, "unsolicited", no_cookie).await;

        scene.change(json!({ "saml_idp_initiated": true })).await;
        let other = replica(kit).await;
        let both = tokio::join!(scene.finish(&response), finish(&other, domain, &response));
        let (won, lost) = if both.0.is_ok() { (both.0, both.1) } else { (both.1, both.0) };
        assert_eq!(won.unwrap().next, "/");
        assert_eq!(rule(lost), "replayed");
        expect_refused(kit, domain, "replayed", scene.finish(&response)).await;
        expect_refused(kit, domain, "replayed", finish(&replica(kit).await, domain, &response)).await;
        // A response that answers a request is not made unsolicited by losing its cookie.
        let solicited = answer(kit, domain, &idp, &zoe()).await;
        let no_cookie = finish_in(None, &kit.identity, domain, &solicited);
        expect_refused(kit, domain, "in_response_to_mismatch", no_cookie).await;
        scene.finish(&solicited).await.unwrap();
        // Until the very end of its time.
        kit.service.clock().advance(chrono::TimeDelta::minutes(60));
        expect_refused(kit, domain, "replayed", scene.finish(&response)).await;
        kit.service.clock().advance(chrono::TimeDelta::minutes(2));
        expect_refused(kit, domain, "expired", scene.finish(&response)).await;
    }

    async fn only_the_browser_that_began_can_finish(scene: Scene) {
        let (kit, domain) = (&scene.kit, &scene.domain);
        let response = scene.answer(&zoe()).await;
        let other = finish_in(Some("another browser"), &kit.identity, domain, &response);
        expect_refused(kit, domain, "in_response_to_mismatch", other).await;
        let none = finish_in(None, &kit.identity, domain, &response);
        expect_refused(kit, domain, "in_response_to_mismatch", none).await;
        scene.finish(&response).await.unwrap();

        // A request that nobody here made.
        let stored = kit.service.domain_for_sign_in(domain.id).await.unwrap();
        let us = stored.service_provider(kit.service.instance());
        let provider = stored.identity_provider().unwrap();
        let url = auth::saml::sign_in_url(&us, &provider, "_made_up", "", kit.service.clock().now()).unwrap();
        let response = scene.idp.answer(url.as_str(), &zoe()).response;
        expect_refused(kit, domain, "in_response_to_mismatch", scene.finish(&response)).await;
        // One that took too long.
        let response = scene.answer(&zoe()).await;
        kit.service.clock().advance(chrono::TimeDelta::minutes(16));
        expect_refused(kit, domain, "in_response_to_mismatch", scene.finish(&response)).await;
    }

    async fn what_is_meant_for_others_is_refused(scene: Scene) {
        let kit = &scene.kit;
        // The other organization trusts the same provider.
        let theirs = add_elsewhere(kit, THEIRS).await;
        prove(kit, &theirs).await;
        connect(kit, &theirs, &scene.idp).await;
        let response = scene.answer(&zoe()).await;
        expect_refused(kit, &theirs, "destination_mismatch", finish(&kit.identity, &theirs, &response)).await;
        // A second domain of the same organization is another place, too.
        let second = add(kit, "example.net").await;
        prove(kit, &second).await;
        connect(kit, &second, &scene.idp).await;
        let response = scene.answer(&zoe()).await;
        expect_refused(kit, &second, "destination_mismatch", finish(&kit.identity, &second, &response)).await;
        // A request gets one answer; one that went astray was it.
        expect_refused(kit, &scene.domain, "in_response_to_mismatch", scene.finish(&response)).await;
        scene.sign_in(&zoe()).await.unwrap();

        let idp = SamlIdp::start(SamlOptions {
            audience: Some("https://another.example/metadata".to_owned()),
            ..SamlOptions::default()
        });
        connect(kit, &scene.domain, &idp).await;
        let response = answer(kit, &scene.domain, &idp, &zoe()).await;
        expect_refused(kit, &scene.domain, "audience_mismatch", scene.finish(&response)).await;
        // Somebody else's signature, and somebody else's name.
        connect(kit, &scene.domain, &scene.idp).await;
        scene.change(json!({ "saml_x509_cert": idp.certificate_pem() })).await;
        scene.expect_refused("signature_invalid", &zoe()).await;
        scene
            .change(json!({ "saml_x509_cert": scene.idp.certificate_pem(), "saml_entity_id": "https://idp.example/" }))
            .await;
        scene.expect_refused("issuer_mismatch", &zoe()).await;
    }

    async fn a_provider_cannot_vouch_for_what_is_not_its_organizations(scene: Scene) {
        let kit = &scene.kit;
        let theirs = add_elsewhere(kit, THEIRS).await;
        prove(kit, &theirs).await;
        for address in ["otto@example.org", "otto@elsewhere.example", "somebody@example.net", "x@sub.example.com"] {
            scene.expect_refused("email_domain_mismatch", &known_as("s", address)).await;
        }
        // Somebody with an address of ours who belongs to the other organization alone.
        let person = kit.proven("yan@example.com").await;
        let joined = kit.service.add_member(&Actor::system(), kit.other, &person.user, Level::Admin).await;
        joined.unwrap();
        scene.expect_refused("belongs_elsewhere", &Person::new("yan@example.com", "Yan", "Y")).await;
        let path = format!("/api/organizations/{}/", kit.other);
        assert_eq!(kit.get(&person.key, &path).await.status, 200);
        // An account with one of their addresses does not come in under one of ours.
        let login = scene.sign_in(&known_as("s-1", "zoe@example.com")).await.unwrap();
        assert_eq!(login.user.email, "zoe@example.com");
    }

    async fn whoever_left_for_another_organization_is_not_taken_back(scene: Scene) {
        let kit = &scene.kit;
        let login = scene.sign_in(&zoe()).await.unwrap();
        let path = kit.at(&format!("members/{}/", login.user.uuid));
        assert_eq!(kit.delete(&kit.owner.key, &path).await.status, 204);
        // Without another home, signing in is joining again.
        scene.sign_in(&zoe()).await.unwrap();
        assert_eq!(kit.delete(&kit.owner.key, &path).await.status, 204);
        kit.service.add_member(&Actor::system(), kit.other, &login.user, Level::Member).await.unwrap();
        scene.expect_refused("belongs_elsewhere", &zoe()).await;
    }

    async fn an_account_that_was_squatted_does_not_keep_the_real_person_out(scene: Scene) {
        let kit = &scene.kit;
        // Before the domain was verified, somebody elsewhere took the name, and created an organization with it.
        let squatter = kit.someone("ceo@example.com").await;
        set_password(kit, "ceo@example.com", "squatted horse battery").await;
        kit.service.add_member(&Actor::system(), kit.other, &squatter.user, Level::Owner).await.unwrap();
        let ceo = Person::new("ceo@example.com", "Cleo", "Chief");
        let login = scene.sign_in(&ceo).await.unwrap();
        assert_ne!(login.user.id, squatter.user.id, "the account is the real person's own");
        assert_eq!((level(kit, "ceo@example.com").await, login.user.is_email_verified), (Some(1), true));
        // Nothing of the squatter's stands in the way, nor opens anything.
        fresh_key(kit, &login.session).await;
        let all = get_as(kit, &login.session, "/api/organizations/").await;
        assert_eq!((&all.body["count"], all.text("/results/0/name")), (&json!(1), "Acme"));
        assert_eq!(kit.get(&squatter.key, &kit.at("")).await.status, 404);
        let password = kit.browser().log_in("ceo@example.com", "squatted horse battery").await;
        assert_eq!(password.code(), (400, "invalid_credentials"));
        // Whoever squatted keeps what they have under another name, so that no provider takes anything over.
        let me = kit.get(&squatter.key, "/api/users/@me/").await;
        assert_eq!(me.text("/email"), format!("{}@released.invalid", squatter.user.uuid));
        let elsewhere = format!("/api/organizations/{}/", kit.other);
        assert_eq!(kit.get(&squatter.key, &elsewhere).await.status, 200);
        let log = kit.get(&kit.outsider.key, &format!("{elsewhere}activity/?scope=OrganizationMembership")).await;
        // In one moment of the test's clock, so their order says nothing.
        let entries = log.body["results"].as_array().unwrap();
        let released = entries.iter().find(|entry| entry["activity"] == "address_released").unwrap();
        // By nobody: it costs nothing of what the other organization may write, which could be used up, and does not tell who came.
        assert_eq!(released["user"], json!(null), "{log:?}");
        scene.sign_in(&ceo).await.unwrap();
    }

    async fn a_squatter_is_no_hindrance_for_the_invited_either(scene: Scene) {
        let kit = &scene.kit;
        scene.change(json!({ "jit_provisioning_enabled": false })).await;
        let squatter = kit.someone("ceo@example.com").await;
        kit.service.add_member(&Actor::system(), kit.other, &squatter.user, Level::Member).await.unwrap();
        let ceo = Person::new("ceo@example.com", "Cleo", "Chief");
        scene.expect_refused("jit_not_enabled", &ceo).await;
        let me = kit.get(&squatter.key, "/api/users/@me/").await;
        assert_eq!(me.text("/email"), "ceo@example.com", "a refused sign-in changes nothing");
        let invite = json!({ "target_email": "ceo@example.com", "level": 8 });
        assert_eq!(kit.post(&kit.owner.key, &kit.at("invites/"), invite).await.status, 201);
        let login = scene.sign_in(&ceo).await.unwrap();
        assert_eq!(level(kit, "ceo@example.com").await, Some(8));
        fresh_key(kit, &login.session).await;
    }

    async fn a_provider_takes_nothing_from_whoever_is_signed_in(scene: Scene) {
        let kit = &scene.kit;
        let person = kit.someone("yan@example.com").await;
        kit.service.add_member(&Actor::system(), kit.other, &person.user, Level::Owner).await.unwrap();
        let login_request = identity::LoginRequest { signed_in_as: Some(kit.own_proof(&person.user).await), ..login_request("/") };
        let url = kit.identity.start_saml(scene.domain.id, &login_request).await.unwrap();
        let response = scene.idp.answer(url.as_str(), &Person::new("yan@example.com", "Yan", "Y")).response;
        assert_eq!(rule(scene.finish(&response).await), "belongs_elsewhere");
        assert_eq!(kit.get(&person.key, "/api/users/@me/").await.text("/email"), "yan@example.com");
    }

    async fn two_browsers_of_a_new_person_make_one_account(scene: Scene) {
        let (one, two) = (scene.answer(&zoe()).await, scene.answer(&zoe()).await);
        let (one, two) = tokio::join!(scene.finish(&one), scene.finish(&two));
        assert_eq!(one.unwrap().user.id, two.unwrap().user.id);
        assert_eq!(level(&scene.kit, "zoe@example.com").await, Some(1));
    }

    async fn a_session_reaches_only_the_organization_that_vouched(scene: Scene) {
        let kit = &scene.kit;
        let person = kit.join("zoe@example.com", Level::Owner).await;
        kit.service.add_member(&Actor::system(), kit.other, &person.user, Level::Owner).await.unwrap();
        let session = scene.sign_in(&zoe()).await.unwrap().session;
        assert_eq!(get_as(kit, &session, &kit.at("")).await.status, 200);
        for path in ["", "members/", "domains/", "invites/", "activity/"] {
            let path = format!("/api/organizations/{}/{path}", kit.other);
            let reply = get_as(kit, &session, &path).await;
            assert_eq!(reply.code(), (404, "not_found"), "{path}");
        }
        let all = get_as(kit, &session, "/api/organizations/").await;
        assert_eq!((&all.body["count"], all.text("/results/0/name")), (&json!(1), "Acme"));
        let key = json!({ "label": "mine", "scopes": ["*"] });
        for (path, body) in [
            ("/api/personal_api_keys/", key),
            ("/api/users/@me/password/", json!({ "password": "correct horse battery", "current_password": "" })),
            ("/api/users/@me/two_factor/", json!({})),
        ] {
            let reply = post_as(kit, &session, path, body).await;
            assert_eq!(reply.code(), (403, "permission_denied"), "{path}: {reply:?}");
        }
        // Their own account is safe; ours to do is ours.
        let invite = post_as(kit, &session, &kit.at("invites/"), json!({ "target_email": "yan@example.net" })).await;
        assert_eq!(invite.status, 201, "{invite:?}");
    }

    async fn an_owner_is_connected_by_nobody_but_themselves(scene: Scene) {
        let (kit, domain) = (&scene.kit, &scene.domain);
        let olga = Person::new("olga@example.com", "Olga", "Owner");
        let url = kit.identity.start_saml(domain.id, &login_request("/")).await.unwrap();
        let response = scene.idp.answer(url.as_str(), &olga).response;
        assert_eq!(rule(finish(&kit.identity, domain, &response).await), "owner_not_linked");
        scene.sign_in(&olga).await.unwrap();
        // Once they are, nobody below them can change what their provider's word is checked with and speak for them.
        let settings = json!({ "saml_x509_cert": scene.idp.second_certificate_pem() });
        let reply = kit.patch(&kit.admin.key, &domain.at(""), settings).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        scene.idp.roll_over();
        let url = kit.identity.start_saml(domain.id, &login_request("/")).await.unwrap();
        let response = scene.idp.answer(url.as_str(), &olga).response;
        assert_eq!(rule(finish(&kit.identity, domain, &response).await), "owner_not_linked");
    }

    async fn a_domain_that_is_not_proven_has_no_effect(scene: Scene) {
        let kit = &scene.kit;
        let theirs = add_elsewhere(kit, THEIRS).await;
        connect(kit, &theirs, &scene.idp).await;
        change(kit, &theirs, json!({ "jit_provisioning_enabled": true, "sso_enforcement": "saml" })).await;
        let begun = kit.identity.start_saml(theirs.id, &login_request("/")).await;
        assert!(matches!(begun, Err(service::Error::NotFound("domain"))), "{begun:?}");
        let response = scene.answer(&Person::new("x@example.org", "X", "Y")).await;
        let before = traces(kit).await;
        let ended = finish(&kit.identity, &theirs, &response).await;
        assert!(matches!(ended, Err(service::Error::NotFound("domain"))), "{ended:?}");
        assert_eq!(traces(kit).await, before);
        let precheck = kit.post("", "/api/login/precheck/", json!({ "email": "x@example.org" })).await;
        assert_eq!(precheck.body["saml_available"], false);
        assert_eq!(precheck.body["sso_enforcement"], json!(null));
    }

    async fn the_last_ten_attempts_of_each_kind_are_kept(scene: Scene) {
        let tick = || scene.kit.service.clock().advance(chrono::TimeDelta::milliseconds(1));
        scene.sign_in(&zoe()).await.unwrap();
        let foreign = Person::new("zoe@example.net", "Zoë", "Z");
        for _ in 0..12 {
            tick();
            assert_eq!(rule(scene.sign_in(&foreign).await), "email_domain_mismatch");
        }
        for junk in 0..25 {
            let rules = rule(scene.finish(&format!("{junk}:")).await);
            assert_eq!(rules, "not_base64");
            tick();
        }
        // Rubbish pushes out rubbish.
        let kept = [["not_base64"; 10], ["email_domain_mismatch"; 10]].concat();
        assert_eq!(attempts(&scene.kit, &scene.domain).await, kept);
        let reply = scene.kit.get(&scene.kit.member.key, &scene.domain.at("attempts/")).await;
        assert_eq!(reply.status, 403, "{reply:?}");
    }

    async fn nobody_fills_the_log_with_rubbish(scene: Scene) {
        let mut stranger = request();
        stranger.origin.address = "192.0.2.7".parse().ok();
        let mut refused = 0;
        for _ in 0..100 {
            match scene.kit.identity.finish_saml(scene.domain.id, "rubbish", None, &stranger).await {
                Err(service::Error::Throttled(_)) => {}
                ended => {
                    assert_eq!(rule(ended), "not_base64");
                    refused += 1;
                }
            }
        }
        // One more is forgiven every second.
        assert!((60..75).contains(&refused), "{refused}");
        let refusals = activities(&scene.kit, &scene.domain).await;
        assert!(!refusals.contains(&"sign_in_refused".to_owned()), "{refusals:?}");
        scene.sign_in(&zoe()).await.unwrap();
    }

    /// What is signed is kept for good, also if it is refused; what only looks like it is not.
    async fn the_log_has_what_the_provider_signed(scene: Scene) {
        let genuine = scene.answer(&zoe()).await;
        let forged = scene.answer(&zoe()).await.replace('A', "B");
        assert_ne!(rule(scene.finish(&forged).await), "");
        assert!(!activities(&scene.kit, &scene.domain).await.contains(&"sign_in_refused".to_owned()));
        scene.kit.service.clock().advance(chrono::TimeDelta::hours(1));
        assert_eq!(rule(scene.finish(&genuine).await), "in_response_to_mismatch");
        assert_eq!(activities(&scene.kit, &scene.domain).await[0], "sign_in_refused");
    }

    /// An organization's own provider can vouch for as many people as it likes.
    async fn accounts_that_a_provider_vouches_for_are_counted_as_sign_ups(scene: Scene) {
        scene.sign_in(&zoe()).await.unwrap();
        let used = "SELECT used FROM hourly_count WHERE action = 'sign_up' AND subject LIKE 'organization %'";
        assert_eq!(scene.kit.database.column::<i64>(used).await, [1]);
        scene.kit.database.run("UPDATE hourly_count SET used = 500 WHERE action = 'sign_up'").await;
        let before = traces(&scene.kit).await;
        let yan = Person::new("yan@example.com", "Yan", "Y");
        let ended = scene.sign_in(&yan).await;
        assert!(matches!(ended, Err(service::Error::LimitReached { .. })), "{ended:?}");
        assert_eq!(traces(&scene.kit).await, before);
        // Those who have an account get in.
        scene.sign_in(&zoe()).await.unwrap();
        scene.kit.database.run("DELETE FROM hourly_count WHERE action = 'sign_up'").await;
        scene.sign_in(&yan).await.unwrap();
    }

    async fn metadata_is_taken_over_from_an_address_or_a_document(scene: Scene) {
        let (kit, domain, idp) = (&scene.kit, &scene.domain, &scene.idp);
        let cleared = json!({ "saml_entity_id": "", "saml_acs_url": "", "saml_x509_cert": "" });
        let document = Visitor::default().get(&idp.metadata_url()).body;
        for source in [json!({ "url": idp.metadata_url() }), json!({ "xml": document })] {
            scene.change(cleared.clone()).await;
            let path = domain.at("import_metadata/");
            let dry = kit.post(&domain.key, &format!("{path}?dry_run=true"), source.clone()).await;
            assert_eq!(dry.status, 200, "{dry:?}");
            assert_eq!(kit.get(&domain.key, &domain.at("")).await.body["has_saml"], false);
            let reply = kit.post(&domain.key, &path, source.clone()).await;
            assert_eq!(reply.status, 200, "{reply:?}");
            assert_eq!(reply.text("/saml_entity_id"), idp.entity_id());
            assert_eq!(reply.text("/saml_acs_url"), idp.sso_url());
            assert_eq!(reply.text("/saml_x509_cert").trim(), idp.certificate_pem().trim());
            assert_eq!(reply.text("/saml_metadata_url"), source["url"].as_str().unwrap_or_default());
            scene.sign_in(&zoe()).await.unwrap();
        }
        for (source, code) in [
            (json!({}), "required"),
            (json!({ "url": idp.metadata_url(), "xml": "<a/>" }), "required"),
            (json!({ "xml": "<a/>" }), "not_metadata"),
            (json!({ "xml": "<!DOCTYPE a><a/>" }), "doctype"),
            (json!({ "url": idp.sso_url() }), "doctype"),
            (json!({ "url": idp.metadata_url().replace("metadata", "nothing") }), "unreachable"),
            (json!({ "url": "http://127.0.0.1:9/" }), "unreachable"),
        ] {
            let reply = kit.post(&domain.key, &domain.at("import_metadata/"), source.clone()).await;
            assert_eq!(reply.code(), (400, code), "{source}: {reply:?}");
        }
    }

    async fn the_provider_may_change_its_key(scene: Scene) {
        let idp = &scene.idp;
        let both = format!("{}\n{}", idp.certificate_pem(), idp.second_certificate_pem());
        scene.change(json!({ "saml_x509_cert": both })).await;
        scene.sign_in(&zoe()).await.unwrap();
        idp.roll_over();
        scene.sign_in(&zoe()).await.unwrap();
        scene.change(json!({ "saml_x509_cert": idp.certificate_pem() })).await;
        scene.expect_refused("signature_invalid", &zoe()).await;
        let (path, source) = (scene.domain.at("import_metadata/"), json!({ "url": idp.metadata_url() }));
        assert_eq!(scene.kit.post(&scene.domain.key, &path, source).await.status, 200);
        scene.sign_in(&zoe()).await.unwrap();
    }

    async fn a_certificate_that_is_not_valid_now_is_none(scene: Scene) {
        let kit = &scene.kit;
        let clock = kit.service.clock();
        clock.advance(chrono::TimeDelta::hours(-1));
        assert_eq!(rule(scene.sign_in(&zoe()).await), "certificate_expired");
        clock.advance(chrono::TimeDelta::hours(1));
        scene.sign_in(&zoe()).await.unwrap();
        clock.advance(chrono::TimeDelta::days(31));
        scene.expect_refused("certificate_expired", &zoe()).await;
        let enforced = json!({ "sso_enforcement": "saml" });
        let reply = kit.patch(&scene.domain.key, &scene.domain.at(""), enforced).await;
        assert_eq!(reply.code(), (400, "sso_not_ready"), "{reply:?}");
        let junk = json!({ "saml_x509_cert": "junk" });
        let reply = kit.patch(&scene.domain.key, &scene.domain.at(""), junk).await;
        assert_eq!(reply.code(), (400, "invalid_input"), "{reply:?}");
    }

    async fn enforcement_leaves_no_other_way_and_locks_no_owner_out(scene: Scene) {
        let (kit, domain) = (&scene.kit, &scene.domain);
        let enforced = json!({ "sso_enforcement": "saml" });
        let reply = kit.patch(&domain.key, &domain.at(""), enforced.clone()).await;
        assert_eq!(reply.code(), (400, "would_lock_out"), "{reply:?}");
        set_password(kit, "adam@example.com", "correct horse battery").await;
        let password = json!({ "email": "adam@example.com", "password": "correct horse battery" });
        assert_eq!(kit.post("", "/api/login/", password.clone()).await.status, 200);
        let owner = scene.sign_in(&Person::new("olga@example.com", "Olga", "Owner")).await.unwrap();
        let key = fresh_key(kit, &owner.session).await;
        let reply = kit.patch(&key, &domain.at(""), enforced).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        let refused = kit.post("", "/api/login/", password).await;
        assert_eq!(refused.code().1, "sso_enforced", "{refused:?}");
        scene.sign_in(&Person::new("adam@example.com", "Adam", "Admin")).await.unwrap();
        // Another provider would lock everybody out until somebody has come in through it.
        let next = SamlIdp::start(SamlOptions::default());
        let other = json!({ "saml_entity_id": next.entity_id() });
        let reply = kit.patch(&key, &domain.at(""), other).await;
        assert_eq!(reply.code(), (400, "would_lock_out"), "{reply:?}");
        scene.sign_in(&Person::new("olga@example.com", "Olga", "Owner")).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_assertion_counts_in_its_time_only() {
    let scene = Scene::with(
        Backend::Sqlite,
        SamlOptions {
            lifetime: Some(std::time::Duration::from_mins(1)),
            ..SamlOptions::default()
        },
    )
    .await;
    let clock = scene.kit.service.clock();
    let late = scene.answer(&zoe()).await;
    clock.advance(chrono::TimeDelta::seconds(110));
    scene.finish(&late).await.unwrap();
    let too_late = scene.answer(&zoe()).await;
    clock.advance(chrono::TimeDelta::seconds(30));
    expect_refused(&scene.kit, &scene.domain, "expired", scene.finish(&too_late)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_way_of_signing_is_understood() {
    for signed in [Signed::Assertion, Signed::Response, Signed::Both] {
        let options = SamlOptions {
            signed,
            ..SamlOptions::default()
        };
        let scene = Scene::with(Backend::Sqlite, options).await;
        scene.sign_in(&zoe()).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_provider_of_another_make_is_understood_too() {
    let kit = kit(Backend::Sqlite).await;
    let domain = add(&kit, OURS).await;
    prove(&kit, &domain).await;
    change(&kit, &domain, json!({ "jit_provisioning_enabled": true })).await;
    let mut options = SimpleSamlOptions {
        audience: domain.entity_id.clone(),
        acs: domain.acs.clone(),
        user: zoe(),
        signed: Signed::Both,
        encrypted_for: None,
    };
    let idp = SimpleSamlIdp::start(&options);
    catch_up(&kit);
    let source = json!({ "url": idp.metadata_url() });
    let reply = kit.post(&domain.key, &domain.at("import_metadata/"), source).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    assert_eq!(reply.text("/saml_entity_id"), idp.entity_id());
    let url = kit
        .identity
        .start_saml(domain.id, &login_request("https://evil.example/"))
        .await
        .unwrap();
    let response = idp.answer(url.as_str()).response;
    let login = finish(&kit.identity, &domain, &response).await.unwrap();
    assert_eq!(
        (&*login.user.email, &*login.user.first_name),
        ("zoe@example.com", "Zoë")
    );
    // Nobody is sent to another host.
    assert_eq!(login.next, "/");
    expect_refused(
        &kit,
        &domain,
        "in_response_to_mismatch",
        finish(&kit.identity, &domain, &response),
    )
    .await;
    // Begun over there.
    let response = idp.answer(&idp.start_url()).response;
    expect_refused(&kit, &domain, "unsolicited", finish(&kit.identity, &domain, &response)).await;
    change(&kit, &domain, json!({ "saml_idp_initiated": true })).await;
    let again = finish(&kit.identity, &domain, &response).await.unwrap();
    assert_eq!(again.user.id, login.user.id);
    expect_refused(&kit, &domain, "replayed", finish(&kit.identity, &domain, &response)).await;

    options.encrypted_for = Some(idp.certificate_pem());
    let idp = SimpleSamlIdp::start(&options);
    catch_up(&kit);
    let source = json!({ "url": idp.metadata_url() });
    let reply = kit.post(&domain.key, &domain.at("import_metadata/"), source).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let url = kit.identity.start_saml(domain.id, &login_request("/")).await.unwrap();
    let response = idp.answer(url.as_str()).response;
    expect_refused(&kit, &domain, "encrypted", finish(&kit.identity, &domain, &response)).await;
    assert!(
        activities(&kit, &domain).await.contains(&"sign_in_refused".to_owned()),
        "those that were signed"
    );
}
