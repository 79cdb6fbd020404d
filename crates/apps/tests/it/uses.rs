//! Who uses which app: what lists show, and what is told of configurations that were given up.

use chrono::TimeDelta;
use events::Incoming;
use serde_json::{Map, Value, json};
use service::access::{Caller, ReadApps, Request};
use service::credentials::Credential;
use service::organizations::OrganizationRef;
use service::pipeline::{AppsSeen, Collection};
use service::{AppId, Error, TeamId, Window};
use testkit::{Kit, on_both};

const FAILING: &str = "export function onEvent() { throw new Error('no luck') }";
const BROKEN: &str = "export function setupPlugin() { throw new Error('no key') }\nexport function onEvent() {}";
const RETRYING: &str = "export function onEvent() { throw new RetryError('not now') }";

async fn reader(kit: &Kit, key: &str) -> Caller<ReadApps> {
    let organization = Some(OrganizationRef::Id(kit.organization));
    let allowed = kit
        .service
        .allowed(Credential::Key(key), organization, Request::default());
    allowed.await.unwrap()
}

async fn app(kit: &Kit, name: &str, code: &str) -> AppId {
    let source = json!({ "plugin.json": json!({ "name": name }).to_string(), "index.ts": code });
    let body = json!({ "plugin_type": "source", "source": source });
    let made = kit.post(&kit.admin.key, &kit.at("pipeline_destinations/"), body).await;
    assert_eq!(made.status, 201, "{made:?}");
    AppId(made.body["id"].as_i64().unwrap())
}

/// The address of a new configuration.
async fn set_up(kit: &Kit, app: AppId, body: Value) -> String {
    let configs = kit.at(&format!("pipeline_destinations/{app}/configs/"));
    let made = kit.post(&kit.admin.key, &configs, body).await;
    assert_eq!(made.status, 201, "{made:?}");
    format!("{configs}{}/", made.body["id"])
}

async fn happen(kit: &Kit, count: usize) {
    let now = kit.service.clock().now();
    let incoming = || Incoming {
        uuid: None,
        event: "x".to_owned(),
        distinct_id: "ann".to_owned(),
        properties: Map::new(),
        timestamp: now,
    };
    let events = std::iter::repeat_with(incoming).take(count).collect();
    kit.events.append(kit.team.0, events, now).await.unwrap();
    kit.service.clock().advance(TimeDelta::seconds(1));
}

async fn seen(kit: &Kit, most: i64) -> AppsSeen {
    let caller = reader(kit, &kit.member.key).await;
    kit.service
        .apps_seen(&caller, Window::new(Some(most), None))
        .await
        .unwrap()
}

fn names(seen: &AppsSeen) -> Vec<&str> {
    seen.given_up.items.iter().map(|used| used.app_name.as_str()).collect()
}

