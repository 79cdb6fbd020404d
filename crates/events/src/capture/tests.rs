use std::io::Write;
use std::net::IpAddr;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use chrono::TimeDelta;
use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::Time;

const NOW: &str = "2026-11-15T09:30:00Z";

fn now() -> Time {
    NOW.parse().unwrap()
}

/// A request, before anything of it was looked at.
#[derive(Clone, Copy)]
struct Sent<'a> {
    query: &'a str,
    encoding: &'a str,
    address: Option<IpAddr>,
    unnamed: Option<&'static str>,
    most_bytes: usize,
    now: Time,
}

fn decode(body: Vec<u8>, sent: &Sent<'_>) -> Result<Captured, Refusal> {
    let mut parameters = Parameters::read(sent.query, sent.encoding)?;
    let packed = parameters.take_data().unwrap_or(body);
    let text = unpack(&packed, sent.most_bytes, &mut |_| Ok::<_, Refusal>(()))?;
    let envelope = Envelope {
        parameters: &parameters,
        address: sent.address,
        unnamed: sent.unnamed,
        now: sent.now,
    };
    parse(text, &envelope)
}

fn envelope(query: &str) -> Sent<'_> {
    Sent {
        query,
        encoding: "",
        address: None,
        unnamed: None,
        most_bytes: MAX_BYTES,
        now: now(),
    }
}

fn read(body: impl Into<Vec<u8>>) -> Result<Captured, Refusal> {
    decode(body.into(), &envelope(""))
}

/// The one event of a body.
fn only(body: &Value) -> Incoming {
    let mut captured = read(body.to_string()).unwrap();
    assert_eq!(captured.events.len(), 1);
    captured.events.remove(0)
}

