//! The engine, its front, and the old server.

use std::net::TcpStream;

use testkit::external::{ClickHouse, Cut, OldClickHouse, Visitor};

#[test]
fn the_engine_keeps_what_it_is_given_and_asks_who_is_there() {
    let clickhouse = ClickHouse::start();
    clickhouse.query("CREATE TABLE t (a Int64) ENGINE = MergeTree ORDER BY a");
    clickhouse.query("INSERT INTO t VALUES (3), (4)");
    assert_eq!(clickhouse.query("SELECT sum(a), count() FROM t"), "7\t2\n");
    let stranger = Visitor::default().get(&format!("{}/?query=SELECT+1", clickhouse.url()));
    assert_eq!(stranger.status, 403);
    assert_eq!(stranger.header("x-clickhouse-exception-code"), Some("516"));
    assert_eq!(
        Visitor::default().get(&format!("{}/ping", clickhouse.url())).body,
        "Ok.\n"
    );
}

#[test]
fn a_cut_comes_where_it_was_asked_for_and_once() {
    let clickhouse = ClickHouse::start();
    clickhouse.query("CREATE TABLE t (a Int64) ENGINE = MergeTree ORDER BY a");
    for (cut, left) in [(Cut::Before, "1\n"), (Cut::After, "3\n")] {
        clickhouse.cut(1, cut);
        clickhouse.query("INSERT INTO t VALUES (1)");
        let broken = std::panic::catch_unwind(|| clickhouse.query("INSERT INTO t VALUES (2)"));
        assert!(broken.is_err());
        assert_eq!(clickhouse.query("SELECT count() FROM t"), left);
        assert!(!clickhouse.is_uncut(cut));
    }
}

#[test]
fn the_old_server_is_a_server_and_ends_with_its_handle() {
    let old = OldClickHouse::start();
    assert!(old.query("SELECT version()").starts_with("18.16."));
    let address = old.url().trim_start_matches("http://").to_owned();
    drop(old);
    TcpStream::connect(address).unwrap_err();
}
