//! The hosts that an app can reach: what it declares, and what its configuration is limited to.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::external::Receiver;
use testkit::{Kit, on_both};

use crate::running::{self, bodies, happen, logged};

const CODE: &str = r"
export async function onEvent(event, { config }) {
    try { await fetch(config.url, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: '1' }) } catch (error) { console.log(String(error.message)) }
}
export function composeWebhook(event, { config }) {
    return { url: config.url, body: '2' }
}
";

/// An app with these fields in its `plugin.json`, enabled with the address of the receiver: the address of its configuration.
async fn install(kit: &Kit, manifest: Value, fields: Value, receiver: &Receiver) -> String {
    let mut whole = json!({ "config": [{ "key": "url", "type": "string" }] });
    whole
        .as_object_mut()
        .unwrap()
        .extend(manifest.as_object().unwrap().clone());
    let mut app = json!({ "plugin_type": "source", "source": { "plugin.json": whole.to_string(), "index.ts": CODE } });
    app.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    let app = kit.post(&kit.owner.key, &kit.at("pipeline_destinations/"), app).await;
    assert_eq!(app.status, 201, "{app:?}");
    let configs = kit.at(&format!("pipeline_destinations/{}/configs/", app.body["id"]));
    let made = json!({ "enabled": true, "config": { "url": receiver.url() } });
    let made = kit.post(&kit.owner.key, &configs, made).await;
    assert_eq!(made.status, 201, "{made:?}");
    format!("{configs}{}/", made.body["id"])
}

async fn reached(kit: &Kit, config: &str) -> Vec<(String, bool)> {
    let hosts = kit.get(&kit.member.key, &format!("{config}hosts/")).await;
    let hosts = hosts.body["results"].as_array().unwrap().iter();
    hosts
        .map(|one| (one["host"].as_str().unwrap().to_owned(), one["is_allowed"] == true))
        .collect()
}

async fn run(kit: &Kit) {
    happen(kit, &["a"]).await;
    kit.run_apps().await;
}

