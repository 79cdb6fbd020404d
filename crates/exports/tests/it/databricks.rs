//! Databricks, played by a double of ours that answers in the shapes the vendor documents and carries statements out.

use std::collections::BTreeMap;

use async_trait::async_trait;
use exports::Deliver;
use hogql::Model;
use outbound::Roots;
use serde_json::{Value, json};
use service::batch_exports::destination::Kind;
use testkit::external::warehouses::{Databricks, PASSWORD};

use crate::by_model::ByModel;
use crate::suite::{self, Peer};
use crate::warehouse::{all_passed, deps, failed, first, numbers, open, refusal};

struct Workspace(Databricks);

fn config(server: &Databricks, table: &str) -> Value {
    json!({
        "server_hostname": server.hostname(), "http_path": Databricks::HTTP_PATH, "catalog": Databricks::CATALOG,
        "schema": Databricks::SCHEMA, "table_name": table, "access_token": Databricks::TOKEN,
    })
}

fn with(server: &Databricks, table: &str, change: &Value) -> Box<dyn Deliver> {
    let mut config = config(server, table);
    for (key, value) in change.as_object().unwrap() {
        config[key] = value.clone();
    }
    let roots = Roots::with_pem(server.ca_pem().as_bytes()).unwrap();
    open(Kind::Databricks, &config, &deps(&roots)).unwrap()
}

fn principal(secret: &str) -> Value {
    json!({ "access_token": null, "client_id": Databricks::CLIENT_ID, "client_secret": secret })
}

#[async_trait]
impl Peer for Workspace {
    fn destination(&self) -> Box<dyn Deliver> {
        Box::new(ByModel {
            events: with(&self.0, "events", &json!({})),
            persons: with(&self.0, "persons", &principal(PASSWORD)),
        })
    }

    async fn uuids(&self) -> Vec<String> {
        first(self.0.read("SELECT uuid FROM workspace.hedgerow.events"))
    }

