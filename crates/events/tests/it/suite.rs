//! What every store keeps to. Each function takes a store and the number of a team that has no rows yet.

use std::collections::HashMap;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampMicrosecondType};
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;
use chrono::{DateTime, TimeDelta};
use events::persons::{MAX_PROPERTY_BYTES, person_id};
use events::{Error, Events, Incoming, MAX_EVENT_BYTES, MAX_UNSET, Most, Scan, Stored, StoredEvents, Time};
use hogql::{Column, Expr, Field, Model, Query, Type, Value as Literal};
use serde_json::{Value, json};
use uuid::Uuid;

/// Every sentence below, with a team for each.
pub(crate) async fn all(store: &Events, first_team: i64) {
    rows_come_back_as_they_were_sent(store, first_team).await;
    an_interval_has_its_start_and_not_its_end(store, first_team + 1).await;
    a_limit_and_a_count_agree_with_the_rows(store, first_team + 2).await;
    teams_do_not_see_each_other(store, first_team + 3).await;
    a_condition_is_kept(store, first_team + 5).await;
    a_team_without_rows_has_none(store, first_team + 6).await;
    an_event_carries_the_person_as_it_is_after_it(store, first_team + 7).await;
    identifying_makes_two_persons_one(store, first_team + 8).await;
    a_known_person_is_not_swallowed(store, first_team + 9).await;
    an_alias_is_a_second_name(store, first_team + 10).await;
    an_event_may_have_no_person(store, first_team + 11).await;
    persons_are_listed_when_they_or_their_ids_changed(store, first_team + 12).await;
    expressions_and_columns_stand_where_they_were_asked_for(store, first_team + 13).await;
    a_person_has_only_so_many_properties(store, first_team + 14).await;
    a_request_takes_only_so_much_of_its_persons(store, first_team + 15).await;
    an_event_has_only_so_many_bytes(store, first_team + 16).await;
    reading_ends_after_so_many_bytes(store, first_team + 17).await;
    a_row_of_persons_is_in_the_interval_of_its_last_change(store, first_team + 18).await;
    an_event_removes_only_so_many_properties(store, first_team + 19).await;
    a_person_has_only_so_many_ids_and_keeps_its_events(store, first_team + 20).await;
    large_events_are_read_alone(store, first_team + 21).await;
}

pub(crate) fn time(second: i64) -> Time {
    DateTime::from_timestamp(1_800_000_000 + second, 0).unwrap()
}

pub(crate) fn event(name: &str, distinct_id: &str, properties: Value) -> Incoming {
    let Value::Object(properties) = properties else {
        panic!("properties are an object")
    };
    Incoming {
        uuid: Some(Uuid::now_v7()),
        event: name.to_owned(),
        distinct_id: distinct_id.to_owned(),
        properties,
        timestamp: time(-60),
    }
}

pub(crate) fn all_columns(model: Model) -> Query {
    Query::of(model, &model.columns().collect::<Vec<_>>())
}

pub(crate) fn scan(team: i64, query: Query, start: i64, end: i64) -> Scan {
    Scan {
        team,
        query,
        start: Some(time(start)),
        end: time(end),
        skip: 0,
        limit: None,
    }
}

pub(crate) async fn batches(store: &Events, scan: Scan) -> Vec<RecordBatch> {
    let mut rows = store.scan(scan);
    let mut batches = Vec::new();
    while let Some(batch) = rows.next().await {
        batches.push(batch.unwrap());
    }
    batches
}

/// The rows as JSON; times in microseconds.
pub(crate) async fn read(store: &Events, scan: Scan) -> Vec<HashMap<String, Value>> {
    let row = |batch: &RecordBatch, row: usize| {
        let cell = |(field, column): (&std::sync::Arc<arrow_schema::Field>, &arrow_array::ArrayRef)| {
            let value = match column.data_type() {
                _ if column.is_null(row) => Value::Null,
                DataType::Utf8 => json!(column.as_string::<i32>().value(row)),
                DataType::Int64 => json!(column.as_primitive::<Int64Type>().value(row)),
                DataType::Boolean => json!(column.as_boolean().value(row)),
                _ => json!(column.as_primitive::<TimestampMicrosecondType>().value(row)),
            };
            (field.name().clone(), value)
        };
        batch.schema().fields().iter().zip(batch.columns()).map(cell).collect()
    };
    let batches = batches(store, scan).await;
    batches
        .iter()
        .flat_map(|batch| (0..batch.num_rows()).map(|n| row(batch, n)).collect::<Vec<_>>())
        .collect()
}

