//! What ClickHouse as a store keeps to, on its own engine and on a genuine, old server.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use events::clickhouse::{ClickHouse, Client, Statement, identifier};
use events::{Error, Events};
use hogql::{Column, Expr, Model, Query, Value as Literal};
use outbound::{Dialer, Http, Policy, Roots};
use serde_json::{Value, json};
use testkit::external::{self, Cut, OldClickHouse};
use tokio::io::AsyncReadExt;
use tokio::task::JoinSet;

use crate::suite::{self, all_columns, batches, column, event, read, scan, time};

const TEAM: i64 = 3;

fn http() -> Http {
    Http::new(Dialer::new(Policy::for_the_operator()), &Roots::default()).unwrap()
}

pub(crate) async fn open(server: &external::ClickHouse) -> Events {
    Events::ClickHouse(ClickHouse::open(&server.store_url(), http()).await.unwrap())
}

fn client(url: &str, user: &str, password: &str) -> Client {
    Client::new(http(), url.parse().unwrap(), user, password, "default").unwrap()
}

#[tokio::test]
async fn clickhouse_passes_the_suite() {
    let server = external::ClickHouse::start();
    let store = open(&server).await;
    store.ping().await.unwrap();
    suite::all(&store, 100).await;
}

#[tokio::test]
async fn a_repeated_batch_is_stored_once_and_two_processes_agree_on_a_person() {
    let server = external::ClickHouse::start();
    let (one, two) = (open(&server).await, open(&server).await);
    let batch: Vec<_> = (0..50).map(|n| event("x", &n.to_string(), json!({}))).collect();
    one.append(TEAM, batch.clone(), time(1)).await.unwrap();
    one.append(TEAM, batch, time(2)).await.unwrap();
    assert_eq!(column(&one, TEAM, Column::Uuid).await.len(), 50);
    for n in 0..6 {
        let (store, key) = if n % 2 == 0 { (&one, "even") } else { (&two, "odd") };
        let told = event("x", "ada", json!({"$set": {key: n}}));
        store.append(TEAM + 1, vec![told], time(n)).await.unwrap();
    }
    let persons = read(&one, scan(TEAM + 1, all_columns(Model::Persons), 0, 100)).await;
    assert_eq!(persons.len(), 1);
    assert_eq!(persons[0]["properties"], json!("{\"even\":4,\"odd\":5}"));
}

#[tokio::test]
async fn many_callers_share_an_insert() {
    let server = external::ClickHouse::start();
    let store = open(&server).await;
    let appends: Vec<_> = (0..200)
        .map(|n| {
            let store = store.clone();
            tokio::spawn(async move {
                let sent = event("x", &format!("id-{}", n % 10), json!({"$set": {"n": n}}));
                store.append(TEAM, vec![sent], time(1)).await
            })
        })
        .collect();
    for append in appends {
        append.await.unwrap().unwrap();
    }
    assert_eq!(column(&store, TEAM, Column::Uuid).await.len(), 200);
    let parts = server.query("SELECT count() FROM system.parts WHERE table = 'hedgerow_events'");
    let parts: u32 = parts.trim().parse().unwrap();
    assert!(parts < 60, "{parts} inserts for 200 appends");
}

#[tokio::test]
async fn teams_of_one_insert_have_their_own_persons() {
    let server = external::ClickHouse::start();
    let store = open(&server).await;
    let set = |team: i64| event("x", "it's ada", json!({"$set": {"team": team}}));
    for round in 0..2 {
        let mut appends = JoinSet::new();
        for team in 1..=20 {
            let (store, batch) = (store.clone(), vec![set(team), set(team)]);
            appends.spawn(async move { store.append(team, batch, time(round)).await });
        }
        assert!(appends.join_all().await.iter().all(Result::is_ok));
    }
    for team in 1..=20 {
        let persons = read(&store, scan(team, all_columns(Model::Persons), 0, 100)).await;
        assert_eq!(persons.len(), 1);
        assert_eq!(persons[0]["properties"], json!(format!("{{\"team\":{team}}}")));
    }
}