/// An event with these fields beside what every event needs.
fn event(fields: Value) -> Value {
    let mut event = json!({ "api_key": "t", "event": "seen", "distinct_id": "ann" });
    let Value::Object(fields) = fields else {
        panic!("fields")
    };
    event.as_object_mut().unwrap().extend(fields);
    event
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn every_shape_and_packing_says_the_same() {
    let one = r#"{"api_key":"t","event":"seen","distinct_id":"ann","properties":{"a":"+/é"}}"#;
    let list = r#"[{"token":"t","event":"seen","$distinct_id":"ann","properties":{"a":"+/é"}}]"#;
    let batch = r#"{"api_key":"t","batch":[{"event":"seen","properties":{"distinct_id":"ann","a":"+/é"}}]}"#;
    let expected = read(one).unwrap();
    assert_eq!(
        (expected.token.as_str(), expected.events[0].event.as_str()),
        ("t", "seen")
    );
    assert_eq!(read(list).unwrap(), expected);
    let mut of_batch = read(batch).unwrap();
    of_batch.events[0].properties.remove("distinct_id");
    assert_eq!(of_batch, expected);

    let escaped: String = url::form_urlencoded::byte_serialize(one.as_bytes()).collect();
    let packed: String = url::form_urlencoded::byte_serialize(STANDARD.encode(one).as_bytes()).collect();
    let bodies: Vec<(&str, Vec<u8>)> = vec![
        ("gzip", gzip(one.as_bytes())),
        ("base64", STANDARD.encode(one).into()),
        ("base64 for addresses", URL_SAFE_NO_PAD.encode(one).into()),
        ("base64 of gzip", STANDARD.encode(gzip(one.as_bytes())).into()),
        ("form", format!("data={escaped}").into()),
        (
            "form with another field first",
            format!("ver=1.2&data={escaped}").into(),
        ),
        ("form of base64", format!("data={packed}&compression=base64").into()),
        ("form of bare base64", format!("data={}", STANDARD.encode(one)).into()),
        ("gzip of a form", gzip(format!("data={escaped}").as_bytes())),
        ("space around", format!("\n {one}\n").into()),
    ];
    for (name, body) in bodies {
        assert_eq!(read(body), Ok(expected.clone()), "{name}");
    }
    let in_address = format!("data={packed}&compression=base64");
    assert_eq!(decode(Vec::new(), &envelope(&in_address)), Ok(expected));
}

#[test]
fn what_is_said_about_the_packing_need_not_be_true() {
    let plain = event(json!({})).to_string();
    for query in [
        "compression=gzip",
        "compression=gzip-js",
        "compression=base64",
        "compression=",
        "ver=1",
    ] {
        assert!(decode(plain.clone().into(), &envelope(query)).is_ok(), "{query}");
        assert!(decode(gzip(plain.as_bytes()), &envelope(query)).is_ok(), "{query}");
    }
    for encoding in ["gzip", "GZIP", "identity"] {
        let envelope = Sent {
            encoding,
            ..envelope("")
        };
        assert!(decode(gzip(plain.as_bytes()), &envelope).is_ok(), "{encoding}");
        assert!(decode(plain.clone().into(), &envelope).is_ok(), "{encoding}");
    }
    for (query, encoding) in [("compression=lz64", ""), ("", "br"), ("", "deflate")] {
        let envelope = Sent {
            encoding,
            ..envelope(query)
        };
        assert_eq!(decode(plain.clone().into(), &envelope), Err(Refusal::UnknownPacking));
    }
}

#[test]
fn what_unpacks_to_too_much_is_refused() {
    let limit = 1024 * 1024;
    let held = |length| {
        let envelope = Sent {
            most_bytes: limit,
            ..envelope("")
        };
        decode(gzip(&vec![b' '; length]), &envelope)
    };
    assert_eq!(held(limit), Err(Refusal::Empty));
    assert_eq!(held(limit + 1), Err(Refusal::TooLarge));
    // Empty blocks of gzip pack well, and each layer takes its time again.
    let once = gzip(event(json!({})).to_string().as_bytes());
    for twice in [gzip(&once), gzip(STANDARD.encode(&once).as_bytes())] {
        assert!(matches!(read(twice), Err(Refusal::Unreadable(_))));
    }
    let mut damaged = gzip(event(json!({})).to_string().as_bytes());
    damaged.truncate(20);
    assert!(matches!(read(damaged), Err(Refusal::Unreadable(_))));
}

#[test]
fn gzip_that_holds_next_to_nothing_is_not_read_to_its_end() {
    let packed = gzip(event(json!({})).to_string().as_bytes());
    let (header, blocks) = packed.split_at(10);
    let after_empty_blocks = |count: usize| {
        let empty = [0, 0, 0, 0xff, 0xff].repeat(count);
        read([header, &empty, blocks].concat())
    };
    assert!(after_empty_blocks(10_000).is_ok(), "of a sender that flushes often");
    assert!(matches!(after_empty_blocks(100_000), Err(Refusal::Unreadable(_))));
}

#[test]
fn memory_is_asked_for_before_it_is_used() {
    let text = event(json!({ "properties": { "text": "x".repeat(500_000) } })).to_string();
    let packed = gzip(text.as_bytes());
    assert_eq!(claimed_size(&packed), Some(text.len()));
    assert_eq!(claimed_size(text.as_bytes()), None);
    let mut lying = packed.clone();
    let end = lying.len() - 4;
    lying[end..].copy_from_slice(&7_u32.to_le_bytes());
    for (packed, is_honest) in [(packed, true), (lying, false)] {
        let mut asked = 0;
        let unpacked = unpack(&packed, MAX_BYTES, &mut |bytes| {
            asked += bytes;
            Ok::<_, Refusal>(())
        });
        // What lies is damaged, but was read before that was known.
        assert_eq!(unpacked.is_ok(), is_honest);
        assert!((text.len()..2 * text.len()).contains(&asked), "{asked}");
        let refused = unpack(&packed, MAX_BYTES, &mut |bytes| {
            asked += bytes;
            if asked > 100_000 { Err(Refusal::TooMany) } else { Ok(()) }
        });
        assert_eq!(refused, Err(Refusal::TooMany));
    }
}

#[test]
fn what_is_too_deep_or_too_long_is_refused() {
    let deep = format!(
        r#"{{"event":"e","distinct_id":"d","token":"t","properties":{{"a":{}1{}}}}}"#,
        "[".repeat(500),
        "]".repeat(500)
    );
    assert!(matches!(read(deep), Err(Refusal::Unreadable(_))));
    let item = r#"{"event":"e","distinct_id":"d"}"#;
    let batch = |count: usize| format!(r#"{{"token":"t","batch":[{}]}}"#, vec![item; count].join(","));
    assert_eq!(read(batch(MAX_EVENTS + 1)), Err(Refusal::TooMany));
    assert_eq!(read(batch(MAX_EVENTS)).unwrap().events.len(), MAX_EVENTS);
    let nested = r#"{"token":"t","batch":[{"batch":[]}]}"#;
    assert!(matches!(read(nested), Err(Refusal::Unreadable(_))));
}

#[test]
fn what_cannot_be_read_is_refused() {
    for body in [
        "{",
        "[1]",
        "nonsense!",
        "\"text\"",
        r#"{"event":"e","properties":7}"#,
        "data=",
        "data=%7B",
        "{}x",
    ] {
        assert!(
            matches!(read(body), Err(Refusal::Unreadable(_) | Refusal::Empty)),
            "{body}: {:?}",
            read(body)
        );
    }
    assert_eq!(read(""), Err(Refusal::Empty));
    assert_eq!(read(" \n"), Err(Refusal::Empty));
    let secret = r#"{"event":"e","properties":{"password":"hunter2","x":tru}}"#;
    let Err(Refusal::Unreadable(why)) = read(secret) else {
        panic!("it was read")
    };
    assert!(!why.contains("hunter2"), "{why}");
}

#[test]
fn the_token_is_found_wherever_it_stands() {
    let found =
        |body: Value, query: &str| decode(body.to_string().into(), &envelope(query)).map(|captured| captured.token);
    let event = json!({ "event": "e", "distinct_id": "d" });
    for name in ["api_key", "token", "$token"] {
        let mut named = event.clone();
        named[name] = json!(" t ");
        assert_eq!(found(named.clone(), "").unwrap(), "t", "{name}");
        assert_eq!(found(json!([named]), "").unwrap(), "t", "{name}");
        assert_eq!(
            found(json!({ "batch": [event], name: "t" }), "token=other").unwrap(),
            "t",
            "{name}"
        );
    }
    let inside = json!({ "event": "e", "distinct_id": "d", "properties": { "token": "t" } });
    assert_eq!(found(inside.clone(), "").unwrap(), "t");
    assert_eq!(found(json!({ "batch": [inside] }), "").unwrap(), "t");
    assert_eq!(found(event.clone(), "token=t").unwrap(), "t");
    assert_eq!(found(event.clone(), "api_key=t").unwrap(), "t");
    assert_eq!(found(event, ""), Err(Refusal::NoToken));
    assert_eq!(found(json!({ "batch": [], "api_key": "" }), ""), Err(Refusal::NoToken));
    let mixed =
        json!([{ "event": "e", "distinct_id": "d", "token": "t" }, { "event": "e", "distinct_id": "d", "token": "u" }]);
    assert_eq!(found(mixed, ""), Err(Refusal::ManyTokens));
    assert_eq!(read(r#"{"api_key":"t","batch":[]}"#).unwrap().events, []);
}

#[test]
fn both_names_of_a_field_may_be_there() {
    let captured = read(r#"{"api_key":"t","token":"u","event":"e","distinct_id":"a","$distinct_id":"b"}"#).unwrap();
    assert_eq!(
        (captured.token.as_str(), captured.events[0].distinct_id.as_str()),
        ("t", "a")
    );
}

#[test]
fn an_id_is_text_whatever_was_sent() {
    for (sent, kept) in [
        (json!("ann"), "ann"),
        (json!(7), "7"),
        (json!(7.5), "7.5"),
        (json!(true), "true"),
        (json!(["a", 1]), r#"["a",1]"#),
        (json!(" "), " "),
    ] {
        assert_eq!(only(&event(json!({ "distinct_id": sent }))).distinct_id, kept);
    }
    let inner = event(json!({ "distinct_id": null, "properties": { "distinct_id": "bob" } }));
    assert_eq!(only(&inner).distinct_id, "bob");
    for nobody in [json!(null), json!("")] {
        let body = event(json!({ "distinct_id": nobody }));
        assert_eq!(read(body.to_string()), Err(Refusal::NoDistinctId(0)));
    }
}

#[test]
fn names_and_ids_are_cut_by_characters() {
    let long = "é".repeat(250);
    let cut = only(&event(json!({ "event": long, "distinct_id": long })));
    assert_eq!((cut.event.chars().count(), cut.distinct_id.chars().count()), (200, 200));
    let exact = "é".repeat(200);
    assert_eq!(only(&event(json!({ "event": exact }))).event, exact);
}

#[test]
fn an_event_needs_a_name_unless_the_address_gives_one() {
    let second = json!({ "api_key": "t", "batch": [event(json!({})), { "distinct_id": "d", "event": "" }] });
    assert_eq!(read(second.to_string()), Err(Refusal::NoName(1)));
    let engage = Sent {
        unnamed: Some("$identify"),
        ..envelope("")
    };
    let body = json!({ "token": "t", "$distinct_id": "ann", "$set": { "a": 1 } });
    let captured = decode(body.to_string().into(), &engage).unwrap();
    assert_eq!(captured.events[0].event, "$identify");
    assert_eq!(captured.events[0].properties["$set"], json!({ "a": 1 }));
}

#[test]
fn a_uuid_is_kept_if_it_is_one() {
    let id = "0198c2f6-a9b4-7c01-8000-0123456789ab";
    assert_eq!(only(&event(json!({ "uuid": id }))).uuid, Some(id.parse().unwrap()));
    for none in [json!(null), json!(""), json!("nonsense"), json!(7)] {
        assert_eq!(only(&event(json!({ "uuid": none }))).uuid, None);
    }
}

#[test]
fn changes_of_persons_come_to_stand_in_the_properties() {
    let body = event(json!({
        "properties": { "plan": "x", "$set": { "a": 1, "b": 1 } },
        "$set": { "b": 2 }, "$set_once": { "c": 3 }, "$unset": ["d"],
    }));
    let expected = json!({ "plan": "x", "$set": { "a": 1, "b": 2 }, "$set_once": { "c": 3 }, "$unset": ["d"] });
    assert_eq!(Value::Object(only(&body).properties), expected);
    let none = event(json!({ "$set": null, "properties": null }));
    assert_eq!(Value::Object(only(&none).properties), json!({}));
}

#[test]
fn clocks_that_are_off_are_set_right() {
    let at = |fields: Value, query: &str| {
        let body = event(fields).to_string();
        let captured = decode(body.into(), &envelope(query)).unwrap();
        captured.events[0].timestamp - now()
    };
    let minute = TimeDelta::minutes(1);
    for written in [
        "2026-11-15T09:29:00Z",
        "2026-11-15T10:29:00+01:00",
        "2026-11-15T09:29:00",
        "2026-11-15 09:29:00.000",
    ] {
        assert_eq!(at(json!({ "timestamp": written }), ""), -minute, "{written}");
    }
    assert_eq!(at(json!({ "timestamp": "2026-11-15" }), ""), -TimeDelta::minutes(570));
    let wrong = json!({ "timestamp": "2001-01-01T00:00:00Z", "sent_at": "2001-01-01T00:01:00.000Z" });
    assert_eq!(at(wrong.clone(), ""), -minute);
    assert_eq!(
        at(json!({ "timestamp": "2001-01-01T00:00:00Z" }), "_=978307260000"),
        -minute
    );
    assert_eq!(
        at(
            json!({ "timestamp": "2001-01-01T00:00:00Z" }),
            "sent_at=2001-01-01T00:01:00Z"
        ),
        -minute
    );
    assert_eq!(at(json!({ "offset": 60_000 }), ""), -minute);
    assert_eq!(at(json!({}), "_=978307260000"), TimeDelta::zero());
    let mut old = wrong;
    old["properties"] = json!({ "$ignore_sent_at": true });
    assert_eq!(now() + at(old, ""), "2001-01-01T00:00:00Z".parse::<Time>().unwrap());
    let batch = r#"{"token":"t","sent_at":"2001-01-01T00:01:00Z","batch":[{"event":"e","distinct_id":"d","timestamp":"2001-01-01T00:00:00Z"}]}"#;
    assert_eq!(read(batch).unwrap().events[0].timestamp, now() - minute);
}

#[test]
fn times_that_make_no_sense_are_now() {
    for timestamp in [
        json!("yesterday"),
        json!(null),
        json!({}),
        json!(""),
        json!("2026-11-16T09:00:00Z"),
        json!("9999-12-31T00:00:00Z"),
        json!("0001-01-01T00:00:00Z"),
        json!("+262142-01-01T00:00:00Z"),
        json!(i64::MAX),
        json!(1e300),
        json!("2026-02-30T00:00:00Z"),
    ] {
        assert_eq!(
            only(&event(json!({ "timestamp": timestamp }))).timestamp,
            now(),
            "{timestamp}"
        );
    }
    assert_eq!(only(&event(json!({ "offset": i64::MIN }))).timestamp, now());
    let far = event(json!({ "timestamp": "9999-12-31T00:00:00Z", "sent_at": "0001-01-01T00:00:00Z" }));
    assert_eq!(only(&far).timestamp, now());
    let soon = now() + TimeDelta::hours(22);
    assert_eq!(only(&event(json!({ "timestamp": soon }))).timestamp, soon);
    assert_eq!(
        only(&event(json!({ "timestamp": now().timestamp() - 1 }))).timestamp,
        now() - TimeDelta::seconds(1)
    );
    let fine = only(&event(json!({ "timestamp": "2026-11-15T09:00:00.123456789Z" }))).timestamp;
    assert_eq!(fine, "2026-11-15T09:00:00.123456Z".parse::<Time>().unwrap());
}

#[test]
fn the_address_is_noted_unless_it_is_unwanted() {
    let noted = |properties: Value| {
        let envelope = Sent {
            address: Some([192, 0, 2, 7].into()),
            ..envelope("")
        };
        let body = event(json!({ "properties": properties })).to_string();
        let mut captured = decode(body.into(), &envelope).unwrap();
        captured.events[0].properties.remove("$ip")
    };
    assert_eq!(noted(json!({})), Some(json!("192.0.2.7")));
    assert_eq!(noted(json!({ "$ip": "198.51.100.1" })), Some(json!("198.51.100.1")));
    assert_eq!(noted(json!({ "$ip": null })), Some(json!(null)));
    assert_eq!(noted(json!({ "$geoip_disable": true })), None);
    assert_eq!(noted(json!({ "$geoip_disable": false })), Some(json!("192.0.2.7")));
}

#[test]
fn an_id_that_names_nobody_is_kept_for_the_event() {
    for id in ["undefined", "null", "0", "[object Object]", "anonymous"] {
        assert_eq!(only(&event(json!({ "distinct_id": id }))).distinct_id, id);
    }
}

#[test]
fn what_no_text_may_hold_is_replaced() {
    let body = r#"{"api_key":"t","event":"e\u0000","distinct_id":"\ud800","properties":{"\uDFFF k":"a\\u0000 \ud83d\ude00 \ud800\u0041 \ud800\ud83d\ude00 \\\u0000"}}"#;
    let seen = read(body).unwrap().events.remove(0);
    assert_eq!(
        (seen.event.as_str(), seen.distinct_id.as_str()),
        ("e\u{fffd}", "\u{fffd}")
    );
    let (key, value) = seen.properties.iter().next().unwrap();
    assert_eq!(key, "\u{fffd} k");
    assert_eq!(value, "a\\u0000 😀 \u{fffd}A \u{fffd}😀 \\\u{fffd}");
    let bytes = b"{\"api_key\":\"t\",\"event\":\"\xff\",\"distinct_id\":\"d\"}".to_vec();
    assert_eq!(read(bytes).unwrap().events[0].event, "\u{fffd}");
    for cut in [r#"{"a":"\"#, r#"{"a":"\u"#, r#"{"a":"\ud800\u"#, r#"{"a":"\ud800\"#] {
        assert!(matches!(read(cut), Err(Refusal::Unreadable(_))), "{cut}");
    }
}

proptest! {
    #[test]
    fn nothing_makes_it_fail(bytes in prop::collection::vec(any::<u8>(), 0..300), query in "[a-z=&%_0-9]{0,30}") {
        let _ = decode(bytes.clone(), &envelope(&query));
        let _ = decode([b"[".as_slice(), &bytes].concat(), &envelope(&query));
    }

    #[test]
    fn what_is_not_ours_comes_through_unchanged(key in "[a-z]{1,10}", value in "\\PC{0,40}", number in any::<i64>()) {
        let body = event(json!({ "properties": { &key: &value, "n": number } }));
        let seen = only(&body);
        prop_assert_eq!(&seen.properties["n"], &json!(number));
        if key != "n" {
            prop_assert_eq!(&seen.properties[&key], &json!(value));
        }
    }
}
