//! What every destination must do, whatever its kind.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray};
use async_trait::async_trait;
use exports::{Deliver, Delivery, Receipt};
use hogql::{Model, Type};
use service::{ExportId, RunId, Time};
use uuid::Uuid;

/// A destination, and an independent reader of what has arrived there.
#[async_trait]
pub(crate) trait Peer: Sync {
    fn destination(&self) -> Box<dyn Deliver>;

    /// The ids of the events that a reader sees now, in any order, each as often as it is there.
    async fn uuids(&self) -> Vec<String>;

    /// Of the persons that a reader sees now, by distinct id: the version. None where persons only pile up, as in files.
    async fn person_versions(&self) -> Option<BTreeMap<String, i64>>;
}

/// Runs the whole suite. The peer is empty at first.
pub(crate) async fn passes(peer: &dyn Peer) {
    abort_leaves_nothing(peer).await;
    nothing_is_visible_before_commit(peer).await;
    a_repeat_changes_nothing(peer).await;
    a_resend_replaces(peer).await;
    another_interval_adds(peer).await;
    persons_are_kept_by_version(peer).await;
}

async fn abort_leaves_nothing(peer: &dyn Peer) {
    let destination = peer.destination();
    let delivery = delivery(&*destination, Model::Events, 0);
    let mut upload = destination.begin(&delivery).await.unwrap().unwrap();
    upload.write(events(&delivery, 0..50)).await.unwrap();
    upload.abort().await;
    assert!(peer.uuids().await.is_empty(), "an aborted delivery left rows behind");
}

async fn nothing_is_visible_before_commit(peer: &dyn Peer) {
    let destination = peer.destination();
    let delivery = delivery(&*destination, Model::Events, 0);
    let mut upload = destination.begin(&delivery).await.unwrap().unwrap();
    upload.write(events(&delivery, 0..70)).await.unwrap();
    upload.write(events(&delivery, 70..100)).await.unwrap();
    assert!(peer.uuids().await.is_empty(), "rows were visible before the commit");
    let receipt = upload.commit().await.unwrap();
    assert_eq!(receipt.rows, 100);
    assert!(receipt.bytes > 0);
    assert_eq!(sorted(peer.uuids().await), ids(0..100));
}

/// A worker that died after its commit and before it could say so: the next attempt delivers the same again.
async fn a_repeat_changes_nothing(peer: &dyn Peer) {
    let destination = peer.destination();
    let delivery = delivery(&*destination, Model::Events, 0);
    deliver_events(&*destination, &delivery, 0..100).await;
    assert_eq!(sorted(peer.uuids().await), ids(0..100));
    // An attempt that dies half-way, and one after it.
    if let Some(mut upload) = destination.begin(&delivery).await.unwrap() {
        upload.write(events(&delivery, 0..30)).await.unwrap();
        drop(upload);
    }
    deliver_events(&*destination, &delivery, 0..100).await;
    assert_eq!(sorted(peer.uuids().await), ids(0..100));
}

async fn a_resend_replaces(peer: &dyn Peer) {
    let destination = peer.destination();
    let mut delivery = delivery(&*destination, Model::Events, 0);
    delivery.is_resend = true;
    let receipt = deliver_events(&*destination, &delivery, 0..100).await;
    assert_eq!(receipt.unwrap().rows, 100);
    assert_eq!(sorted(peer.uuids().await), ids(0..100));
}

async fn another_interval_adds(peer: &dyn Peer) {
    let destination = peer.destination();
    let delivery = delivery(&*destination, Model::Events, 1);
    deliver_events(&*destination, &delivery, 100..120).await;
    assert_eq!(sorted(peer.uuids().await), ids(0..120));
}

async fn persons_are_kept_by_version(peer: &dyn Peer) {
    let destination = peer.destination();
    for (hour, version) in [(0, 1), (1, 5), (2, 3)] {
        let delivery = delivery(&*destination, Model::Persons, hour);
        if let Some(mut upload) = destination.begin(&delivery).await.unwrap() {
            upload
                .write(persons(&delivery, &["ann", "bob"], version))
                .await
                .unwrap();
            upload.commit().await.unwrap();
        }
    }
    if let Some(versions) = peer.person_versions().await {
        let newest = [("ann".to_owned(), 5), ("bob".to_owned(), 5)];
        assert_eq!(versions, newest.into(), "an older version must not replace a newer one");
    }
}

async fn deliver_events(
    destination: &dyn Deliver,
    delivery: &Delivery,
    numbers: std::ops::Range<u128>,
) -> Option<Receipt> {
    let mut upload = destination.begin(delivery).await.unwrap()?;
    upload.write(events(delivery, numbers)).await.unwrap();
    Some(upload.commit().await.unwrap())
}

