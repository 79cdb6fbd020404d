//! What apps keep for a while. It is lost when the process ends, and another process has its own: a cache.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sandbox::HostCall;
use serde_json::{Value, json};
use service::AppConfigId;

/// What one configuration may keep.
const MOST_KEYS: usize = 1000;
const LARGEST_VALUE: usize = 64 * 1024;
const MOST_ITEMS: usize = 1000;
/// What a configuration has not asked about for so long goes: it is switched off, or deleted. What it does every day still
/// finds what it kept the day before.
const UNUSED: Duration = Duration::from_hours(25);

#[derive(Debug, Default)]
pub(crate) struct Caches(Mutex<HashMap<AppConfigId, Owned>>);

#[derive(Debug)]
struct Owned {
    cache: Cache,
    used_at: Instant,
}

type Cache = HashMap<String, Kept>;

#[derive(Debug)]
struct Kept {
    value: Held,
    until: Option<Instant>,
}

#[derive(Debug)]
enum Held {
    One(Value),
    List(VecDeque<String>),
}

impl Caches {
    /// Does what is asked, if it is about the cache.
    pub(crate) fn call(&self, config: AppConfigId, call: &HostCall, now: Instant) -> Option<Result<Value, String>> {
        let mut caches = self.caches();
        let owned = caches.entry(config).or_insert_with(|| Owned {
            cache: Cache::default(),
            used_at: now,
        });
        owned.used_at = now;
        owned.cache.retain(|_, kept| kept.is_good(now));
        carry_out(&mut owned.cache, call, now)
    }

    /// Lets go of what is over, and of what nobody has asked about for long.
    pub(crate) fn tidy(&self, now: Instant) {
        self.caches().retain(|_, owned| {
            owned.cache.retain(|_, kept| kept.is_good(now));
            !owned.cache.is_empty() && now < owned.used_at + UNUSED
        });
    }

    fn caches(&self) -> MutexGuard<'_, HashMap<AppConfigId, Owned>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn is_good(&self, now: Instant) -> bool {
        self.until.is_none_or(|until| until > now)
    }
}

fn carry_out(cache: &mut Cache, call: &HostCall, now: Instant) -> Option<Result<Value, String>> {
    let done = match call {
        HostCall::CacheGet { key } => Ok(match cache.get(key).map(|kept| &kept.value) {
            Some(Held::One(value)) => value.clone(),
            _ => Value::Null,
        }),
        HostCall::CacheSet {
            key,
            value,
            ttl_seconds,
        } => set(cache, key, value, *ttl_seconds, now),
        HostCall::CacheIncr { key } => increment(cache, key),
        HostCall::CacheExpire { key, ttl_seconds } => Ok(match cache.get_mut(key) {
            Some(kept) => {
                kept.until = after(now, *ttl_seconds);
                true.into()
            }
            None => false.into(),
        }),
        HostCall::CacheLpush { key, values } => push(cache, key, values),
        HostCall::CacheLrange { key, start, end } => Ok(range(list(cache, key), *start, *end)),
        HostCall::CacheLlen { key } => Ok(list(cache, key).map_or(0, |list| list.len()).into()),
        HostCall::CacheLrem { key, count, value } => Ok(remove(list(cache, key), *count, value).into()),
        HostCall::CacheLpop { key, count } => {
            let count = usize::try_from(*count).unwrap_or(usize::MAX);
            let popped: Vec<String> = match list(cache, key) {
                Some(list) => list.drain(..count.min(list.len())).collect(),
                None => Vec::new(),
            };
            Ok(json!(popped))
        }
        _ => return None,
    };
    Some(done)
}

fn after(now: Instant, seconds: f64) -> Option<Instant> {
    let time = Duration::try_from_secs_f64(seconds.max(0.0)).ok()?;
    now.checked_add(time)
}

fn set(cache: &mut Cache, key: &str, value: &Value, ttl: Option<f64>, now: Instant) -> Result<Value, String> {
    if value.to_string().len() > LARGEST_VALUE {
        return Err(format!("a value in the cache has at most {LARGEST_VALUE} bytes"));
    }
    room(cache, key)?;
    let kept = Kept {
        value: Held::One(value.clone()),
        until: ttl.and_then(|seconds| after(now, seconds)),
    };
    cache.insert(key.to_owned(), kept);
    Ok(Value::Null)
}

fn room(cache: &Cache, key: &str) -> Result<(), String> {
    if cache.len() < MOST_KEYS || cache.contains_key(key) {
        return Ok(());
    }
    Err(format!("the cache holds at most {MOST_KEYS} keys"))
}

fn increment(cache: &mut Cache, key: &str) -> Result<Value, String> {
    room(cache, key)?;
    let kept = cache.entry(key.to_owned()).or_insert(Kept {
        value: Held::One(0.into()),
        until: None,
    });
    let number = match &kept.value {
        Held::One(Value::Number(number)) => number.as_i64(),
        Held::One(Value::String(text)) => text.trim().parse().ok(),
        _ => None,
    };
    let next = number.ok_or("only whole numbers can be counted up")?.saturating_add(1);
    kept.value = Held::One(next.into());
    Ok(next.into())
}

