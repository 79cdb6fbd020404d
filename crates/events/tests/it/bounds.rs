//! What a hostile query may cost: bounded time, bounded memory, and an end as soon as nobody waits.

use std::time::{Duration, Instant};

use events::{Error, Events, Scan};
use serde_json::json;
use testkit::alone::{is_alone, peak};
use testkit::external::ClickHouse;
use tokio::runtime::Runtime;

use crate::clickhouse;
use crate::folder::Folder;
use crate::suite::{event, time};

const TEAM: i64 = 7;
const MIB: usize = 1 << 20;

fn query(text: &str) -> Scan {
    Scan {
        team: TEAM,
        query: hogql::parse(text).unwrap(),
        start: None,
        end: time(1_000),
        skip: 0,
        limit: None,
    }
}

/// Events whose property `a` is long and of one letter only.
async fn store_long_texts(store: &Events, count: usize, bytes: usize) {
    let long = "a".repeat(bytes);
    let events = (0..count).map(|_| event("$ai_x", "ada", json!({ "a": long, "b": long[1..].to_owned() + "b" })));
    store.append(TEAM, events.collect(), time(1)).await.unwrap();
}

async fn outcome(store: &Events, text: &str) -> Result<usize, Error> {
    let mut rows = store.scan(query(text));
    let mut count = 0;
    while let Some(batch) = rows.next().await {
        count += batch?.num_rows();
    }
    Ok(count)
}

#[tokio::test]
async fn a_pattern_made_to_be_slow_is_matched_in_moments() {
    let folder = Folder::new();
    let store = folder.open();
    store_long_texts(&store, 3, MIB / 2).await;
    let conditions = [
        format!("properties.a LIKE '{}b'", "%a".repeat(49)),
        format!("properties.a ILIKE '%{}_b%'", "a".repeat(400)),
        // SQLite's own functions compare the whole of the second text at each place of the first.
        "position(properties.a, properties.b) > 0".to_owned(),
        "replaceAll(properties.a, properties.b, '') = ''".to_owned(),
    ];
    for condition in conditions {
        let started = Instant::now();
        let text = format!("SELECT event FROM events WHERE {condition}");
        assert_eq!(outcome(&store, &text).await.unwrap(), 0, "{condition}");
        assert!(
            started.elapsed() < Duration::from_secs(10),
            "{condition}: {:?}",
            started.elapsed()
        );
    }
}

#[tokio::test]
async fn texts_and_rows_that_grow_beyond_measure_end_the_scan() {
    let folder = Folder::new();
    let store = folder.open();
    store_long_texts(&store, 1, MIB).await;
    let all = vec!["properties.a"; 90].join(", ");
    // Of 2 MiB each.
    let columns: Vec<_> = (0..9).map(|n| format!("properties AS c{n}")).collect();
    for text in [
        format!("SELECT concat({all}) AS x FROM events"),
        format!(
            "SELECT replaceAll(properties.a, 'a', '{}') AS x FROM events",
            "b".repeat(10_000)
        ),
        format!("SELECT {} FROM events", columns.join(", ")),
    ] {
        let error = outcome(&store, &text).await.unwrap_err();
        assert!(matches!(error, Error::TooLarge), "{}: {error:?}", &text[..60]);
    }
    let text =
        "SELECT concat(properties.a, properties.b, event) AS x, replaceAll(properties.a, 'a', 'bbb') AS y FROM events";
    assert_eq!(
        outcome(&store, text).await.unwrap(),
        1,
        "what is reasonable still works"
    );
    let text = format!("SELECT {} FROM events", columns[..7].join(", "));
    assert_eq!(outcome(&store, &text).await.unwrap(), 1, "a row of 14 MiB");
    let shown = store.scan_to_show(query("SELECT event FROM events"), MIB).next().await;
    assert_eq!(shown.unwrap().unwrap().num_rows(), 1);
    let shown = store
        .scan_to_show(query("SELECT properties FROM events"), MIB)
        .next()
        .await;
    assert!(matches!(shown, Some(Err(Error::TooLarge))), "{shown:?}");
}

