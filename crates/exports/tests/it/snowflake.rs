//! Snowflake, played by fakesnow, read by the vendor's own connector.

use std::collections::BTreeMap;

use async_trait::async_trait;
use exports::Deliver;
use hogql::Model;
use outbound::Roots;
use serde_json::{Value, json};
use service::batch_exports::destination::Kind;
use testkit::external::warehouses::{PASSWORD, Snowflake, USER};

use crate::by_model::ByModel;
use crate::suite::{self, Peer};
use crate::warehouse::{all_passed, deps, failed, first, numbers, open, refusal};

struct Account(Snowflake);

fn config(server: &Snowflake, table: &str) -> Value {
    json!({
        "account": Snowflake::ACCOUNT, "user": USER, "password": PASSWORD, "database": Snowflake::DATABASE,
        "schema": Snowflake::SCHEMA, "warehouse": "compute_wh", "table_name": table, "endpoint_url": server.url(),
    })
}

fn with(server: &Snowflake, table: &str, change: &Value) -> Box<dyn Deliver> {
    let mut config = config(server, table);
    for (key, value) in change.as_object().unwrap() {
        config[key] = value.clone();
    }
    open(Kind::Snowflake, &config, &deps(&Roots::public())).unwrap()
}

#[async_trait]
impl Peer for Account {
    fn destination(&self) -> Box<dyn Deliver> {
        Box::new(ByModel {
            events: with(&self.0, "events", &json!({})),
            persons: with(&self.0, "persons", &json!({})),
        })
    }

