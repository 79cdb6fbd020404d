//! What cannot be asked, and what the answer says.

use hogql::parse;

fn refused(text: &str) -> String {
    match parse(text) {
        Err(error) => error.to_string(),
        Ok(query) => panic!("{text} was read as {query}"),
    }
}

#[test]
fn statements_of_another_shape_are_refused_in_words_that_clients_know() {
    let cases = [
        ("", "Failed to parse query"),
        ("SELECT", "Failed to parse query"),
        ("SELECT 'open FROM events", "Failed to parse query"),
        (
            "SELECT event FROM events; SELECT event FROM events",
            "Failed to parse query",
        ),
        ("DROP TABLE events", "Failed to parse query"),
        ("INSERT INTO events SELECT 1", "The query must SELECT FROM events"),
        ("VALUES (1)", "The query must SELECT FROM events"),
        ("SELECT 1", "The query must SELECT FROM events"),
        ("SELECT event FROM system.tables", "The query must SELECT FROM events"),
        ("SELECT event FROM Events", "The query must SELECT FROM events"),
        ("SELECT event FROM numbers(10)", "The query must SELECT FROM events"),
        (
            "SELECT event FROM events SAMPLE 0.1",
            "The query must SELECT FROM events",
        ),
        (
            "SELECT event FROM events UNION ALL SELECT event FROM events",
            "UNIONs are not supported",
        ),
        (
            "SELECT event FROM events EXCEPT SELECT event FROM events",
            "EXCEPT is not supported",
        ),
        (
            "WITH a AS (SELECT 1) SELECT event FROM events",
            "CTEs are not supported",
        ),
        (
            "SELECT event FROM (SELECT event FROM events)",
            "Subqueries are not supported",
        ),
        ("(SELECT event FROM events)", "Subqueries are not supported"),
        ("SELECT (SELECT 1) FROM events", "Subqueries are not supported"),
        (
            "SELECT event FROM events WHERE event IN (SELECT 'a')",
            "Subqueries are not supported",
        ),
        (
            "SELECT event FROM events WHERE EXISTS (SELECT 1)",
            "Subqueries are not supported",
        ),
        ("SELECT event FROM events, persons", "JOINs are not supported"),
        (
            "SELECT event FROM events JOIN persons ON true",
            "JOINs are not supported",
        ),
        ("SELECT DISTINCT event FROM events", "DISTINCT is not supported"),
        ("SELECT event FROM events GROUP BY event", "GROUP BY is not supported"),
        ("SELECT event FROM events HAVING event = 'a'", "HAVING is not supported"),
        ("SELECT event FROM events ORDER BY event", "ORDER BY is not supported"),
        ("SELECT event FROM events LIMIT 10", "LIMIT is not supported"),
        (
            "SELECT event FROM events SETTINGS max_threads = 1",
            "SETTINGS is not supported",
        ),
        ("SELECT event FROM events FORMAT CSV", "FORMAT is not supported"),
        (
            "SELECT event FROM events WINDOW w AS (ORDER BY event)",
            "WINDOW is not supported",
        ),
    ];
    for (text, begins) in cases {
        let error = refused(text);
        assert!(error.starts_with(begins), "{text}: {error}");
    }
}

#[test]
fn expressions_that_cannot_be_are_refused_with_advice() {
    let cases = [
        ("now()", "repeated run must return the same rows"),
        ("timestamp > now() - INTERVAL 1 DAY", "not supported"),
        ("rand()", "repeated run must return the same rows"),
        ("generateUUIDv4()", "repeated run must return the same rows"),
        ("CURRENT_TIMESTAMP", "repeated run must return the same rows"),
        ("count()", "Aggregate functions"),
        ("sum(team_id)", "Aggregate functions"),
        ("uniq(event)", "Aggregate functions"),
        ("count(*) OVER ()", "Window functions"),
        ("lagInFrame(event) OVER (ORDER BY timestamp)", "Window functions"),
        ("sleep(3)", "Unknown function sleep"),
        ("url('http://x')", "Unknown function url"),
        ("dictGet('a', 'b', 1)", "Unknown function"),
        ("file('/etc/passwd')", "Unknown function"),
        ("CAST(event AS Int64)", "Casts are not supported"),
        ("event::text", "Casts are not supported"),
        ("[1, 2]", "Arrays"),
        ("(1, 2)", "Arrays and tuples"),
        ("{start}", "Placeholders"),
        ("?", "Placeholders"),
        ("event || 'a'", "Use concat"),
        ("nothing", "Unknown column `nothing`"),
        ("events.nothing", "Unknown column `nothing`"),
        ("person_version", "Unknown column `person_version`"),
        ("event.a", "event has no properties"),
        ("properties[1]", "a quoted name"),
        ("properties.arr[0]", "a quoted name"),
        ("toDateTime('soon')", "'soon' is not a valid time"),
        ("timestamp > 'yesterday'", "is not a valid time"),
        ("timestamp > 5", "Cannot compare"),
        ("timestamp > properties.when", "toDateTime"),
        ("properties.n > 5", "toFloat"),
        ("properties.a + 1", "toFloat"),
        ("event = NULL", "IS NULL"),
        ("event IN (NULL)", "IS NULL"),
        ("event IN (distinct_id)", "list of values"),
        ("properties = '{}'", "JSON cannot be compared"),
        ("event LIKE distinct_id", "quoted pattern"),
        ("event LIKE 'a' ESCAPE 'b'", "no ESCAPE"),
        ("lower(team_id)", "toString"),
        ("lower()", "arguments"),
        ("lower(event, event)", "arguments"),
        ("toYear(event)", "toDateTime"),
        ("toInt(timestamp)", "does not take a time"),
        ("substring(event, 0)", "at least 1"),
        ("substring(event, team_id)", "literal integer"),
        ("round(1.5, 20)", "literal integer"),
        ("if(event, 1, 2)", "condition"),
        ("if(true, 1, 'a')", "the same type"),
        ("if(true, 1)", "pairs"),
        ("1 % 2.5", "integers"),
        ("NOT event", "condition"),
        ("99999999999999999999", "too large"),
        ("1e999", "too large"),
        ("JSONExtractString(event, 'a')", "properties"),
        ("JSONExtractString(properties)", "at least one key"),
        ("event AS `hedgerow_1`", "must not start with"),
        ("event AS ``", "alias"),
        ("event AS a, distinct_id AS a", "Two columns are named `a`"),
        ("event, *", "Two columns are named `event`"),
    ];
    for (text, says) in cases {
        let error = refused(&format!("SELECT {text} FROM events"));
        assert!(error.contains(says), "{text}: {error}");
    }
    assert!(refused("SELECT event AS `a\nb` FROM events").contains("control character"));
    assert!(refused("SELECT event FROM events WHERE event").contains("condition"));
    assert!(refused(&format!("SELECT event AS {} FROM events", "a".repeat(121))).contains("120 bytes"));
}