    async fn person_versions(&self) -> Option<BTreeMap<String, i64>> {
        Some(numbers(self.0.read(
            "SELECT distinct_id, person_version FROM workspace.hedgerow.persons",
        )))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn databricks_passes_the_suite_and_leaves_only_its_tables() {
    let workspace = Workspace(Databricks::start());
    all_passed(&workspace.destination().test().await);
    // The reader fails on tables that are not there.
    let empty = workspace.destination();
    let delivery = suite::delivery(&*empty, Model::Events, 5);
    empty.begin(&delivery).await.unwrap().unwrap().commit().await.unwrap();
    suite::passes(&workspace).await;
    let tables = workspace
        .0
        .read("SELECT table_name FROM information_schema.tables WHERE table_schema = 'hedgerow'");
    assert_eq!(
        suite::sorted(first(tables)),
        ["events", "hedgerow_deliveries", "persons"]
    );

    let rows = workspace.0.read(
        "SELECT event, properties->>'n', properties->>'text', team_id, epoch_us(timestamp), databricks_ingested_timestamp IS NULL \
         FROM workspace.hedgerow.events WHERE uuid = '00000000-0000-0000-0000-000000000003'",
    );
    let micros = (delivery_start() + 3).to_string();
    let expected = [
        "quote \" ' \\ , ;\n\ttab é 🦔",
        "3",
        "a\"b\\c\n é 🦔",
        "1",
        &micros,
        "False",
    ];
    assert_eq!(rows, [expected.map(|text| Some(text.to_owned())).to_vec()]);
}

fn delivery_start() -> i64 {
    "2026-11-15T00:00:00Z"
        .parse::<service::Time>()
        .unwrap()
        .timestamp_micros()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_databricks_refuses_is_said_in_a_sentence() {
    let server = Databricks::start();
    let good = with(&server, "t", &json!({}));
    let delivery = suite::delivery(&*good, Model::Events, 0);
    for change in [json!({ "access_token": "wrong" }), principal("wrong")] {
        let wrong = with(&server, "t", &change);
        let error = refusal(wrong.begin(&delivery).await);
        assert!(
            error.is_permanent && error.sentence.contains("does not accept"),
            "{error}"
        );
    }
    assert_eq!(
        failed(&with(&server, "t", &principal("wrong")).test().await).name,
        "sign in"
    );
    let elsewhere = with(&server, "t", &json!({ "http_path": "/sql/1.0/warehouses/other" }));
    assert!(refusal(elsewhere.begin(&delivery).await).sentence.contains("http_path"));
    assert_eq!(failed(&elsewhere.test().await).name, "warehouse");

    let secret = "destination's words";
    for (status, code, is_permanent) in [
        (403, "PERMISSION_DENIED", true),
        (429, "REQUEST_LIMIT_EXCEEDED", false),
        (503, "TEMPORARILY_UNAVAILABLE", false),
        (400, "PERMISSION_DENIED", true),
    ] {
        server.answer_with(status, &json!({ "error_code": code, "message": secret }));
        let error = refusal(good.begin(&delivery).await);
        assert_eq!(error.is_permanent, is_permanent, "{code}: {error}");
        assert!(!error.sentence.contains(secret));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_that_was_overtaken_leaves_the_rest_to_the_other() {
    let server = Databricks::start();
    let destination = with(&server, "t", &json!({}));
    let delivery = suite::delivery(&*destination, Model::Events, 0);
    let mut first_attempt = destination.begin(&delivery).await.unwrap().unwrap();
    first_attempt.write(suite::events(&delivery, 0..10)).await.unwrap();
    let mut second = destination.begin(&delivery).await.unwrap().unwrap();
    second.write(suite::events(&delivery, 0..10)).await.unwrap();
    assert!(!refusal(first_attempt.commit().await).is_permanent);
    second.commit().await.unwrap();
    assert_eq!(
        suite::sorted(first(server.read("SELECT uuid FROM workspace.hedgerow.t"))),
        suite::ids(0..10)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_that_nobody_waits_for_is_cancelled() {
    let server = Databricks::start();
    // Answers for ever that it is not done.
    server.answer_with(
        200,
        &json!({ "statement_id": "endless", "status": { "state": "RUNNING" } }),
    );
    let destination = with(&server, "t", &json!({}));
    let delivery = suite::delivery(&*destination, Model::Events, 0);
    let waiting = tokio::time::timeout(std::time::Duration::from_secs(1), destination.begin(&delivery)).await;
    assert!(waiting.is_err());
    let is_cancelled = || {
        server
            .seen()
            .contains(&"/api/2.0/sql/statements/endless/cancel".to_owned())
    };
    for _ in 0..100 {
        if is_cancelled() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("the statement was not cancelled; there were {:?}", server.seen());
}

#[tokio::test]
async fn hostile_names_are_refused() {
    let named = |key: &str, value: &str| {
        let mut config = json!({
            "server_hostname": "127.0.0.1:1", "http_path": Databricks::HTTP_PATH, "catalog": "c", "schema": "s",
            "table_name": "t", "access_token": "x",
        });
        config[key] = value.into();
        open(Kind::Databricks, &config, &deps(&Roots::public()))
    };
    for (key, value) in [
        ("table_name", "x`; DROP TABLE y"),
        ("catalog", "a.b"),
        ("schema", "../other"),
        ("table_name", ""),
        ("schema", "a'b"),
        ("server_hostname", "evil.example/x"),
        ("server_hostname", "user@host"),
        ("http_path", "/sql/1.0/warehouses/a?b"),
    ] {
        let error = refusal(named(key, value));
        assert!(error.is_permanent && error.sentence.contains(key), "{error}");
    }
    let destination = named("table_name", "t").unwrap();
    let mut delivery = suite::delivery(&*destination, Model::Events, 0);
    let hostile = arrow_schema::Field::new("a (b)", arrow_schema::DataType::Utf8, true);
    delivery.schema = std::sync::Arc::new(arrow_schema::Schema::new(vec![hostile]));
    delivery.is_custom = true;
    assert!(refusal(destination.begin(&delivery).await).is_permanent);
}
