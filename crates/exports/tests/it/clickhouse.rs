//! ClickHouse as a destination, on its own engine.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use exports::{Deliver, Delivery, Error, ExportsDeps, Step, Verdict, destinations};
use hogql::Model;
use outbound::{Dialer, Http, Policy, Roots};
use serde_json::{Value, json};
use service::batch_exports::destination::Destination;
use testkit::external::{ClickHouse, Cut};

use crate::by_model::ByModel;
use crate::suite::{self, Peer, delivery, events, ids, sorted};

fn deps(policy: Policy) -> ExportsDeps {
    let (dialer, roots) = (Dialer::new(policy), Roots::default());
    ExportsDeps {
        http: Http::new(dialer.clone(), &roots).unwrap(),
        dialer,
        roots,
        export_root: None,
    }
}

fn opened(config: &Value) -> Result<Box<dyn Deliver>, Error> {
    let config = json!({ "type": "ClickHouse", "config": config });
    let destination: Destination = serde_json::from_value(config).unwrap();
    let policy = Policy::new(vec!["127.0.0.0/8".parse().unwrap()]);
    destinations::open(&destination, &deps(policy))
}

fn config(server: &ClickHouse, table: &str) -> Value {
    json!({ "url": server.url(), "user": server.user, "password": server.password, "table_name": table })
}

fn to(server: &ClickHouse, table: &str) -> Box<dyn Deliver> {
    opened(&config(server, table)).unwrap()
}

fn uuids(server: &ClickHouse, table: &str) -> Vec<String> {
    if server.query(&format!("EXISTS TABLE {table}")) == "0\n" {
        return Vec::new();
    }
    let found = server.query(&format!("SELECT uuid FROM {table}"));
    sorted(found.lines().map(str::to_owned).collect())
}

/// What is left beside the tables that are meant to stay.
fn leftovers(server: &ClickHouse) -> String {
    server.query("SELECT name FROM system.tables WHERE database = 'default' AND name LIKE '%hedgerow\\_%' AND name != 'hedgerow_ledger'")
}

struct Engine(ClickHouse);

#[async_trait]
impl Peer for Engine {
    fn destination(&self) -> Box<dyn Deliver> {
        Box::new(ByModel {
            events: to(&self.0, "events"),
            persons: to(&self.0, "persons"),
        })
    }

    async fn uuids(&self) -> Vec<String> {
        uuids(&self.0, "events")
    }

    async fn person_versions(&self) -> Option<BTreeMap<String, i64>> {
        let found = self.0.query("SELECT distinct_id, person_version FROM persons FINAL");
        let row = |line: &str| {
            let (id, version) = line.split_once('\t').unwrap();
            (id.to_owned(), version.parse().unwrap())
        };
        Some(found.lines().map(row).collect())
    }
}

#[tokio::test]
async fn clickhouse_passes_the_suite() {
    let engine = Engine(ClickHouse::start());
    suite::passes(&engine).await;
    assert_eq!(leftovers(&engine.0), "");
    let odd = engine
        .0
        .query("SELECT event, properties FROM events WHERE event LIKE 'quote%' FORMAT JSONEachRow");
    let odd: Value = serde_json::from_str(&odd).unwrap();
    assert_eq!(odd["event"], json!("quote \" ' \\ , ;\n\ttab é 🦔"));
}

async fn deliver(destination: &dyn Deliver, delivery: &Delivery) -> Result<(), Error> {
    if let Some(mut upload) = destination.begin(delivery).await? {
        upload.write(events(delivery, 0..100)).await?;
        upload.commit().await?;
    }
    Ok(())
}

/// A crash at every statement, before and after it was run: the next attempt makes it whole, and nothing is there twice.
async fn survives(server: &ClickHouse, table: &str, cut: Cut) {
    let destination = to(server, table);
    let mut tried = 0;
    for allowed in 0.. {
        let mut delivery = delivery(&*destination, Model::Events, 0);
        delivery.export.0 = uuid::Uuid::from_u128(1000 + u128::from(tried));
        delivery.is_resend = tried > 0;
        server.cut(allowed, cut);
        let broken = deliver(&*destination, &delivery).await;
        if server.is_uncut(cut) {
            broken.unwrap();
            break;
        }
        assert!(!broken.expect_err("it was cut").is_permanent);
        deliver(&*destination, &delivery).await.unwrap();
        assert_eq!(uuids(server, table), ids(0..100), "{cut:?} {allowed}");
        assert_eq!(leftovers(server), "", "{cut:?} {allowed}");
        tried += 1u32;
    }
    assert!(tried > 6, "a delivery has more statements than {tried}");
}

