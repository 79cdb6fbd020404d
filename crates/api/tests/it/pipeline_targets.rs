//! Secrets go where those meant them to go who entered them.

use serde_json::{Value, json};
use testkit::{Kit, Reply, on_both};

use crate::pipeline::create;

const COLLECTION: &str = "pipeline_destinations";

/// An app that sends a token somewhere, and says so or not.
fn app(hosts: &Value, endpoint: &Value) -> Value {
    let manifest = json!({ "name": "Sender", "hosts": hosts, "config": [
        { "key": "url", "type": "string" }, { "key": "endpoint", "type": "string", "default": endpoint },
        { "key": "mode", "type": "string" }, { "key": "token", "name": "API token", "type": "string", "secret": true },
    ] });
    let code = "export function onEvent() {}";
    json!({ "plugin_type": "source", "source": { "index.ts": code, "plugin.json": manifest.to_string() } })
}

async fn set_up(kit: &Kit, hosts: Value, allowed: Value) -> String {
    let app = create(kit, COLLECTION, app(&hosts, &Value::Null)).await;
    let values = json!({ "url": "https://good.example/hook", "mode": "fast", "token": "hush-hush" });
    let new = json!({ "enabled": true, "config": values, "allowed_hosts": allowed });
    let config = kit.post(&kit.admin.key, &format!("{app}configs/"), new).await;
    assert_eq!(config.status, 201, "{config:?}");
    format!("{app}configs/{}/", config.body["id"])
}

/// An app with no field that is named like an address.
fn plain_app(hosts: &Value) -> Value {
    let manifest = json!({ "name": "Sender", "hosts": hosts, "config": [
        { "key": "target", "type": "string" }, { "key": "more", "type": "json" }, { "key": "file", "type": "attachment" },
        { "key": "mode", "type": "choice", "choices": ["fast", "slow"] },
        { "key": "token", "name": "API token", "type": "string", "secret": true },
    ] });
    let code = "export function onEvent() {}";
    json!({ "plugin_type": "source", "source": { "index.ts": code, "plugin.json": manifest.to_string() } })
}

async fn set_up_by(kit: &Kit, key: &str, app: &str) -> String {
    let values = json!({ "target": "eu", "more": "\"inner\"", "mode": "fast", "token": "hush-hush" });
    let new = json!({ "enabled": true, "config": values });
    let config = kit.post(key, &format!("{app}configs/"), new).await;
    assert_eq!(config.status, 201, "{config:?}");
    format!("{app}configs/{}/", config.body["id"])
}

fn assert_needs_token(refused: &Reply, what: &Value) {
    assert_eq!(
        (refused.code(), refused.text("/attr")),
        ((400, "required"), "config__token"),
        "{what}: {refused:?}"
    );
    assert!(refused.text("/detail").contains("API token"), "{refused:?}");
}