    async fn uuids(&self) -> Vec<String> {
        first(self.0.read(r#"SELECT "uuid" FROM "events""#))
    }

    async fn person_versions(&self) -> Option<BTreeMap<String, i64>> {
        Some(numbers(
            self.0.read(r#"SELECT "distinct_id", "person_version" FROM "persons""#),
        ))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn snowflake_passes_the_suite_and_leaves_only_its_tables() {
    let account = Account(Snowflake::start());
    // The reader fails on tables that are not there.
    all_passed(&account.destination().test().await);
    let empty = account.destination();
    let delivery = suite::delivery(&*empty, Model::Events, 5);
    empty.begin(&delivery).await.unwrap().unwrap().commit().await.unwrap();
    suite::passes(&account).await;

    let tables = account
        .0
        .read("SELECT table_name FROM information_schema.tables WHERE table_schema = 'PUBLIC'");
    assert_eq!(
        suite::sorted(first(tables)),
        ["events", "hedgerow_deliveries", "persons"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn every_column_arrives_in_snowflake_as_it_was() {
    let server = Snowflake::start();
    let destination = with(&server, "t", &json!({}));
    let delivery = suite::delivery(&*destination, Model::Events, 0);
    let mut upload = destination.begin(&delivery).await.unwrap().unwrap();
    upload.write(suite::events(&delivery, 3..5)).await.unwrap();
    upload.commit().await.unwrap();
    let rows = server.read(
        r#"SELECT "event", "properties":"n"::int, "properties":"text"::string, "people_set":"plan"::string, "team_id", TO_VARCHAR("timestamp"), "ip", "site_url", "elements" FROM "t" ORDER BY "uuid""#,
    );
    let expected: [[Option<&str>; 9]; 2] = [
        [
            Some("quote \" ' \\ , ;\n\ttab é 🦔"),
            Some("3"),
            Some("a\"b\\c\n é 🦔"),
            None,
            Some("1"),
            Some("2026-11-15 00:00:00.000003"),
            Some("10.0.0.1"),
            Some(""),
            Some("\"\""),
        ],
        [
            Some("$pageview"),
            Some("4"),
            Some("a\"b\\c\n é 🦔"),
            Some("free"),
            Some("1"),
            Some("2026-11-15 00:00:00.000004"),
            Some("10.0.0.1"),
            Some(""),
            Some("\"\""),
        ],
    ];
    let rows: Vec<Vec<Option<&str>>> = rows
        .iter()
        .map(|row| row.iter().map(Option::as_deref).collect())
        .collect();
    assert_eq!(rows, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_sign_in_plain_and_encrypted_and_wrong_ones_do_not() {
    let (server, other) = (Snowflake::start(), Snowflake::start());
    let pair = |key: String, passphrase: Value| {
        let change = json!({ "authentication_type": "keypair", "password": null, "private_key": key, "private_key_passphrase": passphrase });
        with(&server, "t", &change)
    };
    // What is no key, or cannot be opened, is refused before anybody is asked.
    let refused = |key: &str, passphrase: Value| {
        let mut config = config(&server, "t");
        config["authentication_type"] = "keypair".into();
        config["private_key"] = key.into();
        config["private_key_passphrase"] = passphrase;
        open(Kind::Snowflake, &config, &deps(&Roots::public()))
            .err()
            .unwrap()
            .key
    };
    let plain = server.private_key();
    all_passed(&pair(plain.clone(), Value::Null).test().await);
    // As it comes out of a JSON file, or of a form with one line.
    all_passed(&pair(plain.replace('\n', "\\n"), Value::Null).test().await);
    all_passed(&pair(plain.replace('\n', " "), Value::Null).test().await);
    for cipher in ["aes-256-cbc", "des3"] {
        let encrypted = server.encrypted_private_key("sesame", cipher);
        all_passed(&pair(encrypted.clone(), json!("sesame")).test().await);
        assert_eq!(refused(&encrypted, json!("open")), Some("private_key_passphrase"));
        assert_eq!(refused(&encrypted, Value::Null), Some("private_key_passphrase"));
    }
    assert!(
        failed(&pair(other.private_key(), Value::Null).test().await)
            .message
            .contains("RSA_PUBLIC_KEY")
    );
    assert_eq!(refused("no key", Value::Null), Some("private_key"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_snowflake_refuses_is_said_in_a_sentence() {
    let server = Snowflake::start();
    let wrong = with(&server, "t", &json!({ "password": "wrong" }));
    let delivery = suite::delivery(&*wrong, Model::Events, 0);
    let error = refusal(wrong.begin(&delivery).await);
    assert!(error.is_permanent && error.sentence.contains("password"), "{error}");
    assert!(failed(&wrong.test().await).name == "sign in");

    let nowhere = with(&server, "t", &json!({ "schema": "NOWHERE" }));
    let error = refusal(nowhere.begin(&delivery).await);
    assert!(error.is_permanent && error.sentence.contains("schema"), "{error}");
    assert!(failed(&nowhere.test().await).name == "schema");
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_names_are_quoted_or_refused() {
    let server = Snowflake::start();
    // Without a single quote, which the emulator itself does not quote in its own tables.
    let hostile = r#"x"; DROP TABLE "y" -- \"#;
    let destination = with(&server, hostile, &json!({}));
    let delivery = suite::delivery(&*destination, Model::Events, 0);
    let mut upload = destination.begin(&delivery).await.unwrap().unwrap();
    upload.write(suite::events(&delivery, 0..5)).await.unwrap();
    upload.commit().await.unwrap();
    assert!(destination.begin(&delivery).await.unwrap().is_none());
    let rows = server.read(&format!("SELECT \"uuid\" FROM \"{}\"", hostile.replace('"', "\"\"")));
    assert_eq!(suite::sorted(first(rows)), suite::ids(0..5));

    for (key, value) in [("table_name", "a\0b"), ("database", ""), ("schema", &*"x".repeat(300))] {
        let mut config = config(&server, "t");
        config[key] = value.into();
        let error = refusal(open(Kind::Snowflake, &config, &deps(&Roots::public())));
        assert_eq!((error.is_permanent, error.key), (true, Some(key)), "{error}");
    }
    let account = |account: &str| {
        let mut config = config(&server, "t");
        config["endpoint_url"] = Value::Null;
        config["account"] = account.into();
        open(Kind::Snowflake, &config, &deps(&Roots::public()))
    };
    for hostile in ["evil.example/x#", "a@b", "", "x:1"] {
        assert!(refusal(account(hostile)).is_permanent);
    }
    assert!(account("my_org-acc.eu-west-1.aws").is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_that_was_overtaken_cannot_commit() {
    let server = Snowflake::start();
    let destination = with(&server, "t", &json!({}));
    let delivery = suite::delivery(&*destination, Model::Events, 0);
    let mut first_attempt = destination.begin(&delivery).await.unwrap().unwrap();
    first_attempt.write(suite::events(&delivery, 0..10)).await.unwrap();
    let mut second = destination.begin(&delivery).await.unwrap().unwrap();
    second.write(suite::events(&delivery, 0..10)).await.unwrap();
    assert!(!refusal(first_attempt.commit().await).is_permanent);
    second.commit().await.unwrap();
    assert_eq!(
        suite::sorted(first(server.read(r#"SELECT "uuid" FROM "t""#))),
        suite::ids(0..10)
    );
}
