//! What apps keep for a while. It is lost when the process ends, and another process has its own: a cache.
//!
//! It is the server's memory, so it is counted: values stay text, and each configuration, each organization and all of
//! them together have a budget.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sandbox::{HostCall, Json};
use serde::Serialize;
use serde_json::json;
use service::pipeline::AppConfig;
use service::{AppConfigId, OrganizationId};

/// What one configuration may keep.
const MOST_KEYS: usize = 1000;
const LONGEST_KEY: usize = 200;
const LARGEST_VALUE: usize = 64 * 1024;
const MOST_ITEMS: usize = 1000;
/// In bytes of memory: a configuration, an organization, the process.
const OF_CONFIG: usize = 1024 * 1024;
const OF_ORGANIZATION: usize = 8 * OF_CONFIG;
const OF_ALL: usize = 64 * OF_CONFIG;
/// What a key takes beside its text and its value, and what an item of a list takes beside its text.
const PER_KEY: usize = 200;
const PER_ITEM: usize = 48;
/// What a configuration has not asked about for so long goes. What it does every day still finds what it kept the day
/// before.
const UNUSED: Duration = Duration::from_hours(25);
/// Who was heard of since then is still run.
const HEARD_OF: Duration = Duration::from_secs(15);

#[derive(Debug, Default)]
pub(crate) struct Caches(Mutex<All>);

/// Whose cache it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Whose {
    config: AppConfigId,
    organization: OrganizationId,
}

impl From<&AppConfig> for Whose {
    fn from(config: &AppConfig) -> Self {
        Self {
            config: config.id,
            organization: config.organization_id,
        }
    }
}

#[derive(Debug, Default)]
struct All {
    owned: HashMap<AppConfigId, Owned>,
    /// Bytes of each organization that has any.
    organizations: HashMap<OrganizationId, usize>,
    bytes: usize,
}

#[derive(Debug)]
struct Owned {
    organization: OrganizationId,
    cache: Cache,
    bytes: usize,
    used_at: Instant,
    /// When it was last seen that the configuration is still run.
    seen_at: Instant,
}

type Cache = HashMap<String, Kept>;

#[derive(Debug)]
struct Kept {
    value: Held,
    until: Option<Instant>,
}

#[derive(Debug)]
enum Held {
    One(Json),
    List(VecDeque<String>),
}

type Answer = Result<Json, String>;

impl Caches {
    /// Does what is asked, if it is about the cache.
    pub(crate) fn call(&self, whose: Whose, call: &HostCall, now: Instant) -> Option<Answer> {
        let key = key_of(call)?;
        if key.chars().count() > LONGEST_KEY {
            return Some(Err(format!("cache keys have at most {LONGEST_KEY} characters")));
        }
        let mut all = self.all();
        all.begin(whose, now);
        let done = all.carry_out(whose, call, now);
        all.end(whose);
        done
    }

    /// Lets go of what is over, and of what nobody has asked about for long.
    pub(crate) fn tidy(&self, now: Instant) {
        let mut all = self.all();
        let ids: Vec<AppConfigId> = all.owned.keys().copied().collect();
        for id in ids {
            let is_unused = all.owned.get(&id).is_some_and(|owned| now >= owned.used_at + UNUSED);
            all.expire(id, now);
            if is_unused || all.owned.get(&id).is_some_and(|owned| owned.cache.is_empty()) {
                all.forget(id);
            }
        }
    }

    /// Some that may not be run any more: they have not asked for anything lately. In the end every one of them is named.
    pub(crate) fn silent(&self, now: Instant, most: usize) -> Vec<AppConfigId> {
        let mut all = self.all();
        let is_silent = |owned: &Owned| now >= owned.used_at + HEARD_OF;
        let silent = all.owned.iter().filter(|(_, owned)| is_silent(owned));
        let mut silent: Vec<(Instant, AppConfigId)> = silent.map(|(id, owned)| (owned.seen_at, *id)).collect();
        silent.sort_unstable_by_key(|(seen_at, id)| (*seen_at, id.0));
        silent.truncate(most);
        for (_, id) in &silent {
            if let Some(owned) = all.owned.get_mut(id) {
                owned.seen_at = now;
            }
        }
        silent.into_iter().map(|(_, id)| id).collect()
    }

