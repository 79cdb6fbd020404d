//! Events from the store into an app, the whole way.

use std::time::Instant;

use anyhow::ensure;
use chrono::TimeDelta;
use events::Incoming;
use serde_json::{Map, Value, json};

use crate::databases::Backend;
use crate::kit::Kit;

const EVENTS: usize = 50_000;
const BATCH: usize = 1000;

const APP: &str =
    "export function onEvent(event, { global }) { global.count = (global.count || 0) + event.properties.amount }";

/// Hands over all events to one configuration of a simple app, and says what it took.
pub async fn apps() -> anyhow::Result<Value> {
    let kit = Kit::new(Backend::Sqlite).await;
    let collection = kit.at("pipeline_destinations/");
    let app = json!({ "plugin_type": "source", "source": { "index.js": APP } });
    let app = kit.post(&kit.admin.key, &collection, app).await;
    ensure!(app.status == 201, "{app:?}");
    let configs = format!("{collection}{}/configs/", app.body["id"]);
    let config = kit.post(&kit.admin.key, &configs, json!({ "enabled": true })).await;
    ensure!(config.status == 201, "{config:?}");
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
    let shown = kit
        .get(&kit.admin.key, &format!("{configs}{}/", config.body["id"]))
        .await;
    ensure!(shown.body["error"].is_null(), "{shown:?}");
    Ok(json!({ "events": EVENTS, "wall": wall }))
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
