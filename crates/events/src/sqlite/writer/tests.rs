//! Who writes when many wait.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use chrono::DateTime;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::super::pause::Pause;
use super::super::store::{PART, Ready};
use super::*;
use crate::{Hold, Incoming};

/// A file that goes with this.
struct File(std::path::PathBuf);

impl File {
    fn new() -> Self {
        Self(std::env::temp_dir().join(format!("hedgerow-writer-{}.db", Uuid::now_v7())))
    }
}

impl Drop for File {
    fn drop(&mut self) {
        for end in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(format!("{}{end}", self.0.display()));
        }
    }
}

fn desk(file: &File) -> WriterThread {
    let log = WriteAheadLog::of(&file.0, &Pause::default(), u64::MAX);
    WriterThread::open(&file.0, mpsc::channel(1).1, log).unwrap()
}

/// Of new persons.
fn batch(count: usize) -> Vec<Incoming> {
    let event = |number: usize| Incoming {
        uuid: Some(Uuid::from_u128(number as u128)),
        event: "seen".to_owned(),
        distinct_id: number.to_string(),
        properties: Map::default(),
        timestamp: DateTime::UNIX_EPOCH,
    };
    (0..count).map(event).collect()
}

/// Nobody listens to what becomes of them, but they have just come.
fn parts(team: i64, events: Vec<Incoming>) -> Vec<Waiter> {
    let since = Instant::now() + Duration::from_hours(1);
    parts_since(since, team, events)
        .into_iter()
        .map(|(waiter, _)| waiter)
        .collect()
}

fn parts_since(since: Instant, team: i64, events: Vec<Incoming>) -> Vec<(Waiter, oneshot::Receiver<Result<()>>)> {
    let hold = Arc::new(Hold::default());
    let part = |events| Work::Append {
        team,
        events,
        now: 10,
        since,
        hold: hold.clone(),
    };
    let parts = Ready::in_parts(events).unwrap().into_iter().map(part);
    parts.map(answered).collect()
}

/// Stores these, and whatever else there is room for.
fn store(desk: &mut WriterThread, works: impl IntoIterator<Item = Waiter>) {
    let mut waiting = Waiting::default();
    for work in works {
        waiting.push(turn_of(&work.0), work);
    }
    while !waiting.is_empty() {
        desk.step(&mut waiting);
    }
}

fn numbers(desk: &WriterThread, sql: &str) -> Vec<i64> {
    let mut statement = desk.connection.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    rows.map(Result::unwrap).collect()
}

#[test]
fn others_come_between_the_parts_of_a_large_batch() {
    let file = File::new();
    let mut desk = desk(&file);
    let large = parts(1, batch(4 * PART));
    store(&mut desk, large.into_iter().chain(parts(2, batch(1))));
    // The log of what was stored has the order.
    let teams = numbers(&desk, "SELECT team_id FROM seen ORDER BY seq");
    assert_eq!(teams, [1, 2, 1, 1, 1]);
}

/// Or a stranger with a team's public token could send batches that take long, hang up, and send the next.
#[test]
fn what_nobody_waits_for_any_more_is_not_written() {
    let file = File::new();
    let mut desk = desk(&file);
    let long_ago = Instant::now().checked_sub(2 * UNHEARD).unwrap();
    let late = |event: usize| parts_since(long_ago, 1, batch(event + 1).split_off(event)).remove(0);
    let (heard, mut answer) = late(0);
    let (unheard, _) = late(1);
    store(&mut desk, [heard, unheard]);
    assert!(answer.try_recv().unwrap().is_ok());
    let just_sent = parts(1, batch(3).split_off(2));
    store(&mut desk, just_sent);
    assert_eq!(
        numbers(&desk, "SELECT CAST(distinct_id AS INTEGER) FROM event_1 ORDER BY seq"),
        [0, 2]
    );
}

#[test]
fn whoever_comes_while_a_transaction_is_young_is_part_of_it() {
    // A slow disk makes the first part take too long, now and then.
    assert!((0..20).any(|_| joins_a_young_transaction()));
}

fn joins_a_young_transaction() -> bool {
    let file = File::new();
    let (jobs, taken) = mpsc::channel(1);
    let log = WriteAheadLog::of(&file.0, &Pause::default(), u64::MAX);
    let mut desk = WriterThread::open(&file.0, taken, log).unwrap();
    // The table of the first team is there, so that the transaction is short.
    store(&mut desk, parts(1, batch(1)));
    let mut waiting = Waiting::default();
    for part in parts(1, batch(2)) {
        waiting.push(turn_of(&part.0), part);
    }
    jobs.try_send(Job::Do(parts(1, batch(3)))).unwrap();
    desk.step(&mut waiting);
    numbers(&desk, "SELECT count(*) FROM event_1") == [3]
}