on_both! {
    async fn a_configuration_can_be_limited_to_hosts_and_shows_those_that_were_reached(kit: Kit) {
        let receiver = Receiver::start();
        let config = install(&kit, json!({}), json!({}), &receiver).await;
        run(&kit).await;
        assert_eq!(bodies(&receiver).len(), 2, "a fetch and a webhook");
        assert_eq!(reached(&kit, &config).await, [("127.0.0.1".to_owned(), true)]);

        let limited = kit.patch(&kit.owner.key, &config, json!({ "allowed_hosts": ["api.example.com"] })).await;
        assert_eq!((limited.status, &limited.body["allowed_hosts"]), (200, &json!(["api.example.com"])));
        run(&kit).await;
        assert_eq!(bodies(&receiver).len(), 2, "nothing more arrived");
        assert_eq!(reached(&kit, &config).await, [("127.0.0.1".to_owned(), false)]);
        let said = logged(&kit, &config).await;
        assert!(said.iter().any(|line| line.contains("Requests to 127.0.0.1 are not allowed")), "{said:?}");
        let log = kit.get(&kit.owner.key, &kit.at("pipeline_destinations/activity/")).await;
        assert_eq!(log.text("/results/0/activity"), "host_refused");
        assert_eq!(log.text("/results/0/detail/changes/0/after"), "127.0.0.1");

        kit.patch(&kit.owner.key, &config, json!({ "allowed_hosts": ["config.url", "*.example.com"] })).await;
        run(&kit).await;
        assert_eq!(bodies(&receiver).len(), 4);
        let freed = kit.patch(&kit.owner.key, &config, json!({ "allowed_hosts": null })).await;
        assert_eq!(freed.body["allowed_hosts"], Value::Null);
    }

    /// Or it could send what it knows when it is replaced, and nobody would see it.
    async fn what_an_app_does_at_its_end_is_shown(kit: Kit) {
        let receiver = Receiver::start();
        let code = r"
            export function onEvent() {}
            export async function teardownPlugin({ config }) {
                console.log('the end')
                await fetch(config.url, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: '1' })
            }
        ";
        let config = running::run(&kit, "pipeline_destinations", code, json!({ "url": receiver.url() })).await;
        run(&kit).await;
        assert_eq!(reached(&kit, &config).await, []);
        kit.patch(&kit.owner.key, &config, json!({ "allowed_hosts": ["127.0.0.1"] })).await;
        run(&kit).await;
        assert_eq!(bodies(&receiver).len(), 1, "the process of before has ended");
        let begun = Instant::now();
        while reached(&kit, &config).await.is_empty() || logged(&kit, &config).await.is_empty() {
            assert!(begun.elapsed() < Duration::from_secs(20), "it is not shown");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(logged(&kit, &config).await, ["LOG the end"]);
    }

    async fn an_app_reaches_no_host_that_it_does_not_declare(kit: Kit) {
        let receiver = Receiver::start();
        install(&kit, json!({ "hosts": ["api.example.com"] }), json!({}), &receiver).await;
        run(&kit).await;
        assert!(bodies(&receiver).is_empty());
        // A configuration cannot widen what the app declares.
        let config = install(&kit, json!({ "hosts": ["api.example.com"] }), json!({}), &receiver).await;
        kit.patch(&kit.owner.key, &config, json!({ "allowed_hosts": ["127.0.0.1"] })).await;
        run(&kit).await;
        assert!(bodies(&receiver).is_empty());
        install(&kit, json!({ "hosts": ["config.url"] }), json!({}), &receiver).await;
        run(&kit).await;
        assert_eq!(bodies(&receiver).len(), 2);
    }

    async fn an_app_for_all_organizations_declares_its_hosts_or_reaches_none(kit: Kit) {
        kit.make_operator(&kit.owner).await;
        let receiver = Receiver::start();
        install(&kit, json!({}), json!({ "is_global": true }), &receiver).await;
        run(&kit).await;
        assert!(bodies(&receiver).is_empty());
        install(&kit, json!({ "hosts": ["config.url"] }), json!({ "is_global": true }), &receiver).await;
        run(&kit).await;
        assert_eq!(bodies(&receiver).len(), 2);
    }

    /// Whoever publishes the app can change its defaults: they would decide where secrets go.
    async fn a_default_is_no_host_that_the_configuration_names(kit: Kit) {
        let receiver = Receiver::start();
        let field = json!({ "key": "url", "type": "string", "default": receiver.url() });
        let config = install(&kit, json!({ "hosts": ["config.url"], "config": [field] }), json!({}), &receiver).await;
        kit.patch(&kit.owner.key, &config, json!({ "config": { "url": null } })).await;
        run(&kit).await;
        assert!(bodies(&receiver).is_empty(), "{:?}", reached(&kit, &config).await);
        assert_eq!(reached(&kit, &config).await, [("127.0.0.1".to_owned(), false)]);
        kit.patch(&kit.owner.key, &config, json!({ "config": { "url": receiver.url() } })).await;
        run(&kit).await;
        assert_eq!(bodies(&receiver).len(), 2);
    }

    async fn what_is_no_host_is_refused_where_it_stands(kit: Kit) {
        let receiver = Receiver::start();
        let config = install(&kit, json!({}), json!({}), &receiver).await;
        for wrong in [json!(["https://a.example"]), json!(["*"]), json!(["a.example:80"])] {
            let refused = kit.patch(&kit.owner.key, &config, json!({ "allowed_hosts": wrong })).await;
            assert_eq!((refused.code(), refused.text("/attr")), ((400, "invalid_input"), "allowed_hosts"));
        }
        let source = json!({ "plugin.json": r#"{ "hosts": ["a b"] }"#, "index.ts": "export function onEvent() {}" });
        let app = json!({ "plugin_type": "source", "source": source });
        let refused = kit.post(&kit.owner.key, &kit.at("pipeline_destinations/"), app).await;
        assert_eq!((refused.status, refused.text("/attr")), (400, "source__plugin.json"));
    }
}
