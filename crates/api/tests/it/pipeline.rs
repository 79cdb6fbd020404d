//! Pipeline apps over the API: what may be said, what is answered, what is never shown.

use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use service::Level;
use testkit::{Kit, on_both};
use tower::ServiceExt;

const COLLECTIONS: [&str; 3] = [
    "pipeline_destinations",
    "pipeline_frontend_apps",
    "pipeline_import_apps",
];

const HOOK: &str = r"
import { Meta } from '@posthog/plugin-scaffold'

type Config = { url: string; token: string }

export function composeWebhook(event: { event: string }, { config }: Meta<Config>) {
    return { url: config.url, body: JSON.stringify({ event: event.event, token: config.token }) }
}
";

fn manifest() -> String {
    json!({
        "name": "Hook", "description": "Tells a server of each event", "icon": "https://example.com/hook.png",
        "config": [
            { "key": "url", "name": "Where to", "type": "string", "required": true },
            { "key": "token", "name": "A secret", "type": "string", "secret": true, "default": "" },
        ],
        "publicJobs": { "Again": {} },
    })
    .to_string()
}

pub(crate) fn hook() -> Value {
    json!({ "plugin_type": "source", "source": { "index.ts": HOOK, "plugin.json": manifest() } })
}

pub(crate) async fn create(kit: &Kit, collection: &str, body: Value) -> String {
    let reply = kit.post(&kit.admin.key, &kit.at(&format!("{collection}/")), body).await;
    assert_eq!(reply.status, 201, "{reply:?}");
    let path = kit.at(&format!("{collection}/{}/", reply.body["id"]));
    assert_eq!(reply.header("location"), path, "the answer says where it is");
    path
}

