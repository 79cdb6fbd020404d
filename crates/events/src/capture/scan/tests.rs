//! Which tokens are found in which bodies, however they arrive.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;

use super::*;

/// What is found in a body that comes in parts of this size.
fn scan(body: &[u8], part: usize) -> (Vec<Candidate>, Progress) {
    let mut scan = TokenScan::default();
    let mut found = Vec::new();
    for part in body.chunks(part) {
        scan.feed(part);
        found.append(&mut scan.candidates());
    }
    let progress = scan.end();
    found.append(&mut scan.candidates());
    (found, progress)
}

fn tokens(body: &str) -> Vec<String> {
    let (found, _) = scan(body.as_bytes(), 7);
    found.into_iter().map(|candidate| candidate.token).collect()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn gzip_that_holds_next_to_nothing_is_not_searched_to_its_end() {
    let packed = gzip(br#"{"api_key":"t","batch":[]}"#);
    let (header, blocks) = packed.split_at(10);
    let after_empty_blocks = |count: usize| {
        let empty = [0, 0, 0, 0xff, 0xff].repeat(count);
        scan(&[header, &empty, blocks].concat(), 512).1
    };
    assert_eq!(after_empty_blocks(10_000), Progress::Found, "all of it was searched");
    assert_eq!(after_empty_blocks(100_000), Progress::Damaged);
}

#[test]
fn a_token_is_found_where_it_counts_and_nowhere_else() {
    for (body, expected) in [
        (r#"{"api_key":"t","batch":[]}"#, vec!["t"]),
        (
            r#"{"batch":[{"event":"e","properties":{"a":[{"token":"no"}]}}],"api_key":" t "}"#,
            vec!["t"],
        ),
        (r#"{ "token" : "t" , "event":"token"}"#, vec!["t"]),
        (r#"[{"event":"e","$token":"t"}]"#, vec!["t"]),
        (
            r#"{"event":"e","properties":{"distinct_id":"d","token":"t"}}"#,
            vec!["t"],
        ),
        (
            r#"{"batch":[{"properties":{"token":"own"}},{"api_key":"u"}],"api_key":"t"}"#,
            vec!["own", "u", "t"],
        ),
        (
            r#"{"properties":{"$set":{"token":"no"},"api_key":"no"},"x":{"api_key":"no"}}"#,
            vec![],
        ),
        (r#"{"api_key":"","token":null,"$token":7,"event":"e"}"#, vec![]),
        (
            r#"{"event":"\"api_key\":\"no\"","distinct_id":"\\","api_key":"\u0074"}"#,
            vec!["t"],
        ),
        (r#"{"x":["api_key","no"],"api_key":["no"]}"#, vec![]),
    ] {
        assert_eq!(tokens(body), expected, "{body}");
    }
    let long = format!(r#"{{"{}":"no","api_key":"t"}}"#, "x".repeat(1000));
    assert_eq!(tokens(&long), ["t"]);
}

#[test]
fn only_what_nothing_else_can_outrank_is_the_only_token() {
    for (body, is_only) in [
        (r#"{"api_key":"t","#, true),
        (r#"[{"api_key":"t","#, true),
        (r#"{"token":"t","#, false),
        (r#"{"properties":{"token":"t"},"#, false),
        (r#"{"batch":[{"api_key":"t"},"#, false),
    ] {
        let (found, progress) = scan(body.as_bytes(), 100);
        assert_eq!(found[0].is_only, is_only, "{body}");
        assert_eq!(progress == Progress::Found, is_only, "{body}");
    }
}

#[test]
fn it_reads_gzip_and_says_what_it_cannot_read() {
    let (found, progress) = scan(&gzip(br#"{"event":"e","api_key":"t"}"#), 3);
    assert_eq!((found[0].token.as_str(), progress), ("t", Progress::Found));
    for (body, expected) in [
        (b"eyJhIjoxfQ==".to_vec(), Progress::Opaque),
        (b"data=x".to_vec(), Progress::Opaque),
        (gzip(b"data=x"), Progress::Opaque),
        (gzip(b"  "), Progress::Opaque),
        (b" ".to_vec(), Progress::Opaque),
        (b"{}x".to_vec(), Progress::Damaged),
        (br#"{"a":"#.to_vec(), Progress::Damaged),
        ("[".repeat(1000).into(), Progress::Damaged),
        (gzip(b"{}")[..12].to_vec(), Progress::Damaged),
        (br#"{"event":"e"}"#.to_vec(), Progress::NotFound),
    ] {
        assert_eq!(scan(&body, 5), (vec![], expected), "{}", String::from_utf8_lossy(&body));
    }
}

#[test]
fn a_body_that_unpacks_to_much_is_not_read_to_its_end() {
    let mut bomb = br#"{"event":""#.to_vec();
    bomb.resize(3 * MAX_SCANNED_BYTES, b'x');
    let (found, progress) = scan(&gzip(&bomb), 4096);
    assert_eq!((found, progress), (vec![], Progress::NotFound));
}

#[test]
fn who_makes_us_read_much_has_to_send_something_for_it() {
    let late = |filler: &str, count: usize| {
        let body = format!(r#"{{"a":[{}],"api_key":"t"}}"#, vec![filler; count].join(","));
        (gzip(body.as_bytes()), body.len())
    };
    let (tiny, size) = late("1", 2_000_000);
    assert!(size > 3_000_000 && tiny.len() < size / 64, "{}", tiny.len());
    let (found, progress) = scan(&tiny, 4096);
    assert_eq!((found, progress), (vec![], Progress::NotFound));
    let mut search = TokenScan::default();
    search.feed_some(&tiny);
    assert!(search.seen() < 3 * FIRST_SCANNED_BYTES, "{}", search.seen());
    let (short, _) = late("1", 200_000);
    assert_eq!(
        scan(&short, 4096).1,
        Progress::Found,
        "the first part is searched in any case"
    );
    let words: Vec<String> = (0..200_000_u64).map(|n| (n * n * 7_919).to_string()).collect();
    let (usual, size) = late(&words.join(","), 1);
    assert!(size > 2_000_000 && usual.len() > size / 64);
    assert_eq!(scan(&usual, 4096).1, Progress::Found);
}

proptest! {
    #[test]
    fn parts_make_no_difference(text in r#"[\[\]{}",:\\a-z_ ]{0,80}"#, part in 1_usize..9) {
        let body = format!(r#"{{"token":"t",{text}"api_key":"u"}}"#);
        prop_assert_eq!(scan(body.as_bytes(), part), scan(body.as_bytes(), 1000));
    }
}