fn push(cache: &mut Cache, key: &str, values: &[String]) -> Result<Value, String> {
    room(cache, key)?;
    let kept = cache.entry(key.to_owned()).or_insert(Kept {
        value: Held::List(VecDeque::new()),
        until: None,
    });
    let Held::List(list) = &mut kept.value else {
        return Err("this key holds a value, not a list".to_owned());
    };
    if list.len() + values.len() > MOST_ITEMS || values.iter().any(|value| value.len() > LARGEST_VALUE) {
        return Err(format!(
            "a list in the cache has at most {MOST_ITEMS} items of {LARGEST_VALUE} bytes"
        ));
    }
    for value in values {
        list.push_front(value.clone());
    }
    Ok(list.len().into())
}

fn list<'a>(cache: &'a mut Cache, key: &str) -> Option<&'a mut VecDeque<String>> {
    match &mut cache.get_mut(key)?.value {
        Held::List(list) => Some(list),
        Held::One(_) => None,
    }
}

/// The end is included, and negative places count from the end.
fn range(list: Option<&mut VecDeque<String>>, start: i64, end: i64) -> Value {
    let Some(list) = list else { return json!([]) };
    let length = i64::try_from(list.len()).unwrap_or(i64::MAX);
    let place = |at: i64| if at < 0 { length + at } else { at };
    let (from, until) = (place(start).max(0), place(end).min(length - 1) + 1);
    let skipped = usize::try_from(from).unwrap_or(usize::MAX);
    let taken = usize::try_from(until - from).unwrap_or(0);
    json!(list.iter().skip(skipped).take(taken).collect::<Vec<_>>())
}

/// From the front, or from the back if `count` is negative; all of them if it is 0.
fn remove(list: Option<&mut VecDeque<String>>, count: i64, value: &str) -> usize {
    let Some(list) = list else { return 0 };
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
    use super::*;

    fn ask(caches: &Caches, call: &HostCall, now: Instant) -> Value {
        caches
            .call(AppConfigId(1), call, now)
            .expect("about the cache")
            .expect("fine")
    }

    #[test]
    fn values_go_when_their_time_is_over() {
        let (caches, now) = (Caches::default(), Instant::now());
        let key = || "k".to_owned();
        let set = HostCall::CacheSet {
            key: key(),
            value: json!(7),
            ttl_seconds: Some(5.0),
        };
        ask(&caches, &set, now);
        assert_eq!(ask(&caches, &HostCall::CacheIncr { key: key() }, now), 8);
        assert_eq!(
            ask(
                &caches,
                &HostCall::CacheGet { key: key() },
                now + Duration::from_secs(4)
            ),
            8
        );
        assert_eq!(
            ask(
                &caches,
                &HostCall::CacheGet { key: key() },
                now + Duration::from_secs(6)
            ),
            Value::Null
        );
    }

    #[test]
    fn what_is_over_or_long_unused_is_let_go() {
        let (caches, start) = (Caches::default(), Instant::now());
        let later = |hours| start + Duration::from_hours(hours);
        let set = |config, ttl_seconds| {
            let (key, value) = ("k".to_owned(), json!(1));
            let call = HostCall::CacheSet {
                key,
                value,
                ttl_seconds,
            };
            caches.call(AppConfigId(config), &call, start);
        };
        let get = |config, now| {
            let call = HostCall::CacheGet { key: "k".to_owned() };
            caches.call(AppConfigId(config), &call, now)
        };
        let held = || {
            let mut ids: Vec<i64> = caches.caches().keys().map(|id| id.0).collect();
            ids.sort_unstable();
            ids
        };
        set(1, None);
        set(2, None);
        set(3, Some(60.0));
        // Who only asks keeps nothing.
        get(4, start);
        caches.tidy(start);
        assert_eq!(held(), [1, 2, 3]);
        caches.tidy(later(1));
        assert_eq!(held(), [1, 2]);
        assert_eq!(get(1, later(24)), Some(Ok(json!(1))), "a day later it is still there");
        caches.tidy(later(26));
        assert_eq!(held(), [1]);
        caches.tidy(later(50));
        assert_eq!(held(), Vec::<i64>::new());
    }

    #[test]
    fn lists_work_from_both_ends() {
        let (caches, now) = (Caches::default(), Instant::now());
        let key = || "l".to_owned();
        let values = ["a", "b", "a", "c"].map(str::to_owned).to_vec();
        assert_eq!(ask(&caches, &HostCall::CacheLpush { key: key(), values }, now), 4);
        let all = HostCall::CacheLrange {
            key: key(),
            start: 0,
            end: -1,
        };
        assert_eq!(ask(&caches, &all, now), json!(["c", "a", "b", "a"]));
        let rem = HostCall::CacheLrem {
            key: key(),
            count: -1,
            value: "a".to_owned(),
        };
        assert_eq!(ask(&caches, &rem, now), 1);
        assert_eq!(
            ask(&caches, &HostCall::CacheLpop { key: key(), count: 2 }, now),
            json!(["c", "a"])
        );
        assert_eq!(ask(&caches, &HostCall::CacheLlen { key: key() }, now), 1);
    }

    #[test]
    fn configurations_do_not_see_each_other() {
        let (caches, now) = (Caches::default(), Instant::now());
        let set = HostCall::CacheSet {
            key: "k".to_owned(),
            value: json!(1),
            ttl_seconds: None,
        };
        ask(&caches, &set, now);
        let get = HostCall::CacheGet { key: "k".to_owned() };
        assert_eq!(caches.call(AppConfigId(2), &get, now), Some(Ok(Value::Null)));
    }
}
