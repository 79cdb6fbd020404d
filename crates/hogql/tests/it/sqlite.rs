//! Every case on the real SQLite.

use hogql::{Column, Dialect, Query, Type, Value, parse, scalars};
use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::{Value as Stored, ValueRef};
use rusqlite::{Connection, params, params_from_iter};

use crate::cases::{self, CASES, Gives};

fn connection() -> Connection {
    let connection = Connection::open_in_memory().expect("a database in memory");
    let is_pure = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    for scalar in scalars::ALL {
        let call = |context: &Context<'_>| {
            let arguments: Vec<_> = (0..context.len())
                .map(|index| argument(context.get_raw(index)))
                .collect();
            Ok(stored(scalar.call(&arguments).expect("a short text")))
        };
        connection
            .create_scalar_function(scalar.name, scalar.arity, is_pure, call)
            .expect("SQLite does as it is told");
    }
    connection
        .execute_batch(
            "CREATE TABLE events (uuid TEXT, team_id INTEGER, event TEXT, distinct_id TEXT, properties TEXT, elements_chain TEXT,
                timestamp INTEGER, person_id TEXT, person_properties TEXT, created_at INTEGER, _inserted_at INTEGER) STRICT",
        )
        .expect("SQLite does as it is told");
    let row = params![
        cases::UUID,
        cases::TEAM,
        cases::EVENT,
        cases::DISTINCT_ID,
        cases::PROPERTIES,
        "",
        cases::TIMESTAMP,
        cases::UUID,
        cases::PERSON_PROPERTIES,
        0,
        0
    ];
    connection
        .execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        .expect("SQLite does as it is told");
    connection
}

fn argument(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Integer(number) => Value::Int(number),
        ValueRef::Real(number) => Value::Float(number),
        ValueRef::Text(text) => Value::Text(String::from_utf8(text.to_vec()).expect("text in UTF-8")),
        ValueRef::Null => Value::Null,
        ValueRef::Blob(_) => panic!("no expression gives bytes"),
    }
}

fn stored(value: Value) -> Stored {
    match value {
        Value::Text(text) => Stored::Text(text),
        Value::Int(number) => Stored::Integer(number),
        Value::Float(number) => Stored::Real(number),
        Value::Null => Stored::Null,
        other => panic!("neither a parameter nor a result: {other:?}"),
    }
}

/// The rows of a query, as SQLite gives them.
fn run(connection: &Connection, query: &Query) -> Vec<Vec<Value>> {
    let rendered = query.render(Dialect::Sqlite, &|column: Column| format!("events.{}", column.name()));
    let filter = rendered.filter.unwrap_or_else(|| "1".to_owned());
    let sql = format!("SELECT {} FROM events WHERE {filter}", rendered.columns);
    let mut statement = connection
        .prepare(&sql)
        .unwrap_or_else(|error| panic!("{query}: {sql}: {error}"));
    assert_eq!(
        statement.column_names(),
        query.fields.iter().map(|field| &field.alias).collect::<Vec<_>>()
    );
    let parameters = params_from_iter(rendered.parameters.into_iter().map(stored));
    let width = query.fields.len();
    let rows = statement.query_map(parameters, |row| {
        (0..width).map(|at| Ok(argument(row.get_ref(at)?))).collect()
    });
    rows.expect("SQLite does as it is told")
        .collect::<Result<_, _>>()
        .unwrap_or_else(|error| panic!("{query}: {sql}: {error}"))
}

fn expected(gives: &Gives) -> (Option<Type>, Value) {
    match gives {
        Gives::Text(text) => (Some(Type::Text), Value::Text((*text).to_owned())),
        Gives::Json(text) => (Some(Type::Json), Value::Text((*text).to_owned())),
        Gives::Int(number) => (Some(Type::Int), Value::Int(*number)),
        Gives::Float(number) => (Some(Type::Float), Value::Float(*number)),
        Gives::Bool(is_true) => (Some(Type::Bool), Value::Int((*is_true).into())),
        Gives::Time(text) => {
            let query = parse(&format!("SELECT toDateTime('{text}') FROM events")).expect("a time");
            let hogql::Expr::Value(Value::Time(time)) = query.fields[0].expr else {
                panic!("{text} is a time")
            };
            (Some(Type::Time), Value::Int(time))
        }
        Gives::Null => (None, Value::Null),
    }
}

