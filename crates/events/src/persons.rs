//! What events do to persons, whichever engine keeps them: pure rules, after the origin product's.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Instant;

use hashbrown::HashMap;
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::Incoming;
use crate::fair_queue::Source;
use crate::names::{cut, names_someone};
use crate::size;

/// The origin's namespace, so that the ids of persons are the same as there.
const NAMESPACE: Uuid = Uuid::from_u128(0x9329_79b4_65c3_4424_8467_0b66_ec27_bc22);

/// How many distinct ids a person may have. A merge past it is left out: a name that thousands share is a mistake in a
/// program, and a merge of such a person would be a change of thousands of rows.
pub const MAX_DISTINCT_IDS: i64 = 1_000;

/// What it costs to give a distinct id to another person, in bytes of properties: it takes as long as writing these.
pub(crate) const BYTES_OF_MOVED_ID: usize = 2 * 1024;

/// What it costs to parse one value, in bytes of properties: at most it takes as long as writing these.
pub(crate) const BYTES_OF_VALUE: usize = 32;

/// How large a person's properties may become, as JSON: what would make them larger is left out. Every event carries the
/// properties of its person, so anybody who may send could otherwise make each event of a person as large as they like.
pub const MAX_PROPERTY_BYTES: usize = 512 * 1024;
/// How many values they may hold, at any depth: in memory a value takes up to a hundred times its text.
pub const MAX_PROPERTY_VALUES: usize = 10_000;
/// What a person without properties has.
pub(crate) const NO_PROPERTIES: &str = "{}";

/// The id of the person that a distinct id makes when it is first seen.
pub fn person_id(team: i64, distinct_id: &str) -> Uuid {
    Uuid::new_v5(&NAMESPACE, format!("{team}:{distinct_id}").as_bytes())
}

/// What one event does to the person of its distinct id.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Nobody is made or changed, and the event carries no person's properties.
    None,
    Person(Change),
}

impl Effect {
    /// What it takes until it is applied, apart from the value itself.
    pub(crate) fn memory(&self) -> usize {
        let Self::Person(change) = self else { return 0 };
        let merged = change.merge.as_ref().map_or(0, |merge| merge.distinct_id.len());
        let unset = change.unset.iter().map(|name| size_of::<String>() + name.len());
        let set = [&change.set, &change.set_once].map(size::memory_of_object);
        merged + unset.sum::<usize>() + set.iter().sum::<usize>()
    }
}

/// How a person changes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Change {
    pub merge: Option<Merge>,
    pub set: Map<String, Value>,
    pub set_once: Map<String, Value>,
    pub unset: Vec<String>,
    /// From now on this is a known person, whom no other swallows.
    pub identifies: bool,
    /// It set more than any person may have, and that is left out.
    pub is_too_large: bool,
}

/// What became of a person's properties.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Applied {
    Same,
    Changed(Arc<str>),
    /// What was to be set is left out. If something was removed, these are the properties now.
    TooLarge(Option<Arc<str>>),
}

/// The person of another distinct id becomes one with the event's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merge {
    pub distinct_id: String,
    /// Even if the other one is already known.
    pub is_forced: bool,
}

/// Reads what an event does.
pub fn effect(event: &Incoming) -> Effect {
    if event.event == "$groupidentify" || is_told_to_keep_none(&event.properties) {
        return Effect::None;
    }
    let (set, set_once) = (event.properties.get("$set"), event.properties.get("$set_once"));
    // Seen before anything is copied.
    let is_too_large = !fits_values([set, set_once].into_iter().flatten());
    let object = |value| if is_too_large { Map::new() } else { object(value) };
    Effect::Person(Change {
        merge: merge(event),
        set: object(set),
        set_once: object(set_once),
        unset: names(event.properties.get("$unset")),
        identifies: merge_key(&event.event).is_some(),
        is_too_large,
    })
}

impl Change {
    /// Whether this may change a person in any way but by making one.
    fn changes_anybody(&self) -> bool {
        self.merge.is_some() || self.identifies || self.touches_properties()
    }

    /// Whether applying this may change properties at all.
    pub fn touches_properties(&self) -> bool {
        !(self.set.is_empty() && self.set_once.is_empty() && self.unset.is_empty())
    }

    /// Changes a person's properties. Says whether anything is different.
    pub fn apply(&self, properties: &mut Map<String, Value>) -> bool {
        let mut is_changed = false;
        for (key, value) in &self.set_once {
            if !properties.contains_key(key) {
                properties.insert(key.clone(), value.clone());
                is_changed = true;
            }
        }
        for (key, value) in &self.set {
            if properties.get(key) != Some(value) {
                properties.insert(key.clone(), value.clone());
                is_changed = true;
            }
        }
        self.remove_unset(properties) || is_changed
    }

