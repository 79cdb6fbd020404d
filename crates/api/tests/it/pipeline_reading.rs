//! Pipeline apps: what is read for whom. Lists and pages take no more than they show, so what they do not need may be broken.

use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use service::TeamId;
use testkit::{Kit, on_both};
use tower::ServiceExt;

use crate::column;
use crate::pipeline::{create, hook};

/// What a page of anybody's is given.
async fn page_gets(kit: &Kit, path: &str) -> (u16, String) {
    let capture = api::capture_router(kit.service.clone(), kit.events.clone(), api::Settings::default());
    let request = Request::builder().uri(path).body(Body::empty()).unwrap();
    let (parts, body) = capture.oneshot(request).await.unwrap().into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    (parts.status.as_u16(), String::from_utf8(bytes.to_vec()).unwrap())
}

/// The frontend apps that pages of the first team are told of.
async fn site_apps(kit: &Kit) -> Vec<String> {
    let team = kit.get(&kit.admin.key, &kit.at(&format!("teams/{}/", kit.team))).await;
    let (_, listed) = page_gets(kit, &format!("/array/{}/config", team.text("/api_token"))).await;
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let urls = listed["siteApps"].as_array().unwrap().iter();
    urls.map(|app| app["url"].as_str().unwrap().to_owned()).collect()
}

async fn second_team(kit: &Kit) -> i64 {
    let made = kit
        .post(&kit.owner.key, &kit.at("teams/"), json!({ "name": "Second" }))
        .await;
    made.body["id"].as_i64().unwrap()
}

async fn set_up(kit: &Kit, app: &str, body: Value) -> String {
    let made = kit.post(&kit.admin.key, &format!("{app}configs/"), body).await;
    assert_eq!(made.status, 201, "{made:?}");
    format!("{app}configs/{}/", made.body["id"])
}

