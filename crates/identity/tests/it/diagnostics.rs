//! Diagnostics, at `POST domains/:id/test/`.

use chrono::TimeDelta;
use identity::IdentityDeps;
use serde_json::{Value, json};
use testkit::databases::Backend;
use testkit::external::{Dns, OidcProvider, Person, SamlIdp, SamlOptions};
use testkit::kit::{deps, instance};
use testkit::{Kit, on_both};

use crate::scene::{
    Added, BROWSER, OURS, add, catch_up, change, fresh_key, kit_of, login_request_as, prove, request, set_password,
    traces,
};

struct Scene {
    kit: Kit,
    dns: Dns,
    domain: Added,
}

impl Scene {
    async fn new(backend: Backend) -> Self {
        let dns = Dns::start(&[OURS]);
        let deps = IdentityDeps {
            dns: outbound::Dns::new(&[dns.address()]).unwrap(),
            ..deps()
        };
        let kit = kit_of(backend, instance(), deps).await;
        let domain = add(&kit, OURS).await;
        Self { kit, dns, domain }
    }

    /// With a record in DNS, and a provider whose metadata was read.
    async fn connected(&self) -> SamlIdp {
        self.dns.put_txt(&self.domain.record, &[&self.domain.challenge]);
        prove(&self.kit, &self.domain).await;
        let idp = SamlIdp::start(SamlOptions::default());
        catch_up(&self.kit);
        let source = json!({ "url": idp.metadata_url() });
        let path = self.domain.at("import_metadata/");
        let reply = self.kit.post(&self.domain.key, &path, source).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        idp
    }

    async fn test(&self) -> Report {
        self.test_with(&self.domain.key).await
    }

    async fn test_with(&self, key: &str) -> Report {
        let before = self.kit.get(key, &self.domain.at("")).await.body;
        let reply = self.kit.post(key, &self.domain.at("test/"), json!({})).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        // Looking changes nothing.
        assert_eq!(self.kit.get(key, &self.domain.at("")).await.body, before);
        Report(reply.body)
    }
}

struct Report(Value);

impl Report {
    fn is_ok(&self) -> bool {
        self.0["is_ok"].as_bool().unwrap()
    }

    fn step(&self, name: &str) -> &Value {
        let steps = self.0["steps"].as_array().unwrap();
        let found = steps.iter().find(|step| step["name"] == name);
        found.unwrap_or_else(|| panic!("no step {name} in {}", self.0))
    }

    /// All statuses, in order.
    fn statuses(&self) -> Vec<String> {
        let steps = self.0["steps"].as_array().unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        steps
            .iter()
            .map(|step| format!("{} {}", text(&step["name"]), text(&step["status"])))
            .collect()
    }

    fn expect(&self, name: &str, status: &str, shown: &str) {
        let step = self.step(name);
        assert_eq!(step["status"], status, "{step}");
        let text = format!("{} {}", step["message"], step["recommended_action"]);
        assert!(text.contains(shown), "{step}");
    }
}

