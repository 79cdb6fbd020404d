//! Configurations keep the version that their organization approved, and say when there is another.

use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use service::Level;
use testkit::{Kit, Reply, on_both};
use tower::ServiceExt;

use crate::pipeline::{create, hook};

/// An app for all, set up by its own organization and by another.
struct Scene {
    app: String,
    own: String,
    /// The app as the other organization sees it.
    there: String,
    theirs: String,
}

async fn scene(kit: &Kit, collection: &str, mut body: Value, values: Value) -> Scene {
    kit.make_operator(&kit.admin).await;
    body["is_global"] = json!(true);
    let app = create(kit, collection, body).await;
    let there = app.replace(&kit.organization.to_string(), &kit.other.to_string());
    let new = json!({ "enabled": true, "version": 1, "config": values });
    let own = kit.post(&kit.admin.key, &format!("{app}configs/"), new.clone()).await;
    let theirs = kit.post(&kit.outsider.key, &format!("{there}configs/"), new).await;
    assert_eq!((own.status, theirs.status), (201, 201), "{own:?} {theirs:?}");
    kit.service.clock().advance(chrono::TimeDelta::seconds(1));
    Scene {
        own: format!("{app}configs/{}/", own.body["id"]),
        theirs: format!("{there}configs/{}/", theirs.body["id"]),
        app,
        there,
    }
}

async fn hooked(kit: &Kit) -> Scene {
    let values = json!({ "url": "https://example.com", "token": "hush-hush" });
    scene(kit, "pipeline_destinations", hook(), values).await
}

fn versions(config: &Reply) -> (i64, i64) {
    let number = |field: &str| config.body[field].as_i64().unwrap();
    (number("version"), number("latest_version"))
}

async fn swap(kit: &Kit, app: &str, code: &str) {
    let change = json!({ "source": { "index.ts": code } });
    let changed = kit.patch(&kit.admin.key, &format!("{app}update_source/"), change).await;
    assert_eq!(changed.status, 200, "{changed:?}");
    kit.service.clock().advance(chrono::TimeDelta::seconds(1));
}

/// What an organization's log says of apps: the newest first.
async fn activity(kit: &Kit, there: &str) -> Reply {
    let (collection, _) = there.trim_end_matches('/').rsplit_once('/').unwrap();
    kit.get(&kit.outsider.key, &format!("{collection}/activity/")).await
}