/// The delivery of one hour. The export is the same for the same model.
pub(crate) fn delivery(destination: &dyn Deliver, model: Model, hour: u32) -> Delivery {
    let start: Time = format!("2026-11-15T{hour:02}:00:00Z").parse().unwrap();
    Delivery {
        export: ExportId(Uuid::from_u128(model as u128 + 1)),
        run: RunId(Uuid::from_u128(u128::from(hour) + 100)),
        team: 1,
        model,
        start,
        end: start + chrono::TimeDelta::hours(1),
        schema: events::schema(&destination.layout(model)),
        is_custom: false,
        is_resend: false,
        resumed_after: exports::Receipt::default(),
        acknowledged: exports::Acknowledged::default(),
    }
}

/// Events with these numbers, in the delivery's own columns, with everything in them that breaks writers.
pub(crate) fn events(delivery: &Delivery, numbers: std::ops::Range<u128>) -> RecordBatch {
    let text = |name: &str, number: u128| match name {
        "uuid" => Some(Uuid::from_u128(number).to_string()),
        "event" => Some(
            if number == 3 {
                "quote \" ' \\ , ;\n\ttab é 🦔"
            } else {
                "$pageview"
            }
            .to_owned(),
        ),
        "distinct_id" => Some(format!("person {}", number % 7)),
        "properties" => Some(format!(
            r#"{{"$ip":"10.0.0.1","n":{number},"text":"a\"b\\c\n é 🦔","deep":{{"list":[1,2,null]}}}}"#
        )),
        "person_properties" => Some(r#"{"email":"ann@example.com"}"#.to_owned()),
        "person_id" => Some(Uuid::from_u128(number % 7 + 1000).to_string()),
        "elements" | "elements_chain" | "site_url" => Some(String::new()),
        "ip" => Some("10.0.0.1".to_owned()),
        // Not every event sets something.
        _ => number.is_multiple_of(2).then(|| r#"{"plan":"free"}"#.to_owned()),
    };
    batch(delivery, &numbers.collect::<Vec<_>>(), text, 0)
}

/// Persons with these distinct ids, at a version.
pub(crate) fn persons(delivery: &Delivery, distinct_ids: &[&str], version: i64) -> RecordBatch {
    let numbers: Vec<u128> = (0..distinct_ids.len() as u128).collect();
    let text = |name: &str, number: u128| match name {
        "distinct_id" => Some(distinct_ids[usize::try_from(number).unwrap()].to_owned()),
        "person_id" => Some(Uuid::from_u128(number + 1000).to_string()),
        _ => Some(format!(r#"{{"version":{version}}}"#)),
    };
    batch(delivery, &numbers, text, version)
}

fn batch(
    delivery: &Delivery,
    numbers: &[u128],
    text: impl Fn(&str, u128) -> Option<String>,
    version: i64,
) -> RecordBatch {
    let start = delivery.start.timestamp_micros();
    let layout_kind = |field: &arrow_schema::Field| match field.data_type() {
        arrow_schema::DataType::Int64 => Type::Int,
        arrow_schema::DataType::Boolean => Type::Bool,
        arrow_schema::DataType::Timestamp(..) => Type::Time,
        _ => Type::Text,
    };
    let column = |field: &arrow_schema::Field| -> ArrayRef {
        match layout_kind(field) {
            Type::Int if field.name() == "team_id" => Arc::new(Int64Array::from(vec![1; numbers.len()])),
            Type::Int => Arc::new(Int64Array::from(vec![version; numbers.len()])),
            Type::Bool => Arc::new(BooleanArray::from(vec![false; numbers.len()])),
            Type::Time => {
                let times = numbers.iter().map(|&number| start + i64::try_from(number).unwrap());
                Arc::new(TimestampMicrosecondArray::from_iter_values(times).with_timezone("UTC"))
            }
            _ => {
                let texts = numbers.iter().map(|&number| text(field.name(), number));
                Arc::new(texts.collect::<StringArray>())
            }
        }
    };
    let columns = delivery.schema.fields().iter().map(|field| column(field)).collect();
    RecordBatch::try_new(delivery.schema.clone(), columns).unwrap()
}

pub(crate) fn ids(numbers: std::ops::Range<u128>) -> Vec<String> {
    numbers.map(|number| Uuid::from_u128(number).to_string()).collect()
}

pub(crate) fn sorted(mut texts: Vec<String>) -> Vec<String> {
    texts.sort();
    texts
}
