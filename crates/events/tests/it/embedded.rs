//! What the embedded store keeps to beyond the suite.

use std::os::unix::fs::PermissionsExt;

use events::persons::MAX_PROPERTY_BYTES;
use events::{Error, Events, Incoming};
use hogql::{Column, Model, Query};
use serde_json::json;
use testkit::alone::{is_alone, resident};
use uuid::Uuid;

use crate::folder::Folder;
use crate::suite::{self, all_columns, batches, column, event, read, scan, time};

const TEAM: i64 = 3;

#[tokio::test]
async fn the_embedded_store_passes_the_suite() {
    let folder = Folder::new();
    suite::all(&folder.open(), 100).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_suite_passes_while_another_process_writes() {
    let folder = Folder::new();
    let (store, other) = (folder.open(), folder.open());
    let writes = tokio::spawn(async move {
        for n in 0.. {
            let told = json!({"$set": {"n": n}});
            other
                .append(TEAM, vec![event("x", "ada", told)], time(-1000))
                .await
                .unwrap();
        }
    });
    suite::all(&store, 100).await;
    writes.abort();
    assert!(!column(&store, TEAM, Column::Event).await.is_empty());
}

#[tokio::test]
async fn a_repeated_batch_is_stored_once() {
    let folder = Folder::new();
    let batch: Vec<_> = (0..50).map(|n| event("x", &n.to_string(), json!({}))).collect();
    let mut with_more = batch.clone();
    with_more.push(event("more", "ada", json!({})));
    let store = folder.open();
    store.append(TEAM, batch.clone(), time(1)).await.unwrap();
    store.append(TEAM, batch.clone(), time(2)).await.unwrap();
    drop(store);
    // Another process knows it too.
    let (store, other) = (folder.open(), folder.open());
    store.append(TEAM, with_more.clone(), time(3)).await.unwrap();
    other.append(TEAM, with_more, time(4)).await.unwrap();
    store.append(TEAM + 1, batch, time(5)).await.unwrap();
    assert_eq!(column(&store, TEAM, Column::Uuid).await.len(), 51);
    assert_eq!(
        column(&store, TEAM + 1, Column::Uuid).await.len(),
        50,
        "another team's ids are its own"
    );
}

#[tokio::test]
async fn one_id_twice_in_a_batch_is_stored_once() {
    let folder = Folder::new();
    let store = folder.open();
    let twice = event("x", "ada", json!({}));
    store.append(TEAM, vec![twice.clone(), twice], time(1)).await.unwrap();
    assert_eq!(column(&store, TEAM, Column::Uuid).await.len(), 1);
}

#[tokio::test]
async fn events_without_an_id_get_one_in_order() {
    let folder = Folder::new();
    let store = folder.open();
    let nameless = |n: i64| Incoming {
        uuid: None,
        ..event(&n.to_string(), "ada", json!({}))
    };
    for second in 0..3 {
        store
            .append(TEAM, (0..100).map(nameless).collect(), time(second))
            .await
            .unwrap();
    }
    let uuids = column(&store, TEAM, Column::Uuid).await;
    let uuids: Vec<Uuid> = uuids
        .iter()
        .map(|uuid| uuid.as_str().unwrap().parse().unwrap())
        .collect();
    assert_eq!(uuids.len(), 300);
    assert!(uuids.is_sorted_by(|a, b| a < b));
    assert!(uuids.iter().all(|uuid| uuid.get_version_num() == 7));
}

#[tokio::test]
async fn what_two_processes_know_of_a_person_is_the_same() {
    let folder = Folder::new();
    let (one, two) = (folder.open(), folder.open());
    for n in 0..10 {
        let (store, key) = if n % 2 == 0 { (&one, "even") } else { (&two, "odd") };
        store
            .append(TEAM, vec![event("x", "ada", json!({"$set": {key: n}}))], time(n))
            .await
            .unwrap();
    }
    let persons = read(&one, scan(TEAM, all_columns(Model::Persons), 0, 100)).await;
    assert_eq!(persons.len(), 1);
    assert_eq!(persons[0]["properties"], json!("{\"even\":8,\"odd\":9}"));
    // Made as version 0, and changed ten times.
    assert_eq!(persons[0]["person_version"], json!(10));
}

/// A file from before there was a limit may hold persons of any size.
#[tokio::test]
async fn a_person_from_before_the_limit_takes_no_memory() {
    let folder = Folder::new();
    folder
        .open()
        .append(TEAM, vec![event("a", "ada", json!({}))], time(1))
        .await
        .unwrap();
    let huge = json!({ "a": "x".repeat(2 * MAX_PROPERTY_BYTES) }).to_string();
    rusqlite::Connection::open(folder.file())
        .unwrap()
        .execute("UPDATE person SET properties = ?1", [huge])
        .unwrap();
    let store = folder.open();
    let again = vec![
        event("b", "ada", json!({})),
        event("c", "ada", json!({"$set": {"b": 1}})),
    ];
    store.append(TEAM, again, time(2)).await.unwrap();
    let carried = column(&store, TEAM, Column::PersonProperties).await;
    assert_eq!(carried, [json!("{}"), json!("{}"), json!(r#"{"b":1}"#)]);
}

/// One writer for all: what a team has waiting does not keep the others waiting.
#[tokio::test(flavor = "multi_thread")]
async fn a_team_does_not_wait_for_all_that_another_sent() {
    let folder = Folder::new();
    let store = folder.open();
    let long = "x".repeat(MAX_PROPERTY_BYTES - 100);
    store
        .append(TEAM, vec![event("a", "ada", json!({"$set": {"a": long}}))], time(1))
        .await
        .unwrap();
    let attackers: Vec<_> = (0..400)
        .map(|n| {
            let store = store.clone();
            tokio::spawn(async move {
                let change = event("b", "ada", json!({"$set": {"b": n}}));
                store.append(TEAM, vec![change], time(2)).await.unwrap();
            })
        })
        .collect();
    // Until most of them wait.
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    store
        .append(TEAM + 1, vec![event("c", "bob", json!({}))], time(2))
        .await
        .unwrap();
    let waiting = attackers.iter().filter(|task| !task.is_finished()).count();
    assert!(waiting > 100, "only {waiting} still waited");
    for attacker in attackers {
        attacker.await.unwrap();
    }
}

/// A person has up to a thousand ids, and a few bytes of an event change it: that is a change of one row.
#[tokio::test]
async fn a_change_of_a_person_writes_little_however_many_ids_it_has() {
    let folder = Folder::new();
    let store = folder.open();
    let alias = |n: usize| {
        let name = format!("person-{}", n % 20);
        event("$create_alias", &name, json!({"alias": format!("{name}-{n}")}))
    };
    store
        .append(TEAM, (0..10_000).map(alias).collect(), time(1))
        .await
        .unwrap();
    close(&store).await;
    let store = folder.open();
    let change = |n: usize| event("x", &format!("person-{n}"), json!({"$set": {"n": n}}));
    store
        .append(TEAM, (0..20).map(change).collect(), time(2))
        .await
        .unwrap();
    let written = folder.log_bytes();
    assert!(written < 1 << 20, "{written} bytes for 20 events");
    let query = Query::of(Model::Persons, &[Column::DistinctId]);
    let changed = store.count(scan(TEAM, query, 2, 3)).await.unwrap();
    assert_eq!(changed, 10_020, "each id has changed with its person");
}

/// Making two persons one takes as long as they have ids.
#[tokio::test]
async fn a_request_moves_only_so_many_ids() {
    let folder = Folder::new();
    let store = folder.open();
    let alias = |n: usize| {
        let name = format!("person-{}", n % 20);
        event("$create_alias", &name, json!({"alias": format!("{name}-{n}")}))
    };
    store
        .append(TEAM, (0..18_000).map(alias).collect(), time(1))
        .await
        .unwrap();
    let other = |n: usize| event("x", &format!("other-{n}"), json!({}));
    store.append(TEAM, (0..20).map(other).collect(), time(1)).await.unwrap();
    let merge = |n: usize| {
        let told = json!({"alias": format!("person-{n}")});
        event("$merge_dangerously", &format!("other-{n}"), told)
    };
    store.append(TEAM, (0..20).map(merge).collect(), time(2)).await.unwrap();
    let query = Query::of(Model::Persons, &[Column::DistinctId]);
    let moved = store.count(scan(TEAM, query, 2, 3)).await.unwrap();
    assert!((901..6_000).contains(&moved), "{moved}");
    assert_eq!(column(&store, TEAM, Column::Event).await.len(), 18_040);
}

/// A few bytes of an event may stand for half a megabyte of its person, and can be repeated without end.
#[tokio::test]
async fn properties_that_many_events_carry_are_stored_once() {
    let folder = Folder::new();
    let store = folder.open();
    let long = "x".repeat(MAX_PROPERTY_BYTES - 100);
    let set = event("a", "ada", json!({"$set": {"a": long}}));
    store.append(TEAM, vec![set], time(1)).await.unwrap();
    close(&store).await;
    let store = folder.open();
    for second in 2..22 {
        let five = (0..5).map(|_| event("b", "ada", json!({})));
        store.append(TEAM, five.collect(), time(second)).await.unwrap();
    }
    let written = folder.log_bytes();
    assert!(written < 2 << 20, "{written} bytes for 100 events");
    let carried = column(&store, TEAM, Column::PersonProperties).await;
    let expected = json!(json!({ "a": long }).to_string());
    assert!(carried.len() == 101 && carried.iter().all(|carried| *carried == expected));
    let filtered = hogql::parse("SELECT event FROM events WHERE length(person_properties.a) > 1000").unwrap();
    assert_eq!(store.count(scan(TEAM, filtered, 0, 100)).await.unwrap(), 101);
    let persons = read(&store, scan(TEAM, all_columns(Model::Persons), 0, 100)).await;
    assert_eq!(persons[0]["properties"], expected);
    store.forget_team(TEAM).await.unwrap();
    let left: i64 = rusqlite::Connection::open(folder.file())
        .unwrap()
        .query_row("SELECT count(*) FROM person_properties", [], |row| row.get(0))
        .unwrap();
    assert_eq!(left, 0);
}

/// A person that changes with each small event would be stored again with each.
#[tokio::test]
async fn what_a_team_may_have_stored_of_its_persons_comes_to_an_end() {
    let folder = Folder::new();
    let store = folder.open();
    let long = "x".repeat(MAX_PROPERTY_BYTES - 100);
    let set = event("a", "ada", json!({"$set": {"a": long}}));
    store.append(TEAM, vec![set], time(1)).await.unwrap();
    for n in 0..200 {
        let change = event("b", "ada", json!({"$set": {"n": n}}));
        store.append(TEAM, vec![change], time(2)).await.unwrap();
    }
    store
        .append(TEAM, vec![event("c", "ada", json!({}))], time(3))
        .await
        .unwrap();
    close(&store).await;
    let size = std::fs::metadata(folder.file()).unwrap().len();
    assert!(size < 90 << 20, "{} MB", size >> 20);
    let carried = column(&store, TEAM, Column::PersonProperties).await;
    assert_eq!(carried.len(), 202, "every event is there");
    assert_eq!(carried[200], json!("{}"), "what is beyond it is left out");
    assert!(
        carried[201].as_str().unwrap().len() > 1000,
        "what costs nothing is not left out"
    );
}

async fn close(store: &Events) {
    let Events::Embedded(embedded) = store else {
        panic!("not embedded")
    };
    embedded.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_team_is_forgotten_while_others_go_on() {
    let folder = Folder::new();
    let store = folder.open();
    fill(&store, 60_000, 100, 1).await;
    let forgetting = tokio::spawn({
        let store = store.clone();
        async move { store.forget_team(TEAM).await }
    });
    let mut in_between = 0;
    while !forgetting.is_finished() {
        let sent = vec![event("y", "ada", json!({}))];
        store.append(TEAM + 1, sent, time(2)).await.unwrap();
        let again = vec![Incoming {
            uuid: Some(Uuid::from_u128(7)),
            ..event("z", "ada", json!({}))
        }];
        store.append(TEAM + 1, again, time(2)).await.unwrap();
        in_between += 1;
    }
    forgetting.await.unwrap().unwrap();
    assert!(in_between > 1, "{in_between} events");
    suite::a_team_without_rows_has_none(&store, TEAM).await;
    let stored = column(&store, TEAM + 1, Column::Event).await;
    let (again, once): (Vec<_>, Vec<_>) = stored.into_iter().partition(|event| event == "z");
    assert_eq!(
        (once.len(), again.len()),
        (in_between, 1),
        "what was sent again is the same event"
    );
}

#[tokio::test]
async fn a_forgotten_team_is_gone_and_may_come_again() {
    let folder = Folder::new();
    let store = folder.open();
    let sent = event("x", "ada", json!({"$set": {"a": 1}}));
    store.append(TEAM, vec![sent.clone()], time(1)).await.unwrap();
    store
        .append(TEAM + 1, vec![event("y", "ada", json!({}))], time(1))
        .await
        .unwrap();
    store.forget_team(TEAM).await.unwrap();
    suite::a_team_without_rows_has_none(&store, TEAM).await;
    assert_eq!(column(&store, TEAM + 1, Column::Event).await, [json!("y")]);
    store.append(TEAM, vec![sent], time(2)).await.unwrap();
    assert_eq!(column(&store, TEAM, Column::Event).await, [json!("x")]);
}

#[tokio::test]
async fn a_closed_store_has_stored_everything_and_takes_no_more() {
    let folder = Folder::new();
    let store = folder.open();
    let waiting: Vec<_> = (0..20)
        .map(|n| {
            let store = store.clone();
            tokio::spawn(async move { store.append(TEAM, vec![event("x", "ada", json!({}))], time(n)).await })
        })
        .collect();
    for append in waiting {
        append.await.unwrap().unwrap();
    }
    let Events::Embedded(embedded) = &store else {
        panic!("not embedded")
    };
    embedded.close().await.unwrap();
    let refused = store.append(TEAM, vec![event("x", "ada", json!({}))], time(30)).await;
    assert!(matches!(refused, Err(Error::Stopped)), "{refused:?}");
    let log = folder.path().join("events.db-wal");
    assert_eq!(
        std::fs::metadata(log).map_or(0, |log| log.len()),
        0,
        "everything is in the file itself"
    );
    assert_eq!(column(&store, TEAM, Column::Event).await.len(), 20);
    store.ping().await.unwrap();
}

#[tokio::test]
async fn nobody_else_may_read_the_files() {
    let folder = Folder::new();
    let store = folder.open();
    store
        .append(TEAM, vec![event("x", "ada", json!({}))], time(1))
        .await
        .unwrap();
    for file in std::fs::read_dir(folder.path()).unwrap() {
        let file = file.unwrap();
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{file:?}");
    }
}

/// Rows with so many bytes each.
async fn fill(store: &Events, rows: usize, bytes: usize, second: i64) {
    let text = json!({ "text": "x".repeat(bytes) });
    let batch = ((6 << 20) / bytes).clamp(1, 5000);
    for start in (0..rows).step_by(batch) {
        let row = |n: usize| Incoming {
            uuid: None,
            ..event(&n.to_string(), "ada", text.clone())
        };
        let batch = (start..rows.min(start + batch)).map(row).collect();
        store.append(TEAM, batch, time(second)).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_rows_come_in_whole_batches_in_order() {
    let folder = Folder::new();
    let store = folder.open();
    fill(&store, 200_000, 10, 1).await;
    let query = Query::of(Model::Events, &[Column::Event]);
    let batches = batches(&store, scan(TEAM, query, 0, 10)).await;
    let sizes: Vec<_> = batches.iter().map(arrow_array::RecordBatch::num_rows).collect();
    assert!(sizes[..sizes.len() - 1].iter().all(|&rows| rows == 8192), "{sizes:?}");
    assert_eq!(sizes.iter().sum::<usize>(), 200_000);
    let mut expected = 0;
    for batch in &batches {
        for name in arrow_array::cast::AsArray::as_string::<i32>(batch.column(0))
            .iter()
            .flatten()
        {
            assert_eq!(name, expected.to_string());
            expected += 1;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scan_holds_little_memory() {
    if !is_alone("embedded::a_scan_holds_little_memory") {
        return;
    }
    let folder = Folder::new();
    let store = folder.open();
    fill(&store, 60_000, 4000, 1).await;
    let before = resident();
    let mut rows = store.scan(scan(TEAM, all_columns(Model::Events), 0, 10));
    let (mut most, mut seen) = (0, 0);
    while let Some(batch) = rows.next().await {
        seen += batch.unwrap().num_rows();
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        most = most.max(resident().saturating_sub(before));
    }
    assert_eq!(seen, 60_000);
    // 240 MB of rows; a batch is 33 MB, and four of them wait.
    assert!(most < 230 << 20, "{} MB", most >> 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_pauses_does_not_make_the_log_grow() {
    let folder = Folder::new();
    let store = folder.open();
    fill(&store, 100_000, 10, 1).await;
    let mut rows = store.scan(scan(TEAM, all_columns(Model::Events), 0, 10));
    rows.next().await.unwrap().unwrap();
    fill(&store, 60_000, 4000, 20).await;
    let log = std::fs::metadata(folder.path().join("events.db-wal")).unwrap().len();
    assert!(log < 128 << 20, "{} MB", log >> 20);
    let mut left = 0;
    while let Some(batch) = rows.next().await {
        left += batch.unwrap().num_rows();
    }
    assert_eq!(left, 100_000 - 8192);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_scan_ends() {
    let folder = Folder::new();
    let store = folder.open();
    fill(&store, 60_000, 10, 1).await;
    for _ in 0..20 {
        let mut rows = store.scan(scan(TEAM, all_columns(Model::Events), 0, 10));
        rows.next().await.unwrap().unwrap();
    }
    // A runtime that shuts down waits for its blocking threads: if one hung, so would this test.
}

/// Each new table would make all connections read the schema again.
#[tokio::test]
async fn many_teams_need_no_more_tables() {
    let folder = Folder::new();
    let store = folder.open();
    let schema = || -> i64 {
        let file = rusqlite::Connection::open(folder.file()).unwrap();
        file.query_row("PRAGMA schema_version", [], |row| row.get(0)).unwrap()
    };
    let before = schema();
    for team in 1..=300 {
        store
            .append(team, vec![event("x", "ada", json!({}))], time(1))
            .await
            .unwrap();
    }
    assert_eq!(schema(), before);
    assert_eq!(store.highest_team().await.unwrap(), 300);
}

#[tokio::test]
async fn teams_that_share_a_table_have_only_their_own_events() {
    let folder = Folder::new();
    let store = folder.open();
    let teams = [TEAM, TEAM + 128, TEAM + 256];
    for (hour, count) in [(1, 2), (3, 3)] {
        for (team, more) in teams.into_iter().zip(0..) {
            let events = (0..count + more).map(|_| event(&format!("of {team}"), "ada", json!({})));
            store.append(team, events.collect(), time(hour)).await.unwrap();
        }
    }
    let found = async |store: &Events, team: i64| {
        let names = column(store, team, Column::Event).await;
        assert!(names.iter().all(|name| *name == format!("of {team}")), "{names:?}");
        let count = async |from| {
            store
                .count(scan(team, all_columns(Model::Events), from, 10))
                .await
                .unwrap()
        };
        (names.len(), [count(0).await, count(2).await])
    };
    let of_each = [(5, [5, 3]), (7, [7, 4]), (9, [9, 5])];
    for (team, expected) in teams.into_iter().zip(of_each) {
        assert_eq!(found(&store, team).await, expected);
    }
    store.forget_team(teams[1]).await.unwrap();
    for (team, expected) in teams.into_iter().zip([of_each[0], (0, [0, 0]), of_each[2]]) {
        assert_eq!(found(&store, team).await, expected);
        let earliest = store.earliest(team, Model::Events).await.unwrap();
        assert_eq!(earliest, (expected.0 > 0).then(|| time(1)));
    }
    // Numbers go on where they were, also after a start.
    drop(store);
    let store = folder.open();
    for team in teams {
        store
            .append(team, vec![event(&format!("of {team}"), "ada", json!({}))], time(5))
            .await
            .unwrap();
    }
    assert_eq!(found(&store, teams[1]).await, (1, [1, 1]));
    assert_eq!(found(&store, teams[2]).await, (10, [10, 6]));
}

/// Slow destinations hold several batches each.
#[tokio::test]
async fn a_batch_has_one_event_if_that_is_large() {
    let folder = Folder::new();
    let store = folder.open();
    let large = json!({"text": "x".repeat(7 << 20)});
    for second in 0..3 {
        let events = vec![
            event("small", "ada", json!({})),
            event("$ai_large", "ada", large.clone()),
            event("small", "ada", json!({})),
        ];
        store.append(TEAM, events, time(second)).await.unwrap();
    }
    let batches = batches(&store, scan(TEAM, all_columns(Model::Events), 0, 10)).await;
    let sizes: Vec<usize> = batches.iter().map(arrow_array::RecordBatch::num_rows).collect();
    assert_eq!(sizes, [1, 1, 2, 1, 2, 1, 1]);
}

/// Fault: bytes of the file change, and SQLite finds nothing wrong.
#[tokio::test]
async fn a_stored_event_that_has_changed_is_not_given_out() {
    let outcome = async |store: &Events, query: &str| {
        let query = hogql::parse(query).unwrap();
        store.scan(scan(TEAM, query, 0, 10)).next().await.transpose().map(drop)
    };
    for damage in [
        "UPDATE event_3 SET properties = replace(properties, 'right', 'wrong')",
        "UPDATE event_3 SET timestamp = timestamp + 1",
        "UPDATE event_3 SET person_properties_id = 1",
        "DELETE FROM event_3; INSERT INTO event_3 SELECT * FROM event_4",
    ] {
        let folder = Folder::new();
        let store = folder.open();
        for team in [TEAM, TEAM + 1] {
            let event = event("x", "ada", json!({"n": "right"}));
            store.append(team, vec![event], time(1)).await.unwrap();
        }
        let queries = [
            "SELECT event FROM events",
            "SELECT event FROM events WHERE properties.n = 'right'",
        ];
        for query in queries {
            outcome(&store, query).await.unwrap();
        }
        rusqlite::Connection::open(folder.file())
            .unwrap()
            .execute_batch(damage)
            .unwrap();
        for query in queries {
            let said = outcome(&store, query).await;
            assert!(matches!(said, Err(Error::Damaged(_))), "{damage}: {said:?}");
        }
    }
}
