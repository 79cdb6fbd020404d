//! What is kept for how long, and who gives way when it is too much.

use serde_json::{Value, json};
use service::OrganizationId;

use super::commands::{MAX_ITEMS, MAX_KEYS, MAX_VALUE};
use super::kept::{OF_ALL, OF_CONFIG, OF_ORGANIZATION, weight};
use super::*;

fn whose(config: i64) -> Whose {
    Whose {
        config: AppConfigId(config),
        organization: OrganizationId(uuid::Uuid::nil()),
    }
}

fn set(key: &str, value: Value, ttl_seconds: Option<f64>) -> HostCall {
    HostCall::CacheSet {
        key: key.to_owned(),
        value: value.into(),
        ttl_seconds,
    }
}

fn get(key: &str) -> HostCall {
    HostCall::CacheGet { key: key.to_owned() }
}

fn answer(caches: &Caches, whose: Whose, call: &HostCall, now: Instant) -> Result<Value, String> {
    let answer = caches.call(whose, call, now).expect("about the cache")?;
    Ok(serde_json::from_str(answer.text()).expect("JSON"))
}

fn ask(caches: &Caches, call: &HostCall, now: Instant) -> Value {
    answer(caches, whose(1), call, now).expect("fine")
}

fn held(caches: &Caches) -> Vec<i64> {
    let mut ids: Vec<i64> = caches.all().owned.keys().map(|id| id.0).collect();
    ids.sort_unstable();
    ids
}

/// What is counted is what is there.
fn check(caches: &Caches) -> usize {
    let all = caches.all();
    let of = |owned: &Owned| {
        owned
            .cache
            .iter()
            .map(|(key, kept)| weight(key, &kept.value))
            .sum::<usize>()
    };
    assert!(all.owned.values().all(|owned| owned.bytes == of(owned)));
    assert_eq!(all.bytes, all.owned.values().map(of).sum::<usize>());
    assert_eq!(all.bytes, all.organizations.values().sum::<usize>());
    all.bytes
}

#[test]
fn values_go_when_their_time_is_over() {
    let (caches, now) = (Caches::default(), Instant::now());
    ask(&caches, &set("k", json!(7), Some(5.0)), now);
    assert_eq!(ask(&caches, &HostCall::CacheIncr { key: "k".to_owned() }, now), 8);
    assert_eq!(ask(&caches, &get("k"), now + Duration::from_secs(4)), 8);
    assert_eq!(ask(&caches, &get("k"), now + Duration::from_secs(6)), Value::Null);
    assert_eq!(check(&caches), 0);
}

#[test]
fn what_is_over_or_long_unused_is_let_go() {
    let (caches, start) = (Caches::default(), Instant::now());
    let later = |hours| start + Duration::from_hours(hours);
    for (config, ttl) in [(1, None), (2, None), (3, Some(60.0))] {
        answer(&caches, whose(config), &set("k", json!(1), ttl), start).expect("fine");
    }
    // Who only asks keeps nothing.
    answer(&caches, whose(4), &get("k"), start).expect("fine");
    caches.tidy(start);
    assert_eq!(held(&caches), [1, 2, 3]);
    caches.tidy(later(1));
    assert_eq!(held(&caches), [1, 2]);
    let kept = answer(&caches, whose(1), &get("k"), later(24));
    assert_eq!(kept, Ok(json!(1)), "a day later it is still there");
    caches.tidy(later(26));
    assert_eq!(held(&caches), [1]);
    caches.tidy(later(50));
    assert_eq!(held(&caches), Vec::<i64>::new());
    assert_eq!(check(&caches), 0);
}

#[test]
fn lists_work_from_both_ends() {
    let (caches, now) = (Caches::default(), Instant::now());
    let key = || "l".to_owned();
    let values = ["a", "b", "a", "c"].map(str::to_owned).to_vec();
    assert_eq!(ask(&caches, &HostCall::CacheLpush { key: key(), values }, now), 4);
    let range = |start, end| HostCall::CacheLrange { key: key(), start, end };
    assert_eq!(ask(&caches, &range(0, -1), now), json!(["c", "a", "b", "a"]));
    assert_eq!(
        ask(&caches, &range(i64::MIN, i64::MAX), now),
        json!(["c", "a", "b", "a"])
    );
    assert_eq!(ask(&caches, &range(i64::MAX, i64::MIN), now), json!([]));
    let rem = HostCall::CacheLrem {
        key: key(),
        count: -1,
        value: "a".to_owned(),
    };
    assert_eq!(ask(&caches, &rem, now), 1);
    let popped = ask(&caches, &HostCall::CacheLpop { key: key(), count: 2 }, now);
    assert_eq!(popped, json!(["c", "a"]));
    assert_eq!(ask(&caches, &HostCall::CacheLlen { key: key() }, now), 1);
    check(&caches);
}

