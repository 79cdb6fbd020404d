//! What a configuration of an app was told in confidence stays there, whatever is later said of the app.

use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use service::access::{ReadApps, Request as Asked};
use service::credentials::Credential;
use service::organizations::OrganizationRef;
use service::pipeline::{AppConfig, Collection};
use service::{AppConfigId, AppId};
use testkit::{Kit, on_both};
use tower::ServiceExt;

use crate::pipeline::{create, hook};

const SECRET: &str = "hush-hush";

/// An app with a configuration that has a secret; the paths of both.
async fn set_up(kit: &Kit) -> (String, String) {
    let app = create(kit, "pipeline_destinations", hook()).await;
    let values = json!({ "enabled": true, "config": { "url": "https://example.com", "token": SECRET } });
    let config = kit.post(&kit.admin.key, &format!("{app}configs/"), values).await;
    assert_eq!(config.status, 201, "{config:?}");
    kit.service.clock().advance(chrono::TimeDelta::seconds(1));
    let config = format!("{app}configs/{}/", config.body["id"]);
    (app, config)
}

/// Everything that shows something of a configuration.
async fn assert_hidden(kit: &Kit, app: &str, config: &str) {
    for path in [
        config,
        app,
        &format!("{app}configs/"),
        &format!("{app}source/"),
        &format!("{config}logs/"),
        &kit.at("pipeline_destinations/activity/"),
        &kit.at("pipeline_destinations/exports_unsubscribe_configs/"),
        &kit.at("activity/"),
    ] {
        let shown = kit.get(&kit.owner.key, path).await;
        assert_eq!(shown.status, 200, "{path}: {shown:?}");
        assert!(!shown.body.to_string().contains(SECRET), "{path}: {shown:?}");
    }
}

fn schema(entries: &Value) -> Value {
    json!({ "config_schema": entries })
}

/// The manifest of the app, with other fields.
fn source(config: &Value) -> Value {
    let manifest = json!({ "name": "Hook", "config": config }).to_string();
    json!({ "source": { "plugin.json": manifest } })
}

