//! What a scan reads, and how much it takes.

use std::path::PathBuf;
use std::time::Duration;

use rusqlite::StatementStatus;
use serde_json::json;

use super::*;
use crate::sqlite::file;
use crate::sqlite::interrupt::Interrupt;
use crate::{Events, Incoming};

const TEAM: i64 = 1;
const EVENTS: i64 = 300;

/// A file that is gone after the test.
struct File(PathBuf);

impl Drop for File {
    fn drop(&mut self) {
        for end in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(format!("{}{end}", self.0.display()));
        }
    }
}

impl File {
    /// Some events, each of a person of its own with two ids, one of which came later.
    async fn filled() -> Self {
        let file = Self(std::env::temp_dir().join(format!("hedgerow-scan-{}", uuid::Uuid::now_v7())));
        let store = Events::Embedded(crate::sqlite::Embedded::open(&file.0).unwrap());
        for second in 0..3 {
            let event = |n: i64| Incoming {
                uuid: None,
                event: if second == 1 { "$create_alias" } else { "x" }.to_owned(),
                distinct_id: format!("id-{n}"),
                properties: serde_json::from_value(json!({"alias": format!("also-{n}"), "n": n})).unwrap(),
                timestamp: Time::UNIX_EPOCH,
            };
            let now = Time::from_timestamp(second, 0).unwrap();
            store
                .append(TEAM, (0..EVENTS / 3).map(event).collect(), now)
                .await
                .unwrap();
        }
        file
    }

    fn reader(&self, pace: Pace) -> Reader {
        let interrupt = Interrupt::default();
        Reader {
            connection: file::open_to_read(&self.0, &interrupt, &pace).unwrap(),
            interrupt,
            pace,
        }
    }
}

fn query(text: &str) -> Scan {
    Scan {
        team: TEAM,
        query: hogql::parse(text).unwrap(),
        start: None,
        end: Time::from_timestamp(100, 0).unwrap(),
        skip: 0,
        limit: None,
    }
}

async fn rows(reader: Reader, scan: Scan) -> (Vec<arrow_array::RecordBatch>, u64) {
    let (sender, mut rows) = crate::Rows::channel(crate::schema(&scan.query), Portion::LARGE);
    let read = tokio::task::spawn_blocking(move || {
        run(&reader, &scan, Portion::LARGE, &sender).unwrap();
        drop(sender);
        count(&reader, &scan).unwrap()
    });
    let mut batches = Vec::new();
    while let Some(batch) = rows.next().await {
        batches.push(batch.unwrap());
    }
    (batches, read.await.unwrap())
}

#[tokio::test]
async fn a_scan_of_many_short_slices_gives_the_same() {
    let file = File::filled().await;
    for text in [
        "SELECT event, distinct_id, person_properties FROM events",
        "SELECT event, distinct_id FROM events WHERE properties.n LIKE '%7%'",
        "SELECT event FROM events WHERE event = 'never'",
        "SELECT person_id, distinct_id, _inserted_at FROM persons",
        "SELECT distinct_id FROM persons WHERE distinct_id LIKE '%7%'",
        "SELECT distinct_id FROM persons WHERE distinct_id = 'never'",
    ] {
        let at_once = rows(file.reader(Pace::of(Duration::from_mins(10))), query(text)).await;
        let in_slices = rows(file.reader(Pace::of(Duration::ZERO)), query(text)).await;
        assert!(at_once == in_slices, "{text}");
        let found: usize = at_once.0.iter().map(arrow_array::RecordBatch::num_rows).sum();
        assert_eq!(
            (found as u64, found == 0),
            (at_once.1, text.contains("never")),
            "{text}"
        );
    }
}

