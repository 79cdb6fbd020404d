//! What events make of persons.

use serde_json::json;

use super::*;

fn event(name: &str, distinct_id: &str, properties: Value) -> Incoming {
    let Value::Object(properties) = properties else {
        panic!("not an object")
    };
    Incoming {
        uuid: None,
        event: name.to_owned(),
        distinct_id: distinct_id.to_owned(),
        properties,
        timestamp: chrono::DateTime::UNIX_EPOCH,
    }
}

fn change(name: &str, distinct_id: &str, properties: Value) -> Change {
    match effect(&event(name, distinct_id, properties)) {
        Effect::Person(change) => change,
        Effect::None => panic!("no person"),
    }
}

fn merges(name: &str, distinct_id: &str, properties: Value) -> Option<String> {
    change(name, distinct_id, properties)
        .merge
        .map(|merge| merge.distinct_id)
}

fn applied(properties: Value, told: Value) -> (Value, bool) {
    let Value::Object(mut properties) = properties else {
        panic!("not an object")
    };
    let is_changed = change("x", "a", told).apply(&mut properties);
    (Value::Object(properties), is_changed)
}

#[test]
fn the_id_of_a_person_is_the_origins() {
    // `uuid5("932979b4-65c3-4424-8467-0b66ec27bc22", "2:ada")`, by Python.
    assert_eq!(person_id(2, "ada").to_string(), "141864c7-9fbf-56d9-9893-fbc7bfa54733");
    assert_ne!(person_id(2, "ada"), person_id(3, "ada"));
}

#[test]
fn set_replaces_set_once_does_not_and_unset_removes() {
    let told = json!({"$set": {"a": 2}, "$set_once": {"a": 3, "b": 4, "c": 5}, "$unset": ["d", "e"]});
    let (properties, is_changed) = applied(json!({"a": 1, "b": 1, "d": 1}), told);
    assert_eq!(properties, json!({"a": 2, "b": 1, "c": 5}));
    assert!(is_changed);
}

#[test]
fn saying_what_is_known_changes_nothing() {
    let told = json!({"$set": {"a": 1}, "$set_once": {"a": 2}, "$unset": {"b": true}});
    assert_eq!(applied(json!({"a": 1}), told), (json!({"a": 1}), false));
}

#[test]
fn set_wins_over_set_once_in_one_event() {
    let told = json!({"$set": {"a": 1}, "$set_once": {"a": 2}});
    assert_eq!(applied(json!({}), told).0, json!({"a": 1}));
}

#[test]
fn what_is_no_object_sets_nothing() {
    let told = json!({"$set": "a", "$set_once": [1], "$unset": 3});
    assert_eq!(applied(json!({"a": 1}), told), (json!({"a": 1}), false));
}

#[test]
fn identify_and_alias_merge_and_others_do_not() {
    let anonymous = json!({"$anon_distinct_id": "anon-1", "alias": "alias-1"});
    assert_eq!(merges("$identify", "ada", anonymous.clone()).as_deref(), Some("anon-1"));
    assert_eq!(
        merges("$create_alias", "ada", anonymous.clone()).as_deref(),
        Some("alias-1")
    );
    assert_eq!(merges("page", "ada", anonymous), None);
    assert_eq!(
        merges("$create_alias", "ada", json!({"alias": 7})).as_deref(),
        Some("7")
    );
}

#[test]
fn only_a_dangerous_merge_is_forced() {
    let forced = |name| {
        change(name, "ada", json!({"alias": "b", "$anon_distinct_id": "b"}))
            .merge
            .unwrap()
            .is_forced
    };
    assert!(forced("$merge_dangerously"));
    assert!(!forced("$create_alias"));
    assert!(!forced("$identify"));
}

#[test]
fn nobody_is_merged_with_themselves_or_by_a_name_that_means_nobody() {
    assert_eq!(merges("$identify", "ada", json!({"$anon_distinct_id": "ada"})), None);
    for nobody in ["", "  ", "null", "undefined", "[object Object]", "Anonymous", "\"0\""] {
        assert_eq!(
            merges("$identify", "ada", json!({"$anon_distinct_id": nobody})),
            None,
            "{nobody}"
        );
        assert_eq!(
            merges("$identify", nobody, json!({"$anon_distinct_id": "b"})),
            None,
            "{nobody}"
        );
    }
}

#[test]
fn the_other_id_is_as_long_as_ids_of_events_are() {
    let (long, cut) = ("ä".repeat(100_000), "ä".repeat(200));
    assert_eq!(
        merges("$create_alias", "ada", json!({"alias": long})),
        Some(cut.clone())
    );
    assert_eq!(
        merges("$create_alias", &cut, json!({"alias": long})),
        None,
        "that is the same id"
    );
}

#[test]
fn some_events_have_no_person() {
    for told in [json!(false), json!("false")] {
        assert_eq!(
            effect(&event(
                "x",
                "a",
                json!({"$process_person_profile": told, "$set": {"a": 1}})
            )),
            Effect::None
        );
    }
    assert_eq!(effect(&event("$groupidentify", "a", json!({}))), Effect::None);
    assert!(matches!(
        effect(&event("x", "a", json!({"$process_person_profile": true}))),
        Effect::Person(_)
    ));
}

#[test]
fn of_two_persons_the_one_who_stays_wins() {
    let (Value::Object(stays), Value::Object(goes)) = (json!({"a": 1, "b": 1}), json!({"b": 2, "c": 2})) else {
        panic!("not objects")
    };
    assert_eq!(Value::Object(merged(stays, goes)), json!({"a": 1, "b": 1, "c": 2}));
}