on_both! {
    async fn a_schema_with_the_same_secrets_reads_no_values(kit: Kit) {
        let (app, concerned) = set_up(&kit).await;
        let others = kit.post(&kit.admin.key, &format!("{app}configs/"), json!({ "config": { "token": SECRET } })).await;
        assert_eq!(others.status, 201, "{others:?}");
        // What was encrypted for one configuration cannot be decrypted in another: whoever reads it gets an error.
        let swap = "UPDATE pipeline_config SET secrets = (SELECT c.secrets FROM pipeline_config c ORDER BY c.id LIMIT 1)";
        kit.database.run(swap).await;
        let token = json!({ "key": "token", "type": "string", "secret": true });
        let hinted = json!([{ "key": "url", "type": "string", "hint": "Where to" }, token]);
        let changed = kit.patch(&kit.admin.key, &app, schema(&hinted)).await;
        assert_eq!(changed.status, 200, "{changed:?}");
        // One that has no value there is not read, either.
        let more = json!([{ "key": "url", "type": "string", "secret": true }, token]);
        let changed = kit.patch(&kit.admin.key, &app, schema(&more)).await;
        assert_eq!(changed.status, 200, "{changed:?}");
        assert_eq!(kit.get(&kit.owner.key, &concerned).await.body["config"], json!({}), "the URL is a secret now");
        let gone = kit.patch(&kit.admin.key, &app, schema(&json!([{ "key": "url", "type": "string", "secret": true }]))).await;
        assert_eq!(gone.status, 500, "{gone:?}");
    }

    /// Everybody who writes would wait for that.
    async fn secrets_that_a_schema_does_not_concern_are_not_decrypted_in_the_transaction(kit: Kit) {
        let (app, config) = set_up(&kit).await;
        let token = json!({ "key": "token", "type": "string", "secret": true });
        let unused = json!({ "key": "unused", "type": "string", "secret": true });
        let more = kit.patch(&kit.admin.key, &app, schema(&json!([token, unused]))).await;
        assert_eq!(more.status, 200, "{more:?}");
        when_the_app_is_saved(&kit, "UPDATE pipeline_config SET secrets = substr(secrets, 1, 28)").await;
        let less = kit.patch(&kit.admin.key, &app, schema(&json!([token]))).await;
        assert_eq!(less.status, 200, "what was cut off in the transaction cannot be decrypted: {less:?}");
        assert_hidden(&kit, &app, &config).await;
    }

    /// Which fields the code before has is known only then.
    async fn nor_are_they_decrypted_there_when_an_app_goes_back_to_the_code_before(kit: Kit) {
        let token = json!({ "key": "token", "type": "string", "secret": true });
        let unused = json!({ "key": "unused", "type": "string", "secret": true });
        let body = json!({ "plugin_type": "source", "source": {
            "index.ts": "export function onEvent() {}",
            "plugin.json": json!({ "name": "Hook", "config": [token] }).to_string(),
        } });
        let app = create(&kit, "pipeline_destinations", body).await;
        let more = kit.patch(&kit.admin.key, &format!("{app}update_source/"), source(&json!([token, unused]))).await;
        assert_eq!(more.status, 200, "{more:?}");
        let config = kit.post(&kit.admin.key, &format!("{app}configs/"), json!({ "config": { "token": SECRET } })).await;
        assert_eq!(config.status, 201, "{config:?}");
        when_the_app_is_saved(&kit, "UPDATE pipeline_config SET secrets = substr(secrets, 1, 28)").await;
        let back = kit.post(&kit.member.key, &format!("{app}rollback/"), json!({})).await;
        assert_eq!((back.status, &back.body["version"]), (200, &json!(1)), "{back:?}");
    }

    async fn secrets_that_change_at_the_last_moment_are_looked_at_again(kit: Kit) {
        let (app, config) = set_up(&kit).await;
        let (url, token) = (json!({ "key": "url", "type": "string" }), json!({ "key": "token", "type": "string", "secret": true }));
        let other = json!({ "key": "other", "type": "string", "secret": true });
        let both = kit.patch(&kit.admin.key, &app, schema(&json!([url, token, other]))).await;
        assert_eq!(both.status, 200, "{both:?}");
        let set = async |value: Value| kit.patch(&kit.admin.key, &config, json!({ "config": { "other": value } })).await.status;
        assert_eq!(set(json!(SECRET)).await, 200);
        kit.database.run("CREATE TABLE kept AS SELECT secrets FROM pipeline_config").await;
        assert_eq!(set(Value::Null).await, 200);
        when_the_app_is_saved(&kit, "UPDATE pipeline_config SET secrets = (SELECT secrets FROM kept)").await;
        let less = kit.patch(&kit.admin.key, &app, schema(&json!([url, token]))).await;
        assert_eq!(less.status, 200, "{less:?}");
        let kept = kit.service.kept_secrets(&the_config(&kit, &config).await).unwrap();
        assert_eq!(kept, ["token"]);
    }

    async fn a_secret_stays_hidden_when_the_schema_no_longer_calls_it_one(kit: Kit) {
        let url = json!({ "key": "url", "type": "string", "required": true });
        for (rest, body) in [
            ("", schema(&json!([]))),
            ("", schema(&json!({}))),
            ("", schema(&json!([url, { "key": "token", "type": "string" }]))),
            ("", schema(&json!({ "url": {}, "token": { "secret": false, "site": true } }))),
            ("", schema(&json!([url, { "key": "renamed", "type": "string", "secret": true }]))),
            ("", schema(&json!([url, { "key": "token", "type": "choice", "choices": [SECRET.len().to_string()] }]))),
            ("update_source/", source(&json!([url, { "key": "token", "type": "string" }]))),
            ("update_source/", source(&json!([]))),
            ("update_source/", json!({ "source": { "plugin.json": null } })),
        ] {
            let (app, config) = set_up(&kit).await;
            let changed = kit.patch(&kit.member.key, &format!("{app}{rest}"), body.clone()).await;
            assert_eq!(changed.status, 200, "{body}: {changed:?}");
            assert_hidden(&kit, &app, &config).await;
            // Nor when the field is a secret again, and then is not: the value is gone.
            let again = schema(&json!([url, { "key": "token", "type": "string", "secret": true }]));
            kit.patch(&kit.member.key, &app, again).await;
            let kept = kit.service.kept_secrets(&the_config(&kit, &config).await).unwrap();
            assert!(kept.is_empty(), "{body}: {kept:?}");
            let logs = kit.get(&kit.member.key, &format!("{config}logs/")).await;
            assert!(logs.text("/results/0/message").contains("token"), "{logs:?}");
            let log = kit.get(&kit.member.key, &kit.at("activity/")).await;
            assert!(crate::column(&log, "activity").contains(&&json!("secrets_deleted")), "{log:?}");
            assert_eq!(kit.delete(&kit.admin.key, &app).await.status, 204);
        }
    }

    async fn a_secret_stays_hidden_over_a_roll_back_and_a_change_of_the_configuration(kit: Kit) {
        let open = json!([{ "key": "url", "type": "string" }, { "key": "token", "type": "string" }]);
        let body = json!({ "plugin_type": "source", "source": {
            "index.ts": "export function onEvent() {}",
            "plugin.json": json!({ "name": "Hook", "config": open }).to_string(),
        } });
        let app = create(&kit, "pipeline_destinations", body).await;
        let secret = json!([{ "key": "url", "type": "string" }, { "key": "token", "type": "string", "secret": true }]);
        kit.patch(&kit.admin.key, &format!("{app}update_source/"), source(&secret)).await;
        let made = kit.post(&kit.admin.key, &format!("{app}configs/"), json!({ "config": { "token": SECRET } })).await;
        let config = format!("{app}configs/{}/", made.body["id"]);
        let back = kit.post(&kit.member.key, &format!("{app}rollback/"), json!({})).await;
        assert_eq!((back.status, &back.body["version"]), (200, &json!(1)), "{back:?}");
        assert_hidden(&kit, &app, &config).await;
        let changed = kit.patch(&kit.member.key, &config, json!({ "enabled": true, "config": { "url": "x" } })).await;
        assert_eq!((changed.status, &changed.body["config"]), (200, &json!({ "url": "x" })), "{changed:?}");
        assert_hidden(&kit, &app, &config).await;
    }

    async fn a_field_that_stays_secret_keeps_its_value_and_one_that_becomes_secret_is_hidden(kit: Kit) {
        let (app, config) = set_up(&kit).await;
        let retyped = json!([{ "key": "url", "secret": true }, { "key": "token", "type": "json", "secret": true }]);
        let changed = kit.patch(&kit.member.key, &app, schema(&retyped)).await;
        assert_eq!(changed.status, 200, "{changed:?}");
        let mut kept = kit.service.kept_secrets(&the_config(&kit, &config).await).unwrap();
        kept.sort();
        assert_eq!(kept, ["token", "url"]);
        assert_eq!(kit.get(&kit.member.key, &config).await.body["config"], json!({}));
        assert_hidden(&kit, &app, &config).await;
    }

    async fn a_secret_never_reaches_a_page_whatever_the_schema_says_later(kit: Kit) {
        let manifest = |field: Value| json!({ "name": "Bar", "config": [field] }).to_string();
        let field = json!({ "key": "secret", "type": "string", "secret": true });
        let body = json!({ "plugin_type": "source", "source": {
            "plugin.json": manifest(field), "site.ts": "export function inject({ config }) { document.title = config.secret }",
        } });
        let app = create(&kit, "pipeline_frontend_apps", body).await;
        let values = json!({ "enabled": true, "config": { "secret": SECRET } });
        let config = kit.post(&kit.admin.key, &format!("{app}configs/"), values).await;
        let script = format!("/site_app/{}/{}/1/", config.body["id"], config.text("/web_token"));
        let capture = api::capture_router(kit.service.clone(), kit.events.clone(), api::Settings::default());
        for field in [
            json!({ "key": "secret", "type": "string", "secret": true, "site": true }),
            json!({ "key": "secret", "type": "string", "site": true }),
        ] {
            let change = json!({ "source": { "plugin.json": manifest(field) } });
            let changed = kit.patch(&kit.member.key, &format!("{app}update_source/"), change).await;
            assert_eq!(changed.status, 200, "{changed:?}");
            let request = Request::builder().uri(&script).body(Body::empty()).unwrap();
            let reply = capture.clone().oneshot(request).await.unwrap();
            assert_eq!(reply.status(), 200);
            let text = String::from_utf8(reply.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap();
            assert!(text.contains("document.title") && !text.contains(SECRET), "{text}");
        }
    }
}

/// Has the database do something in every transaction that changes an app, right after that.
async fn when_the_app_is_saved(kit: &Kit, sql: &str) {
    if !kit.database.url.starts_with("postgres") {
        let trigger = format!("CREATE TRIGGER saved AFTER UPDATE ON pipeline_app BEGIN {sql}; END");
        return kit.database.run(&trigger).await;
    }
    let function =
        format!("CREATE FUNCTION saved() RETURNS trigger AS 'BEGIN {sql}; RETURN NULL; END' LANGUAGE plpgsql");
    kit.database.run(&function).await;
    let trigger = "CREATE TRIGGER saved AFTER UPDATE ON pipeline_app EXECUTE FUNCTION saved()";
    kit.database.run(trigger).await;
}

pub(crate) async fn the_config(kit: &Kit, path: &str) -> AppConfig {
    let mut ids = path.rsplit('/').skip(1);
    let config = ids.next().unwrap().parse().unwrap();
    let app = ids.nth(1).unwrap().parse().unwrap();
    let organization = Some(OrganizationRef::Id(kit.organization));
    let caller = kit
        .service
        .allowed::<ReadApps>(Credential::Key(&kit.admin.key), organization, Asked::default())
        .await
        .unwrap();
    kit.service
        .app_config(&caller, Collection::Destinations, AppId(app), AppConfigId(config))
        .await
        .unwrap()
}