/// SQLite has read all of a large row by then.
#[tokio::test]
async fn what_is_behind_a_large_event_is_not_read_together_with_it() {
    let file = File(std::env::temp_dir().join(format!("hedgerow-scan-{}", uuid::Uuid::now_v7())));
    let store = crate::sqlite::Embedded::open(&file.0).unwrap();
    let events = Events::Embedded(store.clone());
    let large = Incoming {
        uuid: None,
        event: "x".to_owned(),
        distinct_id: "ada".to_owned(),
        properties: serde_json::from_value(json!({ "text": "x".repeat(300 << 10) })).unwrap(),
        timestamp: Time::UNIX_EPOCH,
    };
    events.append(TEAM, vec![large; 3], Time::UNIX_EPOCH).await.unwrap();
    let mut rows = store.scan(query("SELECT event, properties FROM events"), Portion::SMALL);
    for _ in 0..3 {
        let batch = rows.next().await.unwrap().unwrap();
        assert_eq!((batch.num_rows(), batch.column(1).null_count()), (1, 1));
    }
    assert!(rows.next().await.is_none());
}

/// Whatever a row costs, no transaction goes on for long, also when nothing is found.
#[tokio::test]
async fn a_slice_ends_when_its_time_is_over() {
    let file = File::filled().await;
    let reader = file.reader(Pace::of(Duration::ZERO));
    for text in [
        "SELECT event FROM events WHERE event = 'never'",
        "SELECT event FROM events",
    ] {
        let scan = query(text);
        let select = Select::new(&scan.query, TEAM);
        let range = range(&reader.connection, &scan).unwrap().unwrap();
        let mut slices = Slices::new(&reader, &select, &select.events(TEAM), range).unwrap();
        let mut count = 0;
        while !slices.are_read() {
            slices.read(|_| Ok(Next::More)).unwrap();
            count += 1;
        }
        assert_eq!(count, EVENTS, "{text}: a slice for each row");
    }
    let scan = query("SELECT distinct_id FROM persons WHERE distinct_id = 'never'");
    let select = Select::new(&scan.query, TEAM);
    let mut persons = PersonScan::new(&reader.connection, &scan, &select).unwrap();
    let mut count = 0;
    while !persons.slice(&reader.pace, |_| Ok(true)).unwrap() {
        count += 1;
    }
    assert!(count >= 2 * EVENTS / 3, "{count} slices");
    assert!(reader.connection.is_autocommit(), "no transaction is left open");
}

#[test]
fn the_bounds_of_a_large_table_are_found_without_reading_it() -> rusqlite::Result<()> {
    let connection = Connection::open_in_memory()?;
    file::make_all(&connection)?;
    connection.execute_batch(
        "WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < 1000)
         INSERT INTO event_1 SELECT n, x'', '', '', '', '', 0, 0, x'', '', NULL, 0, 0 FROM number",
    )?;
    let place = Place::of(1);
    assert_eq!(bounds(&connection, &place)?, Some(1..1001));
    for order in ["ASC", "DESC"] {
        let mut statement = connection.prepare(&bound(&place, order))?;
        statement.query_row([], |row| row.get::<_, i64>(0))?;
        assert_eq!(statement.get_status(StatementStatus::FullscanStep), 0);
    }
    assert_eq!(
        bounds(&connection, &Place::of(129))?,
        None,
        "another team of the same table"
    );
    Ok(())
}

/// An app that has been given many events of one moment asks again and again what comes after them.
#[tokio::test]
async fn what_is_skipped_is_not_read() {
    let file = File::filled().await;
    let damage = format!("UPDATE {} SET event = 'other' WHERE seq <= 2", Place::of(TEAM).table);
    Connection::open(&file.0).unwrap().execute(&damage, []).unwrap();
    let all = query("SELECT event, distinct_id FROM events");
    let pace = || Pace::of(Duration::from_mins(10));
    let read = |scan: Scan| {
        let (sender, rows) = crate::Rows::channel(crate::schema(&scan.query), Portion::LARGE);
        let outcome = run(&file.reader(pace()), &scan, Portion::LARGE, &sender);
        drop(rows);
        outcome
    };
    assert!(read(all.clone()).is_err(), "damage is found by whoever reads it");
    let skip = 2;
    let (batches, count) = rows(file.reader(pace()), Scan { skip, ..all.clone() }).await;
    let found: usize = batches.iter().map(arrow_array::RecordBatch::num_rows).sum();
    let left = (EVENTS - 2).unsigned_abs();
    assert_eq!((found as u64, count), (left, left));
    let (batches, count) = rows(file.reader(pace()), Scan { skip: 1_000, ..all }).await;
    assert_eq!((batches.len(), count), (0, 0));
}
