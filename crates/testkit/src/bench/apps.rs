//! Events from the store into an app, the whole way; and what apps cost that have nothing to do.

use std::time::{Duration, Instant};

use anyhow::ensure;
use chrono::TimeDelta;
use events::Incoming;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::usage::cpu_seconds;
use crate::databases::Backend;
use crate::kit::Kit;

const EVENTS: usize = 50_000;
const BATCH: usize = 1000;
/// How long idle configurations are watched, and how long before that.
const IDLE: Duration = Duration::from_secs(20);
const SETTLING: Duration = Duration::from_secs(10);

const APP: &str =
    "export function onEvent(event, { global }) { global.count = (global.count || 0) + event.properties.amount }";

/// Hands over all events to one configuration of a simple app, and says what it took.
pub async fn apps() -> anyhow::Result<Value> {
    let kit = Kit::new(Backend::Sqlite).await;
    let config = enabled(&kit).await?;
    for _ in 0..EVENTS / BATCH {
        let now = kit.service.clock().now();
        kit.events
            .append(kit.team.0, (0..BATCH).map(event).collect(), now)
            .await?;
        kit.service.clock().advance(TimeDelta::milliseconds(10));
    }
    let begun = Instant::now();
    kit.run_apps().await;
    let wall = begun.elapsed().as_secs_f64();
    let shown = kit.get(&kit.admin.key, &config).await;
    ensure!(shown.body["error"].is_null(), "{shown:?}");
    Ok(json!({ "events": EVENTS, "wall": wall }))
}

/// Lets a worker wait while nothing happens, with this many enabled configurations, and says what share of a core that takes.
pub async fn idle_apps(configs: i64) -> anyhow::Result<Value> {
    let kit = Kit::new(Backend::Sqlite).await;
    enabled(&kit).await?;
    let columns = "organization_id, app_id, team_id, version, enabled, sort_order, config, secrets, size, allowed_hosts, \
                   delivered_until, delivered_count, due_at, attempt, tries, failures, created_at, updated_at";
    let copies = format!(
        "WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < {configs}) \
         INSERT INTO pipeline_config ({columns}, web_token) SELECT {columns}, 'copy-' || i FROM pipeline_config, n"
    );
    kit.database.run(&copies).await;
    let stop = CancellationToken::new();
    let worker = {
        let (apps, stop) = (kit.apps.clone(), stop.clone());
        tokio::spawn(async move { apps.work(stop).await })
    };
    // Time passes only if somebody lets it.
    pass(&kit, SETTLING).await;
    let (used, begun) = (cpu_seconds("self")?, Instant::now());
    pass(&kit, IDLE).await;
    let share = (cpu_seconds("self")? - used) / begun.elapsed().as_secs_f64();
    stop.cancel();
    worker.await?;
    Ok(json!({ "configs": configs, "share_of_a_core": share }))
}

async fn pass(kit: &Kit, time: Duration) {
    const STEP: Duration = Duration::from_millis(250);
    let begun = Instant::now();
    while begun.elapsed() < time {
        tokio::time::sleep(STEP).await;
        kit.service.clock().advance(TimeDelta::milliseconds(250));
    }
}

/// Creates a simple app with an enabled configuration, and gives the path of that.
async fn enabled(kit: &Kit) -> anyhow::Result<String> {
    let collection = kit.at("pipeline_destinations/");
    let app = json!({ "plugin_type": "source", "source": { "index.js": APP } });
    let app = kit.post(&kit.admin.key, &collection, app).await;
    ensure!(app.status == 201, "{app:?}");
    let configs = format!("{collection}{}/configs/", app.body["id"]);
    let config = kit.post(&kit.admin.key, &configs, json!({ "enabled": true })).await;
    ensure!(config.status == 201, "{config:?}");
    Ok(format!("{configs}{}/", config.body["id"]))
}

fn event(number: usize) -> Incoming {
    Incoming {
        uuid: None,
        event: "order paid".to_owned(),
        distinct_id: format!("user-{}", number % 500),
        properties: Map::from_iter([
            ("amount".to_owned(), json!(number)),
            ("currency".to_owned(), json!("EUR")),
            ("$browser".to_owned(), json!("Firefox")),
            (
                "$current_url".to_owned(),
                json!("https://example.com/checkout/done?step=4"),
            ),
        ]),
        timestamp: chrono::DateTime::UNIX_EPOCH + TimeDelta::days(20_000),
    }
}