on_both! {
    /// Each of them has an entry in the log, and they are more than one statement has parameters for.
    async fn thousands_who_use_an_app_are_told(kit: Kit) {
        let Scene { app, theirs, .. } = hooked(&kit).await;
        let columns = "organization_id, app_id, team_id, enabled, sort_order, config, web_token, delivered_until, delivered_count, \
            attempt, tries, failures, created_at, updated_at";
        let (_, id) = theirs.trim_end_matches('/').rsplit_once('/').unwrap();
        let many = format!(
            "INSERT INTO pipeline_config ({columns}) \
             WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 6000) \
             SELECT {columns} FROM n, pipeline_config WHERE id = {id}"
        );
        kit.database.run(&many).await;
        let renamed = kit.patch(&kit.admin.key, &app, json!({ "name": "Renamed" })).await;
        assert_eq!(renamed.status, 200, "{renamed:?}");
        let told: Vec<i64> = kit.database.column("SELECT count(*) FROM activity WHERE activity = 'app_updated'").await;
        assert_eq!(told, [6001]);
    }

    async fn a_new_version_asks_for_consent_and_shows_what_changes(kit: Kit) {
        let Scene { app, own, there, theirs } = hooked(&kit).await;
        swap(&kit, &app, "export function onEvent() {}\n").await;
        assert_eq!(versions(&kit.get(&kit.member.key, &own).await), (2, 2), "one's own moves along");
        assert_eq!(versions(&kit.get(&kit.outsider.key, &theirs).await), (1, 2));
        let told = activity(&kit, &there).await;
        assert_eq!(told.text("/results/0/activity"), "new_version", "{told:?}");
        assert_eq!(told.body["results"][0]["detail"]["changes"][0]["after"], "2");
        assert!(!told.body.to_string().contains(kit.admin.user.email.as_str()), "people of others are nobody here");
        let logs = kit.get(&kit.outsider.key, &format!("{theirs}logs/")).await;
        assert!(logs.text("/results/0/message").contains("version 2"), "{logs:?}");

        let upgrade = format!("{theirs}upgrade/");
        let preview = kit.get(&kit.outsider.key, &upgrade).await;
        assert_eq!(versions(&preview), (1, 2), "{preview:?}");
        assert_eq!(preview.body["changes"]["added_capabilities"], json!(["methods.onEvent"]));
        assert_eq!(preview.body["changes"]["removed_capabilities"], json!(["methods.composeWebhook"]));
        assert_eq!((preview.text("/files/0/name"), preview.text("/files/0/action")), ("index.ts", "changed"));
        assert!(preview.text("/files/0/diff").contains("\n+export function onEvent() {}\n"), "{preview:?}");
        assert_eq!(preview.body["files"].as_array().unwrap().len(), 1);

        // What was looked at is what is taken.
        swap(&kit, &app, "export function onEvent() { return 1 }\n").await;
        let stale = kit.post(&kit.outsider.key, &upgrade, json!({ "version": 2 })).await;
        assert_eq!(stale.code(), (409, "version_changed"), "{stale:?}");
        let unseen = kit.post(&kit.outsider.key, &upgrade, json!({})).await;
        assert_eq!((unseen.code(), unseen.text("/attr")), ((400, "required"), "version"));
        assert_eq!(versions(&kit.get(&kit.outsider.key, &theirs).await), (1, 3));
        let late = kit.post(&kit.outsider.key, &format!("{there}configs/"), json!({ "version": 2 })).await;
        assert_eq!(late.code(), (409, "version_changed"), "{late:?}");

        // Nobody but the organization itself decides.
        assert_eq!(kit.post(&kit.owner.key, &upgrade, json!({ "version": 3 })).await.status, 404);
        let foreign = upgrade.replace(&kit.other.to_string(), &kit.organization.to_string());
        assert_eq!(kit.post(&kit.owner.key, &foreign, json!({ "version": 3 })).await.status, 404);
        assert_eq!(kit.get(&kit.owner.key, &foreign).await.status, 404);
        let taken = kit.post(&kit.outsider.key, &upgrade, json!({ "version": 3 })).await;
        assert_eq!((taken.status, versions(&taken)), (200, (3, 3)), "{taken:?}");
        let told = activity(&kit, &there).await;
        assert_eq!(told.text("/results/0/activity"), "config_upgraded");
        assert_eq!(told.text("/results/0/user/email"), kit.outsider.user.email);
        let nothing = kit.get(&kit.outsider.key, &upgrade).await;
        assert_eq!((&nothing.body["files"], versions(&nothing)), (&json!([]), (3, 3)));

        let back = kit.post(&kit.admin.key, &format!("{app}rollback/"), json!({ "version": 1 })).await;
        assert_eq!(back.status, 200);
        assert_eq!(versions(&kit.get(&kit.outsider.key, &theirs).await), (3, 1));
        assert_eq!(activity(&kit, &there).await.text("/results/0/activity"), "new_version");
    }

    async fn what_owners_write_of_an_app_changes_nothing_for_others(kit: Kit) {
        let Scene { app, own, theirs, .. } = hooked(&kit).await;
        let open = json!([{ "key": "url", "type": "string" }, { "key": "token", "type": "string" }, { "key": "more", "required": true }]);
        for patch in [
            json!({ "config_schema": [] }),
            json!({ "config_schema": open }),
            json!({ "capabilities": {} }),
            json!({ "public_jobs": { "Other": {} } }),
            json!({ "metrics": { "other": "sum" } }),
        ] {
            let before = kit.get(&kit.member.key, &app).await.body["version"].as_i64().unwrap();
            let changed = kit.patch(&kit.admin.key, &app, patch.clone()).await;
            assert_eq!((changed.status, &changed.body["version"]), (200, &json!(before + 1)), "{patch}");
        }
        let named = kit.patch(&kit.admin.key, &app, json!({ "name": "Ours", "description": "Better" })).await;
        assert_eq!(named.body["version"], 6, "how it is shown is no other version");
        let shown = kit.get(&kit.outsider.key, &theirs).await;
        assert_eq!((&shown.body["config"], versions(&shown)), (&json!({ "url": "https://example.com" }), (1, 6)));
        // The approved fields are asked for, the secret is still kept, and no other.
        let off = json!({ "enabled": false, "config": { "url": "https://example.org", "token": "hush-hush" } });
        let changed = kit.patch(&kit.outsider.key, &theirs, off).await;
        assert_eq!((changed.status, &changed.body["config"]), (200, &json!({ "url": "https://example.org" })), "{changed:?}");
        let more = kit.patch(&kit.outsider.key, &theirs, json!({ "config": { "more": "x" } })).await;
        assert_eq!(more.code(), (400, "unknown_field"));
        let on = kit.patch(&kit.outsider.key, &theirs, json!({ "enabled": true, "config": { "token": null } })).await;
        assert_eq!((on.status, &on.body["config"]), (200, &json!({ "url": "https://example.org" })), "{on:?}");
        let again = kit.patch(&kit.outsider.key, &theirs, json!({ "config": { "token": "hush-hush" } })).await;
        assert_eq!((again.status, &again.body["config"]), (200, &json!({ "url": "https://example.org" })), "{again:?}");

        // Taking the newest version deletes what is no longer secret there.
        let preview = kit.get(&kit.outsider.key, &format!("{theirs}upgrade/")).await;
        assert_eq!((&preview.body["files"], &preview.body["changes"]["added_fields"]), (&json!([]), &json!(["more"])));
        assert_eq!(preview.body["changes"]["changed_fields"], json!(["url", "token"]));
        let taken = kit.post(&kit.outsider.key, &format!("{theirs}upgrade/"), json!({ "version": 6 })).await;
        assert_eq!((taken.status, &taken.body["config"]), (200, &json!({ "url": "https://example.org" })), "{taken:?}");
        assert!(!kit.get(&kit.outsider.key, &theirs).await.body.to_string().contains("hush-hush"));
        assert_eq!(versions(&kit.get(&kit.member.key, &own).await), (6, 6));
    }

    async fn others_are_told_how_an_app_is_shown_from_now_on(kit: Kit) {
        let Scene { app, there, theirs, .. } = hooked(&kit).await;
        let change = json!({ "name": "Official", "icon": "https://example.com/icon.png", "tag": "v9" });
        assert_eq!(kit.patch(&kit.member.key, &app, change.clone()).await.status, 403);
        assert_eq!(kit.patch(&kit.admin.key, &app, change).await.status, 200);
        let told = activity(&kit, &there).await;
        assert_eq!(told.text("/results/0/activity"), "app_updated", "{told:?}");
        let changes = told.body["results"][0]["detail"]["changes"].as_array().unwrap();
        let fields: Vec<&str> = changes.iter().map(|change| change["field"].as_str().unwrap()).collect();
        assert_eq!(fields, ["icon", "name", "tag"]);
        assert_eq!((&changes[1]["before"], &changes[1]["after"]), (&json!("Hook"), &json!("Official")));
        assert!(!told.body.to_string().contains(kit.admin.user.email.as_str()), "people of others are nobody here");
        assert_eq!(versions(&kit.get(&kit.outsider.key, &theirs).await), (1, 1));
        // With another version it is one entry.
        kit.service.clock().advance(chrono::TimeDelta::seconds(1));
        let both = json!({ "description": "Better", "metrics": { "other": "sum" } });
        assert_eq!(kit.patch(&kit.admin.key, &app, both).await.status, 200);
        let again = activity(&kit, &there).await;
        assert_eq!(again.text("/results/0/activity"), "new_version", "{again:?}");
        assert_eq!(again.text("/results/0/detail/changes/1/field"), "description");
        assert_eq!(again.body["count"].as_i64(), told.body["count"].as_i64().map(|count| count + 1));
    }

    async fn pages_of_others_are_served_the_script_that_was_approved(kit: Kit) {
        let manifest = |is_for_sites: bool| {
            let field = json!({ "key": "text", "type": "string", "site": is_for_sites });
            json!({ "name": "Bar", "config": [field] }).to_string()
        };
        let site = |text: &str| format!("export function inject() {{ document.title = '{text}' }}");
        let body = json!({ "plugin_type": "source", "source": { "plugin.json": manifest(true), "site.ts": site("approved") } });
        let Scene { app, own, theirs, .. } = scene(&kit, "pipeline_frontend_apps", body, json!({ "text": "Hi" })).await;
        let served = async |path: &str, key: &str| {
            let config = kit.get(key, path).await;
            let uri = format!("/site_app/{}/{}/x/", config.body["id"], config.text("/web_token"));
            let capture = api::capture_router(kit.service.clone(), kit.events.clone(), api::Settings::default());
            let reply = capture.oneshot(Request::builder().uri(uri).body(Body::empty()).unwrap()).await.unwrap();
            String::from_utf8(reply.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
        };
        let change = json!({ "source": { "plugin.json": manifest(false), "site.ts": site("swapped") } });
        assert_eq!(kit.patch(&kit.admin.key, &format!("{app}update_source/"), change).await.status, 200);
        let script = served(&own, &kit.member.key).await;
        assert!(script.contains("swapped") && !script.contains("\"Hi\""), "{script}");
        let script = served(&theirs, &kit.outsider.key).await;
        assert!(script.contains("approved") && !script.contains("swapped"), "{script}");
        assert!(script.contains("\"Hi\""), "with the schema that was approved: {script}");
        let taken = kit.post(&kit.outsider.key, &format!("{theirs}upgrade/"), json!({ "version": 2 })).await;
        assert_eq!(taken.status, 200, "{taken:?}");
        assert!(served(&theirs, &kit.outsider.key).await.contains("swapped"));
    }

    async fn an_organization_that_may_not_configure_takes_nothing(kit: Kit) {
        let Scene { app, theirs, .. } = hooked(&kit).await;
        swap(&kit, &app, "export function onEvent() {}").await;
        let reader = kit.key(&kit.outsider, &["plugin:read".parse().unwrap()]).await;
        let consent = json!({ "version": 2 });
        assert_eq!(kit.get(&reader, &format!("{theirs}upgrade/")).await.status, 200);
        assert_eq!(kit.post(&reader, &format!("{theirs}upgrade/"), consent.clone()).await.status, 403);
        let stranger = kit.join("stranger@example.com", Level::Owner).await;
        assert_eq!(kit.post(&stranger.key, &format!("{theirs}upgrade/"), consent.clone()).await.status, 404);
        kit.database.run("UPDATE organization SET plugins_access_level = 0").await;
        assert_eq!(kit.post(&kit.outsider.key, &format!("{theirs}upgrade/"), consent).await.status, 403);
    }
}
