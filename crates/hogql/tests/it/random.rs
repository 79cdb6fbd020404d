//! Whatever is written, nothing panics; and what is read, reads back as the same.

use hogql::{Dialect, parse};
use proptest::prelude::*;

use crate::expressions::{Four, expressions};

/// Words of the language, so that chance puts together something that is almost a query, and sometimes one.
const WORDS: &[&str] = &[
    "SELECT",
    "FROM",
    "WHERE",
    "events",
    "persons",
    "event",
    "properties",
    "person_properties",
    "timestamp",
    "team_id",
    ".",
    ",",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "'a'",
    "'2024-01-01'",
    "1",
    "2.5",
    "NULL",
    "true",
    "AND",
    "OR",
    "NOT",
    "IN",
    "LIKE",
    "BETWEEN",
    "IS",
    "CASE",
    "WHEN",
    "THEN",
    "ELSE",
    "END",
    "=",
    "<",
    "+",
    "-",
    "*",
    "/",
    "%",
    "AS",
    "x",
    "$os",
    "`b c`",
    "lower(",
    "toInt(",
    "if(",
    "concat(",
    "coalesce(",
    "JSONExtractRaw(",
    "toDateTime(",
    "UNION",
    "WITH",
    "JOIN",
    "GROUP BY",
    ";",
    "--",
    "/*",
    "*/",
    "'",
    "\"",
    "`",
    "\\",
    "::",
    "->",
    "?",
    "$$",
    "INTERVAL",
    "EXISTS",
    "DISTINCT",
    "OVER",
    "é",
    "\0",
];

fn check(text: &str) -> bool {
    let Ok(query) = parse(text) else { return false };
    let again = query.to_string();
    assert_eq!(parse(&again).as_ref(), Ok(&query), "{text} was written as {again}");
    for dialect in [Dialect::Sqlite, Dialect::ClickHouse] {
        let rendered = query.render(dialect, &|column| format!("e.{}", column.name()));
        assert!(rendered.columns.is_ascii() || !query.fields.iter().all(|field| field.alias.is_ascii()));
    }
    query.schema_json();
    true
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_makes_it_panic(text in "\\PC{0,200}") {
        check(&text);
        check(&format!("SELECT {text} FROM events"));
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        check(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn no_words_make_it_panic(words in prop::collection::vec(prop::sample::select(WORDS), 0..60)) {
        check(&words.join(" "));
        check(&format!("SELECT {} FROM events", words.join(" ")));
        check(&format!("SELECT event FROM events WHERE {}", words.concat()));
    }

    #[test]
    fn what_is_read_reads_back_as_the_same(Four { text, number, condition, time } in expressions()) {
        let text = format!("SELECT {text} AS a, {number} AS b, {time} AS c FROM events WHERE {condition}");
        prop_assume!(check(&text));
    }
}
