//! Adjacent intervals, read while programs go on sending: nothing is missed, nothing comes twice.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use chrono::TimeDelta;
use events::{Events, Incoming, Scan, Time};
use hogql::{Column, Model, Query};
use serde_json::json;
use uuid::Uuid;

use crate::folder::Folder;
use crate::suite::{column, event, read, time};

const TEAM: i64 = 7;
const SENDERS: usize = 12;
const BATCHES: usize = 60;

/// A clock that every look moves on, so that no two looks agree and some are old when they are used.
#[derive(Default)]
struct Ticking(AtomicI64);

impl Ticking {
    fn now(&self) -> Time {
        time(0) + TimeDelta::microseconds(self.0.fetch_add(1, Ordering::SeqCst))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_missed_or_repeated_at_the_seams_in_one_process() {
    let folder = Folder::new();
    let store = folder.open();
    send_and_read(vec![store.clone()], store).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_missed_or_repeated_at_the_seams_between_two_processes() {
    let folder = Folder::new();
    send_and_read(vec![folder.open(), folder.open()], folder.open()).await;
}

async fn send_and_read(writers: Vec<Events>, reader: Events) {
    let (clock, running) = (Arc::new(Ticking::default()), Arc::new(AtomicUsize::new(SENDERS)));
    let senders: Vec<_> = (0..SENDERS)
        .map(|n| {
            let (store, clock, running) = (writers[n % writers.len()].clone(), clock.clone(), running.clone());
            tokio::spawn(async move {
                let sent = send(&store, &clock, n).await;
                running.fetch_sub(1, Ordering::SeqCst);
                sent
            })
        })
        .collect();

    let (mut seen, mut intervals, mut start) = (Vec::new(), 0, None);
    loop {
        let is_last = running.load(Ordering::SeqCst) == 0;
        let end = clock.now();
        reader.settle(end).await.unwrap();
        seen.extend(uuids(&reader, start, end).await);
        (start, intervals) = (Some(end), intervals + 1);
        if is_last {
            break;
        }
    }
    // The latest line may be later than the clock that gave the last times.
    let end = time(1_000_000);
    seen.extend(uuids(&reader, start, end).await);

    let mut sent = HashSet::new();
    for sender in senders {
        sent.extend(sender.await.unwrap());
    }
    assert_eq!(seen.len(), sent.len(), "in {intervals} intervals");
    assert_eq!(seen.into_iter().collect::<HashSet<_>>(), sent);
    assert!(intervals > 5, "only {intervals} intervals were read in the meantime");
}

async fn send(store: &Events, clock: &Ticking, sender: usize) -> Vec<Uuid> {
    let mut sent = Vec::new();
    for batch in 0..BATCHES {
        let now = clock.now();
        if batch % 7 == sender % 7 {
            // The others draw lines in the meantime, so this time is long past when it is used.
            tokio::task::yield_now().await;
        }
        let events: Vec<Incoming> = (0..5)
            .map(|n| event("x", &format!("{sender}-{n}"), json!({"$set": {"b": batch}})))
            .collect();
        sent.extend(events.iter().filter_map(|event| event.uuid));
        store.append(TEAM, events, now).await.unwrap();
    }
    sent
}

async fn uuids(store: &Events, start: Option<Time>, end: Time) -> Vec<Uuid> {
    let scan = Scan {
        team: TEAM,
        query: Query::of(Model::Events, &[Column::Uuid, Column::InsertedAt]),
        start,
        end,
        skip: 0,
        limit: None,
    };
    let rows = read(store, scan).await;
    rows.iter()
        .map(|row| row["uuid"].as_str().unwrap().parse().unwrap())
        .collect()
}

#[tokio::test]
async fn nothing_is_stored_before_a_line_that_was_drawn() {
    let folder = Folder::new();
    let (store, other) = (folder.open(), folder.open());
    store
        .append(TEAM, vec![event("before", "ada", json!({}))], time(5))
        .await
        .unwrap();
    other.settle(time(100)).await.unwrap();
    store
        .append(TEAM, vec![event("after", "ada", json!({}))], time(6))
        .await
        .unwrap();
    let micros = |second| json!(time(second).timestamp_micros());
    assert_eq!(column(&store, TEAM, Column::InsertedAt).await, [micros(5), micros(100)]);
}

#[tokio::test]
async fn drawing_an_earlier_line_changes_nothing() {
    let folder = Folder::new();
    let store = folder.open();
    store.settle(time(100)).await.unwrap();
    store.settle(time(50)).await.unwrap();
    store
        .append(TEAM, vec![event("x", "ada", json!({}))], time(60))
        .await
        .unwrap();
    assert_eq!(
        column(&store, TEAM, Column::InsertedAt).await,
        [json!(time(100).timestamp_micros())]
    );
}

#[tokio::test]
async fn a_clock_that_jumps_back_does_not_break_the_order() {
    let folder = Folder::new();
    for second in [10, 30, 20, 5, 40] {
        // Opened again each time: the order does not live in memory.
        let store = folder.open();
        store
            .append(TEAM, vec![event("x", "ada", json!({}))], time(second))
            .await
            .unwrap();
    }
    let store = folder.open();
    let expected = [10, 30, 30, 30, 40].map(|second| json!(time(second).timestamp_micros()));
    assert_eq!(column(&store, TEAM, Column::InsertedAt).await, expected);
    store
        .append(TEAM + 1, vec![event("x", "ada", json!({}))], time(1))
        .await
        .unwrap();
    assert_eq!(
        column(&store, TEAM + 1, Column::InsertedAt).await,
        [json!(time(40).timestamp_micros())]
    );
}
