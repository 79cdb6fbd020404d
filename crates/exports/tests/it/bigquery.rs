//! `BigQuery`, played by bqemulator, read by the vendor's own client; tokens come from a server that checks assertions.

use std::collections::BTreeMap;

use async_trait::async_trait;
use exports::Deliver;
use hogql::Model;
use outbound::Roots;
use serde_json::{Value, json};
use service::batch_exports::destination::Kind;
use testkit::external::warehouses::{BigQuery, rsa_key};

use crate::by_model::ByModel;
use crate::suite::{self, Peer};
use crate::warehouse::{all_passed, deps, failed, first, numbers, open, refusal};

struct Project(BigQuery);

fn config(server: &BigQuery, table: &str) -> Value {
    json!({
        "project_id": BigQuery::PROJECT, "dataset_id": BigQuery::DATASET, "table_id": table,
        "private_key": server.private_key(), "private_key_id": BigQuery::KEY_ID, "token_uri": server.token_uri(),
        "client_email": BigQuery::EMAIL, "endpoint_url": server.url(),
    })
}

fn with(server: &BigQuery, table: &str, change: &Value) -> Box<dyn Deliver> {
    let mut config = config(server, table);
    for (key, value) in change.as_object().unwrap() {
        config[key] = value.clone();
    }
    open(Kind::BigQuery, &config, &deps(&Roots::public())).unwrap()
}

#[async_trait]
impl Peer for Project {
    fn destination(&self) -> Box<dyn Deliver> {
        Box::new(ByModel {
            events: with(&self.0, "events", &json!({})),
            persons: with(&self.0, "persons", &json!({ "use_json_type": true })),
        })
    }

    async fn uuids(&self) -> Vec<String> {
        first(self.0.read("SELECT uuid FROM exports.events"))
    }