on_both! {
    async fn the_documented_minimum_makes_an_item_with_every_field_and_operation(kit: Kit) {
        for collection in COLLECTIONS {
            let path = create(&kit, collection, json!({ "plugin_type": "local" })).await;
            let item = kit.get(&kit.member.key, &path).await;
            let expected = json!({
                "id": item.body["id"], "plugin_type": "local", "name": "Untitled app", "description": "", "url": null,
                "icon": null, "config_schema": [], "tag": null, "latest_tag": null, "is_global": false,
                "organization_id": kit.organization.to_string(), "organization_name": "Acme", "capabilities": {},
                "metrics": {}, "public_jobs": {}, "hosts": null, "version": 0, "created_at": "2026-11-15T09:30:00.000000Z",
                "updated_at": "2026-11-15T09:30:00.000000Z",
            });
            assert_eq!((item.status, &item.body), (200, &expected));
            let list = kit.get(&kit.member.key, &kit.at(&format!("{collection}/"))).await;
            assert_eq!((&list.body["count"], &list.body["results"][0]), (&json!(1), &expected));
            for (method, rest) in [("GET", "check_for_updates/"), ("GET", "source/"), ("PATCH", "update_source/"), ("POST", "upgrade/")] {
                let request = testkit::kit::bearer(method, &format!("{path}{rest}"), &kit.admin.key);
                let reply = kit.send(testkit::kit::with_json(request, &json!({}))).await;
                assert_eq!(reply.status, 200, "{rest}: {reply:?}");
                for (field, value) in expected.as_object().unwrap() {
                    assert_eq!(&reply.body[field], value, "{rest} {field}");
                }
            }
            for rest in ["activity", "exports_unsubscribe_configs", "repository", "unused"] {
                let reply = kit.get(&kit.member.key, &kit.at(&format!("{collection}/{rest}/"))).await;
                assert_eq!(reply.status, 200, "{rest}: {reply:?}");
                for field in ["id", "name", "config_schema", "organization_id", "public_jobs", "count", "next", "previous", "results"] {
                    assert!(reply.body.get(field).is_some(), "{rest} {field}: {reply:?}");
                }
            }
            let unused = kit.get(&kit.member.key, &kit.at(&format!("{collection}/unused/"))).await;
            assert_eq!((&unused.body["id"], &unused.body["count"]), (&item.body["id"], &json!(1)));
            assert_eq!(kit.delete(&kit.admin.key, &path).await.status, 204);
            assert_eq!(kit.get(&kit.admin.key, &path).await.status, 404);
        }
    }

    async fn what_the_code_offers_is_read_from_it(kit: Kit) {
        let path = create(&kit, "pipeline_destinations", hook()).await;
        let app = kit.get(&kit.member.key, &path).await;
        assert_eq!((app.text("/name"), app.text("/icon")), ("Hook", "https://example.com/hook.png"));
        assert_eq!(app.body["capabilities"], json!({ "methods": ["composeWebhook"], "jobs": [], "scheduled_tasks": [] }));
        assert_eq!(app.body["config_schema"][0]["key"], "url");
        assert_eq!(app.body["public_jobs"], json!({ "Again": {} }));
        let source = kit.get(&kit.member.key, &format!("{path}source/")).await;
        assert_eq!(source.body["source"]["index.ts"], HOOK);
        // Another collection does not have it.
        let elsewhere = path.replace("pipeline_destinations", "pipeline_import_apps");
        assert_eq!(kit.get(&kit.member.key, &elsewhere).await.status, 404);
    }

    async fn what_somebody_wrote_stays_and_null_takes_it_back(kit: Kit) {
        let path = create(&kit, "pipeline_destinations", hook()).await;
        let before = kit.get(&kit.admin.key, &path).await;
        // A whole object sent back changes nothing.
        let same = kit.patch(&kit.admin.key, &path, before.body.clone()).await;
        assert_eq!((same.status, &same.body), (200, &before.body));
        let named = kit.patch(&kit.admin.key, &path, json!({ "name": "Ours" })).await;
        assert_eq!(named.text("/name"), "Ours");
        let other = manifest().replace("Hook", "Renamed").replace("Tells", "Still tells");
        let change = json!({ "source": { "plugin.json": other } });
        let changed = kit.patch(&kit.admin.key, &format!("{path}update_source/"), change).await;
        assert_eq!((changed.text("/name"), changed.text("/description")), ("Ours", "Still tells a server of each event"));
        let back = kit.patch(&kit.admin.key, &path, json!({ "name": null })).await;
        assert_eq!(back.text("/name"), "Renamed");
    }

    async fn code_that_does_not_load_is_refused_and_nothing_changes(kit: Kit) {
        let path = create(&kit, "pipeline_destinations", hook()).await;
        let before = kit.get(&kit.admin.key, &format!("{path}source/")).await;
        for (text, part) in [
            ("export function onEvent( {", "index.ts"),
            ("throw new Error('no luck')", "no luck"),
            ("import x from 'left-pad'; export const onEvent = x", "left-pad"),
            ("while (true) {}", "to load"),
        ] {
            let change = json!({ "source": { "index.ts": text }, "name": "Changed" });
            let reply = kit.patch(&kit.admin.key, &format!("{path}update_source/"), change).await;
            assert_eq!(reply.code(), (400, "does_not_load"), "{text}: {reply:?}");
            assert!(reply.text("/detail").contains(part), "{reply:?}");
            let after = kit.get(&kit.admin.key, &format!("{path}source/")).await;
            assert_eq!(before.body, after.body);
        }
        let broken = json!({ "plugin_type": "source", "source": { "plugin.json": "{" } });
        let reply = kit.post(&kit.admin.key, &kit.at("pipeline_destinations/"), broken).await;
        assert_eq!((reply.code(), reply.text("/attr")), ((400, "does_not_load"), "source__plugin.json"));
        let outside = json!({ "plugin_type": "source", "source": { "../index.ts": "" } });
        let reply = kit.post(&kit.admin.key, &kit.at("pipeline_destinations/"), outside).await;
        assert_eq!((reply.code(), reply.text("/attr")), ((400, "invalid_input"), "source"));
    }

    async fn code_can_be_rolled_back_and_forth(kit: Kit) {
        let path = create(&kit, "pipeline_destinations", hook()).await;
        let change = json!({ "source": { "index.ts": "export function onEvent() {}\nexport const jobs = { all() {} }" } });
        let changed = kit.patch(&kit.admin.key, &format!("{path}update_source/"), change).await;
        assert_eq!(changed.body["version"], 2);
        let back = kit.post(&kit.admin.key, &format!("{path}rollback/"), json!({})).await;
        assert_eq!((back.status, &back.body["version"]), (200, &json!(1)), "{back:?}");
        assert_eq!(back.body["capabilities"]["methods"], json!(["composeWebhook"]));
        assert_eq!(back.body["changes"]["added_capabilities"], json!(["methods.composeWebhook"]));
        assert_eq!(back.body["changes"]["removed_capabilities"], json!(["jobs.all", "methods.onEvent"]));
        let source = kit.get(&kit.member.key, &format!("{path}source/")).await;
        assert_eq!(source.body["source"]["index.ts"], HOOK);
        let none = kit.post(&kit.admin.key, &format!("{path}rollback/"), json!({})).await;
        assert_eq!(none.code(), (400, "no_such_version"));
        let forth = kit.post(&kit.admin.key, &format!("{path}rollback/"), json!({ "version": 2 })).await;
        assert_eq!(forth.body["capabilities"]["methods"], json!(["onEvent"]));
        let versions = kit.get(&kit.member.key, &format!("{path}versions/")).await;
        assert_eq!(crate::column(&versions, "version"), [2, 1]);
        assert_eq!(crate::column(&versions, "is_current"), [true, false]);
        let activity = kit.get(&kit.member.key, &kit.at("pipeline_destinations/activity/")).await;
        assert_eq!((&activity.body["count"], &activity.body["id"]), (&json!(4), &changed.body["id"]));
        let fields: Vec<&str> = activity.body["results"][0]["detail"]["changes"].as_array().unwrap().iter()
            .map(|change| change["field"].as_str().unwrap()).collect();
        assert!(fields.contains(&"capabilities") && fields.contains(&"version"), "{fields:?}");
    }

    async fn configurations_are_checked_and_their_secrets_never_shown(kit: Kit) {
        let path = create(&kit, "pipeline_destinations", hook()).await;
        kit.service.clock().advance(chrono::TimeDelta::seconds(1));
        let configs = format!("{path}configs/");
        let lacking = kit.post(&kit.admin.key, &configs, json!({ "enabled": true, "config": { "token": "t", "other": 1 } })).await;
        assert_eq!((lacking.code(), lacking.text("/attr")), ((400, "unknown_field"), "config__other"));
        assert_eq!(lacking.body["errors"][1]["attr"], "config__url");
        let made = kit.post(&kit.admin.key, &configs, json!({ "config": { "url": "https://example.com", "token": "hush-hush" } })).await;
        assert_eq!((made.status, &made.body["enabled"]), (201, &json!(false)), "{made:?}");
        let one = format!("{configs}{}/", made.body["id"]);
        kit.service.clock().advance(chrono::TimeDelta::seconds(1));
        let on = kit.patch(&kit.admin.key, &one, json!({ "enabled": true })).await;
        assert_eq!((on.status, &on.body["config"]), (200, &json!({ "url": "https://example.com" })), "{on:?}");
        for path in [&one, &configs, &kit.at("pipeline_destinations/activity/"), &kit.at("activity/")] {
            let shown = kit.get(&kit.owner.key, path).await;
            assert!(!shown.body.to_string().contains("hush-hush"), "{path}");
        }
        let enabled = kit.get(&kit.member.key, &kit.at("pipeline_destinations/exports_unsubscribe_configs/")).await;
        assert_eq!((&enabled.body["count"], &enabled.body["name"]), (&json!(1), &json!("Hook")));
        assert_eq!(kit.get(&kit.member.key, &kit.at("pipeline_destinations/unused/")).await.body["count"], 0);
        let activity = kit.get(&kit.member.key, &kit.at("pipeline_destinations/activity/")).await;
        assert_eq!(crate::column(&activity, "activity"), ["enabled", "config_created", "created"]);
        assert_eq!(kit.delete(&kit.admin.key, &one).await.status, 204);
        assert_eq!(kit.get(&kit.admin.key, &one).await.status, 404);
    }

    async fn an_app_for_all_is_seen_by_all_and_changed_by_its_own(kit: Kit) {
        kit.make_operator(&kit.admin).await;
        let path = create(&kit, "pipeline_destinations", json!({ "plugin_type": "source", "name": "For all", "is_global": true })).await;
        let id = path.rsplit('/').nth(1).unwrap();
        let theirs = format!("/api/organizations/{}/pipeline_destinations/", kit.other);
        let list = kit.get(&kit.outsider.key, &theirs).await;
        assert_eq!(crate::column(&list, "name"), ["For all"]);
        let change = kit.patch(&kit.outsider.key, &format!("{theirs}{id}/"), json!({ "name": "Mine" })).await;
        assert_eq!(change.code(), (403, "permission_denied"));
        assert_eq!(kit.delete(&kit.outsider.key, &format!("{theirs}{id}/")).await.status, 403);
        let set_up = kit.post(&kit.outsider.key, &format!("{theirs}{id}/configs/"), json!({})).await;
        assert_eq!(set_up.status, 201);
        assert_eq!(kit.get(&kit.owner.key, &format!("{path}configs/")).await.body["count"], 0, "not theirs to see");
        assert_eq!(kit.delete(&kit.admin.key, &path).await.code(), (400, "is_global"));
        // What they have set up is theirs, and is not taken from them.
        let private = json!({ "is_global": false });
        let member = kit.patch(&kit.member.key, &path, private.clone()).await;
        assert_eq!(member.code(), (403, "permission_denied"), "{member:?}");
        let in_use = kit.patch(&kit.admin.key, &path, private.clone()).await;
        assert_eq!((in_use.code(), in_use.text("/attr")), ((400, "in_use"), "is_global"), "{in_use:?}");
        assert!(in_use.text("/detail").contains("configurations first, 1 in all"), "{in_use:?}");
        let deleted = kit.delete(&kit.owner.key, &kit.at("")).await;
        assert_eq!(deleted.code(), (400, "in_use"), "{deleted:?}");
        let theirs_still = format!("{theirs}{id}/configs/{}/", set_up.body["id"]);
        assert_eq!(kit.get(&kit.outsider.key, &theirs_still).await.status, 200);
        assert_eq!(kit.delete(&kit.outsider.key, &theirs_still).await.status, 204);
        assert_eq!(kit.patch(&kit.admin.key, &path, private).await.status, 200);
        assert_eq!(kit.get(&kit.outsider.key, &format!("{theirs}{id}/")).await.status, 404);
    }

    async fn the_organizations_access_level_decides(kit: Kit) {
        let path = create(&kit, "pipeline_destinations", hook()).await;
        let collection = kit.at("pipeline_destinations/");
        kit.make_operator(&kit.owner).await;
        let key = &kit.person(Level::Owner).key;
        for (level, reads, configures, writes, global) in
            [(0, 403, 403, 403, 403), (3, 200, 201, 403, 403), (6, 200, 201, 201, 403), (9, 200, 201, 201, 201)]
        {
            kit.database.run(&format!("UPDATE organization SET plugins_access_level = {level}")).await;
            assert_eq!(kit.get(key, &path).await.status, reads, "{level}");
            assert_eq!(kit.post(key, &format!("{path}configs/"), json!({})).await.status, configures, "{level}");
            assert_eq!(kit.post(key, &collection, json!({ "plugin_type": "source" })).await.status, writes, "{level}");
            let for_all = json!({ "plugin_type": "source", "is_global": true });
            assert_eq!(kit.post(key, &collection, for_all).await.status, global, "{level}");
        }
    }

    async fn a_dry_run_makes_nothing(kit: Kit) {
        let collection = kit.at("pipeline_destinations/");
        let reply = kit.post(&kit.admin.key, &format!("{collection}?dry_run=true"), hook()).await;
        assert_eq!((reply.status, reply.text("/name")), (201, "Hook"));
        assert_eq!(kit.get(&kit.admin.key, &collection).await.body["count"], 0);
        let remote = json!({ "plugin_type": "custom", "url": "https://github.com/acme/app?private_token=hush-hush" });
        let reply = kit.post(&kit.admin.key, &format!("{collection}?dry_run=true"), remote).await;
        assert_eq!((reply.status, reply.text("/url")), (201, "https://github.com/acme/app"), "{reply:?}");
    }

    async fn an_app_from_elsewhere_needs_an_address(kit: Kit) {
        let collection = kit.at("pipeline_destinations/");
        let none = kit.post(&kit.admin.key, &collection, json!({ "plugin_type": "custom" })).await;
        assert_eq!((none.code(), none.text("/attr")), ((400, "required"), "url"));
        let odd = json!({ "plugin_type": "custom", "url": "https://example.com/app.zip" });
        let reply = kit.post(&kit.admin.key, &collection, odd).await;
        assert_eq!((reply.code(), reply.text("/attr")), ((400, "invalid_input"), "url"), "{reply:?}");
    }

    async fn a_folder_of_the_server_is_read_and_read_again(kit: Kit) {
        let folder = kit.local_apps().join("hook");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("plugin.json"), manifest()).unwrap();
        std::fs::write(folder.join("index.ts"), HOOK).unwrap();
        let path = create(&kit, "pipeline_destinations", json!({ "plugin_type": "local", "url": "file:hook" })).await;
        assert_eq!(kit.get(&kit.admin.key, &path).await.text("/name"), "Hook");
        std::fs::write(folder.join("index.ts"), "export function onEvent() {}").unwrap();
        let upgraded = kit.post(&kit.admin.key, &format!("{path}upgrade/"), json!({})).await;
        assert_eq!(upgraded.body["capabilities"]["methods"], json!(["onEvent"]), "{upgraded:?}");
        std::fs::write(folder.join("index.ts"), "export function onEvent( {}").unwrap();
        let refused = kit.post(&kit.admin.key, &format!("{path}upgrade/"), json!({})).await;
        assert_eq!(refused.code(), (400, "does_not_load"));
        assert_eq!(kit.get(&kit.admin.key, &path).await.body["version"], 2);
        let outside = json!({ "plugin_type": "local", "url": "file:../../etc" });
        let reply = kit.post(&kit.admin.key, &kit.at("pipeline_destinations/"), outside).await;
        assert_eq!(reply.code(), (400, "invalid_input"));
    }

    /// E10: served from a path of its own, as a script and nothing else, and with no value that is not meant for pages.
    async fn a_frontend_app_is_served_to_pages(kit: Kit) {
        let manifest = json!({ "name": "Bar", "config": [
            { "key": "text", "type": "string", "site": true, "default": "Hi" },
            { "key": "inner", "type": "string" },
            { "key": "secret", "type": "string", "secret": true, "site": true },
        ] });
        let site = "export function inject({ config }: { config: { text: string } }) { document.title = config.text }";
        let body = json!({ "plugin_type": "source", "source": { "plugin.json": manifest.to_string(), "site.ts": site } });
        let path = create(&kit, "pipeline_frontend_apps", body).await;
        let values = json!({ "text": "</script>", "inner": "not-for-pages", "secret": "hush-hush" });
        let config = kit.post(&kit.admin.key, &format!("{path}configs/"), json!({ "enabled": true, "config": values })).await;
        assert_eq!(config.status, 201, "{config:?}");
        let (id, token) = (&config.body["id"], config.text("/web_token"));
        let capture = api::capture_router(kit.service.clone(), kit.events.clone(), api::Settings::default());
        let get = async |path: String| {
            let request = Request::builder().uri(path).body(Body::empty()).unwrap();
            let reply = capture.clone().oneshot(request).await.unwrap();
            let (parts, body) = reply.into_parts();
            (parts, String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap())
        };
        let (parts, script) = get(format!("/site_app/{id}/{token}/1/")).await;
        assert_eq!(parts.status, 200);
        assert_eq!(parts.headers["x-content-type-options"], "nosniff");
        assert_eq!(parts.headers["cache-control"], "public, max-age=86400");
        let policy = parts.headers["content-security-policy"].to_str().unwrap();
        assert!(policy.contains("sandbox") && policy.contains("default-src 'none'"), "{policy}");
        assert_eq!(parts.headers["cross-origin-resource-policy"], "cross-origin");
        assert!(!parts.headers.contains_key("set-cookie"));
        assert!(script.contains(".inject(") && script.contains("document.title"), "{script}");
        assert!(!script.contains("not-for-pages") && !script.contains("hush-hush"), "{script}");
        assert_eq!(get(format!("/site_app/{id}/wrong/1/")).await.0.status, 404);
        let team = kit.get(&kit.admin.key, &kit.at(&format!("teams/{}/", kit.team))).await;
        let (_, listed) = get(format!("/array/{}/config", team.text("/api_token"))).await;
        let listed: Value = serde_json::from_str(&listed).unwrap();
        let url = listed["siteApps"][0]["url"].as_str().unwrap().to_owned();
        assert!(url.starts_with(&format!("/site_app/{id}/{token}/1-")), "{url}");
        assert_eq!(get(url).await.1, script);

        // With a host of its own it is served there alone, and the console and the API are not.
        let apart = || api::Settings { apps_host: Some("apps.example.net".into()), ..api::Settings::default() };
        let capture = api::capture_router(kit.service.clone(), kit.events.clone(), apart());
        let there = kit.restarted(apart(), testkit::kit::instance()).await;
        for (host, of_apps, of_api) in [("Apps.example.net", 200, 404), ("hedgerow.test", 404, 200), ("evil.example", 404, 200)] {
            for kind in ["site_app", "frontend_app"] {
                let request = Request::get(format!("/{kind}/{id}/{token}/1/")).header("host", host).body(Body::empty()).unwrap();
                let status = capture.clone().oneshot(request).await.unwrap().status();
                let expected = if kind == "site_app" { of_apps } else { 404 };
                assert_eq!(status, expected, "{kind} at {host}");
            }
            let request = Request::get("/api/organizations/").header("host", host);
            let request = request.header("authorization", format!("Bearer {}", there.owner.key));
            assert_eq!(there.send(request.body(Body::empty()).unwrap()).await.status, of_api, "{host}");
        }
        let kit = there;
        kit.patch(&kit.admin.key, &format!("{path}configs/{id}/"), json!({ "enabled": false })).await;
        assert_eq!(get(format!("/site_app/{id}/{token}/1/")).await.0.status, 404);
    }
}
