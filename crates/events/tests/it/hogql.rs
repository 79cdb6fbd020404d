//! The same queries on both engines: every expression gives the same there, and is of the kind it said.

use ::hogql::{Expr, Model, Value as Literal, parse};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{Array, ArrayRef};
use chrono::DateTime;
use events::clickhouse::ClickHouse;
use events::{Events, Incoming, Scan, schema};
use outbound::{Dialer, Http, Policy, Roots};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use testkit::external;

use crate::folder::Folder;
use crate::suite::{all_columns, time};

#[path = "../../../hogql/tests/it/cases.rs"]
mod cases;
#[path = "../../../hogql/tests/it/expressions.rs"]
mod expressions;

use cases::{CASES, Gives, TEAM};

/// The event of the cases.
fn incoming() -> Incoming {
    let mut properties: serde_json::Map<_, _> = serde_json::from_str(cases::PROPERTIES).unwrap();
    let person: Value = serde_json::from_str(cases::PERSON_PROPERTIES).unwrap();
    properties.insert("$set".to_owned(), person);
    Incoming {
        uuid: Some(cases::UUID.parse().unwrap()),
        event: cases::EVENT.to_owned(),
        distinct_id: cases::DISTINCT_ID.to_owned(),
        properties,
        timestamp: DateTime::from_timestamp_micros(cases::TIMESTAMP).unwrap(),
    }
}

/// The rows of a query, each column as it came; or why there are none.
async fn rows(store: &Events, text: &str) -> Result<Vec<Vec<Value>>, String> {
    let query = parse(text).map_err(|error| error.to_string())?;
    let expected = schema(&query);
    let mut rows = store.scan(Scan {
        team: TEAM,
        query,
        start: None,
        end: time(1000),
        skip: 0,
        limit: None,
    });
    let mut found = Vec::new();
    while let Some(batch) = rows.next().await {
        let batch = batch.map_err(|error| format!("{error}: {error:?}"))?;
        assert_eq!(batch.schema().fields(), expected.fields(), "{text}");
        found.extend((0..batch.num_rows()).map(|row| batch.columns().iter().map(|column| cell(column, row)).collect()));
    }
    Ok(found)
}

/// What expressions give for the one event.
async fn results(store: &Events, texts: &[String]) -> Result<Vec<Value>, String> {
    let fields: Vec<_> = texts
        .iter()
        .enumerate()
        .map(|(n, text)| format!("{text} AS r{n}"))
        .collect();
    let mut rows = rows(store, &format!("SELECT {} FROM events", fields.join(", "))).await?;
    assert_eq!(rows.len(), 1, "one row for one event");
    Ok(rows.remove(0))
}

/// Numbers are told apart by kind: a fraction is shown as text.
fn cell(column: &ArrayRef, row: usize) -> Value {
    use arrow_schema::DataType;
    match column.data_type() {
        _ if column.is_null(row) => Value::Null,
        DataType::Utf8 => json!(column.as_string::<i32>().value(row)),
        DataType::Int64 => json!(column.as_primitive::<Int64Type>().value(row)),
        DataType::Float64 => json!({ "float": format!("{:?}", column.as_primitive::<Float64Type>().value(row)) }),
        DataType::Boolean => json!(column.as_boolean().value(row)),
        _ => json!({ "time": column.as_primitive::<TimestampMicrosecondType>().value(row) }),
    }
}

fn expected(gives: &Gives) -> Value {
    match gives {
        Gives::Text(text) | Gives::Json(text) => json!(text),
        Gives::Int(number) => json!(number),
        Gives::Float(number) => json!({ "float": format!("{number:?}") }),
        Gives::Bool(is_true) => json!(is_true),
        Gives::Time(text) => {
            let query = parse(&format!("SELECT toDateTime('{text}') FROM events")).unwrap();
            let Expr::Value(Literal::Time(time)) = query.fields[0].expr else {
                panic!("{text} is a time")
            };
            json!({ "time": time })
        }
        Gives::Null => Value::Null,
    }
}

