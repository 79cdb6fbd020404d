//! What is read, and how it is written down again.

use hogql::{Column, Model, Type, parse};
use serde_json::json;

use crate::cases::CASES;

fn normalized(text: &str) -> String {
    parse(text)
        .unwrap_or_else(|error| panic!("{text}: {error}"))
        .to_string()
}

#[test]
fn every_case_reads_back_as_it_was() {
    for (text, _) in CASES {
        let query = parse(&format!(
            "SELECT {text} AS a FROM events WHERE {text} IS NOT NULL OR true"
        ))
        .or_else(|_| parse(&format!("SELECT {text} AS a FROM events")))
        .unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(parse(&query.to_string()).as_ref(), Ok(&query), "{query}");
    }
}

#[test]
fn texts_are_normalized() {
    let cases = [
        ("select event from events", "SELECT event FROM events"),
        (
            "SELECT event -- a comment\nFROM /* another /* inside */ */ events;",
            "SELECT event FROM events",
        ),
        (
            "SELECT e.event, e.properties.$os os FROM events AS e",
            "SELECT event, properties.$os AS os FROM events",
        ),
        (
            "SELECT person.properties['e mail'] FROM events",
            "SELECT person_properties['e mail'] FROM events",
        ),
        (
            "SELECT `event` AS \"x y\" FROM events",
            "SELECT event AS `x y` FROM events",
        ),
        (
            "SELECT TOSTRING(team_id) FROM events",
            "SELECT toString(team_id) FROM events",
        ),
        (
            "SELECT ((team_id)) + (1) * 2 FROM events",
            "SELECT team_id + (1 * 2) FROM events",
        ),
        ("SELECT 1 - 2 - 3 FROM events", "SELECT 1 - 2 - 3 FROM events"),
        ("SELECT 1 - (2 - 3) FROM events", "SELECT 1 - (2 - 3) FROM events"),
        ("SELECT - -team_id AS a FROM events", "SELECT team_id AS a FROM events"),
        (
            "SELECT if(true, 1, 2) AS a FROM events",
            "SELECT CASE WHEN true THEN 1 ELSE 2 END AS a FROM events",
        ),
        (
            "SELECT event FROM events WHERE equals(event, 'a') AND NOT(true)",
            "SELECT event FROM events WHERE (event = 'a') AND (NOT true)",
        ),
        (
            "SELECT event FROM events PREWHERE event <> 'a'",
            "SELECT event FROM events WHERE event != 'a'",
        ),
        (
            "SELECT event FROM events WHERE event == 'a'",
            "SELECT event FROM events WHERE event = 'a'",
        ),
        (
            "SELECT event FROM events WHERE timestamp > '2024-01-01'",
            "SELECT event FROM events WHERE timestamp > toDateTime('2024-01-01 00:00:00.000000')",
        ),
        (
            "SELECT event FROM events WHERE properties.n = 5",
            "SELECT event FROM events WHERE properties.n = '5'",
        ),
        (
            "SELECT concat(event, team_id) FROM events",
            "SELECT concat(event, toString(team_id)) FROM events",
        ),
        (
            "SELECT distinct_id, properties.email FROM persons WHERE NOT is_deleted",
            "SELECT distinct_id, properties.email FROM persons WHERE NOT is_deleted",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(normalized(text), expected, "{text}");
    }
}

#[test]
fn a_column_without_an_alias_is_named_by_its_text() {
    let query = parse("SELECT event, properties.$os, lower( event ) FROM events").unwrap();
    let names: Vec<_> = query.fields.iter().map(|field| field.alias.as_str()).collect();
    assert_eq!(names, ["event", "properties.$os", "lower(event)"]);
}

#[test]
fn a_star_is_all_columns_of_the_model() {
    for model in [Model::Events, Model::Persons] {
        let query = parse(&format!("SELECT * FROM {}", model.name())).unwrap();
        let columns: Vec<_> = model.columns().collect();
        assert_eq!(query, hogql::Query::of(model, &columns));
    }
}

#[test]
fn kinds_are_known() {
    let query =
        parse("SELECT properties, properties.a, team_id, 1 / 2 AS half, NULL AS nothing, timestamp FROM events")
            .unwrap();
    let kinds: Vec<_> = query.fields.iter().map(|field| field.kind).collect();
    assert_eq!(
        kinds,
        [Type::Json, Type::Text, Type::Int, Type::Float, Type::Text, Type::Time]
    );
    assert!(Column::ALL.iter().all(|column| {
        Model::Events
            .columns()
            .chain(Model::Persons.columns())
            .any(|other| other == *column)
    }));
}

#[test]
fn the_api_shows_a_query_with_its_values_apart() {
    let query = parse(
        "SELECT event, if(event = 'a', 1, 2) AS n, JSONExtractInt(properties, 'k') AS k FROM events WHERE event != 'b'",
    );
    assert_eq!(
        query.unwrap().schema_json(),
        json!({
            "fields": [
                {"expression": "event", "alias": "event"},
                {"expression": "CASE WHEN event = %(hogql_val_0)s THEN %(hogql_val_1)s ELSE %(hogql_val_2)s END", "alias": "n"},
                {"expression": "JSONExtractInt(properties, %(hogql_val_3)s)", "alias": "k"},
            ],
            "values": {"hogql_val_0": "a", "hogql_val_1": 1, "hogql_val_2": 2, "hogql_val_3": "k"},
            "hogql_query": "SELECT event, CASE WHEN event = 'a' THEN 1 ELSE 2 END AS n, JSONExtractInt(properties, 'k') AS k FROM events WHERE event != 'b'",
        })
    );
}