/// Nobody waits until all persons of a large batch are looked up, or for the questions of many teams.
#[tokio::test]
async fn others_are_stored_between_the_parts_of_a_large_append() {
    let server = external::ClickHouse::start();
    let store = open(&server).await;
    let long = "\u{1f600}".repeat(190);
    let batch: Vec<_> = (0..6_000)
        .map(|n| event("x", &format!("{n}{long}"), json!({})))
        .collect();
    let large = tokio::spawn({
        let store = store.clone();
        async move { store.append(TEAM, batch, time(1)).await }
    });
    let is_started = || server.query("SELECT count() > 0 FROM hedgerow_events").trim() == "1";
    while !is_started() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let other = vec![event("x", "ada", json!({"$set": {"n": 1}}))];
    store.append(TEAM + 1, other, time(1)).await.unwrap();
    assert!(!large.is_finished());
    large.await.unwrap().unwrap();
    assert_eq!(column(&store, TEAM, Column::Uuid).await.len(), 6_000);
    let persons = read(&store, scan(TEAM, all_columns(Model::Persons), 0, 100)).await;
    assert_eq!(persons.len(), 6_000);
}

/// Those of one append are read alone then, and others before or after it.
#[tokio::test]
async fn persons_that_are_too_much_for_a_group_lose_nothing() {
    let server = external::ClickHouse::start();
    let store = open(&server).await;
    let long = "x".repeat(450_000);
    let name = |n: u32| format!("person-{n}");
    for n in 0..40 {
        let made = event("x", &name(n), json!({"$set": {"long": long}}));
        store.append(TEAM, vec![made], time(1)).await.unwrap();
    }
    let mut appends = JoinSet::new();
    for team in [TEAM, TEAM + 1, TEAM + 2] {
        let count = if team == TEAM { 40 } else { 1 };
        // Whoever sends little may not make much of it.
        let sent = json!({"sent": "y".repeat(100_000), "$set": {"is_changed": true}});
        let changes = (0..count).map(|n| event("x", &name(n), sent.clone()));
        let (store, changes) = (store.clone(), changes.collect());
        appends.spawn(async move { store.append(team, changes, time(2)).await });
    }
    assert!(appends.join_all().await.iter().all(Result::is_ok));
    for (team, count) in [(TEAM, 40), (TEAM + 1, 1), (TEAM + 2, 1)] {
        let persons = read(&store, scan(team, all_columns(Model::Persons), 0, 100)).await;
        let is_changed = |properties: &Value| properties.as_str().unwrap().contains("is_changed");
        assert_eq!(
            persons
                .iter()
                .filter(|person| is_changed(&person["properties"]))
                .count(),
            count
        );
    }
}

/// Only its own later appends do.
#[tokio::test]
async fn nobody_else_waits_for_a_team_whose_appends_are_much_work() {
    let server = external::ClickHouse::start();
    let store = open(&server).await;
    let sent = json!({"sent": "y".repeat(100_000), "$set": {"long": "x".repeat(400_000)}});
    store
        .append(TEAM, vec![event("x", "large", sent)], time(1))
        .await
        .unwrap();
    let large = tokio::spawn({
        let store = store.clone();
        async move {
            for round in 0..4 {
                let sent = |n: u32| json!({"sent": "y".repeat(50_000), "$set": {"n": format!("{round}-{n}")}});
                let batch = (0..40).map(|n| event("x", "large", sent(n))).collect();
                store.append(TEAM, batch, time(1)).await.unwrap();
            }
        }
    });
    for n in 0..10 {
        let little = vec![event("x", "little", json!({"$set": {"n": n}}))];
        store.append(TEAM + 1, little, time(1)).await.unwrap();
    }
    assert!(!large.is_finished());
    large.await.unwrap();
    assert_eq!(column(&store, TEAM, Column::Uuid).await.len(), 161);
    assert_eq!(column(&store, TEAM + 1, Column::Uuid).await.len(), 10);
}