async fn every_case_gives_what_it_should(store: &Events) {
    store.append(TEAM, vec![incoming()], time(0)).await.unwrap();
    let mut wrong = Vec::new();
    for cases in CASES.chunks(40) {
        let texts: Vec<_> = cases.iter().map(|(text, _)| (*text).to_owned()).collect();
        let given = results(store, &texts).await.unwrap();
        for ((text, gives), given) in cases.iter().zip(given) {
            if given != expected(gives) {
                wrong.push(format!("{text}: {given} instead of {}", expected(gives)));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    conditions_and_names_do_not_meet(store).await;
    the_deepest_queries_run(store).await;
    all_columns_can_be_asked_for(store).await;
}

async fn conditions_and_names_do_not_meet(store: &Events) {
    let text = "SELECT upper(event) AS event, event AS e, team_id AS timestamp, properties.n AS `x\", \\'y` FROM events \
                WHERE event = '$pageview' AND timestamp > '2024-01-01' AND properties.n LIKE '5'";
    let row = vec![json!("$PAGEVIEW"), json!("$pageview"), json!(TEAM), json!("5")];
    assert_eq!(rows(store, text).await, Ok(vec![row]));
    for filter in [
        "event = 'other'",
        "properties.missing = 'a'",
        "NOT (properties.missing = 'a')",
        "toInt(event) = 1",
    ] {
        assert_eq!(
            rows(store, &format!("SELECT event FROM events WHERE {filter}")).await,
            Ok(vec![]),
            "{filter}"
        );
    }
}

async fn the_deepest_queries_run(store: &Events) {
    let mut branches = "1.5".to_owned();
    for _ in 0..48 {
        branches = format!("if(event = 'x', 0, {branches})");
    }
    let texts = [
        vec!["team_id"; 190].join(" + "),
        vec!["1.5"; 190].join(" * "),
        format!(
            "{}timestamp{}",
            "toStartOfMonth(toDateTime(".repeat(24),
            "))".repeat(24)
        ),
        branches,
        vec!["properties.n IN (5) AND NOT (properties.missing LIKE 'a%' OR false)"; 60].join(" AND "),
    ];
    for text in texts {
        let given = rows(store, &format!("SELECT {text} AS result FROM events")).await;
        assert!(given.as_ref().is_ok_and(|rows| rows.len() == 1), "{text}: {given:?}");
    }
    let fields: Vec<_> = (0..300).map(|n| format!("properties.a{n} AS a{n}")).collect();
    let given = rows(store, &format!("SELECT {} FROM events", fields.join(", "))).await;
    assert_eq!(given, Ok(vec![vec![Value::Null; 300]]));
}

async fn all_columns_can_be_asked_for(store: &Events) {
    for model in [Model::Events, Model::Persons] {
        let given = rows(store, &all_columns(model).to_string()).await.unwrap();
        assert_eq!(given.len(), 1, "{}", model.name());
    }
    let text = "SELECT properties.email, toInt(properties.age) AS age, is_deleted FROM persons WHERE NOT is_deleted";
    let row = vec![json!("ada@example.com"), json!(36), json!(false)];
    assert_eq!(rows(store, text).await, Ok(vec![row]));
}

#[tokio::test]
async fn the_embedded_store_runs_every_expression() {
    let folder = Folder::new();
    every_case_gives_what_it_should(&folder.open()).await;
}

async fn clickhouse(server: &external::ClickHouse) -> Events {
    let http = Http::new(Dialer::new(Policy::for_the_operator()), &Roots::default()).unwrap();
    Events::ClickHouse(ClickHouse::open(&server.store_url(), http).await.unwrap())
}

#[tokio::test]
async fn clickhouse_runs_every_expression() {
    let server = external::ClickHouse::start();
    every_case_gives_what_it_should(&clickhouse(&server).await).await;
}

#[tokio::test]
async fn both_engines_agree_on_what_chance_puts_together() {
    let (server, folder) = (external::ClickHouse::start(), Folder::new());
    let (one, other) = (folder.open(), clickhouse(&server).await);
    for store in [&one, &other] {
        store.append(TEAM, vec![incoming()], time(0)).await.unwrap();
    }
    let mut runner = TestRunner::deterministic();
    let (mut compared, mut wrong) = (0, Vec::new());
    for _ in 0..5 {
        let four = || expressions::expressions().new_tree(&mut runner).unwrap().current();
        let texts = std::iter::repeat_with(four)
            .take(8)
            .flat_map(|four| [four.text, four.number, four.condition, four.time]);
        let texts: Vec<_> = texts
            .filter(|text| parse(&format!("SELECT {text} AS a FROM events")).is_ok())
            .collect();
        let (left, right) = (results(&one, &texts).await, results(&other, &texts).await);
        let (Ok(left), Ok(right)) = (&left, &right) else {
            panic!("{}\n{left:?}\n{right:?}", texts.join("\n"))
        };
        for ((text, left), right) in texts.iter().zip(left).zip(right) {
            compared += 1;
            if left != right {
                wrong.push(format!("{text}\n  embedded: {left}\n  ClickHouse: {right}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {compared}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(compared > 100, "{compared}");
}