/// One column of all events of a team, as they were stored.
pub(crate) async fn column(store: &Events, team: i64, column: Column) -> Vec<Value> {
    let query = Query::of(Model::Events, &[column]);
    let rows = read(store, scan(team, query, -1_000_000, 1_000_000)).await;
    rows.into_iter()
        .map(|mut row| row.remove(column.name()).unwrap())
        .collect()
}

async fn append(store: &Events, team: i64, events: Vec<Incoming>, second: i64) {
    store.append(team, events, time(second)).await.unwrap();
}

fn parsed(value: &Value) -> Value {
    serde_json::from_str(value.as_str().unwrap()).unwrap()
}

pub(crate) async fn rows_come_back_as_they_were_sent(store: &Events, team: i64) {
    let mut sent = event(
        "page ü",
        "ada",
        json!({"a": {"b": [1, "zwei", null]}, "$elements_chain": "a:text=\"x\""}),
    );
    sent.timestamp = time(-3) + TimeDelta::microseconds(123_456);
    append(store, team, vec![sent.clone()], 10).await;
    let rows = read(store, scan(team, all_columns(Model::Events), 10, 11)).await;
    let [row] = rows.as_slice() else { panic!("{rows:?}") };
    assert_eq!(row["uuid"], json!(sent.uuid.unwrap().to_string()));
    assert_eq!(row["team_id"], json!(team));
    assert_eq!(row["event"], json!("page ü"));
    assert_eq!(row["distinct_id"], json!("ada"));
    assert_eq!(parsed(&row["properties"]), json!({"a": {"b": [1, "zwei", null]}}));
    assert_eq!(row["elements_chain"], json!("a:text=\"x\""));
    assert_eq!(row["timestamp"], json!(sent.timestamp.timestamp_micros()));
    assert_eq!(row["person_id"], json!(person_id(team, "ada").to_string()));
    assert_eq!(parsed(&row["person_properties"]), json!({}));
    assert_eq!(row["created_at"], json!(time(10).timestamp_micros()));
    assert_eq!(row["_inserted_at"], json!(time(10).timestamp_micros()));
}

pub(crate) async fn an_interval_has_its_start_and_not_its_end(store: &Events, team: i64) {
    for second in 20..30 {
        append(store, team, vec![event(&second.to_string(), "ada", json!({}))], second).await;
    }
    for (start, end) in [(20, 30), (22, 25), (0, 21), (29, 100), (25, 25), (30, 40), (0, 20)] {
        let rows = read(
            store,
            scan(team, Query::of(Model::Events, &[Column::Event]), start, end),
        )
        .await;
        let names: Vec<_> = rows.iter().map(|row| row["event"].clone()).collect();
        let expected: Vec<_> = (start.max(20)..end.min(30))
            .map(|second| json!(second.to_string()))
            .collect();
        assert_eq!(names, expected, "[{start}, {end})");
    }
    assert_eq!(store.earliest(team, Model::Events).await.unwrap(), Some(time(20)));
}

pub(crate) async fn a_limit_and_a_count_agree_with_the_rows(store: &Events, team: i64) {
    let many = (0..100).map(|n| event(&n.to_string(), "ada", json!({}))).collect();
    append(store, team, many, 40).await;
    for limit in [None, Some(0), Some(1), Some(99), Some(100), Some(1000)] {
        let mut scan = scan(team, Query::of(Model::Events, &[Column::Event]), 40, 41);
        scan.limit = limit;
        let rows = read(store, scan.clone()).await;
        assert_eq!(rows.len(), limit.unwrap_or(100).min(100));
        assert_eq!(store.count(scan).await.unwrap(), rows.len() as u64, "{limit:?}");
    }
    let mut from_the_beginning = scan(team, Query::of(Model::Events, &[Column::Event]), 40, 41);
    from_the_beginning.start = None;
    assert_eq!(store.count(from_the_beginning).await.unwrap(), 100);
}

