//! Who uses which app: what lists show.

use chrono::TimeDelta;
use events::Incoming;
use serde_json::{Map, Value, json};
use service::access::{Caller, ReadApps, Request};
use service::credentials::Credential;
use service::organizations::OrganizationRef;
use service::pipeline::Collection;
use service::{AppId, Error, TeamId, Window};
use testkit::{Kit, on_both};

const FAILING: &str = "export function onEvent() { throw new Error('no luck') }";

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

on_both! {
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
}
