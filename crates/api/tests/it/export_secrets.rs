//! E1: no answer of any kind holds a secret of a destination, whatever the kind, and whatever went wrong.

use chrono::TimeDelta;
use serde_json::{Value, json};
use service::batch_exports::destination::Kind;
use testkit::{Kit, Reply, on_both};

use crate::access::{Things, operations};
use crate::configs::{KEY, destinations};

/// The middle of a private key, and the key of an Azure account, which cannot have a word of ours in them.
fn marks() -> [String; 4] {
    let line = KEY.lines().nth(3).expect("a key of many lines").to_owned();
    let account_key = "aHVzaC1hY2NvdW50X2tleQ==".to_owned();
    ["hush-".to_owned(), line, account_key, "hush%2D".to_owned()]
}

fn holds_no_secret(reply: &Reply, about: &str) {
    let text = format!("{} {:?}", reply.body, reply.headers);
    for mark in marks() {
        assert!(!text.contains(&mark), "{about}: {mark} is in {text}");
    }
}

/// An export of each kind, with a run that was tried and failed, and a backfill: their ids.
async fn exports(kit: &Kit) -> Vec<(Kind, [String; 3])> {
    let now = kit.service.clock().now();
    let event = events::Incoming {
        uuid: None,
        event: "seen".to_owned(),
        distinct_id: "ann".to_owned(),
        properties: serde_json::Map::new(),
        timestamp: now,
    };
    kit.events.append(kit.team.0, vec![event], now).await.unwrap();
    let mut made = Vec::new();
    let connection = "AccountName=acme;AccountKey=aHVzaC1hY2NvdW50X2tleQ==;BlobEndpoint=https://hush-blob.example.com";
    let connected = json!({ "container_name": "events", "connection_string": connection });
    let connected = (Kind::AzureBlob, connected.as_object().unwrap().clone());
    for (kind, config) in destinations().into_iter().chain([connected]) {
        // An endpoint that cannot be reached is asked again for half a minute.
        let is_paused = kind == Kind::Http;
        let destination = json!({ "type": kind.name(), "config": config });
        let body = json!({ "name": kind.name(), "interval": "hour", "paused": is_paused, "destination": destination });
        let reply = kit.post(&kit.admin.key, &kit.at("batch_exports/"), body).await;
        assert_eq!(reply.status, 201, "{}: {reply:?}", kind.name());
        holds_no_secret(&reply, kind.name());
        made.push((kind, reply.text("/id").to_owned()));
    }
    kit.service.clock().advance(TimeDelta::hours(1));
    while kit.exports.schedule().await.unwrap() | kit.exports.step().await.unwrap() {}
    let mut with_runs = Vec::new();
    for (kind, id) in made {
        let runs = kit
            .get(&kit.admin.key, &kit.at(&format!("batch_exports/{id}/runs/")))
            .await;
        let backfill = kit
            .post(
                &kit.admin.key,
                &kit.at(&format!("batch_exports/{id}/backfill/")),
                json!({ "resend": true }),
            )
            .await;
        let backfill = backfill.body["backfill_id"].as_str().unwrap_or_default().to_owned();
        let run = runs.body["results"][0]["id"].as_str().unwrap_or_default().to_owned();
        with_runs.push((kind, [id, run, backfill]));
    }
    with_runs
}

/// Every GET of the OpenAPI spec about one export.
async fn read_everything(kit: &Kit, kind: Kind, [export, run, backfill]: &[String; 3]) {
    for operation in operations()
        .iter()
        .filter(|operation| operation.method == "GET" && operation.path.contains("/batch_exports/"))
    {
        let path = operation
            .path
            .replace("{organization_id}", &kit.organization.to_string())
            .replace("{id}", export)
            .replace("{run_id}", run)
            .replace("{backfill_id}", backfill);
        let reply = kit.get(&kit.owner.key, &path).await;
        assert!(reply.status < 500, "{} {path}: {reply:?}", kind.name());
        holds_no_secret(&reply, &path);
    }
}

/// What is wrong with a change is said without what is kept.
async fn change_everything(kit: &Kit, kind: Kind, [export, ..]: &[String; 3]) {
    let path = kit.at(&format!("batch_exports/{export}/"));
    for field in kind.fields() {
        for value in [
            json!(7),
            json!("https://evil.example.com/"),
            json!({ "x": 1 }),
            Value::Null,
        ] {
            let change = json!({ "destination": { "config": { field.key: value } } });
            let reply = kit.patch(&kit.admin.key, &format!("{path}?dry_run=true"), change).await;
            holds_no_secret(&reply, &format!("{} {}", kind.name(), field.key));
        }
    }
    let tested = kit.post(&kit.admin.key, &format!("{path}test/"), json!({})).await;
    assert_eq!(tested.status, 200, "{}: {tested:?}", kind.name());
    holds_no_secret(&tested, kind.name());
}

on_both! {
    async fn no_answer_holds_a_secret_of_a_destination(kit: Kit) {
        let things = Things::own(&kit).await;
        for (kind, ids) in exports(&kit).await {
            read_everything(&kit, kind, &ids).await;
            change_everything(&kit, kind, &ids).await;
        }
        for operation in operations().iter().filter(|operation| operation.method == "GET") {
            let path = things.path(operation);
            holds_no_secret(&kit.get(&kit.owner.key, &path).await, &path);
        }
        for mark in marks() {
            assert!(!kit.database.holds(&mark).await, "{mark} lies open in the database");
        }
    }
}