on_both! {
    async fn what_was_switched_off_by_failures_is_told_and_what_people_switched_off_is_not(kit: Kit) {
        let (failing, broken) = (app(&kit, "Failing", FAILING).await, app(&kit, "Broken", BROKEN).await);
        let retrying = app(&kit, "Retrying", RETRYING).await;
        let fails = set_up(&kit, failing, json!({ "enabled": true })).await;
        let by_hand = set_up(&kit, failing, json!({ "enabled": true })).await;
        let starts = set_up(&kit, broken, json!({ "enabled": true })).await;
        let waits = set_up(&kit, retrying, json!({ "enabled": true })).await;
        happen(&kit, 19).await;
        kit.run_apps().await;
        assert!(names(&seen(&kit, 10).await).is_empty(), "they fail, but they are on");
        kit.patch(&kit.admin.key, &by_hand, json!({ "enabled": false })).await;
        happen(&kit, 1).await;
        for _ in 0..5 {
            kit.service.clock().advance(TimeDelta::seconds(120));
            kit.run_apps().await;
        }
        // By now it was tried more often than an app is started.
        assert_eq!(kit.get(&kit.member.key, &waits).await.body["enabled"], true);
        kit.patch(&kit.admin.key, &waits, json!({ "enabled": false })).await;
        for path in [&fails, &by_hand, &starts, &waits] {
            let shown = kit.get(&kit.member.key, path).await;
            assert_eq!(shown.body["enabled"], false, "{path}");
            assert!(shown.body["error"].is_string(), "what went wrong is still said: {path}");
        }
        let told = seen(&kit, 10).await;
        assert_eq!((told.given_up.count, names(&told)), (2, vec!["Broken", "Failing"]), "the latest first");
        let latest = &told.given_up.items[0];
        assert_eq!((latest.app_id, latest.collection), (broken, Collection::Destinations));
        assert_eq!(latest.team_name, "Default project");
        assert!(starts.ends_with(&format!("/{}/", latest.id)) && !latest.enabled);
        assert!(latest.latest_error.as_ref().is_some_and(|error| error.contains("no key")), "{latest:?}");

        let few = seen(&kit, 1).await;
        assert_eq!((few.given_up.count, names(&few)), (2, vec!["Broken"]), "no more than asked for, and how many");
        // Other changes leave it where it is; who enables it has looked at it, also if it is disabled again.
        kit.patch(&kit.admin.key, &fails, json!({ "order": 3 })).await;
        kit.patch(&kit.admin.key, &starts, json!({ "enabled": true })).await;
        assert_eq!(names(&seen(&kit, 10).await), ["Failing"]);
        kit.patch(&kit.admin.key, &starts, json!({ "enabled": false })).await;
        assert_eq!(names(&seen(&kit, 10).await), ["Failing"]);
    }

    async fn configurations_are_counted_and_listed_without_what_the_app_is_told(kit: Kit) {
        let second = kit.post(&kit.owner.key, &kit.at("teams/"), json!({ "name": "Second" })).await;
        let second = second.body["id"].as_i64().unwrap();
        let (used, idle) = (app(&kit, "Used", "export function onEvent() {}").await, app(&kit, "Idle", FAILING).await);
        set_up(&kit, used, json!({ "enabled": true })).await;
        set_up(&kit, used, json!({ "enabled": true, "team_id": second, "order": 4 })).await;
        set_up(&kit, used, json!({})).await;
        let failing = app(&kit, "Failing", FAILING).await;
        set_up(&kit, failing, json!({ "enabled": true })).await;
        happen(&kit, 1).await;
        kit.run_apps().await;
        // An object is what would be read.
        kit.database.run("UPDATE pipeline_config SET config = '[]'").await;

        let caller = reader(&kit, &kit.member.key).await;
        let mut counts = kit.service.app_use_counts(&caller, &[used, failing, idle]).await.unwrap();
        counts.sort_by_key(|count| count.app.0);
        let figures = |counts: &[service::pipeline::UseCount]| -> Vec<(AppId, i64, i64)> {
            counts.iter().map(|count| (count.app, count.enabled, count.troubled)).collect()
        };
        assert_eq!(figures(&counts), [(used, 2, 0), (failing, 1, 1)]);
        let one = kit.service.app_use_counts(&caller, &[failing]).await.unwrap();
        assert_eq!(figures(&one), [(failing, 1, 1)], "only of the apps that are asked for");
        assert!(kit.service.app_use_counts(&caller, &[]).await.unwrap().is_empty());
        let most = Window::new(Some(2), None);
        let page = kit.service.app_uses(&caller, Collection::Destinations, used, most).await.unwrap();
        let teams: Vec<&str> = page.items.iter().map(|used| used.team_name.as_str()).collect();
        assert_eq!((page.count, teams), (3, vec!["Default project", "Second"]));
        assert_eq!((page.items[1].order, page.items[1].enabled), (4, true));

        let mut new = testkit::kit::everything();
        new.scoped_teams = Some(vec![TeamId(second)]);
        let key = kit.key_like(&kit.member, new).await;
        let limited = reader(&kit, &key).await;
        let counts = kit.service.app_use_counts(&limited, &[used, failing]).await.unwrap();
        assert_eq!(figures(&counts), [(used, 1, 0)], "a key sees its teams only");
        let page = kit.service.app_uses(&limited, Collection::Destinations, used, most).await.unwrap();
        assert_eq!(page.count, 1);
        let elsewhere = kit.service.app_uses(&caller, Collection::ImportApps, used, most).await;
        assert!(matches!(elsewhere, Err(Error::NotFound(_))));
    }

    async fn an_organization_is_told_of_its_own_apps(kit: Kit) {
        assert_eq!(seen(&kit, 10).await.count, 0);
        let old = app(&kit, "Old", FAILING).await;
        let newest = app(&kit, "Newest", FAILING).await;
        app(&kit, "Unknown", FAILING).await;
        let import = json!({ "plugin_type": "source", "name": "Untagged" });
        let import = kit.post(&kit.admin.key, &kit.at("pipeline_import_apps/"), import).await;
        let for_all = json!({ "plugin_type": "source", "name": "Of others", "is_global": true });
        let theirs = format!("/api/organizations/{}/pipeline_destinations/", kit.other);
        kit.make_operator(&kit.outsider).await;
        let theirs = kit.post(&kit.outsider.key, &theirs, for_all).await;
        for (id, tag, latest) in [
            (old.0, "'v1'", "'v2'"),
            (newest.0, "'v2'", "'v2'"),
            (import.body["id"].as_i64().unwrap(), "NULL", "'v1'"),
            (theirs.body["id"].as_i64().unwrap(), "'v1'", "'v2'"),
        ] {
            let sql = format!("UPDATE pipeline_app SET tag = {tag}, latest_tag = {latest} WHERE id = {id}");
            kit.database.run(&sql).await;
        }
        let told = seen(&kit, 10).await;
        let outdated: Vec<&str> = told.outdated.items.iter().map(|app| app.name.as_str()).collect();
        assert_eq!((told.count, told.outdated.count, outdated), (4, 2, vec!["Untagged", "Old"]));
        let few = seen(&kit, 1).await;
        assert_eq!((few.outdated.count, few.outdated.items.len()), (2, 1));
        kit.database.run("UPDATE organization SET plugins_access_level = 0").await;
        let caller = reader(&kit, &kit.member.key).await;
        let refused = kit.service.apps_seen(&caller, Window::new(None, None)).await;
        assert!(matches!(refused, Err(Error::Forbidden(_))));
    }
}
