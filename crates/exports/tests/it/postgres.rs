use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::{RecordBatch, StringArray};
use async_trait::async_trait;
use exports::{Deliver, Delivery, Error, Verdict};
use hogql::{Column, Model, Query};
use outbound::Roots;
use serde_json::{Value, json};
use service::batch_exports::destination::Kind;
use testkit::external::{PostgresOptions, PostgresServer, PostgresVersion};

use crate::by_model::ByModel;
use crate::database::{Home, destination};
use crate::suite::{self, Peer, delivery, events, ids, sorted};

impl Home {
    fn postgres(&self, over: &Value) -> Box<dyn Deliver> {
        destination(Kind::Postgres, &self.config(over), Roots::public())
    }
}

/// Persons go to a table of their own, as each export has its own.
struct Postgres(Home);

#[async_trait]
impl Peer for Postgres {
    fn destination(&self) -> Box<dyn Deliver> {
        Box::new(ByModel {
            events: self.0.postgres(&json!({})),
            persons: self.0.postgres(&json!({ "table_name": "persons" })),
        })
    }

    async fn uuids(&self) -> Vec<String> {
        self.0.uuids("product.events").await
    }

    async fn person_versions(&self) -> Option<BTreeMap<String, i64>> {
        Some(self.0.versions("product.persons").await)
    }
}

async fn deliver(destination: &dyn Deliver, delivery: &Delivery, rows: RecordBatch) -> Result<u64, Error> {
    let Some(mut upload) = destination.begin(delivery).await? else {
        return Ok(0);
    };
    upload.write(rows).await?;
    Ok(upload.commit().await?.rows)
}

/// Ten events of the first hour.
async fn deliver_ten(destination: &dyn Deliver) -> Result<u64, Error> {
    let delivery = delivery(destination, Model::Events, 0);
    let rows = events(&delivery, 0..10);
    deliver(destination, &delivery, rows).await
}

#[tokio::test]
async fn debians_postgresql_passes_the_suite() {
    suite::passes(&Postgres(Home::shared().await)).await;
}