pub(crate) async fn teams_do_not_see_each_other(store: &Events, team: i64) {
    append(store, team, vec![event("mine", "ada", json!({"$set": {"a": 1}}))], 50).await;
    append(
        store,
        team + 1,
        vec![event("theirs", "ada", json!({"$set": {"a": 2}}))],
        50,
    )
    .await;
    assert_eq!(column(store, team, Column::Event).await, [json!("mine")]);
    assert_eq!(column(store, team + 1, Column::Event).await, [json!("theirs")]);
    for (team, a) in [(team, 1), (team + 1, 2)] {
        let persons = read(store, scan(team, all_columns(Model::Persons), 0, 60)).await;
        assert_eq!(persons.len(), 1);
        assert_eq!(parsed(&persons[0]["properties"]), json!({"a": a}));
    }
}

pub(crate) async fn a_condition_is_kept(store: &Events, team: i64) {
    let many = (0..100).map(|n| {
        event(
            if n % 10 == 0 { "tenth" } else { "other" },
            &format!("id-{n}"),
            json!({"n": n}),
        )
    });
    append(store, team, many.collect(), 60).await;
    let condition = Expr::In {
        expr: Box::new(Expr::Column(Column::Event)),
        list: vec![Expr::Value(Literal::Text("tenth".to_owned()))],
        is_negated: false,
    };
    let query = Query::of(Model::Events, &[Column::DistinctId]).and(condition);
    let rows = read(store, scan(team, query.clone(), 60, 61)).await;
    let ids: Vec<_> = rows.iter().map(|row| row["distinct_id"].clone()).collect();
    let expected: Vec<_> = (0..100).step_by(10).map(|n| json!(format!("id-{n}"))).collect();
    assert_eq!(ids, expected);
    assert_eq!(store.count(scan(team, query, 60, 61)).await.unwrap(), 10);
}

pub(crate) async fn a_team_without_rows_has_none(store: &Events, team: i64) {
    for model in [Model::Events, Model::Persons] {
        assert!(read(store, scan(team, all_columns(model), 0, 100)).await.is_empty());
        assert_eq!(store.count(scan(team, all_columns(model), 0, 100)).await.unwrap(), 0);
        assert_eq!(store.earliest(team, model).await.unwrap(), None);
    }
}

pub(crate) async fn an_event_carries_the_person_as_it_is_after_it(store: &Events, team: i64) {
    let told = [
        json!({"$set": {"plan": "free"}, "$set_once": {"first": 1}}),
        json!({}),
        json!({"$set": {"plan": "paid"}, "$set_once": {"first": 2}}),
        json!({"$unset": ["plan"]}),
    ];
    for (n, told) in told.into_iter().enumerate() {
        append(
            store,
            team,
            vec![event("x", "ada", told)],
            70 + i64::try_from(n).unwrap(),
        )
        .await;
    }
    let carried: Vec<_> = column(store, team, Column::PersonProperties)
        .await
        .iter()
        .map(parsed)
        .collect();
    assert_eq!(
        carried,
        [
            json!({"plan": "free", "first": 1}),
            json!({"plan": "free", "first": 1}),
            json!({"plan": "paid", "first": 1}),
            json!({"first": 1}),
        ]
    );
}

pub(crate) async fn identifying_makes_two_persons_one(store: &Events, team: i64) {
    append(
        store,
        team,
        vec![event("a", "anon", json!({"$set": {"x": 1, "y": 1}}))],
        80,
    )
    .await;
    append(store, team, vec![event("b", "ada", json!({"$set": {"y": 2}}))], 81).await;
    let identify = event(
        "$identify",
        "ada",
        json!({"$anon_distinct_id": "anon", "$set": {"z": 3}}),
    );
    append(store, team, vec![identify], 82).await;
    append(store, team, vec![event("c", "anon", json!({}))], 83).await;

    let ada = json!(person_id(team, "ada").to_string());
    let ids = column(store, team, Column::PersonId).await;
    assert_eq!(
        ids,
        [
            json!(person_id(team, "anon").to_string()),
            ada.clone(),
            ada.clone(),
            ada.clone()
        ]
    );
    let last = column(store, team, Column::PersonProperties).await.pop().unwrap();
    assert_eq!(parsed(&last), json!({"x": 1, "y": 2, "z": 3}));

    let persons = read(store, scan(team, all_columns(Model::Persons), 82, 83)).await;
    assert_eq!(persons.len(), 2, "{persons:?}");
    for person in &persons {
        assert_eq!(person["person_id"], ada);
        assert_eq!(person["is_deleted"], json!(false));
        assert_eq!(parsed(&person["properties"]), json!({"x": 1, "y": 2, "z": 3}));
        let moved = person["distinct_id"] == "anon";
        assert_eq!(person["person_distinct_id_version"].as_i64().unwrap() > 0, moved);
    }
}

