//! The commands on the cache that apps know: values, counters and lists.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use sandbox::{HostCall, Json};
use serde::Serialize;
use serde_json::json;

use super::kept::{All, Held, Kept, PER_ITEM, Whose, weight};

/// What one configuration may keep.
pub(super) const MAX_KEYS: usize = 1000;
pub(super) const MAX_VALUE: usize = 64 * 1024;
pub(super) const MAX_ITEMS: usize = 1000;

pub(super) type Answer = Result<Json, String>;

/// The key that a call is about, if it is about the cache.
pub(super) fn key_of(call: &HostCall) -> Option<&str> {
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

impl All {
    pub(super) fn carry_out(&mut self, whose: Whose, call: &HostCall, now: Instant) -> Option<Answer> {
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
        if value.text().len() > MAX_VALUE {
            return Err(format!("cache values have at most {MAX_VALUE} bytes"));
        }
        self.put(whose, key, Held::One(value.clone()), until)?;
        Ok(Json::null())
    }

    fn put(&mut self, whose: Whose, key: &str, value: Held, until: Option<Instant>) -> Result<(), String> {
        let cache = self.cache(whose);
        let before = match cache {
            Some(cache) if cache.len() >= MAX_KEYS && !cache.contains_key(key) => {
                return Err(format!("the cache holds at most {MAX_KEYS} keys"));
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
        if new_length > MAX_ITEMS || values.iter().any(|value| value.len() > MAX_VALUE) {
            return Err(format!(
                "lists in the cache have at most {MAX_ITEMS} items of {MAX_VALUE} bytes"
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