    /// Lets go of all that a configuration keeps.
    pub(crate) fn forget(&self, id: AppConfigId) {
        self.all().forget(id);
    }

    fn all(&self) -> MutexGuard<'_, All> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key_of(call: &HostCall) -> Option<&str> {
    match call {
        HostCall::CacheGet { key }
        | HostCall::CacheSet { key, .. }
        | HostCall::CacheIncr { key }
        | HostCall::CacheExpire { key, .. }
        | HostCall::CacheLpush { key, .. }
        | HostCall::CacheLrange { key, .. }
        | HostCall::CacheLlen { key }
        | HostCall::CacheLrem { key, .. }
        | HostCall::CacheLpop { key, .. } => Some(key),
        _ => None,
    }
}

impl Kept {
    fn is_good(&self, now: Instant) -> bool {
        self.until.is_none_or(|until| until > now)
    }
}

impl Held {
    fn bytes(&self) -> usize {
        match self {
            Self::One(value) => value.text().len(),
            Self::List(list) => list.iter().map(|item| PER_ITEM + item.len()).sum(),
        }
    }
}

impl All {
    fn begin(&mut self, whose: Whose, now: Instant) {
        let owned = self.owned.entry(whose.config).or_insert_with(|| Owned {
            organization: whose.organization,
            cache: Cache::default(),
            bytes: 0,
            used_at: now,
            seen_at: now,
        });
        owned.used_at = now;
        self.expire(whose.config, now);
    }

    /// Who keeps nothing takes no room, either.
    fn end(&mut self, whose: Whose) {
        if self
            .owned
            .get(&whose.config)
            .is_some_and(|owned| owned.cache.is_empty())
        {
            self.forget(whose.config);
        }
    }

    fn cache(&mut self, whose: Whose) -> Option<&mut Cache> {
        self.owned.get_mut(&whose.config).map(|owned| &mut owned.cache)
    }

    fn expire(&mut self, id: AppConfigId, now: Instant) {
        let Some(owned) = self.owned.get_mut(&id) else { return };
        let mut freed = 0;
        owned.cache.retain(|key, kept| {
            let is_good = kept.is_good(now);
            if !is_good {
                freed += weight(key, &kept.value);
            }
            is_good
        });
        self.change(id, freed, 0);
    }

    fn forget(&mut self, id: AppConfigId) {
        if let Some(owned) = self.owned.get(&id) {
            self.change(id, owned.bytes, 0);
            self.owned.remove(&id);
        }
    }

    /// Counts that so much is kept instead of so much.
    fn change(&mut self, id: AppConfigId, before: usize, after: usize) {
        let Some(owned) = self.owned.get_mut(&id) else { return };
        let count = |bytes: usize| bytes.saturating_sub(before) + after;
        owned.bytes = count(owned.bytes);
        self.bytes = count(self.bytes);
        let of_organization = self.organizations.entry(owned.organization).or_default();
        *of_organization = count(*of_organization);
        if *of_organization == 0 {
            self.organizations.remove(&owned.organization);
        }
    }

    /// Makes room for what takes so much instead of so much, and counts it.
    fn make_room(&mut self, whose: Whose, before: usize, after: usize) -> Result<(), String> {
        let grown = |bytes: usize| bytes.saturating_sub(before) + after;
        let of_config = self.owned.get(&whose.config).map_or(0, |owned| owned.bytes);
        if after > before && grown(of_config) > OF_CONFIG {
            return Err(format!(
                "the cache of this app is full: the limit is {OF_CONFIG} bytes, including keys and overhead"
            ));
        }
        let of_organization = self.organizations.get(&whose.organization).copied().unwrap_or_default();
        if after > before && grown(of_organization) > OF_ORGANIZATION {
            return Err(format!(
                "the caches of this organization's apps are full: the limit is {OF_ORGANIZATION} bytes in total"
            ));
        }
        while after > before && grown(self.bytes) > OF_ALL {
            let Some(first) = self.first_to_go(whose) else { break };
            self.forget(first);
        }
        self.change(whose.config, before, after);
        Ok(())
    }