pub(crate) async fn a_known_person_is_not_swallowed(store: &Events, team: i64) {
    for (name, anonymous) in [("ada", "anon-1"), ("bob", "anon-2")] {
        let identify = event(
            "$identify",
            name,
            json!({"$anon_distinct_id": anonymous, "$set": {"name": name}}),
        );
        append(store, team, vec![identify], 90).await;
    }
    let told = json!({"$anon_distinct_id": "bob", "alias": "bob"});
    append(store, team, vec![event("$identify", "ada", told.clone())], 91).await;
    assert_eq!(
        persons_of(store, team).await["bob"],
        persons_of(store, team).await["anon-2"]
    );
    assert_ne!(
        persons_of(store, team).await["bob"],
        persons_of(store, team).await["ada"]
    );

    append(store, team, vec![event("$merge_dangerously", "ada", told)], 92).await;
    let persons = persons_of(store, team).await;
    assert!(persons.values().all(|person| person == &persons["ada"]), "{persons:?}");
}

pub(crate) async fn an_alias_is_a_second_name(store: &Events, team: i64) {
    append(
        store,
        team,
        vec![event("$create_alias", "ada", json!({"alias": "countess"}))],
        100,
    )
    .await;
    append(
        store,
        team,
        vec![event("x", "countess", json!({"$set": {"a": 1}}))],
        101,
    )
    .await;
    let persons = persons_of(store, team).await;
    assert_eq!(persons["ada"], persons["countess"]);
}

pub(crate) async fn an_event_may_have_no_person(store: &Events, team: i64) {
    let told = json!({"$process_person_profile": false, "$set": {"a": 1}});
    append(
        store,
        team,
        vec![event("x", "ada", told), event("$groupidentify", "bob", json!({}))],
        110,
    )
    .await;
    assert!(persons_of(store, team).await.is_empty());
    let ids = column(store, team, Column::PersonId).await;
    assert_eq!(ids, ["ada", "bob"].map(|name| json!(person_id(team, name).to_string())));
    let carried: Vec<_> = column(store, team, Column::PersonProperties)
        .await
        .iter()
        .map(parsed)
        .collect();
    assert_eq!(carried, [json!({}), json!({})]);
}

pub(crate) async fn persons_are_listed_when_they_or_their_ids_changed(store: &Events, team: i64) {
    append(
        store,
        team,
        vec![
            event("x", "ada", json!({"$set": {"a": 1}})),
            event("x", "bob", json!({})),
        ],
        120,
    )
    .await;
    append(store, team, vec![event("x", "ada", json!({"$set": {"a": 1}}))], 121).await;
    append(store, team, vec![event("x", "ada", json!({"$set": {"a": 2}}))], 122).await;
    append(
        store,
        team,
        vec![event("$create_alias", "bob", json!({"alias": "rob"}))],
        123,
    )
    .await;
    let listed = async |start, end| {
        let rows = read(
            store,
            scan(team, Query::of(Model::Persons, &[Column::DistinctId]), start, end),
        )
        .await;
        let mut ids: Vec<_> = rows
            .iter()
            .map(|row| row["distinct_id"].as_str().unwrap().to_owned())
            .collect();
        ids.sort();
        ids
    };
    assert!(
        listed(121, 122).await.is_empty(),
        "saying what is known changes nothing"
    );
    assert_eq!(listed(122, 123).await, ["ada"]);
    assert_eq!(listed(123, 124).await, ["bob", "rob"]);
    assert_eq!(listed(0, 200).await, ["ada", "bob", "rob"]);
    assert_eq!(
        store
            .count(scan(team, all_columns(Model::Persons), 0, 200))
            .await
            .unwrap(),
        3
    );
}

