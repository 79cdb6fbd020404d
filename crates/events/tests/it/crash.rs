//! What was acknowledged survives a process that is killed.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use hogql::Column;
use serde_json::{Value, json};

use crate::folder::Folder;
use crate::suite::{column, event, time};

const TEAM: i64 = 9;
const FILE: &str = "EVENTS_CRASH_FILE";
const ROUND: &str = "EVENTS_CRASH_ROUND";
const PER_BATCH: usize = 20;
const ROUNDS: usize = 8;

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_is_there_after_a_kill() {
    let folder = Folder::new();
    let mut acknowledged = Vec::new();
    for round in 0..ROUNDS {
        acknowledged.extend(send_and_kill(&folder, round));
    }
    assert!(
        acknowledged.len() > ROUNDS,
        "only {} batches were acknowledged",
        acknowledged.len()
    );

    let store = folder.open();
    let mut stored: HashMap<Value, usize> = HashMap::new();
    for batch in column(&store, TEAM, Column::Event).await {
        *stored.entry(batch).or_default() += 1;
    }
    for batch in acknowledged {
        assert_eq!(stored.get(&json!(batch)), Some(&PER_BATCH), "batch {batch}");
    }
    assert!(
        stored.values().all(|&rows| rows == PER_BATCH),
        "a batch is there in part"
    );
    let times = column(&store, TEAM, Column::InsertedAt).await;
    assert!(times.is_sorted_by_key(Value::as_i64));
}

/// Starts this program again as one that sends, kills it after a while, and gives the batches it said were stored.
fn send_and_kill(folder: &Folder, round: usize) -> Vec<String> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash::send_until_killed", "--ignored", "--nocapture"])
        .env(FILE, folder.file())
        .env(ROUND, round.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let lifetime = Duration::from_millis(20 + 37 * u64::try_from(round).unwrap());
    let (mut acknowledged, mut first) = (Vec::new(), None);
    for line in lines.map_while(Result::ok) {
        if let Some(batch) = line.strip_prefix("stored ") {
            acknowledged.push(batch.to_owned());
            if first.get_or_insert_with(Instant::now).elapsed() > lifetime {
                child.kill().unwrap();
            }
        }
    }
    child.wait().unwrap();
    acknowledged
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "the other half of the test above, which starts and kills it"]
async fn send_until_killed() {
    let file = std::env::var(FILE).unwrap();
    let round: usize = std::env::var(ROUND).unwrap().parse().unwrap();
    let store = events::Events::Embedded(events::sqlite::Embedded::open(file.as_ref()).unwrap());
    let senders = (0..6).map(|sender| {
        let store = store.clone();
        tokio::spawn(async move {
            for n in 0.. {
                let batch = format!("{round}-{sender}-{n}");
                let events =
                    (0..PER_BATCH).map(|n| event(&batch, &format!("{sender}-{n}"), json!({"$set": {"batch": batch}})));
                store.append(TEAM, events.collect(), time(n)).await.unwrap();
                writeln!(std::io::stdout(), "\nstored {batch}").unwrap();
            }
        })
    });
    for sender in senders.collect::<Vec<_>>() {
        sender.await.unwrap();
    }
}