#[tokio::test]
async fn a_resend_may_break_off_before_every_statement() {
    survives(&ClickHouse::start(), "events", Cut::Before).await;
}

#[tokio::test]
async fn a_resend_may_break_off_after_every_statement() {
    survives(&ClickHouse::start(), "events", Cut::After).await;
}

/// Between one partition and the next, too.
#[tokio::test]
async fn a_resend_of_two_partitions_may_break_off_after_every_statement() {
    let server = ClickHouse::start();
    make_partitioned(&server, "two").await;
    survives(&server, "two", Cut::After).await;
}

/// The same for first deliveries alone, where nothing is deleted before.
#[tokio::test]
async fn a_first_delivery_may_break_off_at_every_statement() {
    let server = ClickHouse::start();
    for cut in [Cut::Before, Cut::After] {
        for allowed in 0.. {
            server.query("DROP TABLE IF EXISTS first");
            make_partitioned(&server, "first").await;
            server.query("DROP TABLE IF EXISTS hedgerow_ledger");
            let destination = to(&server, "first");
            let delivery = delivery(&*destination, Model::Events, 0);
            server.cut(allowed, cut);
            let broken = deliver(&*destination, &delivery).await;
            if server.is_uncut(cut) {
                broken.unwrap();
                break;
            }
            broken.expect_err("it was cut");
            deliver(&*destination, &delivery).await.unwrap();
            deliver(&*destination, &delivery).await.unwrap();
            assert_eq!(uuids(&server, "first"), ids(0..100), "{cut:?} {allowed}");
            assert_eq!(leftovers(&server), "", "{cut:?} {allowed}");
        }
    }
}

/// Makes a table as the destination would, but with two partitions in every interval.
async fn make_partitioned(server: &ClickHouse, table: &str) {
    let template = to(server, "template");
    let delivery = delivery(&*template, Model::Events, 23);
    template.begin(&delivery).await.unwrap().unwrap().abort().await;
    let columns = server.query("SELECT arrayStringConcat(groupArray(concat(name, ' ', type)), ', ') FROM system.columns WHERE table = 'template' FORMAT TSVRaw");
    let sql = format!(
        "CREATE TABLE {table} ({columns}) ENGINE = MergeTree PARTITION BY toUnixTimestamp64Micro(timestamp) % 2 \
         ORDER BY uuid"
    );
    server.query(&sql);
}

/// Two workers at one interval: the one who lost it cannot spoil what the other delivers.
#[tokio::test]
async fn a_worker_who_lost_the_run_spoils_nothing() {
    let server = ClickHouse::start();
    let destination = to(&server, "events");
    let delivery = delivery(&*destination, Model::Events, 0);
    let mut slow = destination.begin(&delivery).await.unwrap().unwrap();
    slow.write(events(&delivery, 0..40)).await.unwrap();
    deliver(&*destination, &delivery).await.unwrap();
    slow.write(events(&delivery, 40..100)).await.unwrap();
    slow.commit().await.unwrap_err();
    assert_eq!(uuids(&server, "events"), ids(0..100));

    // One that was ready when the other had not yet begun to look, and wakes up when all is done.
    let delivery = suite::delivery(&*destination, Model::Events, 1);
    let mut first = destination.begin(&delivery).await.unwrap().unwrap();
    first.write(events(&delivery, 100..150)).await.unwrap();
    let stage = server.query("SELECT name FROM system.tables WHERE name LIKE '%stage%'");
    let (stage, ready) = (stage.trim(), stage.trim().replace("stage", "ready"));
    server.query(&format!("CREATE TABLE other AS `{stage}`"));
    first.commit().await.unwrap();
    server.query("INSERT INTO other SELECT * FROM events LIMIT 10");
    server.query(&format!(
        "RENAME TABLE other TO `{}`",
        ready.rsplit_once('_').unwrap().0
    ));
    assert!(destination.begin(&delivery).await.unwrap().is_none());
    assert_eq!(uuids(&server, "events"), ids(0..150));
    assert_eq!(leftovers(&server), "");
}

/// Tables that take no parts are copied into.
#[tokio::test]
async fn a_table_of_another_make_is_copied_into() {
    let server = ClickHouse::start();
    make_partitioned(&server, "behind").await;
    server.query("CREATE TABLE wall AS behind ENGINE = Buffer(default, behind, 1, 0, 0, 0, 0, 0, 0)");
    let destination = to(&server, "wall");
    let first = delivery(&*destination, Model::Events, 0);
    deliver(&*destination, &first).await.unwrap();
    deliver(&*destination, &first).await.unwrap();
    assert_eq!(uuids(&server, "wall"), ids(0..100));
    assert_eq!(leftovers(&server), "");
}