/// What is much work and what is not would otherwise start from the same version of a person.
#[tokio::test]
async fn appends_of_one_team_lose_nothing_to_each_other_however_large() {
    let server = external::ClickHouse::start();
    let store = open(&server).await;
    for round in 0..8 {
        let set = |key: &str| json!({"$set": {format!("{key}{round}"): true}});
        let mut large = vec![event("x", "ada", json!({})); 3_000];
        large.push(event("x", "ada", set("large")));
        let little = vec![event("x", "ada", set("little"))];
        let (little, large) = tokio::join!(store.append(TEAM, little, time(1)), store.append(TEAM, large, time(1)));
        little.and(large).unwrap();
    }
    let persons = read(&store, scan(TEAM, all_columns(Model::Persons), 0, 100)).await;
    let properties = persons[0]["properties"].as_str().unwrap();
    for round in 0..8 {
        assert!(properties.contains(&format!("little{round}")), "{properties}");
        assert!(properties.contains(&format!("large{round}")), "{properties}");
    }
}

/// A hundred persons have a thousand names of 200 characters each, and are merged at once.
#[tokio::test]
async fn merging_persons_with_too_many_names_fails_for_nobody() {
    let server = external::ClickHouse::start();
    let store = open(&server).await;
    let person =
        |number: &str| format!("toUUID(concat('00000000-0000-4000-8000-', leftPad(toString({number}), 12, '0')))");
    server.query(&format!(
        "INSERT INTO hedgerow_distinct_ids SELECT {TEAM}, concat(toString(number), repeat('\u{1f600}', 190)), {}, 1, now64(6) \
         FROM numbers(100000)",
        person("number % 100")
    ));
    server.query(&format!(
        "INSERT INTO hedgerow_persons SELECT {TEAM}, {}, '{{}}', false, false, now64(6), 1, now64(6) FROM numbers(100)",
        person("number")
    ));
    let name = |number: usize| format!("{number}{}", "\u{1f600}".repeat(190));
    let merges = (0..50).map(|n| event("$merge_dangerously", &name(n), json!({"alias": name(99 - n)})));
    store.append(TEAM, merges.collect(), time(1)).await.unwrap();
    assert_eq!(column(&store, TEAM, Column::Uuid).await.len(), 50);
}

/// An answer that gets lost is asked for again, and the second insert is known as the first.
#[tokio::test]
async fn a_lost_answer_stores_nothing_twice() {
    let server = external::ClickHouse::start();
    let store = open(&server).await;
    for (at, cut) in (0..3).flat_map(|at| [(at, Cut::Before), (at, Cut::After)]) {
        server.cut(at, cut);
        let name = format!("{at} {cut:?}");
        let sent = event(&name, &name, json!({"$set": {"a": 1}}));
        store.append(TEAM, vec![sent], time(1)).await.unwrap();
        assert!(!server.is_uncut(cut), "{name} was not reached");
    }
    assert_eq!(
        server.query("SELECT count(), uniq(uuid) FROM hedgerow_events"),
        "6\t6\n"
    );
    let persons = "SELECT count() FROM (SELECT DISTINCT id, version FROM hedgerow_persons)";
    assert_eq!(
        server.query(persons),
        server.query("SELECT count() FROM hedgerow_persons")
    );
}

#[tokio::test]
async fn a_forgotten_team_is_gone_and_may_come_again() {
    let server = external::ClickHouse::start();
    let store = open(&server).await;
    let sent = event("x", "ada", json!({"$set": {"a": 1}}));
    for team in [TEAM, TEAM + 1] {
        store.append(team, vec![sent.clone()], time(1)).await.unwrap();
    }
    store.forget_team(TEAM).await.unwrap();
    suite::a_team_without_rows_has_none(&store, TEAM).await;
    store.append(TEAM, vec![sent], time(2)).await.unwrap();
    for team in [TEAM, TEAM + 1] {
        assert_eq!(column(&store, team, Column::Event).await, [json!("x")]);
    }
}