on_both! {
    async fn versions_are_listed_without_what_is_in_their_files(kit: Kit) {
        let path = create(&kit, "pipeline_destinations", hook()).await;
        let change = json!({ "source": { "index.ts": "export function onEvent() {}", "lib/ü \"a\".ts": "" } });
        assert_eq!(kit.patch(&kit.admin.key, &format!("{path}update_source/"), change).await.status, 200);
        let bare = create(&kit, "pipeline_destinations", json!({ "plugin_type": "source" })).await;
        kit.database.run("UPDATE pipeline_version SET code = 'not to be read'").await;
        let versions = kit.get(&kit.member.key, &format!("{path}versions/")).await;
        assert_eq!(versions.status, 200, "{versions:?}");
        let sums = column(&versions, "sha256");
        assert_eq!(versions.body["results"], json!([
            {
                "version": 2, "tag": null, "is_current": true, "files": ["index.ts", "lib/ü \"a\".ts", "plugin.json"],
                "capabilities": { "methods": ["onEvent"], "jobs": [], "scheduled_tasks": [] },
                "created_at": "2026-11-15T09:30:00.000000Z", "sha256": sums[0],
            },
            {
                "version": 1, "tag": null, "is_current": false, "files": ["index.ts", "plugin.json"],
                "capabilities": { "methods": ["composeWebhook"], "jobs": [], "scheduled_tasks": [] },
                "created_at": "2026-11-15T09:30:00.000000Z", "sha256": sums[1],
            },
        ]));
        assert!(sums[0] != sums[1] && sums.iter().all(|sum| sum.as_str().unwrap().len() == 64), "{sums:?}");
        assert_eq!(kit.get(&kit.member.key, &format!("{bare}versions/")).await.body["count"], 0);
        // Names are all that is taken from the files.
        kit.database.run("UPDATE pipeline_version SET files = '{\"a.ts\": 1}'").await;
        let versions = kit.get(&kit.member.key, &format!("{path}versions/?limit=1&offset=1")).await;
        assert_eq!((&versions.body["count"], column(&versions, "version")), (&json!(2), vec![&json!(1)]));
        assert_eq!(column(&versions, "files"), [&json!(["a.ts"])]);
    }

    async fn pages_are_given_a_script_without_the_rest_of_the_code(kit: Kit) {
        // Also one that only looks as if it had something for pages.
        let manifest = json!({ "name": "Bar", "config": [{ "key": "site", "name": "\"site\":\"x\"", "type": "string" }] });
        let source = |files: Value| json!({ "plugin_type": "source", "source": files });
        let script = "export function inject() { document.title = \"it's \\\\ 'ü'\" }";
        let files = json!({ "plugin.json": manifest.to_string(), "site.ts": script, "index.ts": "export function onEvent() {}" });
        let app = create(&kit, "pipeline_frontend_apps", source(files)).await;
        let quiet = json!({ "plugin.json": manifest.to_string(), "frontend.tsx": "export const scene = { title: 'Scene' }" });
        let quiet = create(&kit, "pipeline_frontend_apps", source(quiet)).await;
        let bare = create(&kit, "pipeline_frontend_apps", json!({ "plugin_type": "source" })).await;
        let late = set_up(&kit, &app, json!({ "enabled": true, "order": 2 })).await;
        let early = set_up(&kit, &app, json!({ "enabled": true, "order": 1 })).await;
        let scene = set_up(&kit, &quiet, json!({ "enabled": true })).await;
        set_up(&kit, &bare, json!({ "enabled": true })).await;
        set_up(&kit, &app, json!({ "enabled": false })).await;
        let elsewhere = second_team(&kit).await;
        set_up(&kit, &app, json!({ "enabled": true, "team_id": elsewhere })).await;
        let before = site_apps(&kit).await;
        kit.service.clock().advance(chrono::TimeDelta::seconds(1));
        assert_eq!(kit.patch(&kit.admin.key, &app, json!({ "name": "Changed" })).await.status, 200);
        kit.database.run("UPDATE pipeline_version SET files = 'not to be read', code = 'nor this', metadata = 'nor that'").await;

        let number = |config: &str| config.rsplit('/').nth(1).unwrap().to_owned();
        let urls = site_apps(&kit).await;
        let begins = |url: &str, config: &str| url.starts_with(&format!("/site_app/{}/", number(config)));
        assert_eq!(urls.len(), 2, "{urls:?}");
        // Browsers keep what they have read of an address, and the app says which values pages are given.
        assert!(before.len() == 2 && before[0] != urls[0], "{before:?}");
        assert!(begins(&urls[0], &early) && begins(&urls[1], &late), "in their order: {urls:?}");
        let (status, text) = page_gets(&kit, &urls[0]).await;
        assert!(status == 200 && text.contains("document.title") && text.contains("ü"), "{text}");
        assert_eq!(page_gets(&kit, &urls[0].replace("site_app", "frontend_app")).await.0, 404, "it has no such part");
        let token = kit.get(&kit.admin.key, &scene).await.text("/web_token").to_owned();
        let (status, text) = page_gets(&kit, &format!("/frontend_app/{}/{token}/1/", number(&scene))).await;
        assert!(status == 200 && text.contains("Scene"), "{text}");
        assert_eq!(page_gets(&kit, &format!("/site_app/{}/{token}/1/", number(&scene))).await.0, 404);
    }

    /// Security case A2: anybody can ask, and what an app says of itself may be large.
    async fn pages_are_given_values_without_the_rest_of_app_and_configuration(kit: Kit) {
        let manifest = json!({ "name": "Bar", "config": [{ "key": "text", "type": "string", "site": true }] });
        let files = json!({
            "plugin.json": manifest.to_string(), "site.ts": "export function inject() {}",
            "frontend.tsx": "export const scene = { title: 'Scene' }",
        });
        let app = create(&kit, "pipeline_frontend_apps", json!({ "plugin_type": "source", "source": files })).await;
        let config = set_up(&kit, &app, json!({ "enabled": true, "config": { "text": "Hello" } })).await;
        let config = kit.get(&kit.admin.key, &config).await;
        let (id, token) = (&config.body["id"], config.text("/web_token"));
        let path = format!("/site_app/{id}/{token}/1/");
        kit.database.run("UPDATE pipeline_app SET overrides = '\"not to be read\"', hosts = '\"nor this\"'").await;
        kit.database.run("UPDATE pipeline_config SET allowed_hosts = '\"nor that\"'").await;
        let (status, text) = page_gets(&kit, &path).await;
        assert!(status == 200 && text.contains("{\"text\":\"Hello\"}"), "{status}: {text}");

        kit.database.run("UPDATE pipeline_config SET config = '\"not to be read\"'").await;
        assert_eq!(page_gets(&kit, &path).await.0, 500, "it is needed here");
        assert_eq!(page_gets(&kit, &format!("/site_app/{id}/wrong/1/")).await.0, 404);
        let (status, text) = page_gets(&kit, &path.replace("site_app", "frontend_app")).await;
        assert!(status == 200 && text.contains("Scene"), "it is told nothing: {status}: {text}");
    }

    async fn what_is_said_of_an_app_changes_without_its_files(kit: Kit) {
        let path = create(&kit, "pipeline_destinations", hook()).await;
        let named = kit.patch(&kit.admin.key, &path, json!({ "name": "Ours" })).await;
        assert_eq!(named.text("/name"), "Ours");
        kit.database.run("UPDATE pipeline_version SET files = 'not to be read', code = 'nor this'").await;
        let back = kit.patch(&kit.admin.key, &path, json!({ "name": null })).await;
        assert_eq!((back.status, back.text("/name")), (200, "Hook"), "{back:?}");
    }

    async fn configurations_are_cut_into_pages_of_what_the_key_may_see(kit: Kit) {
        let path = create(&kit, "pipeline_destinations", hook()).await;
        let other = create(&kit, "pipeline_destinations", json!({ "plugin_type": "source", "name": "Other" })).await;
        let second = second_team(&kit).await;
        let values = json!({ "url": "https://example.com" });
        for (app, order, team) in [(&path, 3, kit.team.0), (&path, 2, second), (&other, 1, kit.team.0)] {
            let config = if app == &path { values.clone() } else { json!({}) };
            set_up(&kit, app, json!({ "enabled": true, "order": order, "team_id": team, "config": config })).await;
        }
        set_up(&kit, &path, json!({ "order": 9 })).await;
        let configs = kit.get(&kit.member.key, &format!("{path}configs/?limit=2")).await;
        assert_eq!((&configs.body["count"], column(&configs, "order")), (&json!(3), vec![&json!(3), &json!(2)]));
        let rest = kit.get(&kit.member.key, &format!("{path}configs/?limit=2&offset=2")).await;
        assert_eq!(column(&rest, "order"), [9]);
        let on = kit.at("pipeline_destinations/exports_unsubscribe_configs/");
        let enabled = kit.get(&kit.member.key, &format!("{on}?limit=2")).await;
        assert_eq!((&enabled.body["count"], column(&enabled, "order")), (&json!(3), vec![&json!(1), &json!(2)]));
        assert_eq!(enabled.text("/name"), "Other", "the app of the first");
        let enabled = kit.get(&kit.member.key, &format!("{on}?offset=1")).await;
        assert_eq!(enabled.text("/name"), "Hook");

        let mut new = testkit::kit::everything();
        new.scoped_teams = Some(vec![TeamId(second)]);
        let key = kit.key_like(&kit.member, new).await;
        let configs = kit.get(&key, &format!("{path}configs/")).await;
        assert_eq!((&configs.body["count"], column(&configs, "team_id")), (&json!(1), vec![&json!(second)]));
        let enabled = kit.get(&key, &on).await;
        assert_eq!((&enabled.body["count"], enabled.text("/name")), (&json!(1), "Hook"));
    }

    async fn a_key_limited_to_a_team_reads_no_activity_of_other_teams(kit: Kit) {
        let path = create(&kit, "pipeline_destinations", hook()).await;
        let second = second_team(&kit).await;
        for (team, url) in [(kit.team.0, "https://one.example"), (second, "https://two.example")] {
            set_up(&kit, &path, json!({ "team_id": team, "config": { "url": url } })).await;
        }
        let log = kit.at("pipeline_destinations/activity/");
        let mut new = testkit::kit::everything();
        new.scoped_teams = Some(vec![TeamId(second)]);
        let key = kit.key_like(&kit.member, new).await;
        let seen = kit.get(&key, &log).await;
        assert_eq!(seen.body["count"], json!(2));
        let mut activities: Vec<&str> = column(&seen, "activity").iter().filter_map(|activity| activity.as_str()).collect();
        activities.sort_unstable();
        assert_eq!(activities, ["config_created", "created"]);
        assert!(seen.body.to_string().contains("two.example") && !seen.body.to_string().contains("one.example"));
        let all = kit.get(&kit.member.key, &log).await;
        assert_eq!(all.body["count"], json!(3));
    }
}