#[test]
fn no_part_is_stored_below_a_line_that_was_drawn_after_the_first() {
    let file = File::new();
    let mut desk = desk(&file);
    let mut parts = parts(1, batch(PART + 1));
    let last = parts.pop();
    store(&mut desk, parts);
    store(&mut desk, [answered(Work::Settle { until: 20 }).0]);
    store(&mut desk, last);
    let times = numbers(&desk, "SELECT inserted_at FROM event_1 ORDER BY seq");
    let (first, last) = times.split_at(PART);
    assert!(first.iter().all(|&time| time == 10));
    assert_eq!(last, [20]);
    assert!(
        numbers(&desk, "SELECT changed_at FROM person")
            .iter()
            .all(|time| [10, 20].contains(time))
    );
}

#[test]
fn a_batch_that_was_stored_in_part_is_whole_when_it_is_sent_again() {
    let file = File::new();
    let mut before = desk(&file);
    store(&mut before, parts(1, batch(2 * PART)).into_iter().take(1));
    drop(before);
    let mut after = desk(&file);
    store(&mut after, parts(1, batch(2 * PART)));
    let ids = numbers(&after, "SELECT CAST(distinct_id AS INTEGER) FROM event_1");
    assert_eq!(ids.len(), 2 * PART);
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), 2 * PART);
    assert_eq!(
        numbers(&after, "SELECT count(*) FROM person"),
        [i64::try_from(2 * PART).unwrap()]
    );
}

/// Parsing small values takes far longer than their text, and others wait for a part.
#[test]
fn a_part_parses_few_persons_with_many_values_whatever_its_last_event() {
    for shape in ["[1]", r#"{"":1}"#] {
        let file = File::new();
        let mut desk = desk(&file);
        let many: Vec<Value> = vec![serde_json::from_str(shape).unwrap(); 4_900];
        store(&mut desk, parts(1, sets([json!({ "many": many })])));
        let mut sent = sets((0..PART - 1).map(|number| json!({ "number": number })));
        let mut last = batch(1);
        last[0]
            .properties
            .insert("text".to_owned(), "x".repeat(1_000_000).into());
        sent.extend(last);
        let parts = parts(1, sent);
        assert_eq!(parts.len(), 1);
        store(&mut desk, parts);
        let changed = numbers(&desk, "SELECT count(*) FROM person_properties")[0] - 1;
        assert!((5..=25).contains(&changed), "{changed} changes");
        let stored = numbers(&desk, "SELECT count(*) FROM event_1")[0];
        assert_eq!(stored, 1 + i64::try_from(PART).unwrap(), "every event is there");
    }
}

/// Events of one person that set these.
fn sets(properties: impl IntoIterator<Item = Value>) -> Vec<Incoming> {
    let event = |set: Value| Incoming {
        uuid: None,
        event: "set".to_owned(),
        distinct_id: "ada".to_owned(),
        properties: Map::from_iter([("$set".to_owned(), set)]),
        timestamp: DateTime::UNIX_EPOCH,
    };
    properties.into_iter().map(event).collect()
}

#[test]
fn the_log_of_other_teams_is_not_read_to_forget_one() {
    let file = File::new();
    let mut before = desk(&file);
    store(&mut before, parts(1, batch(1)));
    let others = "WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < 50000) \
                  INSERT INTO seen (team_id, uuids) SELECT 2, randomblob(16) FROM number";
    before.connection.execute(others, []).unwrap();
    drop(before);
    let mut desk = desk(&file);
    store(&mut desk, parts(1, batch(2)));
    let looks = Arc::new(AtomicUsize::new(0));
    let look = looks.clone();
    let count = move || {
        look.fetch_add(1, Ordering::Relaxed);
        false
    };
    desk.connection.progress_handler(1_000, Some(count)).unwrap();
    let is_done = Arc::new(AtomicBool::new(false));
    let forget = Work::Forget {
        team: 1,
        is_done: is_done.clone(),
    };
    store(&mut desk, [answered(forget).0]);
    assert!(is_done.load(Ordering::Relaxed));
    let looks = looks.load(Ordering::Relaxed);
    assert!(looks < 50, "{looks} thousand steps");
    let lengths = numbers(&desk, "SELECT length(uuids) FROM seen WHERE team_id = 1");
    assert_eq!(lengths, [0], "only the number of the newest is left");
    store(&mut desk, parts(1, batch(2)));
    assert_eq!(
        numbers(&desk, "SELECT count(*) FROM event_1"),
        [2],
        "and nothing is remembered"
    );
}

#[test]
fn a_part_has_so_many_events_or_bytes() {
    let lengths = |events| -> Vec<usize> { Ready::in_parts(events).unwrap().iter().map(Vec::len).collect() };
    assert_eq!(lengths(batch(PART)), [PART]);
    assert_eq!(lengths(batch(2 * PART + 1)), [PART, PART, 1]);
    let mut long = batch(5);
    for event in &mut long {
        event.properties.insert("text".to_owned(), "x".repeat(200_000).into());
    }
    assert_eq!(lengths(long), [2, 2, 1]);
}