#[tokio::test]
async fn many_rows_come_in_whole_batches_and_a_dropped_scan_ends() {
    let server = external::ClickHouse::start();
    let store = open(&server).await;
    let filled = "INSERT INTO hedgerow_events SELECT 3, generateUUIDv7(), toString(number), 'ada', '{\"a\":1}', '', \
                  '2027-01-15 08:00:00', generateUUIDv4(), '{}', '2027-01-15 08:00:01', \
                  toDateTime64('2027-01-15 08:00:01', 6, 'UTC') + toIntervalMicrosecond(number) FROM numbers(100000)";
    server.query(filled);
    let whole = || scan(TEAM, Query::of(Model::Events, &[Column::Event]), 0, 10);
    let all = batches(&store, whole()).await;
    let sizes: Vec<_> = all.iter().map(arrow_array::RecordBatch::num_rows).collect();
    assert!(sizes[..sizes.len() - 1].iter().all(|&rows| rows == 8192), "{sizes:?}");
    assert_eq!(sizes.iter().sum::<usize>(), 100_000);
    let names = all.iter().flat_map(|batch| {
        let names = arrow_array::cast::AsArray::as_string::<i32>(batch.column(0)).iter();
        names.flatten().map(str::to_owned).collect::<Vec<_>>()
    });
    assert!(names.enumerate().all(|(n, name)| name == n.to_string()));
    for _ in 0..5 {
        let mut rows = store.scan(whole());
        rows.next().await.unwrap().unwrap();
    }
    store.ping().await.unwrap();
}

/// What a scan gives when the server answers with these bytes.
async fn scanned(body: Vec<u8>) -> Vec<Result<usize, Error>> {
    let url = played(move |_| {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        [head.as_bytes(), &body].concat()
    });
    let url = format!("{}?create_tables=false", url.replace("http", "clickhouse"));
    let store = Events::ClickHouse(ClickHouse::open(&url, http()).await.unwrap());
    let mut rows = store.scan(scan(TEAM, Query::of(Model::Events, &[Column::Event]), 0, 10));
    let mut results = Vec::new();
    while let Some(next) = rows.next().await {
        results.push(next.map(|batch| batch.num_rows()));
    }
    results
}

async fn recorded(server: &external::ClickHouse, sql: &str) -> Vec<u8> {
    let asked = Statement::new(sql).set("max_block_size", 8192);
    let chunks = client(&server.url(), server.user, server.password)
        .open(asked)
        .await
        .unwrap();
    chunks.collect(64 << 20).await.unwrap()
}

/// The engine fails when half of the rows are out: whoever reads must hear of it.
#[tokio::test]
async fn an_error_in_the_middle_is_no_short_result() {
    let server = external::ClickHouse::start();
    let sql = "SELECT toString(intDiv(1, toInt64(number) - 500000)) AS event FROM numbers(1000000) FORMAT ArrowStream";
    let body = recorded(&server, sql).await;
    let results = scanned(body).await;
    assert!(results.len() > 10, "the error came before the rows: {results:?}");
    assert!(
        matches!(results.last(), Some(Err(Error::Refused { code: 153, .. }))),
        "{results:?}"
    );

    // One that comes before the first row.
    let store = open(&server).await;
    server.query("DROP TABLE hedgerow_events");
    let mut rows = store.scan(scan(TEAM, Query::of(Model::Events, &[Column::Event]), 0, 10));
    let only = rows.next().await;
    assert!(matches!(only, Some(Err(Error::Refused { code: 60, .. }))), "{only:?}");
    assert!(rows.next().await.is_none());
}

/// A server that breaks off, as a proxy does, be it after a whole message: no end marker, no complaint.
#[tokio::test]
async fn a_stream_without_its_end_is_an_error() {
    let server = external::ClickHouse::start();
    let sql = "SELECT toString(number) AS event FROM numbers(10) FORMAT ArrowStream";
    let whole = recorded(&server, sql).await;
    assert!(matches!(scanned(whole.clone()).await.as_slice(), [Ok(10)]));
    for missing in [1, 8, 20, whole.len()] {
        let results = scanned(whole[..whole.len() - missing].to_vec()).await;
        assert!(matches!(results.as_slice(), [Err(_)]), "{missing}: {results:?}");
    }
    let more = [
        &whole[..],
        b"Code: 241. DB::Exception: Memory limit exceeded. (MEMORY_LIMIT_EXCEEDED)",
    ]
    .concat();
    let results = scanned(more).await;
    assert!(
        matches!(results.as_slice(), [Err(Error::Refused { code: 241, .. })]),
        "{results:?}"
    );
}