pub(crate) async fn expressions_and_columns_stand_where_they_were_asked_for(store: &Events, team: i64) {
    let (one, two) = (
        event("one", "ada", json!({"plan": "free"})),
        event("two", "bob", json!({"plan": "paid"})),
    );
    append(store, team, vec![one, two.clone()], 130).await;
    let uuid = two.uuid.unwrap().to_string();
    let mut query = Query::of(Model::Events, &[Column::Uuid, Column::Event]).and(Expr::In {
        expr: Box::new(Expr::Column(Column::Uuid)),
        list: vec![Expr::Value(Literal::Text(uuid.clone()))],
        is_negated: false,
    });
    let plan = Field {
        alias: "plan".to_owned(),
        expr: Expr::Property {
            column: Column::Properties,
            path: vec!["plan".to_owned()],
        },
        kind: Type::Text,
    };
    query.fields.insert(1, plan);
    let found = batches(store, scan(team, query, 130, 131)).await;
    let [batch] = found.as_slice() else { panic!("{found:?}") };
    let values: Vec<_> = batch
        .columns()
        .iter()
        .map(|column| column.as_string::<i32>().value(0))
        .collect();
    assert_eq!(values, [uuid.as_str(), "paid", "two"]);
    assert_eq!(batch.num_rows(), 1);
}

/// What anybody may send who has a token must not grow without end: every event carries its person's properties.
pub(crate) async fn a_person_has_only_so_many_properties(store: &Events, team: i64) {
    let values = Value::Array(vec![json!({"": 1}); 3_000]);
    let long = "x".repeat(MAX_PROPERTY_BYTES / 2);
    let told = [
        ("ada", json!({"$set": {"a": values}})),
        ("ada", json!({"$set": {"b": values}})),
        ("ada", json!({"$set": {"c": 1}})),
        ("bob", json!({"$set": {"a": long}})),
        ("bob", json!({"$set": {"b": long}})),
        ("bob", json!({"$set": {"b": long}, "$unset": ["a"]})),
        ("eve", json!({"$set": {"a": long}})),
    ];
    for (n, (name, told)) in told.into_iter().enumerate() {
        let second = 300 + i64::try_from(n).unwrap();
        append(store, team, vec![event("x", name, told)], second).await;
    }
    append(store, team, vec![event("x", "dan", json!({"$set": {"d": long}}))], 310).await;
    let merge = event("$merge_dangerously", "eve", json!({"alias": "dan"}));
    append(store, team, vec![merge], 311).await;
    let carried = column(store, team, Column::PersonProperties).await;
    let keys = |value: &Value| -> Vec<String> { parsed(value).as_object().unwrap().keys().cloned().collect() };
    let keys: Vec<_> = carried.iter().map(keys).collect();
    assert_eq!(
        keys[..3],
        [vec!["a"], vec!["a"], vec!["a", "c"]],
        "an event stays, what it sets is left out"
    );
    assert_eq!(keys[3..5], [vec!["a"], vec!["a"]]);
    assert_eq!(keys[5], ["b"], "what is removed makes room");
    assert_eq!(
        keys[6..],
        [vec!["a"], vec!["d"], vec!["a"]],
        "the one who stays keeps theirs"
    );
    assert_eq!(persons_of(store, team).await["dan"], person_id(team, "eve").to_string());
}

/// A few bytes of an event may stand for half a megabyte of its person.
pub(crate) async fn a_request_takes_only_so_much_of_its_persons(store: &Events, team: i64) {
    let long = "x".repeat(MAX_PROPERTY_BYTES - 100);
    append(store, team, vec![event("x", "ada", json!({"$set": {"a": long}}))], 320).await;
    let many = (0..100).map(|_| event("y", "ada", json!({})));
    let new = event("y", "bob", json!({"$set": {"b": 1}}));
    append(store, team, many.chain([new]).collect(), 321).await;
    let carried = column(store, team, Column::PersonProperties).await;
    assert_eq!(carried.len(), 102, "all events are there");
    let full = carried
        .iter()
        .filter(|value| value.as_str().unwrap().len() > 1000)
        .count();
    assert!((2..=20).contains(&full), "{full}");
    let ids = column(store, team, Column::PersonId).await;
    assert_eq!(ids[50], json!(person_id(team, "ada").to_string()));
    assert_eq!(persons_of(store, team).await.len(), 2);
    append(store, team, vec![event("z", "ada", json!({}))], 322).await;
    let last = column(store, team, Column::PersonProperties).await.pop().unwrap();
    assert!(last.as_str().unwrap().len() > 1000, "the next request starts again");
}