    /// What was not used for longest, of the organization that has most: whoever keeps little does not pay for others.
    fn first_to_go(&self, whose: Whose) -> Option<AppConfigId> {
        let others = self.owned.iter().filter(|(id, _)| **id != whose.config);
        let of_organization = |owned: &Owned| self.organizations.get(&owned.organization).copied();
        let first = others.max_by_key(|(_, owned)| (of_organization(owned), Reverse(owned.used_at)));
        first.map(|(id, _)| *id)
    }

    fn carry_out(&mut self, whose: Whose, call: &HostCall, now: Instant) -> Option<Answer> {
        let done = match call {
            HostCall::CacheGet { key } => Ok(self.get(whose, key)),
            HostCall::CacheSet {
                key,
                value,
                ttl_seconds,
            } => self.set(whose, key, value, ttl_seconds.and_then(|seconds| after(now, seconds))),
            HostCall::CacheIncr { key } => self.increment(whose, key),
            HostCall::CacheExpire { key, ttl_seconds } => {
                let kept = self.cache(whose).and_then(|cache| cache.get_mut(key));
                let is_there = kept.is_some();
                if let Some(kept) = kept {
                    kept.until = after(now, *ttl_seconds);
                }
                Ok(written(&is_there))
            }
            HostCall::CacheLpush { key, values } => self.push(whose, key, values),
            HostCall::CacheLrange { key, start, end } => Ok(range(self.list(whose, key), *start, *end)),
            HostCall::CacheLlen { key } => Ok(written(&self.list(whose, key).map_or(0, |list| list.len()))),
            HostCall::CacheLrem { key, count, value } => {
                Ok(written(&self.shrink(whose, key, |list| remove(list, *count, value))))
            }
            HostCall::CacheLpop { key, count } => {
                let count = usize::try_from(*count).unwrap_or(usize::MAX);
                let popped: Vec<String> = self.shrink(whose, key, |list| list.drain(..count.min(list.len())).collect());
                Ok(written(&popped))
            }
            _ => return None,
        };
        Some(done)
    }

    fn get(&mut self, whose: Whose, key: &str) -> Json {
        match self
            .cache(whose)
            .and_then(|cache| cache.get(key))
            .map(|kept| &kept.value)
        {
            Some(Held::One(value)) => value.clone(),
            _ => Json::null(),
        }
    }

    fn set(&mut self, whose: Whose, key: &str, value: &Json, until: Option<Instant>) -> Answer {
        if value.text().len() > LARGEST_VALUE {
            return Err(format!("cache values have at most {LARGEST_VALUE} bytes"));
        }
        self.put(whose, key, Held::One(value.clone()), until)?;
        Ok(Json::null())
    }

    fn put(&mut self, whose: Whose, key: &str, value: Held, until: Option<Instant>) -> Result<(), String> {
        let cache = self.cache(whose);
        let before = match cache {
            Some(cache) if cache.len() >= MOST_KEYS && !cache.contains_key(key) => {
                return Err(format!("the cache holds at most {MOST_KEYS} keys"));
            }
            Some(cache) => cache.get(key).map_or(0, |kept| weight(key, &kept.value)),
            None => 0,
        };
        self.make_room(whose, before, weight(key, &value))?;
        if let Some(cache) = self.cache(whose) {
            cache.insert(key.to_owned(), Kept { value, until });
        }
        Ok(())
    }

    fn increment(&mut self, whose: Whose, key: &str) -> Answer {
        let kept = self.cache(whose).and_then(|cache| cache.get(key));
        let until = kept.and_then(|kept| kept.until);
        let number = match kept.map(|kept| &kept.value) {
            None => Some(0),
            Some(Held::One(value)) => whole_number(value),
            Some(Held::List(_)) => None,
        };
        let next = number.ok_or("only whole numbers can be incremented")?.saturating_add(1);
        self.put(whose, key, Held::One(written(&next)), until)?;
        Ok(written(&next))
    }