/// Values that try to be SQL stay values, also so many that they travel in a form.
#[tokio::test]
async fn values_are_bound_whatever_they_hold() {
    let server = external::ClickHouse::start();
    let store = open(&server).await;
    let hostile = [
        "a' OR 1=1 --",
        "b\\",
        "c\\' OR ''='",
        "\t\n\r\\N",
        "{p1:String}",
        "é🦔\u{1}",
        "--\r\nx",
    ];
    let events = hostile
        .map(|name| event(name, name, json!({"$set": {"a": name}})))
        .to_vec();
    store.append(TEAM, events, time(1)).await.unwrap();
    for (filler, names) in [(0, &hostile[..]), (600, &hostile[4..])] {
        for &name in names {
            let filler = (0..filler).map(|n| format!("no event has this name {n}"));
            let list = filler
                .chain([name.to_owned()])
                .map(|text| Expr::Value(Literal::Text(text)));
            let condition = Expr::In {
                expr: Box::new(Expr::Column(Column::Event)),
                list: list.collect(),
                is_negated: false,
            };
            let query = Query::of(Model::Events, &[Column::DistinctId]).and(condition);
            let rows = read(&store, scan(TEAM, query, 0, 10)).await;
            assert_eq!(rows.len(), 1, "{name:?}");
            assert_eq!(rows[0]["distinct_id"], json!(name));
        }
    }
    // Looked up by these names: nobody is made twice.
    let fresh = open(&server).await;
    let again = hostile
        .map(|name| event("again", name, json!({"$set": {"b": 1}})))
        .to_vec();
    fresh.append(TEAM, again, time(2)).await.unwrap();
    let persons = read(&fresh, scan(TEAM, all_columns(Model::Persons), 0, 10)).await;
    assert_eq!(persons.len(), hostile.len());
    assert!(
        persons
            .iter()
            .all(|person| person["properties"].as_str().unwrap().contains("\"b\":1"))
    );
}

#[tokio::test]
async fn named_tables_are_the_operators_and_nothing_is_made() {
    let server = external::ClickHouse::start();
    let named = "?events_table=my%20events&persons_table=p%60s&distinct_ids_table=d";
    let url = format!("{}{named}", server.store_url());
    let store = Events::ClickHouse(ClickHouse::open(&url, http()).await.unwrap());
    assert_eq!(server.query("SHOW TABLES"), "");
    assert!(matches!(store.ping().await, Err(Error::Refused { code: 60, .. })));
    let Events::ClickHouse(clickhouse) = &store else {
        panic!("another store")
    };
    clickhouse.create_tables().await.unwrap();
    store
        .append(TEAM, vec![event("x", "ada", json!({}))], time(1))
        .await
        .unwrap();
    assert_eq!(server.query("SELECT count() FROM `my events`"), "1\n");
    assert_eq!(server.query("SELECT count() FROM `p\\`s`"), "1\n");
}

#[tokio::test]
async fn a_wrong_password_is_told_and_never_shown() {
    let server = external::ClickHouse::start();
    let url = server.url().replace("http://", "clickhouse://hedge:hunter2@");
    let Err(error) = ClickHouse::open(&url, http()).await else {
        panic!("let in")
    };
    assert!(matches!(error, Error::Refused { code: 516, .. }), "{error:?}");
    let store = ClickHouse::open(&format!("{url}/?create_tables=0"), http())
        .await
        .unwrap();
    for text in [format!("{error:?} {error}"), format!("{store:?}")] {
        assert!(!text.contains("hunter2"), "{text}");
    }
    for bad in [
        "http://a",
        "clickhouse://",
        "clickhouse://a?tables=x",
        "clickhouse://a?secure=maybe",
    ] {
        assert!(
            matches!(ClickHouse::open(bad, http()).await, Err(Error::Address(_))),
            "{bad}"
        );
    }
}