#[test]
fn what_is_too_large_is_refused_and_nothing_overflows() {
    let long = format!("SELECT event FROM events WHERE event = '{}'", "a".repeat(20_000));
    assert!(refused(&long).contains("20000 bytes"));
    let fields: Vec<_> = (0..301).map(|n| format!("1 AS a{n}")).collect();
    assert!(refused(&format!("SELECT {} FROM events", fields.join(", "))).contains("300 columns"));

    let shapes = [
        ("(", "1", ")"),
        ("abs(", "1", ")"),
        ("NOT ", "true", ""),
        ("- ", "1", ""),
        ("-", "1", ""),
        ("", "1", "+1"),
        ("", "1", "=1"),
        ("", "event", " IS NULL"),
        ("", "true", " AND true"),
        ("true AND ", "true", ""),
        ("1 + ", "1", ""),
        ("CASE WHEN true THEN ", "1", " END"),
        ("CASE ", "1", " WHEN 1 THEN 1 END"),
        ("if(true, 1, ", "1", ")"),
        ("and(true, ", "true", ")"),
        ("1 IN (", "1", ")"),
        ("(1 IN ((", "1", ")))"),
        ("[", "1", "]"),
        ("{", "1", "}"),
        ("Nullable(", "1", ")"),
        ("Array(Tuple(", "1", "))"),
        ("event[", "1", "]"),
        ("", "event", "['a']"),
        ("", "event", ".a"),
        ("", "event", "::text"),
        ("", "event", " COLLATE b"),
        ("", "event", " AT TIME ZONE 'UTC'"),
        ("", "event", ":a"),
        ("x -> ", "1", ""),
        ("(SELECT ", "1", ")"),
        ("EXISTS (", "1", ")"),
        ("f(SELECT ", "1", ")"),
        ("/* ", "1", "*/"),
        ("INTERVAL ", "1", " DAY"),
        ("a BETWEEN ", "1", " AND 1"),
        ("a.", "b", ""),
    ];
    for (before, middle, after) in shapes {
        for count in [60, 1_000, 19_000 / (before.len() + after.len())] {
            let expr = format!("{}{middle}{}", before.repeat(count), after.repeat(count));
            for text in [
                format!("SELECT {expr} FROM events"),
                format!("SELECT event FROM {expr}"),
                expr,
            ] {
                if let Ok(query) = parse(&text) {
                    assert_eq!(parse(&query.to_string()), Ok(query));
                }
            }
        }
    }
}

#[test]
fn patterns_and_texts_that_cost_too_much_are_refused() {
    let cases = [
        (format!("event LIKE '{}'", "a".repeat(501)), "at most 500 characters"),
        (format!("event LIKE '{}b'", "%a".repeat(51)), "at most 50 wildcards"),
        (
            format!("event NOT ILIKE '{}b'", "_a".repeat(51)),
            "at most 50 wildcards",
        ),
        (format!("like(event, '{}b')", "%a".repeat(51)), "at most 50 wildcards"),
        (
            vec!["concat(event, event) = REPLACE(event, 'a', 'b')"; 51].join(" OR "),
            "more than 100 times",
        ),
    ];
    for (condition, says) in cases {
        let said = refused(&format!("SELECT event FROM events WHERE {condition}"));
        assert!(said.contains(says), "{condition}: {said}");
    }
    for pattern in ["%a".repeat(50), "a".repeat(500), "%".repeat(500)] {
        let text = format!("SELECT event FROM events WHERE event LIKE '{pattern}'");
        assert!(parse(&text).is_ok(), "{pattern}");
    }
}

#[test]
fn errors_are_short_whatever_was_written() {
    let name = "é".repeat(5_000);
    for text in [
        format!("SELECT {name} FROM events"),
        format!("SELECT {name}() FROM events"),
        format!("SELECT event {name} {name}"),
    ] {
        assert!(refused(&text).len() < 450, "{}", refused(&text));
    }
}
