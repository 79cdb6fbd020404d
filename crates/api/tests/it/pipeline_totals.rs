//! What an organization's apps and configurations may have together.

use serde_json::{Value, json};
use service::pipeline::{AppConfig, AppLog, AppLogLevel, AppLogSource};
use testkit::{Kit, on_both};

use crate::pipeline::{create, hook};
use crate::pipeline_secrets::the_config;

const COLLECTION: &str = "pipeline_destinations";
const MB: i64 = 1 << 20;

async fn first(kit: &Kit, sql: &'static str) -> i64 {
    kit.database.column(sql).await.first().copied().unwrap_or_default()
}

/// An app that can be told a text and a structure.
async fn app(kit: &Kit) -> String {
    let fields = json!([{ "key": "text", "type": "string" }, { "key": "parts", "type": "json" }]);
    create(
        kit,
        COLLECTION,
        json!({ "plugin_type": "source", "config_schema": fields }),
    )
    .await
}

async fn set_up(kit: &Kit, app: &str, values: Value) -> String {
    let made = kit
        .post(&kit.member.key, &format!("{app}configs/"), json!({ "config": values }))
        .await;
    assert_eq!(made.status, 201, "{made:?}");
    format!("{app}configs/{}/", made.body["id"])
}

async fn config_of(kit: &Kit) -> (String, AppConfig) {
    let path = set_up(kit, &app(kit).await, json!({})).await;
    let config = the_config(kit, &path).await;
    (path, config)
}

/// Counts from now on by how many statements configurations and tasks are changed. False: this database cannot.
async fn count_statements(kit: &Kit) -> bool {
    if !kit.database.url.starts_with("postgres") {
        return false;
    }
    for sql in [
        "CREATE TABLE counted AS SELECT CAST(0 AS BIGINT) AS n",
        "CREATE FUNCTION count_one() RETURNS trigger AS 'BEGIN UPDATE counted SET n = n + 1; RETURN NULL; END' LANGUAGE plpgsql",
        "CREATE TRIGGER counted AFTER INSERT OR UPDATE OR DELETE ON pipeline_task EXECUTE FUNCTION count_one()",
        "CREATE TRIGGER counted AFTER INSERT OR UPDATE OR DELETE ON pipeline_config EXECUTE FUNCTION count_one()",
    ] {
        kit.database.run(sql).await;
    }
    true
}