    /// Says whether any of them was there.
    fn remove_unset(&self, properties: &mut Map<String, Value>) -> bool {
        let removed = self.unset.iter().filter(|key| properties.remove(*key).is_some());
        removed.count() > 0
    }

    /// What looking for all that is to be removed costs, in bytes of properties.
    pub(crate) fn cost_of_unset(&self) -> usize {
        self.unset.len() * BYTES_OF_VALUE
    }

    /// The same with the text of the properties, within the limits of a person. Removing is always possible.
    pub fn apply_to(&self, text: &str) -> Applied {
        if !self.touches_properties() {
            return Applied::Same;
        }
        let mut properties = parsed(text);
        if !self.apply(&mut properties) {
            return Applied::Same;
        }
        if let Some(written) = written(&properties) {
            return Applied::Changed(written);
        }
        let mut properties = parsed(text);
        let is_changed = self.remove_unset(&mut properties);
        Applied::TooLarge(is_changed.then(|| json(&properties)))
    }
}

/// What one request, or a part of a large one, may make of persons: their properties, as often as they are read, written or put into an event. A few
/// bytes of an event can stand for half a megabyte of its person's, so this depends on what was sent.
#[derive(Debug)]
pub(crate) struct Allowance {
    left: usize,
    budget: Budget,
}

impl Allowance {
    const TIMES_SENT: usize = 32;
    const LEAST: usize = 8 * 1024 * 1024;
    const MAX: usize = 128 * 1024 * 1024;

    /// For events of so many bytes, of a sender with this budget.
    pub(crate) fn new(sent: usize, budget: Budget) -> Self {
        Self {
            left: sent.saturating_mul(Self::TIMES_SENT).clamp(Self::LEAST, Self::MAX),
            budget,
        }
    }

    pub(crate) fn spend(&mut self, bytes: usize) {
        self.left = self.left.saturating_sub(bytes);
    }

    /// So many bytes of properties were stored, in persons and in events.
    pub(crate) fn store(&mut self, bytes: usize) {
        self.budget.left = self.budget.left.saturating_sub_unsigned(bytes as u64);
    }

    /// If not, the event is kept without its person's properties, and changes nobody.
    pub(crate) fn is_enough_for(&self, change: &Change) -> bool {
        self.left > 0 && (self.budget.left > 0 || !change.changes_anybody())
    }

    /// If not, the event is kept without its person's properties.
    pub(crate) fn is_enough_to_store(&self, bytes: usize) -> bool {
        bytes == 0 || self.budget.left > 0
    }

    /// What is left for the sender's next request.
    pub(crate) fn budget(self) -> Budget {
        self.budget
    }
}

/// Whose budget it is: a team's, for each subnet that sends events of it. Its token is public, so a stranger could use up what it needs.
pub(crate) type Sender = (i64, Source);

/// How many bytes of properties a sender may have stored at the moment. Below nothing is what the last event took too much.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Budget {
    left: i64,
    at: Instant,
}

/// What senders may have stored of persons over time: requests can be repeated without end, and a small one can
/// stand for much. It is what they send, a few times over, and beyond that an amount that grows again slowly.
#[derive(Debug, Default)]
pub(crate) struct Budgets {
    /// Those who have used some of it.
    senders: HashMap<Sender, Budget>,
}

impl Budgets {
    const TIMES_SENT: usize = 16;
    const MAX: i64 = 64 * 1024 * 1024;
    const PER_SECOND: i64 = 64 * 1024;
    /// More than this are not kept: the ones that have used least have as much as if they had used nothing.
    const MAX_SENDERS: usize = 10_000;

    /// What a sender may have stored with a request of so many bytes.
    pub(crate) fn of(&self, sender: Sender, sent: usize) -> Budget {
        let now = Instant::now();
        let left = self.senders.get(&sender);
        let left = left.map_or(Self::MAX, |budget| budget.left_at(now));
        let more = i64::try_from(sent.saturating_mul(Self::TIMES_SENT)).unwrap_or(i64::MAX);
        Budget {
            left: left.saturating_add(more),
            at: now,
        }
    }

    pub(crate) fn put_back(&mut self, sender: Sender, budget: Budget) {
        if budget.left >= Self::MAX {
            self.senders.remove(&sender);
            return;
        }
        if self.senders.len() >= Self::MAX_SENDERS && !self.senders.contains_key(&sender) {
            self.drop_half(budget.at);
        }
        self.senders.insert(sender, budget);
    }