fn many(count: usize) -> Value {
    Value::Array(vec![json!({"": 1}); count])
}

#[test]
fn a_person_has_so_much_and_no_more() {
    let long = "x".repeat(MAX_PROPERTY_BYTES / 2);
    let Applied::Changed(text) = change("x", "a", json!({"$set": {"a": long}})).apply_to("{}") else {
        panic!("half of it fits")
    };
    let more = change("x", "a", json!({"$set": {"b": long}, "$set_once": {"c": 1}}));
    assert_eq!(more.apply_to(&text), Applied::TooLarge(None));
    let less = change(
        "x",
        "a",
        json!({"$set": {"b": format!("{long}{long}")}, "$unset": ["a"]}),
    );
    assert_eq!(
        less.apply_to(&text),
        Applied::TooLarge(Some("{}".into())),
        "removing always works"
    );
    let instead = change("x", "a", json!({"$set": {"a": 1}}));
    assert_eq!(instead.apply_to(&text), Applied::Changed(r#"{"a":1}"#.into()));
}

#[test]
fn many_small_values_are_as_bad_as_long_ones() {
    let set = change("x", "a", json!({"$set": {"a": many(MAX_PROPERTY_VALUES)}}));
    assert!(set.is_too_large && !set.touches_properties(), "nothing of it is copied");
    let half = change("x", "a", json!({"$set": {"a": many(MAX_PROPERTY_VALUES / 4)}}));
    assert!(!half.is_too_large);
    let Applied::Changed(text) = half.apply_to("{}") else {
        panic!("it fits")
    };
    let more = change("x", "a", json!({"$set": {"b": many(MAX_PROPERTY_VALUES / 4)}}));
    assert_eq!(more.apply_to(&text), Applied::TooLarge(None));
}

#[test]
fn of_two_large_persons_only_the_one_who_stays_is_kept() {
    let text = |key: &str| -> Arc<str> { json!({ key: "x".repeat(MAX_PROPERTY_BYTES / 2) }).to_string().into() };
    let (stays, goes) = (text("a"), text("b"));
    assert_eq!(merged_text(&stays, &goes), (stays.clone(), false));
    assert_eq!(merged_text(&"{}".into(), &goes), (goes, true));
}

#[test]
fn what_a_request_may_make_of_persons_depends_on_its_size() {
    let (budget, nothing) = (Budgets::default().of((1, Source::Inside), 200), Change::default());
    let mut allowance = Allowance::new(200, budget);
    allowance.spend(3 * MAX_PROPERTY_BYTES);
    assert!(
        allowance.is_enough_for(&nothing),
        "one event is always taken with its person"
    );
    allowance.spend(Allowance::LEAST);
    assert!(!allowance.is_enough_for(&nothing));
    let mut large = Allowance::new(1 << 20, budget);
    large.spend(Allowance::LEAST);
    assert!(large.is_enough_for(&nothing));
}

/// As many times as a request of so many bytes, which stores so much, is taken at once.
fn taken(budgets: &mut Budgets, sender: Sender, sent: usize, stored: usize) -> usize {
    let new = change("x", "a", json!({"$set": {"a": 1}}));
    let requests = 0..1_000;
    let is_taken = |_: &usize| {
        let mut allowance = Allowance::new(sent, budgets.of(sender, sent));
        let is_enough = allowance.is_enough_for(&new);
        allowance.store(if is_enough { stored } else { 0 });
        budgets.put_back(sender, allowance.budget());
        is_enough
    };
    requests.take_while(is_taken).count()
}

#[test]
fn what_a_sender_may_have_stored_of_persons_depends_on_all_that_it_sent() {
    let mut budgets = Budgets::default();
    let from = |last: u8| Source::Subnet([127, 0, 0, last].into());
    let sender = (1, from(1));
    let of_a_person = MAX_PROPERTY_BYTES;
    let times = taken(&mut budgets, sender, 100, of_a_person);
    assert!((120..150).contains(&times), "{times}");
    assert!(
        taken(&mut budgets, sender, 100, of_a_person) <= 1,
        "small requests are not enough"
    );
    assert_eq!(
        taken(&mut budgets, (2, from(1)), 100, 1_600),
        1_000,
        "another team has its own"
    );
    assert_eq!(
        taken(&mut budgets, (1, from(2)), 100, 1_600),
        1_000,
        "and so has another subnet"
    );
    let event = Allowance::new(100, budgets.of(sender, 100));
    assert!(
        event.is_enough_for(&Change::default()) && event.is_enough_to_store(0),
        "what costs nothing goes on"
    );
    let later = budgets.senders[&sender].at + std::time::Duration::from_mins(10);
    let grown = budgets.senders[&sender].left_at(later);
    assert!(grown > 600 * 60 * 1024 && grown < Budgets::MAX, "{grown}");
}

#[test]
fn only_so_many_budgets_are_kept() {
    let mut budgets = Budgets::default();
    let at = Instant::now();
    for team in 0..3 * i64::try_from(Budgets::MAX_SENDERS).unwrap() {
        let left = if team == 0 { 0 } else { Budgets::MAX - 1 - team };
        budgets.put_back((team, Source::Inside), Budget { left, at });
    }
    assert!(budgets.senders.len() <= Budgets::MAX_SENDERS);
    assert!(
        budgets.senders.contains_key(&(0, Source::Inside)),
        "whoever has used all is kept"
    );
}