on_both! {
    /// Security case A4: a list of them is built in memory.
    async fn configurations_have_a_limit_together(kit: Kit) {
        let app = app(&kit).await;
        let config = set_up(&kit, &app, json!({ "text": "x".repeat(100_000), "parts": [] })).await;
        let size = first(&kit, "SELECT size FROM pipeline_config").await;
        assert!((100_000..102_000).contains(&size), "{size}");
        let control = set_up(&kit, &app, json!({ "text": "\u{1}".repeat(10_000) })).await;
        let size = first(&kit, "SELECT size FROM pipeline_config ORDER BY id DESC").await;
        assert!((60_000..62_000).contains(&size), "as it is in JSON: {size}");
        assert_eq!(kit.delete(&kit.member.key, &control).await.status, 204);
        let small = set_up(&kit, &app, json!({ "parts": vec![json!({ "": 0 }); 900] })).await;
        let size = first(&kit, "SELECT size FROM pipeline_config ORDER BY id DESC").await;
        assert!(size > 500_000, "each map takes more than its text: {size}");
        kit.database.run(&format!("UPDATE pipeline_config SET size = {} WHERE size > 200000", 16 * MB - 100_000)).await;
        // Both together are just above it by now.
        let grown = json!({ "config": { "text": "x".repeat(110_000) } });
        let refused = kit.patch(&kit.member.key, &config, grown.clone()).await;
        assert_eq!(refused.code(), (400, "configs_too_large"), "{refused:?}");
        let refused = kit.post(&kit.member.key, &format!("{app}configs/"), grown.clone()).await;
        assert_eq!(refused.code(), (400, "configs_too_large"), "{refused:?}");
        for fits in [json!({ "order": 5 }), json!({ "config": { "text": "x".repeat(90_000) } })] {
            let changed = kit.patch(&kit.member.key, &config, fits).await;
            assert_eq!(changed.status, 200, "{changed:?}");
        }
        let others = kit.at_other("pipeline_destinations/");
        let theirs = kit.post(&kit.outsider.key, &others, hook()).await;
        let body = json!({ "config": { "url": "https://a.example" } });
        let theirs = kit.post(&kit.outsider.key, &format!("{others}{}/configs/", theirs.body["id"]), body).await;
        assert_eq!(theirs.status, 201, "{theirs:?}");
        assert_eq!(kit.delete(&kit.member.key, &small).await.status, 204);
        assert_eq!(kit.patch(&kit.member.key, &config, grown).await.status, 200);
    }

    async fn what_is_said_of_apps_has_a_limit_together(kit: Kit) {
        let app = create(&kit, COLLECTION, hook()).await;
        kit.database.run(&format!("UPDATE pipeline_app SET size = {}", 16 * MB)).await;
        let large = json!({ "metrics": { "m": "x".repeat(50_000) } });
        let mut new = json!({ "plugin_type": "source" });
        new["metrics"] = large["metrics"].clone();
        let made = kit.post(&kit.member.key, &kit.at("pipeline_import_apps/"), new.clone()).await;
        assert_eq!(made.code(), (400, "apps_too_large"), "{made:?}");
        let renamed = kit.patch(&kit.member.key, &app, json!({ "name": "Other" })).await;
        assert_eq!(renamed.status, 200, "what has not grown fits: {renamed:?}");
        let size = first(&kit, "SELECT size FROM pipeline_app").await;
        assert!(size > 0 && size < 10_000, "{size}");
        assert_eq!(kit.post(&kit.member.key, &kit.at("pipeline_import_apps/"), new).await.status, 201);
        kit.database.run(&format!("UPDATE pipeline_app SET size = {} WHERE name <> 'Other'", 16 * MB)).await;
        for path in [app.clone(), format!("{app}update_source/")] {
            let changed = kit.patch(&kit.member.key, &path, large.clone()).await;
            assert_eq!(changed.code(), (400, "apps_too_large"), "{path}: {changed:?}");
        }
    }

    /// Each request is bounded, but files are merged with those that are there.
    async fn the_files_of_an_app_have_a_limit_together(kit: Kit) {
        let app = create(&kit, COLLECTION, hook()).await;
        let source = format!("{app}update_source/");
        let add = async |length: usize| {
            let body = json!({ "source": { "more.txt": "x".repeat(length) } });
            kit.patch(&kit.member.key, &source, body).await
        };
        assert_eq!(add(1000).await.status, 200);
        let large = json!({ "index.ts": "export function onEvent() {}", "large.txt": "\"".repeat(4_000_000) }).to_string();
        kit.database.run(&format!("UPDATE pipeline_version SET files = '{large}' WHERE number = 2")).await;
        let refused = add(500_000).await;
        assert_eq!(refused.code(), (400, "max_length"), "{refused:?}");
        assert_eq!(refused.body["attr"], "source");
        assert!(refused.text("/detail").contains("at most 8 MiB"), "{refused:?}");
        assert_eq!(first(&kit, "SELECT max(number) FROM pipeline_version").await, 2, "nothing was stored");
        let fits = kit.patch(&kit.member.key, &source, json!({ "source": { "large.txt": null } })).await;
        assert_eq!(fits.status, 200, "{fits:?}");
        // Nobody goes back to what is too large.
        for part in ["files", "code"] {
            kit.database.run(&format!("UPDATE pipeline_version SET {part} = '{large}{large}' WHERE number = 2")).await;
            let refused = kit.post(&kit.member.key, &format!("{app}rollback/"), json!({})).await;
            assert_eq!((refused.code(), &refused.body["attr"]), ((400, "max_length"), &json!("source")), "{refused:?}");
            kit.database.run(&format!("UPDATE pipeline_version SET {part} = '{{}}' WHERE number = 2")).await;
        }
    }

    /// JSX becomes several times as long, and anybody can ask for it.
    async fn what_an_app_has_for_browsers_has_a_limit_when_it_is_compiled(kit: Kit) {
        // Fragments become seven times as long, so that few are enough for a compiler without optimizations.
        let source = |elements: usize| json!({ "frontend.tsx": format!("export const all = [{}]", "<></>,".repeat(elements)) });
        let body = |elements: usize| json!({ "plugin_type": "source", "source": source(elements) });
        let collection = kit.at("pipeline_frontend_apps/");
        let made = kit.post(&kit.member.key, &collection, body(26_000)).await;
        assert_eq!((made.code(), &made.body["attr"]), ((400, "max_length"), &json!("source__frontend.tsx")), "{made:?}");
        assert!(made.text("/detail").contains("at most 1 MiB"), "{made:?}");
        let app = create(&kit, "pipeline_frontend_apps", body(1000)).await;
        let changed = kit.patch(&kit.member.key, &format!("{app}update_source/"), json!({ "source": source(26_000) })).await;
        assert_eq!(changed.code(), (400, "max_length"), "{changed:?}");
        assert_eq!(first(&kit, "SELECT max(number) FROM pipeline_version").await, 1, "nothing was stored");
    }

    /// Nobody else can write in the meantime.
    async fn configurations_are_settled_by_few_statements_however_many_there_are(kit: Kit) {
        let code = "export function onEvent() {}\nexport function runEveryHour() {}\nexport function runEveryDay() {}";
        let app = create(&kit, COLLECTION, json!({ "plugin_type": "source", "source": { "index.ts": code } })).await;
        for number in 0..20 {
            let made = kit.post(&kit.member.key, &format!("{app}configs/"), json!({ "enabled": number % 4 != 0 })).await;
            assert_eq!(made.status, 201, "{made:?}");
        }
        let counted = count_statements(&kit).await;
        let state = async || {
            let tasks = first(&kit, "SELECT count(*) FROM pipeline_task WHERE kind = 'schedule'").await;
            (tasks, first(&kit, "SELECT count(*) FROM pipeline_config WHERE due_at IS NOT NULL").await)
        };
        assert_eq!(state().await, (30, 15));
        let less = json!({ "capabilities": { "methods": [], "scheduled_tasks": ["runEveryHour"], "jobs": [] } });
        for (change, expected) in [(less, (15, 0)), (json!({ "capabilities": null }), (30, 15))] {
            let changed = kit.patch(&kit.member.key, &app, change).await;
            assert_eq!(changed.status, 200, "{changed:?}");
            assert_eq!(state().await, expected);
        }
        let other = json!({ "source": { "index.ts": "export function runEveryDay() {}" } });
        assert_eq!(kit.patch(&kit.member.key, &format!("{app}update_source/"), other).await.status, 200);
        assert_eq!(state().await, (15, 0));
        assert_eq!(kit.post(&kit.member.key, &format!("{app}rollback/"), json!({})).await.status, 200);
        assert_eq!(state().await, (30, 15));
        assert_eq!(first(&kit, "SELECT max(version) FROM pipeline_config").await, 1);
        if counted {
            let statements = first(&kit, "SELECT n FROM counted").await;
            assert!((8..=20).contains(&statements), "{statements} statements for four changes");
        }
    }

    /// Security case A5: values that cannot be read are in nobody's way as long as nobody needs them.
    async fn an_app_changes_without_the_values_of_its_configurations(kit: Kit) {
        let app = create(&kit, COLLECTION, hook()).await;
        let values = json!({ "url": "https://a.example" });
        let made = kit.post(&kit.member.key, &format!("{app}configs/"), json!({ "enabled": true, "config": values })).await;
        assert_eq!(made.status, 201, "{made:?}");
        kit.database.run("UPDATE pipeline_config SET config = '[]'").await;
        let renamed = kit.patch(&kit.member.key, &app, json!({ "name": "Other" })).await;
        assert_eq!(renamed.status, 200, "{renamed:?}");
        let quiet = kit.patch(&kit.member.key, &app, json!({ "capabilities": { "methods": [] } })).await;
        assert_eq!(quiet.status, 200, "{quiet:?}");
        assert_eq!(first(&kit, "SELECT count(*) FROM pipeline_config WHERE due_at IS NOT NULL").await, 0);
        let code = json!({ "source": { "index.ts": "export function onEvent() {}" }, "capabilities": null });
        let changed = kit.patch(&kit.member.key, &format!("{app}update_source/"), code).await;
        assert_eq!(changed.status, 200, "{changed:?}");
        assert_eq!(first(&kit, "SELECT version FROM pipeline_config").await, 2);
        assert_eq!(first(&kit, "SELECT count(*) FROM pipeline_config WHERE due_at IS NOT NULL").await, 1);
        let kept: Vec<String> = kit.database.column("SELECT CAST(config AS TEXT) FROM pipeline_config").await;
        assert_eq!(kept, ["[]"], "they were not written, either");
    }

    /// Security case A8.
    async fn a_team_has_so_many_frontend_apps_on_its_pages(kit: Kit) {
        let source = json!({ "site.ts": "export function inject() {}" });
        let app = create(&kit, "pipeline_frontend_apps", json!({ "plugin_type": "source", "source": source })).await;
        let configs = format!("{app}configs/");
        for _ in 0..50 {
            assert_eq!(kit.post(&kit.member.key, &configs, json!({ "enabled": true })).await.status, 201);
        }
        let one_more = kit.post(&kit.member.key, &configs, json!({ "enabled": true })).await;
        assert_eq!(one_more.code(), (400, "too_many_frontend_apps"), "{one_more:?}");
        let off = kit.post(&kit.member.key, &configs, json!({})).await;
        let off = format!("{configs}{}/", off.body["id"]);
        let on = kit.patch(&kit.member.key, &off, json!({ "enabled": true })).await;
        assert_eq!(on.code(), (400, "too_many_frontend_apps"), "{on:?}");
        let elsewhere = create(&kit, COLLECTION, hook()).await;
        let values = json!({ "enabled": true, "config": { "url": "https://a.example" } });
        assert_eq!(kit.post(&kit.member.key, &format!("{elsewhere}configs/"), values).await.status, 201);
    }

    /// Security case A9.
    async fn what_apps_keep_has_a_limit(kit: Kit) {
        let (path, config) = config_of(&kit).await;
        let (other, _) = config_of(&kit).await;
        let store = async |key: &str, value: &str| kit.service.store_for_app(&config, key, value).await;
        let bytes = "SELECT storage_bytes FROM pipeline_usage ORDER BY config_id";
        for (key, value, expected) in [("a", "\"12\"", 5), ("\u{fc}", "1", 8), ("a", "1", 5), ("a", "null", 3), ("a", "null", 3)] {
            store(key, value).await.unwrap();
            assert_eq!(first(&kit, bytes).await, expected, "{key}: {value}");
        }
        assert_eq!(first(&kit, "SELECT storage_keys FROM pipeline_usage").await, 1);
        let theirs = the_config(&kit, &other).await;
        kit.service.store_for_app(&theirs, "b", "1").await.unwrap();
        let set = async |config: &AppConfig, bytes: i64| {
            let sql = format!("UPDATE pipeline_usage SET storage_bytes = {bytes} WHERE config_id = {}", config.id);
            kit.database.run(&sql).await;
        };
        set(&config, 16 * MB - 4).await;
        let full = store("c", "1234").await.unwrap_err().to_string();
        assert!(full.contains("16 MiB"), "{full}");
        store("c", "123").await.unwrap();
        store("c", "1").await.unwrap();
        set(&config, 4).await;
        set(&theirs, 256 * MB - 4).await;
        let full = store("d", "123").await.unwrap_err().to_string();
        assert!(full.contains("256 MiB"), "{full}");
        assert_eq!(kit.delete(&kit.member.key, &other).await.status, 204);
        store("d", "123").await.unwrap();
        kit.database.run("UPDATE pipeline_usage SET storage_keys = 10000").await;
        let full = store("e", "1").await.unwrap_err().to_string();
        assert!(full.contains("10000 keys"), "{full}");
        assert_eq!(kit.delete(&kit.member.key, &path).await.status, 204);
        assert!(store("d", "123").await.is_err(), "there is nothing to keep it for");
        assert_eq!(first(&kit, "SELECT count(*) FROM pipeline_usage").await, 0);
    }

    async fn jobs_that_wait_have_a_limit(kit: Kit) {
        let (_, config) = config_of(&kit).await;
        let (other, _) = config_of(&kit).await;
        let at = kit.service.clock().now();
        let queue = async |payload: &str| kit.service.queue_app_job(&config, "job", payload, at).await;
        queue("12345").await.unwrap();
        assert_eq!(first(&kit, "SELECT payload_bytes FROM pipeline_usage").await, 8 * 1024 + 8);
        kit.database.run(&format!("UPDATE pipeline_usage SET payload_bytes = {}", 16 * MB - 8 * 1024 - 7)).await;
        assert!(queue("12345").await.unwrap_err().to_string().contains("16 MiB"));
        queue("1234").await.unwrap();
        let theirs = the_config(&kit, &other).await;
        kit.service.queue_app_job(&theirs, "job", "1", at).await.unwrap();
        kit.database.run(&format!("UPDATE pipeline_usage SET payload_bytes = {MB}")).await;
        queue("1").await.unwrap();
        let sql = format!("UPDATE pipeline_usage SET payload_bytes = {} WHERE config_id = {}", 63 * MB, theirs.id);
        kit.database.run(&sql).await;
        assert!(queue("1").await.unwrap_err().to_string().contains("64 MiB"));
    }

    async fn the_oldest_lines_of_a_log_go_when_there_are_many(kit: Kit) {
        let (path, config) = config_of(&kit).await;
        let (other, _) = config_of(&kit).await;
        let theirs = the_config(&kit, &other).await;
        let say = async |config: &AppConfig, count: usize| {
            kit.service.clock().advance(chrono::TimeDelta::seconds(1));
            let line = |number: usize| AppLog {
                source: AppLogSource::Console, level: AppLogLevel::Info, message: format!("{number} of {count}"),
                created_at: kit.service.clock().now(),
            };
            let lines: Vec<AppLog> = (0..count).map(line).collect();
            kit.service.log_app(config, &lines).await.unwrap();
        };
        say(&theirs, 1).await;
        for _ in 0..2 {
            say(&config, 600).await;
        }
        let count = async || kit.get(&kit.member.key, &format!("{path}logs/")).await.body["count"].clone();
        assert_eq!(count().await, 1200, "there is room for all");
        kit.database.run(&format!("UPDATE pipeline_usage SET log_lines = 100000 WHERE config_id = {}", theirs.id)).await;
        say(&config, 400).await;
        assert_eq!(count().await, 1000, "the organization has many");
        let newest = kit.get(&kit.member.key, &format!("{path}logs/?limit=1")).await;
        assert!(newest.text("/results/0/message").ends_with("of 400"), "{newest:?}");
        // What went with age is counted until somebody looks.
        kit.database.run("UPDATE pipeline_usage SET log_lines = 10499").await;
        say(&config, 1).await;
        assert_eq!(count().await, 1001);
        assert_eq!(first(&kit, "SELECT log_lines FROM pipeline_usage ORDER BY config_id").await, 1001);
    }

    /// Security case A2: a search reads so much, whatever there is.
    async fn a_search_reads_the_newest_lines_and_no_more_than_16_mb(kit: Kit) {
        let (path, config) = config_of(&kit).await;
        for message in ["Needle, the first", "filler", "filler", "filler", "filler", "needle", "hay", "The last NEEDLE"] {
            kit.service.clock().advance(chrono::TimeDelta::seconds(1));
            let line = AppLog {
                source: AppLogSource::Console, level: AppLogLevel::Info, message: message.to_owned(),
                created_at: kit.service.clock().now(),
            };
            kit.service.log_app(&config, &[line]).await.unwrap();
        }
        let found = async |query: &str| {
            let page = kit.get(&kit.member.key, &format!("{path}logs/?{query}")).await;
            assert_eq!(page.status, 200, "{page:?}");
            let messages = crate::column(&page, "message").into_iter().map(|text| text.as_str().unwrap().to_owned());
            (page.body["count"].as_i64().unwrap(), messages.collect::<Vec<_>>())
        };
        assert_eq!(found("search=needle").await.0, 3);
        let large = "a".repeat(5 << 20);
        kit.database.run(&format!("UPDATE pipeline_log SET message = '{large}' WHERE message = 'filler'")).await;
        assert_eq!(found("search=needle").await, (2, vec!["The last NEEDLE".to_owned(), "needle".to_owned()]));
        assert_eq!(found("search=needle&limit=1&offset=1").await, (2, vec!["needle".to_owned()]));
        assert_eq!(found("search=needle&offset=9").await, (2, vec![]));
        assert_eq!(found("search=nothing").await, (0, vec![]));
        // What looks at each character again and again takes several seconds for this.
        let begun = std::time::Instant::now();
        assert_eq!(found(&format!("search=b{}", "a".repeat(199))).await, (0, vec![]));
        assert!(begun.elapsed() < std::time::Duration::from_secs(2), "{:?}", begun.elapsed());
        // Older lines are found by time.
        let first = kit.get(&kit.member.key, &format!("{path}logs/?limit=1&offset=6")).await;
        let before = first.text("/results/0/timestamp").replace(':', "%3A");
        assert_eq!(found(&format!("search=needle&before={before}")).await, (1, vec!["Needle, the first".to_owned()]));
    }

    async fn code_has_a_limit_over_all_apps_and_versions(kit: Kit) {
        let app = create(&kit, COLLECTION, hook()).await;
        let other = create(&kit, COLLECTION, hook()).await;
        let change = async |number: usize| {
            let source = json!({ "source": { "index.ts": format!("export function onEvent() {{ return {number} }}") } });
            kit.patch(&kit.member.key, &format!("{app}update_source/"), source).await
        };
        for number in 0..2 {
            assert_eq!(change(number).await.status, 200);
        }
        let size = first(&kit, "SELECT size FROM pipeline_version").await;
        assert!(size > 100 && size < 100_000, "{size}");
        kit.database.run(&format!("UPDATE pipeline_version SET size = {}", 60 * MB)).await;
        assert_eq!(change(2).await.status, 200, "four of them fit");
        kit.database.run(&format!("UPDATE pipeline_version SET size = {} WHERE size < 1000000", 60 * MB)).await;
        assert_eq!(change(3).await.status, 200);
        let versions = kit.get(&kit.member.key, &format!("{app}versions/")).await;
        let kept: Vec<&Value> = versions.body["results"].as_array().unwrap().iter().map(|one| &one["version"]).collect();
        assert_eq!(kept, [5, 4, 3, 2], "the oldest that nobody runs went: {versions:?}");
        assert_eq!(kit.get(&kit.member.key, &format!("{other}versions/")).await.body["count"], 1);
        kit.database.run(&format!("UPDATE pipeline_version SET size = {}", 257 * MB)).await;
        let refused = change(4).await;
        assert_eq!(refused.code(), (400, "code_too_large"), "{refused:?}");
        assert_eq!(kit.get(&kit.member.key, &format!("{app}versions/")).await.body["count"], 4, "nothing changed");
    }
}