#[test]
fn every_expression_gives_on_sqlite_what_it_should() {
    let connection = connection();
    let mut wrong = Vec::new();
    for (text, gives) in CASES {
        let query = match parse(&format!("SELECT {text} AS result FROM events")) {
            Ok(query) => query,
            Err(error) => {
                wrong.push(format!("{text}: {error}"));
                continue;
            }
        };
        let (kind, value) = expected(gives);
        let rows = run(&connection, &query);
        if rows != [[value.clone()]] {
            wrong.push(format!("{text}: {rows:?} instead of {value:?}"));
        }
        if kind.is_some_and(|kind| kind != query.fields[0].kind) {
            wrong.push(format!("{text} is {:?} instead of {kind:?}", query.fields[0].kind));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_function_has_a_case() {
    for function in hogql::Function::ALL {
        let call = format!("{}(", function.name());
        assert!(CASES.iter().any(|(text, _)| text.contains(&call)), "{call}");
    }
}

#[test]
fn conditions_choose_rows() {
    let connection = connection();
    let count = |filter: &str| {
        run(
            &connection,
            &parse(&format!("SELECT event FROM events WHERE {filter}")).unwrap(),
        )
        .len()
    };
    assert_eq!(count("properties.n = '5' AND event LIKE '$page%'"), 1);
    assert_eq!(count("properties.missing = '5'"), 0);
    assert_eq!(count("NOT (properties.missing = '5')"), 0);
    assert_eq!(count("false"), 0);
}

#[test]
fn a_condition_means_the_column_and_not_the_alias_of_its_name() {
    let query = parse("SELECT upper(event) AS event, event AS e FROM events WHERE event = '$pageview'").unwrap();
    let texts = ["$PAGEVIEW", "$pageview"].map(|text| Value::Text(text.to_owned()));
    assert_eq!(run(&connection(), &query), [texts]);
}

#[test]
fn hostile_aliases_and_values_stay_what_they_are() {
    let alias = r#"x", (SELECT 1) AS "y\"; DROP TABLE events; --"#;
    let value = r"'); DROP TABLE events; -- {p1:String} ?1 $1 \";
    let quoted = value.replace('\\', "\\\\").replace('\'', "\\'");
    let query = parse(&format!("SELECT '{quoted}' AS `{alias}` FROM events")).unwrap();
    assert_eq!(query.fields[0].alias, alias);
    for dialect in [Dialect::Sqlite, Dialect::ClickHouse] {
        let rendered = query.render(dialect, &|column| column.name().to_owned());
        assert!(!rendered.columns.contains("-- {p1"), "{}", rendered.columns);
        assert_eq!(rendered.parameters, [Value::Text(value.to_owned())]);
    }
    assert_eq!(run(&connection(), &query), [[Value::Text(value.to_owned())]]);
}

#[test]
fn the_deepest_queries_run() {
    let connection = connection();
    let sum = vec!["team_id"; 190].join(" + ");
    let nested = format!("{}team_id{}", "abs(toInt(".repeat(24), "))".repeat(24));
    let mut branches = "1".to_owned();
    for _ in 0..48 {
        branches = format!("if(event = 'x', 0, {branches})");
    }
    for (text, value) in [(sum, 190 * 7), (nested, 7), (branches, 1)] {
        let query = parse(&format!("SELECT {text} AS result FROM events")).unwrap();
        assert_eq!(run(&connection, &query), [[Value::Int(value)]], "{text}");
    }
    let conditions = vec!["properties.n IN (5) AND NOT (properties.missing LIKE 'a%' OR false)"; 60].join(" AND ");
    run(
        &connection,
        &parse(&format!("SELECT event FROM events WHERE {conditions}")).unwrap(),
    );
}

/// The parser would read what is within brackets of `position` twice, at each depth.
#[test]
fn a_query_that_takes_the_parser_for_ever_is_refused() {
    let many = vec!["position(event, 'a')"; 20].join(" + ");
    assert!(parse(&format!("SELECT {many} AS result FROM events")).is_ok());
    let nested = format!("{}event{}", "Position (".repeat(48), ", 'a')".repeat(48));
    let refused = parse(&format!("SELECT {nested} AS result FROM events")).unwrap_err();
    assert!(refused.to_string().contains("nested too deeply"), "{refused}");
    for start in ["VALUES (", "values(", "VALUES ROW(", " SELECT (", " TABLE ("] {
        let nested = format!("{}1{}", format!("1 IN ( {start}").repeat(24), "), 2)".repeat(24));
        let refused = parse(&format!("SELECT {nested} AS result FROM events")).unwrap_err();
        assert!(refused.to_string().contains("nested too deeply"), "{start}: {refused}");
    }
}