    async fn person_versions(&self) -> Option<BTreeMap<String, i64>> {
        Some(numbers(
            self.0.read("SELECT distinct_id, person_version FROM exports.persons"),
        ))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bigquery_passes_the_suite_and_leaves_only_its_tables() {
    let project = Project(BigQuery::start());
    all_passed(&project.destination().test().await);
    // The reader fails on tables that are not there.
    let empty = project.destination();
    let delivery = suite::delivery(&*empty, Model::Events, 5);
    empty.begin(&delivery).await.unwrap().unwrap().commit().await.unwrap();
    suite::passes(&project).await;
    assert_eq!(
        suite::sorted(first(project.0.read("tables"))),
        ["events", "hedgerow_deliveries", "persons"]
    );
    assert_eq!(first(project.0.read("partition events")), ["DAY"]);
    // Here, because the emulator takes long to start.
    every_column_arrives_as_it_was(&project.0).await;
    an_attempt_that_was_overtaken_cannot_commit(&project.0).await;
}

/// With the JSON type and without.
async fn every_column_arrives_as_it_was(server: &BigQuery) {
    for (table, uses_json) in [("plain", false), ("json", true)] {
        let destination = with(server, table, &json!({ "use_json_type": uses_json }));
        let delivery = suite::delivery(&*destination, Model::Events, 0);
        let mut upload = destination.begin(&delivery).await.unwrap().unwrap();
        upload.write(suite::events(&delivery, 3..5)).await.unwrap();
        upload.commit().await.unwrap();
        let rows = server.read(&format!(
            "SELECT event, JSON_VALUE(properties, '$.n'), JSON_VALUE(properties, '$.text'), JSON_VALUE(`set`, '$.plan'), \
             team_id, UNIX_MICROS(timestamp), ip, site_url, elements, bq_ingested_timestamp IS NULL \
             FROM exports.{table} ORDER BY uuid"
        ));
        let micros = delivery.start.timestamp_micros();
        let row = |event: &str, number: i64, plan: Option<&str>| -> Vec<Option<String>> {
            let texts = [event, &number.to_string(), "a\"b\\c\n é 🦔"];
            let mut row: Vec<Option<String>> = texts.map(|text| Some(text.to_owned())).into();
            row.push(plan.map(str::to_owned));
            let rest = ["1", &(micros + number).to_string(), "10.0.0.1", "", "\"\"", "False"];
            row.extend(rest.map(|text| Some(text.to_owned())));
            row
        };
        assert_eq!(
            rows,
            [
                row("quote \" ' \\ , ;\n\ttab é 🦔", 3, None),
                row("$pageview", 4, Some("free"))
            ]
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_bigquery_and_its_token_server_refuse_is_said_in_a_sentence() {
    let server = BigQuery::start();
    one_token_serves_a_delivery_and_a_wrong_key_gets_none(&server).await;
    what_bigquery_refuses_is_said_in_a_sentence(&server).await;
}

async fn one_token_serves_a_delivery_and_a_wrong_key_gets_none(server: &BigQuery) {
    let destination = with(server, "t", &json!({}));
    let delivery = suite::delivery(&*destination, Model::Events, 0);
    let mut upload = destination.begin(&delivery).await.unwrap().unwrap();
    upload.write(suite::events(&delivery, 0..5)).await.unwrap();
    upload.commit().await.unwrap();
    assert_eq!(server.seen()["tokens"], 1);

    for change in [
        json!({ "private_key": rsa_key() }),
        json!({ "private_key_id": "another" }),
        json!({ "client_email": "somebody@else.example" }),
    ] {
        let wrong = with(server, "t", &change);
        let error = refusal(wrong.begin(&delivery).await);
        assert!(
            error.is_permanent && error.sentence.contains("key is not accepted"),
            "{error}"
        );
        assert_eq!(failed(&wrong.test().await).name, "sign in");
    }
    // The token server is a URL that a user chose.
    let inside = with(server, "t", &json!({ "token_uri": "http://10.0.0.1/token" }));
    assert!(refusal(inside.begin(&delivery).await).is_permanent);
}

async fn what_bigquery_refuses_is_said_in_a_sentence(server: &BigQuery) {
    let nowhere = with(server, "t", &json!({ "dataset_id": "nowhere" }));
    let delivery = suite::delivery(&*nowhere, Model::Events, 0);
    let error = refusal(nowhere.begin(&delivery).await);
    assert!(error.is_permanent && error.sentence.contains("dataset"), "{error}");
    assert_eq!(failed(&nowhere.test().await).name, "dataset");

    let destination = with(server, "t", &json!({}));
    for (status, reason, is_permanent) in [
        (403, "accessDenied", true),
        (403, "rateLimitExceeded", false),
        (403, "quotaExceeded", false),
        (429, "rateLimitExceeded", false),
        (503, "backendError", false),
        (400, "invalid", true),
    ] {
        let secret = "destination's words";
        server.answer_with(status, &json!({ "error": { "code": status, "message": secret, "errors": [{ "reason": reason, "message": secret }] } }));
        let error = refusal(destination.begin(&delivery).await);
        assert_eq!(error.is_permanent, is_permanent, "{reason}: {error}");
        assert!(!error.sentence.contains(secret));
    }
}

#[tokio::test]
async fn hostile_names_are_refused() {
    const KEY: &str = include_str!("../../../auth/tests/fixtures/saml/rsa.key");
    let named = |key: &str, value: &str| {
        let mut config = json!({
            "project_id": "p", "dataset_id": "d", "table_id": "t", "private_key": KEY, "private_key_id": "",
            "token_uri": "https://127.0.0.1:1/token", "client_email": "", "endpoint_url": "https://127.0.0.1:1",
        });
        config[key] = value.into();
        open(Kind::BigQuery, &config, &deps(&Roots::public()))
    };
    for (key, value) in [
        ("table_id", "x`; DROP TABLE y"),
        ("table_id", "../../datasets/other"),
        ("dataset_id", "a.b"),
        ("project_id", "p/../q"),
        ("table_id", ""),
        ("table_id", "a\0"),
    ] {
        let error = refusal(named(key, value));
        assert_eq!((error.is_permanent, error.key), (true, Some(key)), "{error}");
    }
    let destination = named("table_id", "t").unwrap();
    let mut delivery = suite::delivery(&*destination, Model::Events, 0);
    let hostile = arrow_schema::Field::new("a` b", arrow_schema::DataType::Utf8, true);
    delivery.schema = std::sync::Arc::new(arrow_schema::Schema::new(vec![hostile]));
    delivery.is_custom = true;
    let error = refusal(destination.begin(&delivery).await);
    assert!(
        error.is_permanent && error.sentence.contains("names of columns"),
        "{error}"
    );
}

async fn an_attempt_that_was_overtaken_cannot_commit(server: &BigQuery) {
    let destination = with(server, "overtaken", &json!({}));
    let delivery = suite::delivery(&*destination, Model::Events, 0);
    let mut first_attempt = destination.begin(&delivery).await.unwrap().unwrap();
    first_attempt.write(suite::events(&delivery, 0..10)).await.unwrap();
    let mut second = destination.begin(&delivery).await.unwrap().unwrap();
    second.write(suite::events(&delivery, 0..10)).await.unwrap();
    assert!(!refusal(first_attempt.commit().await).is_permanent);
    second.commit().await.unwrap();
    assert_eq!(
        suite::sorted(first(server.read("SELECT uuid FROM exports.overtaken"))),
        suite::ids(0..10)
    );
}