#[tokio::test]
async fn postgresql_18_passes_the_suite() {
    let server = PostgresServer::start(PostgresOptions::new(PostgresVersion::Eighteen));
    let home = Home::of(&server);
    assert!(home.texts("SHOW server_version").await[0].starts_with("18."));
    suite::passes(&Postgres(home)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_twenty_workers_with_the_same_interval_one_delivers() {
    let home = Arc::new(Home::shared().await);
    let workers: Vec<_> = (0..20)
        .map(|_| {
            let home = home.clone();
            tokio::spawn(async move { deliver_ten(&*home.postgres(&json!({}))).await.unwrap() })
        })
        .collect();
    let mut delivered = 0;
    for worker in workers {
        delivered += worker.await.unwrap();
    }
    assert_eq!(delivered, 10);
    assert_eq!(sorted(home.uuids("product.events").await), ids(0..10));
}

/// As when the worker is killed, or the network goes, before the commit.
#[tokio::test]
async fn a_connection_that_is_lost_half_way_leaves_nothing_and_is_made_up_for() {
    let home = Home::shared().await;
    let postgres = home.postgres(&json!({}));
    let delivery = delivery(&*postgres, Model::Events, 0);
    let mut upload = postgres.begin(&delivery).await.unwrap().unwrap();
    upload.write(events(&delivery, 0..3000)).await.unwrap();
    home.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'hedgerow' AND datname = current_database()").await;
    let error = upload.commit().await.unwrap_err();
    assert!(!error.is_permanent, "{error}");
    assert!(home.uuids("product.events").await.is_empty());
    assert_eq!(deliver_ten(&*postgres).await.unwrap(), 10);
    assert_eq!(sorted(home.uuids("product.events").await), ids(0..10));
}

#[tokio::test]
async fn the_table_has_the_documented_columns() {
    let home = Home::shared().await;
    deliver_ten(&*home.postgres(&json!({}))).await.unwrap();
    let sql = "SELECT attname || ' ' || format_type(atttypid, atttypmod) FROM pg_attribute \
               WHERE attrelid = 'product.events'::regclass AND attnum > 0 ORDER BY attnum";
    assert_eq!(
        home.texts(sql).await,
        [
            "uuid character varying(200)",
            "event character varying(200)",
            "properties jsonb",
            "elements jsonb",
            "set jsonb",
            "set_once jsonb",
            "distinct_id character varying(200)",
            "team_id integer",
            "ip character varying(200)",
            "site_url character varying(200)",
            "timestamp timestamp with time zone",
        ]
    );
    let sql = "SELECT concat_ws('|', event, properties->>'text', elements, \"set\"->>'plan', distinct_id, team_id, ip, \
               timestamp AT TIME ZONE 'UTC') FROM product.events WHERE properties->>'n' IN ('2', '3') ORDER BY uuid";
    assert_eq!(
        home.texts(sql).await,
        [
            "$pageview|a\"b\\c\n é 🦔|\"\"|free|person 2|1|10.0.0.1|2026-11-15 00:00:00.000002",
            "quote \" ' \\ , ;\n\ttab é 🦔|a\"b\\c\n é 🦔|\"\"|person 3|1|10.0.0.1|2026-11-15 00:00:00.000003",
        ]
    );
    let ledger = "SELECT concat_ws(' ', export_id, model, rows) FROM product.hedgerow_ledger";
    assert_eq!(
        home.texts(ledger).await,
        ["00000000-0000-0000-0000-000000000001 events 10"]
    );
}

/// E4
#[tokio::test]
async fn hostile_names_are_names() {
    let home = Home::shared().await;
    home.run("CREATE TABLE x (a int)").await;
    let hostile = "a\"; DROP TABLE x; --";
    let postgres = home.postgres(&json!({ "schema": hostile, "table_name": hostile }));
    assert_eq!(deliver_ten(&*postgres).await.unwrap(), 10);
    assert!(home.exists("public.x").await);
    let table = "\"a\"\"; DROP TABLE x; --\".\"a\"\"; DROP TABLE x; --\"";
    assert_eq!(sorted(home.uuids(table).await), ids(0..10));
}

fn with(rows: &RecordBatch, column: &str, texts: Vec<Option<&str>>) -> RecordBatch {
    let index = rows.schema().index_of(column).unwrap();
    let mut columns = rows.columns().to_vec();
    columns[index] = Arc::new(StringArray::from(texts));
    RecordBatch::try_new(rows.schema(), columns).unwrap()
}

#[tokio::test]
async fn what_postgresql_cannot_hold_is_cleaned_or_cut() {
    let home = Home::shared().await;
    let postgres = home.postgres(&json!({}));
    let delivery = delivery(&*postgres, Model::Events, 0);
    let long = "é".repeat(300);
    let rows = with(&events(&delivery, 0..2), "event", vec![Some("a\0b"), Some(&long)]);
    let rows = with(
        &rows,
        "properties",
        vec![Some(r#"{"a\u0000":"\ud800x\ud83e\udd94"}"#), Some("")],
    );
    let rows = with(&rows, "elements", vec![Some("a:\"b\"\0"), None]);
    deliver(&*postgres, &delivery, rows).await.unwrap();
    let sql = "SELECT concat_ws('|', event, properties, elements) FROM product.events ORDER BY uuid";
    assert_eq!(
        home.texts(sql).await,
        [r#"ab|{"a": "x🦔"}|"a:\"b\"""#.to_owned(), "é".repeat(200)]
    );
}

#[tokio::test]
async fn an_owners_own_table_gets_the_columns_it_has_in_their_types() {
    let home = Home::shared().await;
    home.run(
        "CREATE SCHEMA product; CREATE TABLE product.events (note text DEFAULT 'mine', uuid uuid PRIMARY KEY, \
              team_id smallint, event text, properties json, timestamp timestamp)",
    )
    .await;
    let postgres = home.postgres(&json!({}));
    assert_eq!(deliver_ten(&*postgres).await.unwrap(), 10);
    assert_eq!(home.texts("SELECT DISTINCT note FROM product.events").await, ["mine"]);
    assert_eq!(sorted(home.uuids("product.events").await), ids(0..10));

    home.run("DROP TABLE product.events; CREATE TABLE product.events (uuid text, event int)")
        .await;
    let mut delivery = delivery(&*postgres, Model::Events, 1);
    let error = postgres.begin(&delivery).await.err().unwrap();
    assert!(error.is_permanent && error.sentence.contains("column event"), "{error}");

    home.run(
        "DROP TABLE product.events; CREATE TABLE product.events (uuid text, event text NOT NULL CHECK (event <> ''))",
    )
    .await;
    let rows = with(&events(&delivery, 0..1), "event", vec![None]);
    let error = deliver(&*postgres, &delivery, rows).await.unwrap_err();
    assert!(error.is_permanent && error.sentence.contains("column event"), "{error}");

    home.run("DROP TABLE product.events; CREATE TABLE product.events (other text)")
        .await;
    delivery.is_resend = true;
    assert!(postgres.begin(&delivery).await.err().unwrap().is_permanent);
}

#[tokio::test]
async fn a_query_of_the_owners_makes_a_table_of_its_types() {
    let home = Home::shared().await;
    let postgres = home.postgres(&json!({ "table_name": "mine" }));
    let query = Query::of(Model::Events, &[Column::Event, Column::Properties, Column::Timestamp]);
    let mut delivery = Delivery {
        schema: events::schema(&query),
        is_custom: true,
        ..delivery(&*postgres, Model::Events, 0)
    };
    deliver(&*postgres, &delivery, events(&delivery, 0..5)).await.unwrap();
    let sql = "SELECT attname || ' ' || format_type(atttypid, atttypmod) FROM pg_attribute \
               WHERE attrelid = 'product.mine'::regclass AND attnum > 0 ORDER BY attnum";
    let columns = ["event text", "properties jsonb", "timestamp timestamp with time zone"];
    assert_eq!(home.texts(sql).await, columns);
    // Nothing tells its rows from others, so they cannot be replaced.
    delivery.is_resend = true;
    let error = postgres.begin(&delivery).await.err().unwrap();
    assert!(error.is_permanent && error.sentence.contains("uuid"), "{error}");
}

#[tokio::test]
async fn persons_need_a_key_and_may_come_twice() {
    let home = Home::shared().await;
    let postgres = home.postgres(&json!({ "table_name": "persons" }));
    let first = delivery(&*postgres, Model::Persons, 0);
    let rows = suite::persons(&first, &["ann", "ann"], 3);
    deliver(&*postgres, &first, rows).await.unwrap();
    assert_eq!(home.versions("product.persons").await.len(), 1);
    home.run("ALTER TABLE product.persons DROP CONSTRAINT persons_pkey")
        .await;
    let next = delivery(&*postgres, Model::Persons, 1);
    let error = deliver(&*postgres, &next, suite::persons(&next, &["ann"], 4))
        .await
        .unwrap_err();
    assert!(error.is_permanent && error.sentence.contains("primary key"), "{error}");
}

/// A trigger says what a full disk or another writer would make the server say.
#[tokio::test]
async fn retryable_errors_are_distinguished_from_permanent_ones() {
    let home = Home::shared().await;
    let postgres = home.postgres(&json!({}));
    let delivery = delivery(&*postgres, Model::Events, 0);
    postgres.begin(&delivery).await.unwrap().unwrap().abort().await;
    for (code, is_permanent) in [
        ("53100", false),
        ("40001", false),
        ("40P01", false),
        ("57014", false),
        ("25006", false),
        ("55P03", false),
        ("23514", true),
        ("42501", true),
        ("22003", true),
    ] {
        home.run(&format!(
            "CREATE OR REPLACE FUNCTION product.refuse() RETURNS trigger LANGUAGE plpgsql AS \
             $$ BEGIN RAISE EXCEPTION 'secret 10.1.2.3' USING ERRCODE = '{code}'; END $$; \
             CREATE OR REPLACE TRIGGER refuse BEFORE INSERT ON product.events FOR EACH ROW EXECUTE FUNCTION product.refuse()"
        ))
        .await;
        let error = deliver_ten(&*postgres).await.unwrap_err();
        assert_eq!(error.is_permanent, is_permanent, "{code}: {error}");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}

#[tokio::test]
async fn rejected_connections_say_how_to_fix_them() {
    let server = PostgresServer::start(PostgresOptions::new(PostgresVersion::Debian).with_tls());
    let home = Home::of(&server);
    for sql in [
        "CREATE ROLE guest LOGIN PASSWORD 'guest'",
        "CREATE DATABASE frozen",
        "ALTER DATABASE frozen SET default_transaction_read_only = on",
    ] {
        home.run(sql).await;
    }
    let trusting = Roots::with_pem(server.ca_pem().as_bytes()).unwrap();
    let try_with = async |over: Value, roots: &Roots| {
        let config = home.config(&over);
        let postgres = destination(Kind::Postgres, &config, roots.clone());
        deliver_ten(&*postgres).await
    };

    // TLS: verified by an authority that is trusted, unverified if its owner says so, and otherwise not at all.
    assert_eq!(try_with(json!({}), &trusting).await.unwrap(), 10);
    let sql = "SELECT DISTINCT count(*)::text FROM product.events";
    assert_eq!(home.texts(sql).await, ["10"]);
    let own = json!({ "has_self_signed_cert": true, "schema": "other" });
    assert_eq!(try_with(own, &Roots::public()).await.unwrap(), 10);

    for (over, is_permanent, says) in [
        (json!({ "password": "wrong" }), true, "password"),
        (json!({ "database": "nowhere" }), true, "no such database"),
        (json!({ "database": "frozen" }), false, "read-only"),
        (json!({ "user": "guest", "password": "guest" }), true, "not allowed to"),
        (
            json!({ "user": "guest", "password": "guest", "schema": "new" }),
            true,
            "not allowed to create the schema",
        ),
    ] {
        let error = try_with(over, &trusting).await.unwrap_err();
        assert_eq!(error.is_permanent, is_permanent, "{error}");
        assert!(error.sentence.contains(says), "{error}");
    }
    let error = try_with(json!({}), &Roots::public()).await.unwrap_err();
    assert!(error.is_permanent && error.sentence.contains("certificate"), "{error}");
}

#[tokio::test]
async fn a_trial_says_how_far_it_came_and_leaves_nothing() {
    let home = Home::shared().await;
    let steps = home.postgres(&json!({})).test().await;
    assert!(steps.iter().all(|step| step.verdict == Verdict::Passed), "{steps:?}");
    assert_eq!(steps.len(), 5);
    assert!(!home.exists("product.events").await && !home.exists("product.hedgerow_ledger").await);

    let steps = home.postgres(&json!({ "database": "nowhere" })).test().await;
    let verdicts: Vec<_> = steps.iter().map(|step| (step.name, step.verdict)).collect();
    assert_eq!(
        verdicts,
        [
            ("reach", Verdict::Passed),
            ("encrypt", Verdict::Passed),
            ("sign_in", Verdict::Failed),
            ("tables", Verdict::Skipped),
            ("write", Verdict::Skipped),
        ]
    );
}