#[test]
fn configurations_do_not_see_each_other() {
    let (caches, now) = (Caches::default(), Instant::now());
    ask(&caches, &set("k", json!(1), None), now);
    assert_eq!(answer(&caches, whose(2), &get("k"), now), Ok(Value::Null));
}

#[test]
fn a_configuration_an_organization_and_all_together_have_a_budget() {
    let (caches, now) = (Caches::default(), Instant::now());
    let large = json!("x".repeat(MAX_VALUE - 2));
    let fill = |whose: Whose, at: Instant| {
        let stored = |key: usize| answer(&caches, whose, &set(&key.to_string(), large.clone(), None), at);
        (0..MAX_KEYS)
            .map(stored)
            .find_map(Result::err)
            .expect("there is an end")
    };
    let error = fill(whose(1), now);
    assert!(error.contains("cache of this app is full"), "{error}");
    assert!(check(&caches) <= OF_CONFIG);
    // What is there can still be made smaller, and there is room again.
    ask(&caches, &set("0", json!(1), None), now);
    ask(&caches, &set("small", json!(1), None), now);
    let later = now + Duration::from_millis(500);
    let errors: Vec<String> = (2..20).map(|config| fill(whose(config), later)).collect();
    assert!(
        errors
            .last()
            .is_some_and(|error| error.contains("of this organization"))
    );
    assert!(check(&caches) <= OF_ORGANIZATION);
    for number in 0..70_u128 {
        let other = Whose {
            config: AppConfigId(1000 + i64::try_from(number).expect("few")),
            organization: OrganizationId(uuid::Uuid::from_u128(number + 1)),
        };
        fill(other, now + Duration::from_secs(1));
    }
    assert!((OF_ALL / 2..=OF_ALL).contains(&check(&caches)));
    assert!(
        !held(&caches).contains(&1),
        "what was not used for longest has gone first"
    );
}

#[test]
fn organizations_that_keep_much_push_out_each_other_only() {
    let (caches, now) = (Caches::default(), Instant::now());
    let kept = |config: i64, organization: u128| Whose {
        config: AppConfigId(config),
        organization: OrganizationId(uuid::Uuid::from_u128(organization)),
    };
    answer(&caches, kept(1, 1), &set("k", json!(1), None), now).expect("fine");
    let large = json!("x".repeat(MAX_VALUE - 2));
    for config in 100..200_i64 {
        let whose = kept(config, u128::try_from(config / 8).expect("positive"));
        for key in 0..15 {
            let later = now + Duration::from_secs(1);
            answer(&caches, whose, &set(&key.to_string(), large.clone(), None), later).expect("fine");
        }
    }
    assert!(check(&caches) <= OF_ALL);
    assert_eq!(answer(&caches, kept(1, 1), &get("k"), now), Ok(json!(1)));
}

#[test]
fn lists_and_keys_count_for_what_they_take() {
    let (caches, now) = (Caches::default(), Instant::now());
    let push = |key: usize| HostCall::CacheLpush {
        key: key.to_string(),
        values: vec![String::new(); MAX_ITEMS],
    };
    let refused = (0..MAX_KEYS).find_map(|key| answer(&caches, whose(1), &push(key), now).err());
    assert!(refused.expect("there is an end").contains("full"));
    assert!(check(&caches) <= OF_CONFIG);
    let long = get(&"k".repeat(MAX_KEY + 1));
    assert!(answer(&caches, whose(1), &long, now).is_err());
}

#[test]
fn those_that_are_silent_are_named_in_turn_and_can_be_forgotten() {
    let (caches, now) = (Caches::default(), Instant::now());
    for config in 1..=3 {
        answer(&caches, whose(config), &set("k", json!(1), None), now).expect("fine");
    }
    assert!(caches.silent(now, 2).is_empty(), "they were heard of just now");
    let later = now + Duration::from_mins(1);
    assert_eq!(caches.silent(later, 2), [AppConfigId(1), AppConfigId(2)]);
    assert_eq!(caches.silent(later, 1), [AppConfigId(3)]);
    caches.forget(AppConfigId(2));
    assert_eq!(held(&caches), [1, 3]);
    check(&caches);
}
