//! What looking up persons takes.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Map, json};

use super::super::file;
use super::*;

#[test]
fn no_statement_reads_all_persons_of_a_team() {
    let (few, many) = (steps_among(10), steps_among(5_000));
    assert!(many < 2 * few, "{many} steps, and {few} in a small team");
}

/// Runs every statement of this file in a team with so many persons, and counts the steps SQLite takes.
fn steps_among(persons: i64) -> usize {
    let connection = Connection::open_in_memory().unwrap();
    file::make_all(&connection).unwrap();
    fill(&connection, persons);
    let steps = Arc::new(AtomicUsize::new(0));
    let counted = steps.clone();
    let count = move || {
        counted.fetch_add(1, Ordering::Relaxed);
        false
    };
    connection.progress_handler(1, Some(count)).unwrap();
    let merge = |distinct_id: &str| Change {
        merge: Some(Merge {
            distinct_id: distinct_id.to_owned(),
            is_forced: false,
        }),
        ..Change::default()
    };
    let long = json!("x".repeat(2 * MAX_INLINE_BYTES));
    let sets_long = Change {
        set: Map::from_iter([("long".to_owned(), long)]),
        ..Change::default()
    };
    change(&connection, "ada", &sets_long);
    change(&connection, "visitor", &Change::default());
    change(&connection, "visitor", &merge("other visitor"));
    let ada = change(&connection, "ada", &merge("visitor"));
    for distinct_id in ["ada", "visitor", "other visitor"] {
        let person = change(&connection, distinct_id, &Change::default());
        assert_eq!(person.id, ada.id, "{distinct_id}");
    }
    steps.load(Ordering::Relaxed)
}

#[test]
fn all_names_that_are_to_be_removed_count() {
    let connection = Connection::open_in_memory().unwrap();
    file::make_all(&connection).unwrap();
    let touched = |names: usize| {
        let mut known = TeamPersons {
            people: &mut People::default(),
            connection: &connection,
            team: 1,
            at: 10,
            timestamp: 10,
            touched: 0,
            written: 0,
        };
        let removes = Change {
            unset: (0..names).map(|number| number.to_string()).collect(),
            ..Change::default()
        };
        known.change("ada", &removes).unwrap();
        known.touched
    };
    assert!(touched(10_000) > touched(1) + 100_000);
}

fn fill(connection: &Connection, persons: i64) {
    let sql = "WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < ?1) \
               INSERT INTO person (team_id, person_id, properties, created_at, version, is_identified, is_deleted, \
               changed_at) SELECT 1, randomblob(16), '{}', 0, 0, 0, 0, 0 FROM number";
    connection.execute(sql, [persons]).unwrap();
    let sql = "INSERT INTO person_distinct_id (team_id, distinct_id, person_id, version, changed_at) \
               SELECT team_id, hex(person_id), person_id, 0, 0 FROM person";
    connection.execute(sql, []).unwrap();
}

/// With nobody remembered, so that everything is read.
fn change(connection: &Connection, distinct_id: &str, change: &Change) -> Person {
    let mut known = TeamPersons {
        people: &mut People::default(),
        connection,
        team: 1,
        at: 10,
        timestamp: 10,
        touched: 0,
        written: 0,
    };
    known.change(distinct_id, change).unwrap()
}