on_both! {
    async fn where_nothing_is_set_up_there_is_little_to_see(scene: Scene) {
        let report = scene.test().await;
        assert!(!report.is_ok());
        assert_eq!(report.statuses(), [
            "dns failed", "saml_settings skipped", "saml_metadata skipped", "saml_certificates skipped",
            "clock skipped", "saml_request skipped", "oidc_discovery skipped", "jit_provisioning ok", "enforcement skipped",
        ]);
        report.expect("dns", "failed", &scene.domain.challenge);
        scene.dns.put_txt(&scene.domain.record, &[&scene.domain.challenge]);
        scene.test().await.expect("dns", "warning", "verify the domain");
        let reply = scene.kit.post(&scene.kit.member.key, &scene.domain.at("test/"), json!({})).await;
        assert_eq!(reply.status, 403, "{reply:?}");
    }

    async fn where_all_is_right_it_says_so(scene: Scene) {
        let _idp = scene.connected().await;
        change(&scene.kit, &scene.domain, json!({ "jit_provisioning_enabled": true })).await;
        let before = traces(&scene.kit).await;
        let report = scene.test().await;
        assert!(report.is_ok());
        // The provider's certificate is good for thirty days, which is soon.
        assert_eq!(report.statuses(), [
            "dns ok", "saml_settings ok", "saml_metadata ok", "saml_certificates warning", "clock ok",
            "saml_request ok", "oidc_discovery skipped", "jit_provisioning ok", "enforcement skipped",
        ]);
        report.expect("saml_request", "ok", &scene.domain.acs);
        report.expect("saml_request", "ok", &scene.domain.entity_id);
        assert_eq!(traces(&scene.kit).await, before);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_are_watched() {
    let scene = Scene::new(Backend::Sqlite).await;
    let idp = scene.connected().await;
    scene.test().await.expect("saml_certificates", "warning", "expires on");
    scene.kit.service.clock().advance(TimeDelta::days(31));
    let report = scene.test().await;
    report.expect("saml_certificates", "failed", "no certificate is valid now");
    assert!(!report.is_ok());
    catch_up(&scene.kit);
    idp.roll_over();
    scene
        .test()
        .await
        .expect("saml_metadata", "warning", "import the metadata again");
    // Typed in, in another shape: it is the certificate that counts.
    let typed: String = idp
        .second_certificate_pem()
        .lines()
        .filter(|line| !line.starts_with("---"))
        .collect();
    change(&scene.kit, &scene.domain, json!({ "saml_x509_cert": typed })).await;
    scene
        .test()
        .await
        .expect("saml_metadata", "ok", "matches what was imported");
    change(
        &scene.kit,
        &scene.domain,
        json!({ "saml_entity_id": "https://other.example" }),
    )
    .await;
    scene
        .test()
        .await
        .expect("saml_metadata", "failed", "a different entity ID");
    change(&scene.kit, &scene.domain, json!({ "saml_x509_cert": "" })).await;
    scene
        .test()
        .await
        .expect("saml_settings", "failed", "missing: saml_x509_cert");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clocks_and_absence_are_noticed() {
    let scene = Scene::new(Backend::Sqlite).await;
    let idp = scene.connected().await;
    for minutes in [10, -20] {
        scene.kit.service.clock().advance(TimeDelta::minutes(minutes));
        let report = scene.test().await;
        report.expect("clock", "failed", "NTP");
        assert!(!report.is_ok());
    }
    catch_up(&scene.kit);
    scene.dns.remove(&scene.domain.record);
    drop(idp);
    let report = scene.test().await;
    report.expect("dns", "warning", "restore the record");
    report.expect("saml_metadata", "warning", "could not be read");
    report.expect("clock", "warning", "none if browsers can reach it");
    // Our side is in order, and the provider may be in a private network.
    assert!(report.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_openid_provider_is_asked_who_it_is() {
    let scene = Scene::new(Backend::Sqlite).await;
    let provider = OidcProvider::start(&scene.kit.service.instance().oidc_redirect_url(scene.domain.id));
    let settings = |issuer: &str| {
        json!({
            "oidc_issuer": issuer, "oidc_client_id": provider.client_id(),
            "oidc_client_secret": provider.client_secret(),
        })
    };
    change(&scene.kit, &scene.domain, settings(provider.issuer())).await;
    scene
        .test()
        .await
        .expect("oidc_discovery", "ok", "the discovery document was read and is valid");
    prove(&scene.kit, &scene.domain).await;
    scene
        .test()
        .await
        .expect("oidc_discovery", "ok", "the discovery document was read and is valid");
    change(&scene.kit, &scene.domain, settings(&format!("{}/", provider.issuer()))).await;
    scene
        .test()
        .await
        .expect("oidc_discovery", "failed", "has a different issuer");
    change(&scene.kit, &scene.domain, settings("http://127.0.0.1:9")).await;
    let report = scene.test().await;
    report.expect("oidc_discovery", "failed", "check oidc_issuer");
    assert!(!report.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn enforcement_without_a_way_in_is_found() {
    let scene = Scene::new(Backend::Sqlite).await;
    let (kit, domain) = (&scene.kit, &scene.domain);
    // Before the proof anything may be stored; diagnostics say what would come of it.
    change(kit, domain, json!({ "sso_enforcement": "saml" })).await;
    scene.test().await.expect("enforcement", "failed", "SAML requires");
    change(kit, domain, json!({ "sso_enforcement": "github" })).await;
    scene
        .test()
        .await
        .expect("enforcement", "failed", "not configured on this server");
    change(kit, domain, json!({ "sso_enforcement": "" })).await;
    let idp = scene.connected().await;
    set_password(kit, "olga@example.com", "correct horse battery").await;
    let login_request = login_request_as(kit, "olga@example.com", "/").await;
    let url = kit.identity.start_saml(domain.id, &login_request).await.unwrap();
    let response = idp
        .answer(url.as_str(), &Person::new("olga@example.com", "Olga", "Owner"))
        .response;
    let owner = kit
        .identity
        .finish_saml(domain.id, &response, Some(BROWSER), &request())
        .await
        .unwrap();
    let key = fresh_key(kit, &owner.session).await;
    let reply = kit
        .patch(&key, &domain.at(""), json!({ "sso_enforcement": "saml" }))
        .await;
    assert_eq!(reply.status, 200, "{reply:?}");
    scene
        .test_with(&key)
        .await
        .expect("enforcement", "ok", "must sign in with SAML");
    kit.service.clock().advance(TimeDelta::days(31));
    let report = scene.test_with(&key).await;
    assert_eq!(report.step("enforcement")["status"], "failed");
    report.expect(
        "enforcement",
        "failed",
        "No certificate in saml_x509_cert is currently valid",
    );
}