pub(crate) async fn an_event_has_only_so_many_bytes(store: &Events, team: i64) {
    let sized = |name: &str, bytes: usize| event(name, "ada", json!({ "a": "x".repeat(bytes) }));
    let small = || event("x", "ada", json!({}));
    let refused = store
        .append(team, vec![small(), sized("x", MAX_EVENT_BYTES)], time(330))
        .await;
    assert!(matches!(refused, Err(Error::EventTooLarge(1))), "{refused:?}");
    let unused = json!({ "$elements": [{ "unused": "x".repeat(MAX_EVENT_BYTES) }] });
    let refused = store.append(team, vec![event("x", "ada", unused)], time(330)).await;
    assert!(
        matches!(refused, Err(Error::EventTooLarge(0))),
        "what is left out counts: {refused:?}"
    );
    append(store, team, vec![sized("x", MAX_EVENT_BYTES - 100)], 331).await;
    append(store, team, vec![sized("$ai_generation", 8 * MAX_EVENT_BYTES)], 332).await;
    assert_eq!(
        column(store, team, Column::Event).await,
        [json!("x"), json!("$ai_generation")]
    );
}

async fn an_event_removes_only_so_many_properties(store: &Events, team: i64) {
    let numbers = |count: usize| -> Value { (0..count).collect() };
    let fields = |count: usize| -> Value { (0..count).map(|number| (number.to_string(), Value::Null)).collect() };
    for names in [numbers(MAX_UNSET + 1), fields(MAX_UNSET + 1)] {
        let event = event("x", "ada", json!({ "$unset": names }));
        let refused = store.append(team, vec![event], time(410)).await;
        assert!(matches!(refused, Err(Error::EventTooLarge(0))), "{refused:?}");
    }
    let sets = event("x", "ada", json!({ "$set": { "1": 1, "a": 1 } }));
    let removes = event("y", "ada", json!({ "$unset": numbers(MAX_UNSET) }));
    append(store, team, vec![sets], 411).await;
    append(store, team, vec![removes], 412).await;
    let last = column(store, team, Column::PersonProperties).await.pop().unwrap();
    assert_eq!(parsed(&last), json!({ "a": 1 }));
}

/// Whose each distinct id is.
async fn persons_of(store: &Events, team: i64) -> HashMap<String, String> {
    let query = Query::of(Model::Persons, &[Column::DistinctId, Column::PersonId]);
    let rows = read(store, scan(team, query, -1_000_000, 1_000_000)).await;
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    rows.iter()
        .map(|row| (text(&row["distinct_id"]), text(&row["person_id"])))
        .collect()
}

async fn a_person_has_only_so_many_ids_and_keeps_its_events(store: &Events, team: i64) {
    let alias = |n: usize| {
        let told = json!({ "alias": format!("id-{n}"), "$set": { "last": n } });
        event("$create_alias", "guest-list", told)
    };
    append(store, team, (0..1_100).map(alias).collect(), 500).await;
    let persons = persons_of(store, team).await;
    let own = &persons["guest-list"];
    assert_eq!(persons.values().filter(|person| *person == own).count(), 1_000);
    let of_events = column(store, team, Column::PersonId).await;
    assert!(
        of_events.iter().all(|person| person == own),
        "also those of aliases that came too late"
    );
    let properties = column(store, team, Column::PersonProperties).await;
    assert!(properties.iter().any(|one| parsed(one)["last"] == 1_099));
}

async fn reading_ends_after_so_many_bytes(store: &Events, team: i64) {
    let heavy = |number: usize| {
        event(
            &number.to_string(),
            "ann",
            json!({ "a": vec![json!({ "": 0 }); 20_000] }),
        )
    };
    store.append(team, (0..40).map(heavy).collect(), time(0)).await.unwrap();
    // They came in now, or later if others drew a line.
    let end = time(1_000_000_000);
    let most = |events, bytes| Most { events, bytes };
    let read = async |skip, most| store.stored(team, time(0), end, skip, most).await.unwrap();
    let few = read(0, most(1000, 1_000_000)).await;
    assert!(
        !few.is_end && (2..10).contains(&few.events.len()),
        "{}",
        few.events.len()
    );
    assert!(few.events.iter().map(Stored::bytes).sum::<usize>() <= 1_000_000);
    assert_eq!(read(0, most(1000, 0)).await.events.len(), 1, "always one");
    assert_eq!(read(0, most(5, usize::MAX)).await.events.len(), 5);
    let all = read(10, most(1000, usize::MAX)).await;
    assert_eq!((all.events.len(), all.is_end), (30, true));
    assert_eq!(all.events[0].event, "10");
    assert_eq!(all.events[0].properties.get().len(), 20_000 * 7 + 7);
}