/// Names that try to be SQL are quoted, or refused.
#[tokio::test]
async fn hostile_names_are_names() {
    let server = ClickHouse::start();
    server.query("CREATE TABLE victim (a Int64) ENGINE = MergeTree ORDER BY a");
    for name in [
        "a\"; DROP TABLE victim; --",
        "b`; DROP TABLE victim",
        "c\\`; DROP TABLE victim",
        "d' e",
        "../f",
        "é 🦔 %2e",
    ] {
        let destination = to(&server, name);
        let delivery = delivery(&*destination, Model::Events, 0);
        let mut delivery = delivery;
        delivery.export.0 = uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_URL, name.as_bytes());
        deliver(&*destination, &delivery).await.unwrap();
        let quoted = name.replace('\\', "\\\\").replace('`', "\\`");
        assert_eq!(
            server.query(&format!("SELECT count() FROM `{quoted}`")),
            "100\n",
            "{name}"
        );
    }
    for name in ["", "  ", "a\nb", "a\0b", &"x".repeat(200)] {
        assert!(opened(&config(&server, name)).err().unwrap().is_permanent, "{name:?}");
    }
    let mut elsewhere = config(&server, "t");
    elsewhere["database"] = json!("no`such'; DROP TABLE victim");
    let destination = opened(&elsewhere).unwrap();
    let error = deliver(&*destination, &delivery(&*destination, Model::Events, 0))
        .await
        .unwrap_err();
    assert!(
        error.is_permanent && error.sentence.contains("has no database"),
        "{}",
        error.sentence
    );
    assert_eq!(server.query("EXISTS TABLE victim"), "1\n");
    assert_eq!(leftovers(&server), "");
}

#[tokio::test]
async fn a_test_says_which_step_failed_and_leaves_nothing() {
    let server = ClickHouse::start();
    let verdicts = |steps: &[Step]| steps.iter().map(|step| step.verdict).collect::<Vec<_>>();
    let steps = to(&server, "events").test().await;
    assert_eq!(verdicts(&steps), [Verdict::Passed; 4], "{steps:?}");
    assert_eq!(server.query("SHOW TABLES"), "");

    let mut wrong = config(&server, "events");
    wrong["password"] = json!("hunter2");
    let steps = opened(&wrong).unwrap().test().await;
    let [passed, failed, skipped] = [Verdict::Passed, Verdict::Failed, Verdict::Skipped];
    assert_eq!(verdicts(&steps), [passed, failed, skipped, skipped]);
    assert_eq!(
        steps[1].message,
        "ClickHouse does not accept the user and the password; check both"
    );
    let error = deliver(
        &*opened(&wrong).unwrap(),
        &delivery(&*to(&server, "events"), Model::Events, 0),
    )
    .await;
    let error = error.unwrap_err();
    assert!(error.is_permanent);
    assert!(!format!("{error:?}").contains("hunter2"));

    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut nobody = config(&server, "events");
    nobody["url"] = json!(format!("http://{closed}"));
    let steps = opened(&nobody).unwrap().test().await;
    assert_eq!(verdicts(&steps), [failed, skipped, skipped, skipped]);
}

/// N1, N4, N6: at every opening, whatever was saved.
#[tokio::test]
async fn addresses_that_are_not_allowed_are_refused() {
    for url in [
        "http://10.0.0.1:8123",
        "https://169.254.169.254",
        "http://[::1]:8123",
        "file:///etc/passwd",
        "http://a:b@127.0.0.1",
        "nonsense",
    ] {
        let config = json!({ "url": url, "user": "u", "password": "p", "table_name": "t" });
        let error = opened(&config).err().unwrap_or_else(|| panic!("{url} was opened"));
        assert!(error.is_permanent, "{url}");
        assert!(!error.sentence.contains("169.254"), "{url}");
    }
}

/// N8: an answer without an end is cut off, and its words do not come through.
#[tokio::test]
async fn an_endless_answer_is_bounded() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            std::thread::spawn(move || {
                let mut request = [0; 16 * 1024];
                let _ = connection.read(&mut request);
                let _ = connection.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\n\r\n");
                while connection.write_all(&[b'x'; 16 * 1024]).is_ok() {}
            });
        }
    });
    let config = json!({ "url": format!("http://{address}"), "user": "u", "password": "p", "table_name": "t" });
    let destination = opened(&config).unwrap();
    let start = Instant::now();
    let delivery = delivery(&*destination, Model::Events, 0);
    let error = deliver(&*destination, &delivery).await.unwrap_err();
    assert!(
        !error.is_permanent && !error.sentence.contains("xxx"),
        "{}",
        error.sentence
    );
    assert!(start.elapsed() < Duration::from_secs(20));
}