    fn drop_half(&mut self, now: Instant) {
        let mut left: Vec<i64> = self.senders.values().map(|budget| budget.left_at(now)).collect();
        let middle = left.len() / 2;
        let (_, &mut median, _) = left.select_nth_unstable(middle);
        self.senders.retain(|_, budget| budget.left_at(now) < median);
    }
}

impl Budget {
    fn left_at(&self, now: Instant) -> i64 {
        let micros = now.saturating_duration_since(self.at).as_micros();
        let grown = i64::try_from(micros)
            .unwrap_or(i64::MAX)
            .saturating_mul(Budgets::PER_SECOND)
            / 1_000_000;
        self.left.saturating_add(grown).min(Budgets::MAX)
    }
}

/// What parsing properties costs beyond their bytes: small values take far longer than their text. Each has one of these
/// before it; those inside a text are counted, too, because not to count them would take longer.
pub(crate) fn cost_of_values(properties: &str) -> usize {
    let starts = properties.bytes().filter(|byte| matches!(byte, b',' | b'[' | b'{'));
    starts.count() * BYTES_OF_VALUE
}

fn parsed(properties: &str) -> Map<String, Value> {
    serde_json::from_str(properties).unwrap_or_default()
}

/// None: this is more than a person may have.
fn written(properties: &Map<String, Value>) -> Option<Arc<str>> {
    if !fits_values(properties.values()) {
        return None;
    }
    let text = json(properties);
    (text.len() <= MAX_PROPERTY_BYTES).then_some(text)
}

fn json(properties: &Map<String, Value>) -> Arc<str> {
    serde_json::to_string(properties)
        .expect("a map with text keys is JSON")
        .into()
}

/// Whether these are no more values than a person may have; counts no further than that.
fn fits_values<'a>(values: impl IntoIterator<Item = &'a Value>) -> bool {
    let mut left = MAX_PROPERTY_VALUES;
    values.into_iter().all(|value| takes(value, &mut left))
}

/// The parser goes no deeper than 127, and so does this.
fn takes(value: &Value, left: &mut usize) -> bool {
    if *left == 0 {
        return false;
    }
    *left -= 1;
    match value {
        Value::Array(items) => items.iter().all(|item| takes(item, left)),
        Value::Object(fields) => fields.values().all(|field| takes(field, left)),
        _ => true,
    }
}

/// The properties of two persons who turn out to be one: what was known of the one who stays wins.
pub fn merged(stays: Map<String, Value>, goes: Map<String, Value>) -> Map<String, Value> {
    let mut properties = goes;
    properties.extend(stays);
    properties
}

/// The same for texts, within the limits of a person: beyond them, only the properties of the one who stays are kept.
/// Says as well whether that was so.
pub(crate) fn merged_text(stays: &Arc<str>, goes: &str) -> (Arc<str>, bool) {
    if goes == NO_PROPERTIES {
        return (stays.clone(), true);
    }
    match written(&merged(parsed(stays), parsed(goes))) {
        Some(text) => (text, true),
        None => (stays.clone(), false),
    }
}

/// Whether an event says that it makes or changes nobody.
pub(crate) fn is_told_to_keep_none(properties: &Map<String, Value>) -> bool {
    match properties.get("$process_person_profile") {
        Some(Value::Bool(told)) => !told,
        Some(Value::String(told)) => told == "false",
        _ => false,
    }
}

/// Who else the person of an event is, if it says so.
pub fn merge(event: &Incoming) -> Option<Merge> {
    // As the ids of events are: a person has up to a thousand, and all of them move with it.
    let other = cut(text(event.properties.get(merge_key(&event.event)?)?)?);
    let may = other != event.distinct_id && names_someone(&other) && names_someone(&event.distinct_id);
    may.then(|| Merge {
        distinct_id: other,
        is_forced: event.event == "$merge_dangerously",
    })
}

/// Where an event of this name says who else the person is.
fn merge_key(event: &str) -> Option<&'static str> {
    match event {
        "$identify" => Some("$anon_distinct_id"),
        "$create_alias" | "$merge_dangerously" => Some("alias"),
        _ => None,
    }
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn object(value: Option<&Value>) -> Map<String, Value> {
    match value {
        Some(Value::Object(object)) => object.clone(),
        _ => Map::new(),
    }
}

/// `$unset` is a list of names, or, from older programs, an object with them as keys.
fn names(value: Option<&Value>) -> Vec<String> {
    match value {
        Some(Value::Array(list)) => list.iter().filter_map(text).collect(),
        Some(Value::Object(object)) => object.keys().cloned().collect(),
        _ => Vec::new(),
    }
}