async fn large_events_are_read_alone(store: &Events, team: i64) {
    let text = "x".repeat(600 << 10);
    let large = || event("large", "ann", json!({ "text": text }));
    let small = || event("small", "ann", json!({}));
    store
        .append(
            team,
            vec![small(), small(), large(), large(), event("$identify", "bob", json!({}))],
            time(0),
        )
        .await
        .unwrap();
    let end = time(1_000_000_000);
    let most = Most {
        events: 1000,
        bytes: 100_000,
    };
    let (mut skip, mut read) = (0, Vec::new());
    loop {
        let StoredEvents { events, is_end } = store.stored(team, time(0), end, skip, most).await.unwrap();
        assert!(
            events.iter().map(Stored::bytes).sum::<usize>() <= 100_000,
            "nothing large is in memory"
        );
        if let [one] = events.as_slice()
            && !one.is_whole
        {
            let whole = store.stored_event(team, time(0), end, skip).await.unwrap().unwrap();
            assert_eq!((&whole.uuid, whole.is_whole), (&one.uuid, true));
            assert!(whole.properties.get().len() > 600 << 10);
            assert_eq!(one.properties.get(), "null");
        }
        assert!(events.iter().all(|event| event.is_whole) || events.len() == 1);
        skip += events.len();
        read.extend(events.into_iter().map(|event| (event.event, event.is_whole)));
        if is_end {
            break;
        }
    }
    read.sort();
    let expected = [
        ("$identify", true),
        ("large", false),
        ("large", false),
        ("small", true),
        ("small", true),
    ];
    assert_eq!(read, expected.map(|(event, is_whole)| (event.to_owned(), is_whole)));
    assert!(store.stored_event(team, time(0), end, skip).await.unwrap().is_none());
}

/// A distinct id changes when it gets a person, when its person changes, and when it goes over to another.
async fn a_row_of_persons_is_in_the_interval_of_its_last_change(store: &Events, team: i64) {
    let alias = |name: &str, other: &str| event("$create_alias", name, json!({ "alias": other }));
    append(store, team, vec![alias("ada", "ada-1"), alias("bob", "bob-1")], 400).await;
    append(store, team, vec![event("x", "eve", json!({}))], 401).await;
    append(store, team, vec![alias("ada", "ada-2")], 402).await;
    append(store, team, vec![alias("bob", "bob-2")], 403).await;
    append(store, team, vec![event("x", "bob-1", json!({"$set": {"a": 1}}))], 404).await;
    append(store, team, vec![alias("bob", "bob-3"), alias("ada", "ada-3")], 405).await;
    append(store, team, vec![event("x", "zoe", json!({"$set": {"a": 1}}))], 406).await;
    append(store, team, vec![alias("zoe", "eve")], 407).await;
    append(store, team, vec![alias("zoe", "eve-1")], 408).await;
    let expected = [
        (400, vec!["ada", "ada-1"]),
        (401, vec![]),
        (402, vec!["ada-2"]),
        (403, vec![]),
        (404, vec!["bob", "bob-1", "bob-2"]),
        (405, vec!["ada-3", "bob-3"]),
        (406, vec![]),
        (407, vec!["eve", "zoe"]),
        (408, vec!["eve-1"]),
    ];
    for (second, expected) in expected {
        let scan = scan(team, all_columns(Model::Persons), second, second + 1);
        let rows = read(store, scan.clone()).await;
        let mut ids: Vec<_> = rows.iter().map(|row| row["distinct_id"].as_str().unwrap()).collect();
        ids.sort_unstable();
        assert_eq!(ids, expected, "changed in second {second}");
        let at = json!(time(second).timestamp_micros());
        assert!(rows.iter().all(|row| row["_inserted_at"] == at), "{rows:?}");
        assert_eq!(store.count(scan).await.unwrap(), ids.len() as u64);
    }
    let rows = read(store, scan(team, all_columns(Model::Persons), 0, 1000)).await;
    let times: Vec<_> = rows.iter().map(|row| row["_inserted_at"].as_i64().unwrap()).collect();
    assert!(times.len() == 11 && times.is_sorted(), "{times:?}");
    assert_eq!(store.earliest(team, Model::Persons).await.unwrap(), Some(time(400)));
}