on_both! {
    /// Security case E1.
    async fn whoever_redirects_a_secret_must_know_it(kit: Kit) {
        let away = json!({ "config": { "url": "https://evil.example/hook" } });
        for (hosts, allowed, changes) in [
            (json!(["config.url"]), json!(null), vec![away.clone(), json!({ "config": { "url": null } })]),
            // Not a word about hosts: whatever looks like an address.
            (json!(null), json!(null), vec![away.clone(), json!({ "config": { "endpoint": "https://evil.example" } }),
                json!({ "config": { "mode": "evil.example" } })]),
            (json!(["*.cdn.example"]), json!(null), vec![away.clone()]),
            (json!(["good.example", "evil.example"]), json!(["config.url"]), vec![away.clone()]),
            (json!(null), json!(["good.example"]), vec![
                json!({ "allowed_hosts": null }), json!({ "allowed_hosts": ["good.example", "evil.example"] }),
                json!({ "allowed_hosts": ["config.url"] }),
            ]),
        ] {
            let config = set_up(&kit, hosts, allowed).await;
            let before = kit.get(&kit.member.key, &config).await.body;
            for change in changes {
                assert_needs_token(&kit.patch(&kit.member.key, &config, change.clone()).await, &change);
                let mut off = change.clone();
                off["enabled"] = json!(false);
                assert_needs_token(&kit.patch(&kit.member.key, &config, off).await, &change);
            }
            assert_eq!(kit.get(&kit.member.key, &config).await.body, before);
        }
    }

    async fn whoever_knows_the_secret_or_gives_it_up_can_change_everything(kit: Kit) {
        let config = set_up(&kit, json!(["config.url"]), json!(["config.url"])).await;
        for change in [
            json!({ "config": { "mode": "slow" }, "order": 2 }),
            json!({ "config": { "url": "https://good.example/hook" }, "enabled": false }),
            json!({ "config": { "token": "other" }, "enabled": true }),
            json!({ "config": { "url": "https://else.example", "token": "hush-hush" } }),
            json!({ "allowed_hosts": [] }),
            json!({ "allowed_hosts": ["config.url"], "config": { "token": null } }),
            json!({ "config": { "url": "https://third.example" } }),
        ] {
            let changed = kit.patch(&kit.member.key, &config, change.clone()).await;
            assert_eq!(changed.status, 200, "{change}: {changed:?}");
        }
        // Fixed hosts leave nothing to choose.
        let config = set_up(&kit, json!(["api.example.com"]), json!(null)).await;
        let changed = kit.patch(&kit.member.key, &config, json!({ "config": { "url": "https://a.example" }, "allowed_hosts": [] })).await;
        assert_eq!(changed.status, 200, "{changed:?}");
    }

    async fn an_address_that_is_secret_or_inside_of_json_is_one(kit: Kit) {
        let fields = json!([
            { "key": "url", "type": "string", "secret": true }, { "key": "place", "type": "string", "secret": true },
            { "key": "target", "type": "json" }, { "key": "mode", "type": "string", "secret": true },
            { "key": "token", "name": "API token", "type": "string", "secret": true },
        ]);
        let manifest = json!({ "name": "Sender", "config": fields }).to_string();
        let source = json!({ "index.ts": "export function onEvent() {}", "plugin.json": manifest });
        let app = create(&kit, COLLECTION, json!({ "plugin_type": "source", "source": source })).await;
        let values = json!({ "url": "https://good.example/x", "token": "hush-hush", "place": "https://good.example",
            "target": { "to": { "via": ["good.example"] } }, "mode": "fast" });
        let config = kit.post(&kit.admin.key, &format!("{app}configs/"), json!({ "enabled": true, "config": values })).await;
        assert_eq!(config.status, 201, "{config:?}");
        let config = format!("{app}configs/{}/", config.body["id"]);
        for change in [
            json!({ "url": "https://evil.example/x" }),
            json!({ "url": null }),
            json!({ "place": "evil.example" }),
            json!({ "target": { "to": { "via": ["evil.example"] } } }),
            json!({ "target": { "host": "evil" } }),
            json!({ "target": null }),
        ] {
            let refused = kit.patch(&kit.member.key, &config, json!({ "config": change })).await;
            assert_eq!(refused.code(), (400, "required"), "{change}: {refused:?}");
            assert!(refused.body.to_string().contains("config__"), "{refused:?}");
        }
        for change in [json!({ "mode": "slow" }), json!({ "token": "other" })] {
            let changed = kit.patch(&kit.member.key, &config, json!({ "config": change })).await;
            assert_eq!(changed.status, 200, "{change}: {changed:?}");
        }
    }

    /// There are more ways to make a URL of a value than can be recognized.
    async fn whoever_may_not_change_the_code_gives_the_secrets_with_every_value(kit: Kit) {
        let app = create(&kit, COLLECTION, plain_app(&Value::Null)).await;
        let config = set_up_by(&kit, &kit.admin.key, &app).await;
        kit.database.run("UPDATE organization SET plugins_access_level = 3").await;
        for change in [
            json!({ "target": "us" }), json!({ "target": "::1" }), json!({ "target": ":8080" }), json!({ "target": 8080 }),
            json!({ "target": "127.0.0.1 b" }), json!({ "target": "a|127.0.0.1" }), json!({ "target": "xn--.localhost:80/" }),
            json!({ "target": null }), json!({ "more": "\"localhos\\u0074\"" }), json!({ "more": "\"127\\u002e0.0.1\"" }),
            json!({ "file": { "contents": "bG9jYWxob3N0" } }),
        ] {
            let refused = kit.patch(&kit.member.key, &config, json!({ "config": change })).await;
            assert_needs_token(&refused, &change);
        }
        for change in [
            json!({ "config": { "mode": "slow" } }),
            json!({ "config": { "target": "eu", "more": "\"inner\"" }, "enabled": false, "order": 2 }),
            json!({ "config": { "target": "us", "token": "hush-hush" } }),
        ] {
            let changed = kit.patch(&kit.member.key, &config, change.clone()).await;
            assert_eq!(changed.status, 200, "{change}: {changed:?}");
        }
        // Whoever may change the code could send them anywhere.
        kit.database.run("UPDATE organization SET plugins_access_level = 6").await;
        let changed = kit.patch(&kit.member.key, &config, json!({ "config": { "target": "eu" } })).await;
        assert_eq!(changed.status, 200, "{changed:?}");
    }

    async fn nobody_who_configures_an_app_for_all_changes_its_code(kit: Kit) {
        kit.make_operator(&kit.admin).await;
        let mut body = plain_app(&json!(["*.vendor.example"]));
        body["is_global"] = json!(true);
        let here = create(&kit, COLLECTION, body).await;
        let there = here.replace(&kit.organization.to_string(), &kit.other.to_string());
        for (key, app) in [(&kit.member.key, here), (&kit.outsider.key, there)] {
            let config = set_up_by(&kit, key, &app).await;
            let change = json!({ "config": { "target": "other" } });
            assert_needs_token(&kit.patch(key, &config, change.clone()).await, &change);
        }
    }

    /// Others wait to write while values are searched.
    async fn values_are_looked_through_as_far_as_they_may_be_long(kit: Kit) {
        let config = set_up(&kit, json!(null), json!(null)).await;
        let change = async |mode: String| kit.patch(&kit.member.key, &config, json!({ "config": { "mode": mode } })).await;
        let large = change("evil.example,".repeat(30_000)).await;
        assert_eq!((large.code(), large.text("/attr")), ((400, "max_length"), "config"), "{large:?}");
        assert_needs_token(&change(",".repeat(100_000)).await, &json!("an address can be behind very many commas"));
        assert_eq!(change("fast,slow".to_owned()).await.status, 200);
    }

    /// A publisher's other default, or another field that names the host, is shown before anybody agrees.
    async fn consent_shows_where_secrets_would_go(kit: Kit) {
        kit.make_operator(&kit.admin).await;
        let mut body = app(&json!(["config.url", "config.endpoint"]), &json!("https://good.example"));
        body["is_global"] = json!(true);
        let here = create(&kit, COLLECTION, body).await;
        let there = here.replace(&kit.organization.to_string(), &kit.other.to_string());
        let values = json!({ "url": "https://mine.example:8443/x", "token": "hush-hush" });
        let theirs = kit.post(&kit.outsider.key, &format!("{there}configs/"), json!({ "enabled": true, "config": values })).await;
        assert_eq!(theirs.status, 201, "{theirs:?}");
        let upgrade = format!("{there}configs/{}/upgrade/", theirs.body["id"]);

        let mut fields = kit.get(&kit.admin.key, &here).await.body["config_schema"].clone();
        let before = fields[1].clone();
        fields[1]["default"] = json!("https://evil.example");
        let patch = json!({ "config_schema": fields });
        assert_eq!(kit.patch(&kit.member.key, &here, patch.clone()).await.code(), (403, "permission_denied"));
        assert_eq!(kit.patch(&kit.admin.key, &here, patch).await.status, 200);
        let preview = kit.get(&kit.outsider.key, &upgrade).await;
        let changes = &preview.body["changes"];
        assert_eq!(changes["changed_fields"], json!(["endpoint"]), "{preview:?}");
        assert_eq!(changes["field_changes"], json!([{ "key": "endpoint", "before": before, "after": fields[1] }]));
        assert_eq!(changes["added_hosts"], json!([]), "a default leads nowhere");

        // What the configuration itself says is what hosts are compared by.
        let manifest = json!({ "name": "Sender", "hosts": ["mine.example", "new.example"], "config": fields });
        let source = json!({ "source": { "plugin.json": manifest.to_string() }, "config_schema": null });
        let changed = kit.patch(&kit.admin.key, &format!("{here}update_source/"), source).await;
        assert_eq!(changed.status, 200, "{changed:?}");
        let preview = kit.get(&kit.outsider.key, &upgrade).await;
        assert_eq!(preview.body["changes"]["added_hosts"], json!(["new.example"]), "{preview:?}");
        assert_eq!(preview.body["changes"]["removed_hosts"], json!(["config.endpoint"]));
    }
}
