//! A store says whose it is, and stays usable to every process that has it open.

use std::process::Command;

use hogql::Column;
use serde_json::json;
use uuid::Uuid;

use crate::folder::Folder;
use crate::suite::{column, event, time};

const TEAM: i64 = 11;
const FILE: &str = "EVENTS_CLAIMS_FILE";

#[tokio::test]
async fn a_store_belongs_to_whoever_claims_it_first() {
    let folder = Folder::new();
    let store = folder.open();
    let (first, second) = (Uuid::now_v7(), Uuid::now_v7());
    assert_eq!(store.claim(first).await.unwrap(), first);
    assert_eq!(store.claim(second).await.unwrap(), first);
    assert_eq!(folder.open().claim(second).await.unwrap(), first);
}

/// A process that opens and closes a file gives up all its locks on it: the next one that leaves would delete the log.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_comes_and_goes_leaves_the_log_to_one_that_stays() {
    let folder = Folder::new();
    let store = folder.open();
    let append = async |name: &str| {
        let events = vec![event(name, name, json!({}))];
        store.append(TEAM, events, time(1)).await.unwrap();
    };
    append("before").await;
    store.claim(Uuid::now_v7()).await.unwrap();
    for _ in 0..2 {
        let tests = std::env::current_exe().unwrap();
        let arguments = ["--exact", "claims::store_and_leave", "--ignored"];
        let output = Command::new(tests).args(arguments).env(FILE, folder.file()).output();
        assert!(output.unwrap().status.success());
        // It may be empty: the other process may have copied it into the file before it left.
        assert!(folder.has_log(), "the log is gone");
    }
    append("after").await;
    let names = column(&store, TEAM, Column::Event).await;
    assert_eq!(names, ["before", "other", "other", "after"]);
    let seen_by_others = column(&folder.open(), TEAM, Column::Event).await;
    assert_eq!(seen_by_others, names);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "the other process of the test above, which starts it"]
async fn store_and_leave() {
    let file = std::env::var(FILE).unwrap();
    let store = events::Events::Embedded(events::sqlite::Embedded::open(file.as_ref()).unwrap());
    let person = Uuid::now_v7().to_string();
    let events = vec![event("other", &person, json!({}))];
    store.append(TEAM, events, time(1)).await.unwrap();
}
