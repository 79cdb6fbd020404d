//! What is kept as it was sent has a limit, whoever sends it, and so has what an organization may have.

use serde_json::{Value, json};
use testkit::{Kit, on_both};

use crate::pipeline::{create, hook};
use crate::pipeline_secrets::the_config;

const COLLECTION: &str = "pipeline_destinations";

fn many(count: usize) -> Value {
    (0..count).map(|number| (format!("k{number}"), json!({}))).collect()
}

on_both! {
    async fn what_is_said_of_an_app_has_a_limit(kit: Kit) {
        let app = create(&kit, COLLECTION, hook()).await;
        let before = kit.get(&kit.member.key, &app).await.body;
        for field in ["metrics", "public_jobs", "capabilities", "config_schema"] {
            for large in [json!({ "a": { "name": "x".repeat(100_000) } }), many(3000)] {
                let patch = json!({ field: large });
                let mut new = json!({ "plugin_type": "source" });
                new[field] = large;
                let changed = kit.patch(&kit.member.key, &app, patch.clone()).await;
                let source = kit.patch(&kit.member.key, &format!("{app}update_source/"), patch).await;
                let made = kit.post(&kit.member.key, &kit.at("pipeline_destinations/"), new).await;
                for refused in [changed, source, made] {
                    assert_eq!((refused.status, refused.text("/attr")), (400, field), "{refused:?}");
                }
            }
        }
        assert_eq!(kit.get(&kit.member.key, &app).await.body, before);
    }

    async fn what_code_says_of_itself_has_the_same_limit(kit: Kit) {
        let app = create(&kit, COLLECTION, hook()).await;
        let fields: Value = (0..201).map(|number| json!({ "key": format!("k{number}") })).collect();
        for (field, manifest) in [
            ("config_schema", json!({ "config": fields })),
            ("config_schema", json!({ "config": [{ "key": "a", "hint": "x".repeat(100_000) }] })),
            ("public_jobs", json!({ "publicJobs": many(3000) })),
        ] {
            let source = json!({ "plugin.json": manifest.to_string(), "index.ts": "export function onEvent() {}" });
            let new = json!({ "plugin_type": "source", "source": source });
            let made = kit.post(&kit.member.key, &kit.at("pipeline_destinations/"), new).await;
            let changed = kit.patch(&kit.member.key, &format!("{app}update_source/"), json!({ "source": source })).await;
            for refused in [made, changed] {
                assert_eq!((refused.status, refused.text("/attr")), (400, field), "{refused:?}");
            }
        }
        // Very many values are never made of its text: they would take many times as much memory.
        let manifest = json!({ "publicJobs": { "a": { "b": vec![json!({ "": 0 }); 50_000] } } }).to_string();
        let source = json!({ "source": { "plugin.json": manifest } });
        let refused = kit.patch(&kit.member.key, &format!("{app}update_source/"), source).await;
        assert_eq!((refused.code(), refused.text("/attr")), ((400, "does_not_load"), "source__plugin.json"), "{refused:?}");
        assert_eq!(kit.get(&kit.member.key, &app).await.body["version"], 1);
    }

    async fn a_configuration_has_a_limit_over_all_its_changes(kit: Kit) {
        let fields = json!([
            { "key": "a", "type": "string" }, { "key": "b", "type": "json" }, { "key": "s", "type": "string", "secret": true },
            { "key": "f", "type": "attachment" }, { "key": "g", "type": "attachment" },
        ]);
        let app = create(&kit, COLLECTION, json!({ "plugin_type": "source", "config_schema": fields })).await;
        let config = kit.post(&kit.member.key, &format!("{app}configs/"), json!({})).await;
        let config = format!("{app}configs/{}/", config.body["id"]);
        let (text, file) = ("x".repeat(150_000), json!({ "contents": "x".repeat(150_000) }));
        for (fits, beyond) in [
            (json!({ "a": text }), json!({ "s": text })),
            (json!({ "f": file }), json!({ "g": file })),
            (json!({ "b": vec![0; 1000] }), json!({ "b": vec![0; 3000] })),
        ] {
            let kept = kit.patch(&kit.member.key, &config, json!({ "config": fits })).await;
            assert_eq!(kept.status, 200, "{kept:?}");
            let refused = kit.patch(&kit.member.key, &config, json!({ "config": beyond })).await;
            assert_eq!((refused.code(), refused.text("/attr")), ((400, "max_length"), "config"), "{refused:?}");
            let whole = kit.post(&kit.member.key, &format!("{app}configs/"), json!({ "config": { "a": text, "s": text } })).await;
            assert_eq!((whole.code(), whole.text("/attr")), ((400, "max_length"), "config"));
        }
    }

    /// Each was compared with all before it, and nobody else was served until that was done.
    async fn at_most_a_hundred_mistakes_are_listed(kit: Kit) {
        let app = create(&kit, COLLECTION, hook()).await;
        for (wrong, listed) in [(99, 99), (101, 100), (5_000, 100), (60_000, 1)] {
            let body = json!({ "allowed_hosts": vec![1; wrong] });
            let refused = kit.post(&kit.member.key, &format!("{app}configs/"), body).await;
            assert_eq!((refused.code(), refused.text("/attr")), ((400, "invalid_input"), "allowed_hosts__0"), "{wrong}");
            assert_eq!(refused.body["errors"].as_array().map(Vec::len), Some(listed), "{wrong}");
        }
        let invites = vec![json!({ "target_email": 1, "level": "x" }); 100];
        let refused = kit.post(&kit.owner.key, &kit.at("invites/bulk/"), json!(invites)).await;
        assert_eq!(refused.body["errors"].as_array().map(Vec::len), Some(100), "{refused:?}");
    }

    /// Each of the unknown keys came with all keys that there are.
    async fn unknown_keys_are_answered_briefly(kit: Kit) {
        let fields: Value = (0..200).map(|number| (format!("{number:03}{}", "k".repeat(300)), json!({}))).collect();
        let app = create(&kit, COLLECTION, json!({ "plugin_type": "source", "config_schema": fields })).await;
        let config = json!({ "config": many(1998) });
        let refused = kit.post(&kit.member.key, &format!("{app}configs/"), config).await;
        assert_eq!((refused.code(), refused.text("/attr")), ((400, "unknown_field"), "config__k0"), "{refused:?}");
        let (errors, length) = (&refused.body["errors"], refused.body.to_string().len());
        assert_eq!((errors.as_array().map(Vec::len), &errors[1]["detail"]), (Some(100), &json!("Unknown field.")));
        assert!(refused.text("/detail").starts_with("Unknown field; the app has: 000k") && length < 100_000, "{length}");
        let destination = json!({ "type": "S3", "config": many(5_000) });
        let export = json!({ "name": "x", "interval": "hour", "destination": destination });
        let refused = kit.post(&kit.member.key, &kit.at("batch_exports/"), export).await;
        let (errors, length) = (&refused.body["errors"], refused.body.to_string().len());
        assert_eq!((errors.as_array().map(Vec::len), &errors[1]["detail"]), (Some(100), &json!("Unknown key for S3.")));
        assert!(refused.text("/detail").contains("bucket_name") && length < 20_000, "{length}");
    }

    async fn the_log_cuts_what_is_long_and_says_so(kit: Kit) {
        let app = create(&kit, COLLECTION, hook()).await;
        for email in ["a", "b", "c"] {
            let changed = kit.patch(&kit.member.key, &app, json!({ "metrics": { "m": email.repeat(60_000) } })).await;
            assert_eq!(changed.status, 200, "{changed:?}");
        }
        let log = kit.get(&kit.owner.key, &kit.at("activity/")).await.body.to_string();
        assert!(log.len() < 60_000 && log.contains("bbb") && log.contains("[truncated: 60008 bytes in total]"), "{} bytes", log.len());
    }

    /// Each name was compared with all the others while nobody else could write.
    async fn the_clock_calls_what_the_code_has_and_nothing_else(kit: Kit) {
        let code = "export function runEveryHour() {}\nexport function runEveryDay() {}";
        let app = create(&kit, COLLECTION, json!({ "plugin_type": "source", "source": { "index.ts": code } })).await;
        let config = kit.post(&kit.member.key, &format!("{app}configs/"), json!({ "enabled": true })).await;
        assert_eq!(config.status, 201, "{config:?}");
        let scheduled = async || -> Vec<String> {
            kit.database.column("SELECT name FROM pipeline_task WHERE kind = 'schedule' ORDER BY name").await
        };
        assert_eq!(scheduled().await, ["runEveryDay", "runEveryHour"]);
        let mut names: Vec<String> = (0..1500).map(|number| format!("run{number}")).collect();
        names.extend(["runEveryHour", "runEveryHour", "runEveryMinute"].map(str::to_owned));
        let written = json!({ "scheduled_tasks": names, "methods": ["onEvent"] });
        let changed = kit.patch(&kit.member.key, &app, json!({ "capabilities": written })).await;
        assert_eq!((changed.status, &changed.body["capabilities"]), (200, &written), "what was written is shown");
        assert_eq!(scheduled().await, ["runEveryHour"]);
        let due: Vec<i64> = kit.database.column("SELECT count(*) FROM pipeline_config WHERE due_at IS NOT NULL").await;
        assert_eq!(due, [0], "there is nothing that takes events");
        kit.patch(&kit.member.key, &app, json!({ "capabilities": null })).await;
        assert_eq!(scheduled().await, ["runEveryDay", "runEveryHour"]);

        // Without code there is nothing to call.
        let claimed = json!({ "methods": ["onEvent"], "scheduled_tasks": ["runEveryMinute"] });
        let empty = create(&kit, COLLECTION, json!({ "plugin_type": "source", "capabilities": claimed })).await;
        kit.post(&kit.member.key, &format!("{empty}configs/"), json!({ "enabled": true })).await;
        assert_eq!(scheduled().await, ["runEveryDay", "runEveryHour"]);
    }

    async fn an_organization_has_so_many_apps_and_configurations(kit: Kit) {
        let app = create(&kit, COLLECTION, json!({ "plugin_type": "source" })).await;
        kit.post(&kit.member.key, &format!("{app}configs/"), json!({})).await;
        let columns = "organization_id, app_id, team_id, enabled, sort_order, config, web_token, delivered_until, delivered_count, \
            attempt, tries, failures, created_at, updated_at";
        for _ in 0..10 {
            kit.database.run(&format!("INSERT INTO pipeline_config ({columns}) SELECT {columns} FROM pipeline_config")).await;
        }
        let full = kit.post(&kit.member.key, &format!("{app}configs/"), json!({})).await;
        assert_eq!(full.code(), (400, "too_many_configs"), "{full:?}");
        assert!(full.text("/detail").contains("1000"), "{full:?}");
        let columns = "organization_id, collection, plugin_type, name, description, config_schema, is_global, capabilities, metrics, \
            public_jobs, overrides, version, created_at, updated_at";
        for _ in 0..8 {
            kit.database.run(&format!("INSERT INTO pipeline_app ({columns}) SELECT {columns} FROM pipeline_app")).await;
        }
        let full = kit.post(&kit.member.key, &kit.at("pipeline_import_apps/"), json!({ "plugin_type": "source" })).await;
        assert_eq!(full.code(), (400, "too_many_apps"), "{full:?}");
        let others = format!("/api/organizations/{}/pipeline_import_apps/", kit.other);
        assert_eq!(kit.post(&kit.outsider.key, &others, json!({ "plugin_type": "source" })).await.status, 201);
    }

    async fn made_up_names_do_not_hide_the_host_that_was_reached(kit: Kit) {
        let app = create(&kit, COLLECTION, hook()).await;
        let values = json!({ "config": { "url": "https://example.com" } });
        let config = kit.post(&kit.member.key, &format!("{app}configs/"), values).await;
        let path = format!("{app}configs/{}/", config.body["id"]);
        let config = the_config(&kit, &path).await;
        let names = |from: usize, is_allowed: bool| -> Vec<(String, bool)> {
            (from..from + 150).map(|number| (format!("made-up-{number}.example"), is_allowed)).collect()
        };
        let first = [("first.example".to_owned(), true)];
        for hosts in [first.as_slice(), &names(0, false), &names(200, false), &[("real.example".to_owned(), true)]] {
            kit.service.note_reached_hosts(&config, hosts).await.unwrap();
            kit.service.clock().advance(chrono::TimeDelta::seconds(1));
        }
        let listed = async || -> Vec<String> { kit.database.column("SELECT host FROM pipeline_reached_host").await };
        let shown = listed().await;
        assert_eq!(shown.len(), 200);
        assert!(["first.example", "real.example"].iter().all(|host| shown.iter().any(|one| one == host)), "{shown:?}");
        // Of those that were reached, the newest are kept.
        let mut forgotten = Vec::new();
        for from in [1000, 2000] {
            forgotten.extend(kit.service.note_reached_hosts(&config, &names(from, true)).await.unwrap());
            kit.service.clock().advance(chrono::TimeDelta::seconds(1));
        }
        let shown = listed().await;
        assert!(shown.len() == 200 && shown.contains(&"made-up-2149.example".to_owned()), "{shown:?}");
        assert!(!shown.contains(&"first.example".to_owned()));
        assert!(forgotten.contains(&"first.example".to_owned()), "whoever remembers hosts is told: {forgotten:?}");
        let refusals: Vec<i64> = kit.database.column("SELECT count(*) FROM activity WHERE activity = 'host_refused'").await;
        assert_eq!(refusals, [199], "those beyond are not recorded one by one");
        // An app can write over its log: that hosts are missing from the list is recorded once, where nothing displaces it.
        for hosts in [7, 30] {
            kit.service.count_unlisted_hosts(&config, hosts).await.unwrap();
        }
        let unlisted: Vec<i64> = kit.database.column("SELECT count(*) FROM activity WHERE activity = 'hosts_unlisted'").await;
        assert_eq!(unlisted, [1]);
        let count: Vec<i64> = kit.database.column("SELECT unlisted_hosts FROM pipeline_usage").await;
        assert_eq!(count, [37]);
    }

    /// Nothing else keeps a host from staying for good.
    async fn hosts_of_a_deleted_configuration_are_not_remembered(kit: Kit) {
        let app = create(&kit, COLLECTION, hook()).await;
        let values = json!({ "config": { "url": "https://example.com" } });
        let config = kit.post(&kit.member.key, &format!("{app}configs/"), values).await;
        let path = format!("{app}configs/{}/", config.body["id"]);
        let config = the_config(&kit, &path).await;
        let hosts = [("reached.example".to_owned(), true), ("refused.example".to_owned(), false)];
        kit.service.note_reached_hosts(&config, &hosts[..1]).await.unwrap();
        assert_eq!(kit.delete(&kit.member.key, &path).await.status, 204);
        while kit.service.delete_leftovers().await.unwrap() {}
        kit.service.note_reached_hosts(&config, &hosts).await.unwrap();
        for sql in [
            "SELECT count(*) FROM pipeline_reached_host",
            "SELECT count(*) FROM activity WHERE activity = 'host_refused'",
        ] {
            assert_eq!(kit.database.column::<i64>(sql).await, [0], "{sql}");
        }
    }
}