/// A server that takes an insert and never answers: the caller hears of it well before the line.
#[tokio::test]
async fn a_silent_server_does_not_hold_an_append_past_the_line() {
    let url = played(|request| {
        if request.windows(6).any(|text| text == b"INSERT") {
            std::thread::park_timeout(Duration::from_mins(1));
        }
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_vec()
    });
    let url = format!("{}?create_tables=0", url.replace("http", "clickhouse"));
    let store = Events::ClickHouse(ClickHouse::open(&url, http()).await.unwrap());
    let start = Instant::now();
    let told = event("x", "ada", json!({"$process_person_profile": false}));
    let result = store.append(TEAM, vec![told], time(1)).await;
    assert!(result.unwrap_err().is_retryable());
    let took = start.elapsed();
    assert!(
        took > Duration::from_secs(10) && took < Duration::from_secs(22),
        "{took:?}"
    );
}

/// A genuine server, as far as one of 2018 goes: ping, a table, an insert, a result, an error.
#[tokio::test]
async fn the_client_gets_along_with_a_genuine_server() {
    let server = OldClickHouse::start();
    let client = client(&server.url(), server.user, server.password);
    client.ping().await.unwrap();
    let table = identifier("odd `name\\");
    let sql = format!("CREATE TABLE {table} (a Int64, b String) ENGINE = MergeTree ORDER BY a");
    client.run(Statement::new(sql)).await.unwrap();
    let sql = format!("INSERT INTO {table} (b, a) FORMAT JSONEachRow");
    let rows = "{\"a\":1,\"b\":\"one\"}\n{\"a\":2,\"b\":\"two 🦔\"}\n";
    client.run(Statement::new(sql).with(rows)).await.unwrap();
    let sql = format!("SELECT a, b FROM {table} ORDER BY a");
    assert_eq!(
        client.text(Statement::new(sql.clone())).await.unwrap(),
        "1\tone\n2\ttwo 🦔\n"
    );
    assert_eq!(server.query(&sql), "1\tone\n2\ttwo 🦔\n");
    let error = client.run(Statement::new("SELECT * FROM nowhere")).await.unwrap_err();
    assert!(
        matches!(&error, Error::Refused { code: 60, message } if message.contains("nowhere")),
        "{error:?}"
    );
    let error = self::client(&server.url(), server.user, "wrong")
        .run(Statement::new("SELECT 1"))
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Refused { code: 193, .. }), "{error:?}");
}

/// A server that answers every connection with the same bytes. Returns its URL.
fn played(answer: impl Fn(&[u8]) -> Vec<u8> + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            let mut request = vec![0; 64 * 1024];
            let read = connection.read(&mut request).unwrap();
            connection.write_all(&answer(&request[..read])).unwrap();
        }
    });
    url
}

#[tokio::test]
async fn a_query_that_nobody_waits_for_is_hung_up_on() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!(
        "clickhouse://u:p@{}/d?create_tables=false",
        listener.local_addr().unwrap()
    );
    let store = Events::ClickHouse(ClickHouse::open(&url, http()).await.unwrap());
    let rows = store.scan(scan(TEAM, all_columns(Model::Events), 0, 10));
    let (mut connection, _) = listener.accept().await.unwrap();
    let mut asked = [0; 4096];
    assert!(connection.read(&mut asked).await.unwrap() > 0, "the query was sent");
    drop(rows);
    // It has not answered a byte; the real one ends the query when the connection closes.
    let end = async { while connection.read(&mut asked).await.is_ok_and(|read| read > 0) {} };
    let ended = tokio::time::timeout(Duration::from_secs(5), end).await;
    assert!(ended.is_ok(), "the connection is still open");
}