    fn push(&mut self, whose: Whose, key: &str, values: &[String]) -> Answer {
        let (length, until) = match self.cache(whose).and_then(|cache| cache.get(key)) {
            None => (None, None),
            Some(Kept {
                value: Held::List(list),
                until,
            }) => (Some(list.len()), *until),
            Some(_) => return Err("this key holds a value, not a list".to_owned()),
        };
        let new_length = length.unwrap_or_default() + values.len();
        if new_length > MOST_ITEMS || values.iter().any(|value| value.len() > LARGEST_VALUE) {
            return Err(format!(
                "lists in the cache have at most {MOST_ITEMS} items of {LARGEST_VALUE} bytes"
            ));
        }
        if length.is_none() {
            self.put(whose, key, Held::List(VecDeque::new()), until)?;
        }
        let added = values.iter().map(|value| PER_ITEM + value.len()).sum();
        self.make_room(whose, 0, added)?;
        if let Some(list) = self.list(whose, key) {
            for value in values {
                list.push_front(value.clone());
            }
        }
        Ok(written(&new_length))
    }

    fn list(&mut self, whose: Whose, key: &str) -> Option<&mut VecDeque<String>> {
        match &mut self.cache(whose)?.get_mut(key)?.value {
            Held::List(list) => Some(list),
            Held::One(_) => None,
        }
    }

    /// Takes something from a list.
    fn shrink<T: Default>(&mut self, whose: Whose, key: &str, take: impl FnOnce(&mut VecDeque<String>) -> T) -> T {
        let bytes = |list: &VecDeque<String>| list.iter().map(|item| PER_ITEM + item.len()).sum::<usize>();
        let Some(list) = self.list(whose, key) else {
            return T::default();
        };
        let before = bytes(list);
        let taken = take(list);
        list.shrink_to_fit();
        let after = bytes(list);
        self.change(whose.config, before, after);
        taken
    }
}

/// What a key and its value take.
fn weight(key: &str, value: &Held) -> usize {
    PER_KEY + key.len() + value.bytes()
}

fn written(value: &impl Serialize) -> Json {
    let text = serde_json::to_string(value).ok();
    text.and_then(Json::from_text).unwrap_or_else(Json::null)
}

/// A number, or a text that is one.
fn whole_number(value: &Json) -> Option<i64> {
    let text = value.text();
    let inner = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    inner.unwrap_or(text).trim().parse().ok()
}

fn after(now: Instant, seconds: f64) -> Option<Instant> {
    let time = Duration::try_from_secs_f64(seconds.max(0.0)).ok()?;
    now.checked_add(time)
}

/// The end is included, and negative places count from the end.
fn range(list: Option<&mut VecDeque<String>>, start: i64, end: i64) -> Json {
    let Some(list) = list else { return json!([]).into() };
    let length = i64::try_from(list.len()).unwrap_or(i64::MAX);
    let place = |at: i64| if at < 0 { length.saturating_add(at) } else { at };
    let (from, until) = (place(start).max(0), place(end).min(length - 1) + 1);
    let skipped = usize::try_from(from).unwrap_or(usize::MAX);
    let taken = usize::try_from(until.saturating_sub(from)).unwrap_or(0);
    written(&list.iter().skip(skipped).take(taken).collect::<Vec<_>>())
}

/// From the front, or from the back if `count` is negative; all of them if it is 0.
fn remove(list: &mut VecDeque<String>, count: i64, value: &str) -> usize {
    let mut left = if count == 0 {
        usize::MAX
    } else {
        usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX)
    };
    let before = list.len();
    let mut keep = |item: &String| {
        let goes = left > 0 && item == value;
        left -= usize::from(goes);
        !goes
    };
    if count < 0 {
        let kept: Vec<String> = std::mem::take(list)
            .into_iter()
            .rev()
            .filter(|item| keep(item))
            .collect();
        list.extend(kept.into_iter().rev());
    } else {
        list.retain(|item| keep(item));
    }
    before - list.len()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

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
        let large = json!("x".repeat(LARGEST_VALUE - 2));
        let fill = |whose: Whose, at: Instant| {
            let stored = |key: usize| answer(&caches, whose, &set(&key.to_string(), large.clone(), None), at);
            (0..MOST_KEYS)
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
        let large = json!("x".repeat(LARGEST_VALUE - 2));
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
            values: vec![String::new(); MOST_ITEMS],
        };
        let refused = (0..MOST_KEYS).find_map(|key| answer(&caches, whose(1), &push(key), now).err());
        assert!(refused.expect("there is an end").contains("full"));
        assert!(check(&caches) <= OF_CONFIG);
        let long = get(&"k".repeat(LONGEST_KEY + 1));
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
}