#[tokio::test]
async fn clickhouse_ends_the_scan_at_texts_of_the_same_length() {
    let server = ClickHouse::start();
    let store = clickhouse::open(&server).await;
    store_long_texts(&store, 1, MIB).await;
    let all = vec!["properties.a"; 90].join(", ");
    let nested = (0..3).fold("event".to_owned(), |text, _| {
        format!("replaceAll({text}, 'a', '{}')", "a".repeat(1_000))
    });
    for text in [
        format!("SELECT concat({all}) AS x FROM events"),
        format!("SELECT length({nested}) AS x FROM events"),
    ] {
        let error = outcome(&store, &text).await.unwrap_err();
        assert!(matches!(error, Error::TooLarge), "{}: {error:?}", &text[..60]);
    }
    let text =
        "SELECT concat(properties.a, properties.b, event) AS x, replaceAll(properties.a, 'a', 'bbb') AS y FROM events";
    assert_eq!(
        outcome(&store, text).await.unwrap(),
        1,
        "what is reasonable still works"
    );
}

/// SQLite makes a whole row before anybody sees a column of it.
#[tokio::test]
async fn a_row_of_many_expressions_takes_no_more_memory_than_a_row_may() {
    if !is_alone("bounds::a_row_of_many_expressions_takes_no_more_memory_than_a_row_may") {
        return;
    }
    let folder = Folder::new();
    let store = folder.open();
    store_long_texts(&store, 2, 4_000_000).await;
    let columns: Vec<_> = (0..280).map(|n| format!("upper(properties.a) AS c{n}")).collect();
    let before = peak();
    let error = outcome(&store, &format!("SELECT {} FROM events", columns.join(", "))).await;
    assert!(matches!(error, Err(Error::TooLarge)), "{error:?}");
    let grown = peak() - before;
    assert!(grown < 700 << 20, "{} MiB, of 1,068 that were asked for", grown >> 20);
    let columns: Vec<_> = (0..40).map(|n| format!("upper(event) AS c{n}")).collect();
    let text = format!("SELECT uuid, {}, timestamp FROM events", columns.join(", "));
    assert_eq!(outcome(&store, &text).await.unwrap(), 2, "many short ones are fine");
}

/// What waits for a slow reader is bounded by bytes, however large the rows are.
#[tokio::test]
async fn batches_of_large_rows_are_small() {
    let folder = Folder::new();
    let store = folder.open();
    store_long_texts(&store, 40, MIB / 2).await;
    let mut rows = store.scan(query("SELECT properties FROM events"));
    let mut count = 0;
    while let Some(batch) = rows.next().await {
        let batch = batch.unwrap();
        count += batch.num_rows();
        assert!(batch.num_rows() <= 8, "{} rows of 1 MiB", batch.num_rows());
    }
    assert_eq!(count, 40);
}

/// A scan that goes on for minutes.
fn endless() -> String {
    let condition = format!("properties.a LIKE '%{}_b%'", "a".repeat(440));
    let conditions = vec![condition; 40].join(" OR ");
    format!("SELECT event FROM events WHERE {conditions}")
}

/// How long it takes until all threads of a runtime have ended.
fn time_to_end(runtime: Runtime) -> Duration {
    let started = Instant::now();
    drop(runtime);
    started.elapsed()
}

#[test]
fn reading_ends_when_nobody_waits_for_it() {
    let folder = Folder::new();
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let store = folder.open();
        store_long_texts(&store, 30, MIB).await;
        let mut rows = store.scan(query(&endless()));
        let waited = tokio::time::timeout(Duration::from_millis(300), rows.next()).await;
        assert!(waited.is_err(), "the scan is still in progress");
        drop(rows);
        let counted = tokio::time::timeout(Duration::from_millis(300), store.count(query(&endless()))).await;
        assert!(counted.is_err(), "counting is still in progress");
        assert_eq!(
            outcome(&store, "SELECT event FROM events").await.unwrap(),
            30,
            "the connection is as before"
        );
    });
    let took = time_to_end(runtime);
    assert!(took < Duration::from_secs(20), "the threads went on for {took:?}");
}

#[test]
fn closing_the_store_ends_reading() {
    let folder = Folder::new();
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let store = folder.open();
        store_long_texts(&store, 30, MIB).await;
        let mut rows = store.scan(query(&endless()));
        let waited = tokio::time::timeout(Duration::from_millis(300), rows.next()).await;
        assert!(waited.is_err(), "the scan is still in progress");
        let Events::Embedded(embedded) = &store else {
            panic!("the embedded store")
        };
        embedded.close().await.unwrap();
        let ended = tokio::time::timeout(Duration::from_secs(5), rows.next()).await;
        assert!(matches!(ended, Ok(Some(Err(Error::Stopped)))), "{ended:?}");
    });
    assert!(time_to_end(runtime) < Duration::from_secs(20));
}
