//! Addresses that users choose, against a policy that allows nothing but the public: nothing leaves this machine.

use std::net::TcpListener;

use identity::{Identity, IdentityDeps, Target};
use outbound::{Dialer, Http, Policy, Roots};
use serde_json::json;
use service::{RandomSource, Service};
use testkit::Kit;
use testkit::databases::Backend;
use testkit::external::{Dns, SamlIdp, SamlOptions};
use testkit::kit::{deps, instance};

use crate::scene::{Added, OURS, add, change, kit_of, login_request, prove, rule};

/// What must not be dialed, however it is spelled. `PORT` is one where somebody listens.
const FORBIDDEN: [&str; 28] = [
    "http://127.0.0.1:PORT/",
    "https://127.0.0.1:PORT/",
    "http://localhost:PORT/",
    "https://localhost.:PORT/",
    "https://a.localhost:PORT/",
    "http://[::1]:PORT/",
    "https://[::ffff:127.0.0.1]:PORT/",
    "https://[::ffff:7f00:1]:PORT/",
    "https://2130706433:PORT/",
    "https://0x7f000001:PORT/",
    "https://0177.0.0.1:PORT/",
    "https://127.1:PORT/",
    "https://0.0.0.0:PORT/",
    "https://10.0.0.1/",
    "https://172.16.0.1/",
    "https://192.168.1.1/",
    "https://100.64.0.1/",
    "https://169.254.169.254/latest/meta-data/",
    "http://169.254.169.254/latest/meta-data/",
    "https://[fe80::1]/",
    "https://[fd00:ec2::254]/",
    "https://[64:ff9b::a9fe:a9fe]/",
    "https://[2002:7f00:1::]/",
    "https://user:secret@127.0.0.1:PORT/",
    "http://10.0.0.1/",
    "file:///etc/passwd",
    "gopher://127.0.0.1:PORT/_",
    "unix:/run/socket",
];

struct Scene {
    kit: Kit,
    domain: Added,
    listener: TcpListener,
    _dns: Dns,
}

impl Scene {
    async fn new() -> Self {
        let http = Http::new(Dialer::new(Policy::default()), &Roots::public()).unwrap();
        let server = Dns::start(&[OURS]);
        let dns = outbound::Dns::new(&[server.address()]).unwrap();
        let kit = kit_of(Backend::Sqlite, instance(), IdentityDeps { http, dns, ..deps() }).await;
        let domain = add(&kit, OURS).await;
        prove(&kit, &domain).await;
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        Self {
            kit,
            domain,
            listener,
            _dns: server,
        }
    }

    fn forbidden(&self) -> impl Iterator<Item = String> {
        let port = self.listener.local_addr().unwrap().port().to_string();
        FORBIDDEN.into_iter().map(move |url| url.replace("PORT", &port))
    }

    /// Nobody has knocked, and what is said names no address.
    fn expect_silence(&self, url: &str, said: &str) {
        let knock = self.listener.accept();
        assert_eq!(knock.unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "{url}");
        for inside in ["127.0.0.1", "169.254", "10.0.0.1", "secret", "refused (os error"] {
            assert!(!said.contains(inside), "{url}: {said}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metadata_is_not_read_from_where_nobody_may_go() {
    let scene = Scene::new().await;
    let Scene { kit, domain, .. } = &scene;
    for url in scene.forbidden() {
        let source = json!({ "url": url });
        let reply = kit.post(&domain.key, &domain.at("import_metadata/"), source).await;
        assert_eq!(reply.code(), (400, "unreachable"), "{url}: {reply:?}");
        assert_eq!(reply.text("/attr"), "url");
        scene.expect_silence(&url, reply.text("/detail"));
    }
    let settings = kit.get(&domain.key, &domain.at("")).await;
    assert_eq!(settings.body["has_saml"], false);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_issuer_is_asked_where_nobody_may_go() {
    let scene = Scene::new().await;
    let Scene { kit, domain, .. } = &scene;
    for url in scene.forbidden() {
        let settings = json!({ "oidc_issuer": url, "oidc_client_id": "us", "oidc_client_secret": "known" });
        let reply = kit.patch(&domain.key, &domain.at(""), settings).await;
        if reply.status == 400 {
            assert_eq!(reply.text("/attr"), "oidc_issuer", "{reply:?}");
            scene.expect_silence(&url, "");
            continue;
        }
        // What could be saved is judged when it is used, as rules may have changed in between.
        assert_eq!(reply.status, 200, "{reply:?}");
        let begun = kit
            .identity
            .start_oidc(Target::Domain(domain.id), &login_request("/"))
            .await;
        assert_eq!(rule(begun), "provider_unreachable", "{url}");
        let report = kit.post(&domain.key, &domain.at("test/"), json!({})).await;
        let steps = report.body["steps"].as_array().unwrap();
        let step = steps.iter().find(|step| step["name"] == "oidc_discovery").unwrap();
        assert_eq!(step["status"], "failed", "{step}");
        scene.expect_silence(&url, step["message"].as_str().unwrap());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn diagnostics_visit_nobody_whom_they_may_not() {
    let scene = Scene::new().await;
    let Scene {
        kit, domain, listener, ..
    } = &scene;
    let port = listener.local_addr().unwrap().port();
    // Where browsers are sent is theirs to reach.
    let certificate = SamlIdp::start(SamlOptions::default()).certificate_pem();
    let settings = json!({
        "saml_entity_id": "inside", "saml_acs_url": format!("http://127.0.0.1:{port}/sso"), "saml_x509_cert": certificate,
    });
    change(kit, domain, settings).await;
    let report = kit.post(&domain.key, &domain.at("test/"), json!({})).await;
    let steps = report.body["steps"].as_array().unwrap();
    let step = steps.iter().find(|step| step["name"] == "clock").unwrap();
    assert_eq!(step["status"], "warning", "{step}");
    scene.expect_silence("the sign-in address", step["message"].as_str().unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rule_that_was_tightened_holds_for_what_was_stored_before() {
    let idp = SamlIdp::start(SamlOptions::default());
    let kit = crate::scene::kit(Backend::Sqlite).await;
    let domain = add(&kit, OURS).await;
    let path = domain.at("import_metadata/");
    let reply = kit.post(&domain.key, &path, json!({ "url": idp.metadata_url() })).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let http = Http::new(Dialer::new(Policy::default()), &Roots::public()).unwrap();
    let clock = kit.service.clock().clone();
    let service = Service::new(kit.database.open().await, clock, RandomSource::System, instance());
    let mut strict = kit;
    strict.app = api::router(
        Identity::new(service, IdentityDeps { http, ..deps() }),
        strict.exports.clone(),
        strict.apps.clone(),
        api::Settings::default(),
        None,
    );
    let report = strict.post(&domain.key, &domain.at("test/"), json!({})).await;
    let steps = report.body["steps"].as_array().unwrap();
    let step = steps.iter().find(|step| step["name"] == "saml_metadata").unwrap();
    assert_eq!(step["status"], "warning", "{step}");
    assert!(
        step["message"]
            .as_str()
            .unwrap()
            .contains("HEDGEROW_ALLOW_PRIVATE_NETWORKS"),
        "{step}"
    );
}
