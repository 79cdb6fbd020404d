use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray};
use exports::{Deliver, Delivery, Error, Verdict};
use hogql::Model;
use outbound::Roots;
use serde_json::json;
use service::batch_exports::destination::Kind;
use testkit::external::Receiver;

use crate::database::destination;
use crate::suite::{delivery, events, ids};

fn http(url: &str) -> Box<dyn Deliver> {
    destination(
        Kind::Http,
        &json!({ "url": url, "token": "phc_token" }),
        Roots::public(),
    )
}

async fn deliver(to: &dyn Deliver, numbers: std::ops::Range<u128>) -> Result<u64, Error> {
    let delivery = delivery(to, Model::Events, 0);
    let mut upload = to.begin(&delivery).await?.unwrap();
    upload.write(events(&delivery, numbers)).await?;
    Ok(upload.commit().await?.rows)
}

fn uuids(receiver: &Receiver) -> Vec<String> {
    let taken = receiver.requests().into_iter().filter(|request| request.status == 200);
    let batches = taken.flat_map(|request| request.body["batch"].as_array().unwrap().clone());
    batches
        .map(|event| event["uuid"].as_str().unwrap().to_owned())
        .collect()
}

/// Everything of the suite that holds where nothing can be taken back: all arrives, and a repeat has the same uuids.
#[tokio::test]
async fn events_arrive_as_posthog_takes_them() {
    let receiver = Receiver::start();
    let to = http(&receiver.url());
    assert_eq!(deliver(&*to, 0..100).await.unwrap(), 100);
    assert_eq!(uuids(&receiver), ids(0..100));
    let first = &receiver.requests()[0];
    assert_eq!(
        (first.path.as_str(), first.content_type.as_str()),
        ("/batch/", "application/json")
    );
    assert_eq!(first.body["api_key"], "phc_token");
    assert_eq!(first.body["historical_migration"], true);
    assert_eq!(
        first.body["batch"][3],
        json!({
            "uuid": "00000000-0000-0000-0000-000000000003", "distinct_id": "person 3",
            "timestamp": "2026-11-15T00:00:00.000003Z", "event": "quote \" ' \\ , ;\n\ttab é 🦔",
            "properties": {
                "$ip": "10.0.0.1", "n": 3, "text": "a\"b\\c\n é 🦔", "deep": { "list": [1, 2, null] },
                "$geoip_disable": true,
            },
        })
    );
    deliver(&*to, 0..100).await.unwrap();
    let all = uuids(&receiver);
    assert_eq!((all.len(), all.into_iter().collect::<BTreeSet<_>>().len()), (200, 100));
}

/// The given columns replaced.
fn with(rows: &RecordBatch, changes: &[(&str, ArrayRef)]) -> RecordBatch {
    let mut columns = rows.columns().to_vec();
    for (name, values) in changes {
        columns[rows.schema().index_of(name).unwrap()] = values.clone();
    }
    RecordBatch::try_new(rows.schema(), columns).unwrap()
}

#[tokio::test]
async fn requests_are_bounded_and_autocapture_brings_its_elements() {
    let receiver = Receiver::start();
    let to = http(&receiver.url());
    let delivery = delivery(&*to, Model::Events, 0);
    let mut upload = to.begin(&delivery).await.unwrap().unwrap();
    upload.write(events(&delivery, 0..5001)).await.unwrap();
    // Full requests go out while rows still come.
    assert_eq!(uuids(&receiver).len(), 5000);
    let large = format!(r#"{{"x":"{}"}}"#, "y".repeat(1_000_000));
    let large: ArrayRef = Arc::new(StringArray::from(vec![large.as_str(); 30]));
    let events = with(&events(&delivery, 5001..5031), &[("properties", large)]);
    upload.write(events).await.unwrap();
    assert_eq!(upload.commit().await.unwrap().rows, 5031);
    assert_eq!(uuids(&receiver), ids(0..5031));
    assert!(
        receiver
            .requests()
            .iter()
            .all(|request| request.size <= 20 * 1024 * 1024)
    );

    let clicked = with(
        &crate::suite::events(&delivery, 0..1),
        &[
            ("event", Arc::new(StringArray::from(vec!["$autocapture"]))),
            ("elements_chain", Arc::new(StringArray::from(vec!["a:nth-child=\"1\""]))),
        ],
    );
    let mut upload = to.begin(&delivery).await.unwrap().unwrap();
    upload.write(clicked).await.unwrap();
    upload.commit().await.unwrap();
    let last = receiver.requests().pop().unwrap();
    assert_eq!(
        last.body["batch"][0]["properties"]["$elements_chain"],
        "a:nth-child=\"1\""
    );
}

#[tokio::test]
async fn what_may_pass_is_tried_again_and_what_lasts_is_not() {
    let receiver = Receiver::start();
    let to = http(&receiver.url());
    receiver.answer(&["500", "429 1"]);
    assert_eq!(deliver(&*to, 0..10).await.unwrap(), 10);
    let statuses: Vec<_> = receiver.requests().iter().map(|request| request.status).collect();
    assert_eq!(statuses, [500, 429, 200]);
    // Somebody who wants to be left alone for an hour is: the run is tried again later.
    for (answer, is_permanent) in [
        ("503 3600", false),
        ("400", true),
        ("401", true),
        ("404", true),
        ("413", true),
        ("302", true),
    ] {
        receiver.answer(&[answer]);
        let before = receiver.requests().len();
        let error = deliver(&*to, 0..10).await.unwrap_err();
        assert_eq!(error.is_permanent, is_permanent, "{answer}: {error}");
        assert!(error.sentence.contains(&answer[..3]), "{error}");
        assert_eq!(receiver.requests().len(), before + 1, "{answer}");
    }
}

/// N8
#[tokio::test]
async fn an_answer_without_an_end_is_not_waited_for() {
    let receiver = Receiver::start();
    receiver.be_endless();
    assert_eq!(deliver(&*http(&receiver.url()), 0..10).await.unwrap(), 10);
}

/// N1, N5: also at run time.
#[tokio::test]
async fn private_addresses_and_persons_are_refused() {
    for url in [
        "http://10.0.0.1/",
        "https://169.254.169.254/",
        "http://example.com/",
        "file:///etc/passwd",
    ] {
        let error = deliver(&*http(url), 0..1).await.unwrap_err();
        assert!(error.is_permanent, "{url}: {error}");
        assert_eq!(http(url).test().await[0].verdict, Verdict::Failed);
    }
    let to = http("https://example.com/");
    let persons = Delivery {
        model: Model::Persons,
        ..delivery(&*to, Model::Events, 0)
    };
    assert!(to.begin(&persons).await.err().unwrap().is_permanent);
    assert!(!Kind::Http.takes_persons() && Kind::Postgres.takes_persons());
}

#[tokio::test]
async fn a_trial_sends_no_event() {
    let receiver = Receiver::start();
    let steps = http(&receiver.url()).test().await;
    assert!(steps.iter().all(|step| step.verdict == Verdict::Passed), "{steps:?}");
    assert!(uuids(&receiver).is_empty());
    receiver.answer(&["401"]);
    let steps = http(&receiver.url()).test().await;
    assert_eq!(steps[1].verdict, Verdict::Failed);
    assert!(steps[1].message.contains("token"));
}
