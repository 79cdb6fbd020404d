//! Storing a group of appends: looking up whom they are about, and writing what they change.

use std::collections::HashSet;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use uuid::Uuid;

use super::address::Tables;
use super::append::Append;
use super::costs::work;
use super::insert::Inserter;
use super::lookup::{self, Most};
use super::memory::Memory;
use super::people::{Id, Name, People, merges_with, touches_properties};
use super::rows::{EventRows, Row, event_rows, owner_rows, person_rows};
use super::work_by_sender::{EVENT_BYTES, WorkBySender};
use crate::persons::{Allowance, Budgets, Sender};
use crate::{Error, Incoming, Result};

/// A group ends early when its rows have so many bytes: how much that is, only making them tells. One append may have more, and
/// is inserted in portions of that if it is alone.
const FULL_AT_BYTES: usize = 16 << 20;

/// What is read of persons at once, and changed or carried by their events, while others wait.
pub(super) const LITTLE: Most = Most {
    bytes: 2 << 20,
    names: 2_000,
};
pub(super) const MUCH: Most = Most {
    bytes: 16 << 20,
    names: 20_000,
};
/// The same for one append. Persons past that are left out of what it does.
const ALL: Most = Most {
    bytes: 2 * MUCH.bytes,
    names: MUCH.names,
};

/// How many bytes of remembered properties are compared with what events set. Past that it is less work to look persons up.
const MAX_COMPARED: usize = 256 << 10;
/// How many bytes of properties are worked on at a stretch.
const YIELDING_AFTER: usize = 256 << 10;
/// An append that is no more work, in bytes of properties, never waits for others that are much.
const LITTLE_CHANGED: usize = 64 << 10;

/// Shared by those who store groups: at no time do two of them store events of the same team.
#[derive(Debug, Clone)]
pub(super) struct Groups {
    inserter: Inserter,
    tables: Arc<Tables>,
    memory: Arc<Mutex<Memory>>,
    budgets: Arc<Mutex<Budgets>>,
}

/// Who of a group has not been stored, and whose work it was.
#[derive(Debug, Default)]
pub(super) struct Left {
    /// Because the group was full.
    pub rest: Vec<Append>,
    /// Because too much would have been read, changed or carried for them, or had to be looked up.
    pub large: Vec<Append>,
    pub work: WorkBySender,
}

impl Left {
    /// Adds those for whom the group had no room in the end. What else there is of their senders waits behind them.
    fn put_first(&mut self, more: Vec<Append>) {
        let senders: HashSet<Sender> = more.iter().map(Append::sender).collect();
        let large = mem::take(&mut self.large).into_iter();
        let (behind, large): (Vec<_>, Vec<_>) = large.partition(|append| senders.contains(&append.sender()));
        self.large = large;
        self.rest.splice(..0, more.into_iter().chain(behind));
    }
}

/// What is known about a group before it is stored.
struct LookedUp {
    people: People,
    /// The names that ClickHouse was asked about.
    names: HashSet<Name>,
    /// What was stored before. Found out once: the other task may make room in the memory in the meantime.
    seen: HashSet<(i64, Uuid)>,
}

impl Groups {
    pub(super) fn new(inserter: Inserter, tables: Arc<Tables>) -> Self {
        Self {
            inserter,
            tables,
            memory: Arc::default(),
            budgets: Arc::default(),
        }
    }

    /// Forgets what is remembered of a team that is gone.
    pub(super) fn forget_team(&self, team: i64) {
        self.memory().forget_team(team);
    }

    /// Stores those of a group for whom no more than this has to be read.
    pub(super) async fn store(&self, group: Vec<Append>, most: Most) -> Left {
        let group = in_time(group);
        if group.is_empty() {
            return Left::default();
        }
        match self.look_up(&group, most).await {
            Ok(looked_up) => {
                let (group, mut left) = split(group, &looked_up.people, most);
                let more = self.store_looked_up(group, looked_up).await;
                left.put_first(more);
                left
            }
            Err(error) => self.fail(group, error),
        }
    }

    /// After a look-up that failed. Only those because of whom it did are tried alone; the others come with the next group.
    fn fail(&self, group: Vec<Append>, error: Error) -> Left {
        let (work, causes) = (WorkBySender::of(&group), causes(&group, &error));
        if causes.is_empty() {
            self.finish(group, Err(error));
            return Left {
                work,
                ..Left::default()
            };
        }
        let (large, rest) = group.into_iter().partition(|append| causes.contains(&append.sender()));
        Left { rest, large, work }
    }

    /// Stores one, whatever has to be read for it. Persons that are too much even so are left out of what it does.
    pub(super) async fn store_alone(&self, append: Append) {
        let group = in_time(vec![append]);
        if group.is_empty() {
            return;
        }
        match self.look_up(&group, ALL).await {
            Ok(looked_up) => {
                self.store_looked_up(group, looked_up).await;
            }
            Err(error) => self.finish(group, Err(error)),
        }
    }

    /// Stores a group until it is full, and gives back the rest.
    async fn store_looked_up(&self, mut group: Vec<Append>, looked_up: LookedUp) -> Vec<Append> {
        if group.is_empty() {
            return group;
        }
        match self.write(&group, looked_up).await {
            Ok(count) => {
                let rest = group.split_off(count);
                self.finish(group, Ok(()));
                rest
            }
            Err(error) => {
                self.finish(group, Err(error));
                Vec::new()
            }
        }
    }

    fn finish(&self, group: Vec<Append>, outcome: Result<()>) {
        let outcome = outcome.map_err(Arc::new);
        if let Err(error) = &outcome {
            tracing::error!(error = error as &dyn std::error::Error, "events could not be stored");
            // What was written before it failed is not known.
            self.memory().forget_people();
        }
        for append in group {
            // The caller may have gone.
            let _ = append.done.send(outcome.clone().map_err(Error::Shared));
        }
    }

    /// Says how many of the group, from its first on, are stored: at least one.
    async fn write(&self, group: &[Append], looked_up: LookedUp) -> Result<usize> {
        let LookedUp {
            mut people,
            names,
            seen: mut uuids,
        } = looked_up;
        let since = group.iter().map(|append| append.since).min();
        let since = since.unwrap_or_else(Instant::now);
        let mut rows = EventRows::default();
        let mut count = 0;
        for append in group {
            if rows.bytes >= FULL_AT_BYTES {
                break;
            }
            count += 1;
            self.take(append, &mut people, &mut uuids, &mut rows).await;
        }
        // Persons first: a repeat after a failure changes nothing about them, and events never wait for a person.
        let (owners, persons) = (owner_rows(&people)?, person_rows(&people)?);
        let (tables, inserter) = (&self.tables, &self.inserter);
        tokio::try_join!(
            inserter.insert(&tables.persons, &persons, since),
            inserter.insert(&tables.distinct_ids, &owners, since),
        )?;
        // Several are stored as a whole or not at all: nobody is to repeat what was stored because another's could not be.
        let full_at = if count == 1 { FULL_AT_BYTES } else { usize::MAX };
        for portion in rows.portions(full_at) {
            inserter.insert(&tables.events, &event_rows(portion)?, since).await?;
            // A repeat after a failure of the next one stores none of these again.
            let stored = portion.iter().map(Row::id).filter(|id| uuids.contains(id));
            self.memory().see(stored.collect());
        }
        self.memory().remember(&people, &names);
        Ok(count)
    }

    /// Makes the rows of one append, and does to persons what its events tell.
    async fn take(&self, append: &Append, people: &mut People, uuids: &mut HashSet<(i64, Uuid)>, rows: &mut EventRows) {
        let sender = append.sender();
        let budget = self.budgets().of(sender, append.bytes);
        let mut allowance = Allowance::new(append.bytes, budget);
        let mut worked_on = 0;
        for event in &append.events {
            // Many properties are much work, the event's own as well; others come in between.
            if worked_on > YIELDING_AFTER {
                tokio::task::yield_now().await;
                worked_on = 0;
            }
            if event.uuid.is_some_and(|uuid| !uuids.insert((append.team, uuid))) {
                continue;
            }
            let person = people.take(append.team, event, append.now, &mut allowance);
            let before = rows.bytes;
            rows.push(append.team, event, append.now, person);
            worked_on += EVENT_BYTES + rows.bytes - before;
        }
        self.budgets().put_back(sender, allowance.budget());
    }

    /// Everybody whom a group is about. Remembered ones are good enough for events that change nothing; a change starts from what
    /// ClickHouse holds now, as another process may have changed it.
    async fn look_up(&self, group: &[Append], most: Most) -> Result<LookedUp> {
        let (mut people, seen) = self.remembered(group);
        let (wanted, merging) = wanted(group, &people, &seen);
        let names: HashSet<Name> = wanted.iter().cloned().collect();
        if !wanted.is_empty() {
            let found = lookup::people(&self.inserter.client, &self.tables, &wanted, &merging, most).await?;
            people.owners.retain(|name, _| !names.contains(name));
            people.owners.extend(found.owners);
            people.persons.extend(found.persons);
            people.left_out = found.left_out;
            people.names_not_read = found.names_not_read;
            people.sizes = found.sizes;
        }
        Ok(LookedUp { people, names, seen })
    }

    /// Who is remembered of those whom a group is about, and which of its events were stored lately.
    fn remembered(&self, group: &[Append]) -> (People, HashSet<(i64, Uuid)>) {
        let memory = self.memory();
        let uuids = events(group).filter_map(|(team, event)| Some((team, event.uuid?)));
        let seen = uuids.filter(|(team, uuid)| memory.has_seen(*team, *uuid)).collect();
        let names: HashSet<Name> = events(group)
            .map(|(team, event)| (team, event.distinct_id.clone()))
            .collect();
        (memory.people(names.iter()), seen)
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn budgets(&self) -> MutexGuard<'_, Budgets> {
        self.budgets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn events(group: &[Append]) -> impl Iterator<Item = (i64, &Incoming)> {
    group
        .iter()
        .flat_map(|append| append.events.iter().map(|event| (append.team, event)))
}

/// The names that have to be looked up, each once and in the order of the group, and those of them that are merged.
fn wanted(group: &[Append], people: &People, seen: &HashSet<(i64, Uuid)>) -> (Vec<Name>, HashSet<Name>) {
    let (mut unknown, mut merging): (Vec<Name>, HashSet<Name>) = Default::default();
    let mut compared = 0;
    let is_new = |team, event: &Incoming| event.uuid.is_none_or(|uuid| !seen.contains(&(team, uuid)));
    for (team, event) in events(group).filter(|(team, event)| is_new(*team, event)) {
        let name = (team, event.distinct_id.clone());
        if let Some(other) = merges_with(event) {
            let other = (team, other);
            unknown.extend([name.clone(), other.clone()]);
            merging.extend([name, other]);
            continue;
        }
        if touches_properties(event) {
            compared += people.bytes_of(&name);
        }
        if compared > MAX_COMPARED || !people.leaves_as_is(&name, event) {
            unknown.push(name);
        }
    }
    let mut known = HashSet::new();
    unknown.retain(|name| known.insert(name.clone()));
    (unknown, merging)
}

/// Those that have not waited for too long. The others are told so.
fn in_time(group: Vec<Append>) -> Vec<Append> {
    let (late, group): (Vec<_>, Vec<_>) = group.into_iter().partition(Append::is_late);
    for append in late {
        let _ = append.done.send(Err(Error::TooSlow));
    }
    group
}

/// The senders because of whom a look-up failed, if it did because it was too much and others may do without them.
fn causes(group: &[Append], error: &Error) -> HashSet<Sender> {
    if group.len() < 2 || !(error.is_timeout() || error.is_out_of_memory()) {
        return HashSet::new();
    }
    WorkBySender::of(group).heaviest_senders()
}

/// Those that are stored now, and the others. Whoever changes little is among the first in any case, unless something else of the sender has
/// to wait: it stays in order. Others who send for the team do not wait for that: its token is public. Whoever would not be too much alone waits only for the next group, where it may be first.
fn split(group: Vec<Append>, people: &People, most: Most) -> (Vec<Append>, Left) {
    let (mut now, mut total) = (Vec::new(), 0);
    let mut left = Left {
        work: WorkBySender::of(&group),
        ..Left::default()
    };
    let (mut large, mut waiting): (HashSet<Sender>, HashSet<Sender>) = Default::default();
    for (place, append) in group.into_iter().enumerate() {
        let sender = append.sender();
        if waiting.contains(&sender) {
            left.rest.push(append);
            continue;
        }
        if large.contains(&sender) {
            left.large.push(append);
            continue;
        }
        let bytes = work(&append, people, most.bytes);
        let has_time = total <= most.bytes || bytes <= LITTLE_CHANGED;
        let is_left_out = is_left_out(&append, people);
        // The first had all that may be read to itself.
        let is_too_much = is_left_out && (place == 0 || !fits_alone(&append, people, most));
        if bytes > most.bytes || is_too_much {
            large.insert(sender);
            left.large.push(append);
        } else if is_left_out || !has_time {
            waiting.insert(sender);
            left.rest.push(append);
        } else {
            total += bytes;
            left.work.add(sender, bytes);
            now.push(append);
        }
    }
    (now, left)
}

/// Whether all that an append is about could be read if nobody else were in its group. Whoever has many names is too much in any case:
/// how many they are is not known.
fn fits_alone(append: &Append, people: &People, most: Most) -> bool {
    let ids = append.events.iter().flat_map(|event| people.ids_of(append.team, event));
    let ids: HashSet<Id> = ids.collect();
    let bytes: usize = ids.iter().filter_map(|id| people.sizes.get(id)).sum();
    bytes <= most.bytes && people.names_not_read.is_disjoint(&ids)
}

/// Whether an append is about somebody who was not read as a whole.
fn is_left_out(append: &Append, people: &People) -> bool {
    let is_about = |event| people.is_about_left_out(append.team, event);
    people.has_left_out() && append.events.iter().any(is_about)
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use super::super::people::{Owner, Person};
    use super::*;
    use crate::fair_queue::Source;
    use crate::{Hold, Time};

    fn event(name: &str, distinct_id: &str, properties: &Value) -> Incoming {
        Incoming {
            uuid: None,
            event: name.to_owned(),
            distinct_id: distinct_id.to_owned(),
            properties: properties.as_object().map_or_else(Map::new, Clone::clone),
            timestamp: Time::UNIX_EPOCH,
        }
    }

    fn append(team: i64, events: Vec<Incoming>) -> Append {
        held(Hold::default(), team, events)
    }

    fn held(hold: Hold, team: i64, events: Vec<Incoming>) -> Append {
        let (append, _) = Append::new(Arc::new(hold), team, events, Time::UNIX_EPOCH, Instant::now());
        append
    }

    /// An append about these.
    fn about(team: i64, names: &[&str]) -> Append {
        append(team, names.iter().map(|name| event("x", name, &json!({}))).collect())
    }

    fn know(people: &mut People, name: &Name, properties: &str) -> Id {
        let id = people.id_of(name);
        let owner = Owner {
            person: id.1,
            version: 0,
            inserted_at: Time::UNIX_EPOCH,
        };
        let person = Person {
            properties: properties.into(),
            is_identified: false,
            is_deleted: false,
            created_at: Time::UNIX_EPOCH,
            version: 0,
            inserted_at: Time::UNIX_EPOCH,
        };
        people.owners.insert(name.clone(), owner);
        people.persons.insert(id, person);
        id
    }

    fn teams(appends: &[Append]) -> Vec<i64> {
        appends.iter().map(|append| append.team).collect()
    }

    #[test]
    fn merges_with_a_person_of_many_values_are_much_work_whatever_the_names_are() {
        let mut people = People::default();
        let values: Map<String, Value> = (0..9_900).map(|n| (format!("k{n:05}"), json!("x"))).collect();
        know(&mut people, &(1, "large".to_owned()), &json!(values).to_string());
        for n in 0..20 {
            know(&mut people, &(1, format!("p{n}")), r#"{"b":1}"#);
        }
        let merge = |name: &str, other: &str| event("$identify", name, &json!({"$anon_distinct_id": other}));
        let is_much = |merges: Vec<Incoming>| work(&append(1, merges), &people, LITTLE.bytes) > LITTLE.bytes;
        assert!(is_much((0..20).map(|n| merge("large", &format!("p{n}"))).collect()));
        // The names stand for the large person only after the first two.
        let mut merges = vec![merge("p1", "p0"), merge("large", "p1")];
        merges.extend((2..20).map(|n| merge("p0", &format!("p{n}"))));
        assert!(is_much(merges));
        let merges = (0..20).map(|n| merge("large", &format!("new-{n}"))).collect();
        assert!(!is_much(merges), "nothing is read for these");
    }

    #[test]
    fn events_of_large_persons_are_much_work_even_if_they_change_nothing() {
        let mut people = People::default();
        let names = ["p0", "p1", "p2", "p3"];
        for name in names {
            for team in [1, 2, 3] {
                know(&mut people, &(team, name.to_owned()), &"x".repeat(520_000));
            }
        }
        let of_large = |team: i64, count: usize| {
            let names: Vec<&str> = names.into_iter().cycle().take(count).collect();
            about(team, &names)
        };
        let group = || vec![of_large(1, 240), of_large(2, 4), about(4, &["x"]), of_large(3, 8)];
        let (now, left) = split(group(), &people, LITTLE);
        assert_eq!((teams(&now), teams(&left.large)), (vec![2, 4, 3], vec![1]));
        assert_eq!(teams(&split(group(), &people, MUCH).1.large), [1]);
        // Several of them are no less than one.
        let group = (1..4).map(|team| of_large(team, 6)).chain([about(4, &["x"])]);
        let (now, left) = split(group.collect(), &people, LITTLE);
        assert_eq!((teams(&now), teams(&left.rest)), (vec![1, 2, 4], vec![3]));
        assert_eq!(left.work.heaviest_teams(), HashSet::from([1, 2]), "if it takes long");
    }

    #[test]
    fn whoever_is_too_much_to_look_up_is_tried_alone() {
        let many: Vec<String> = (0..2_440).map(|n| n.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let group = [about(1, &["a"]), about(2, &many), about(3, &["b"])];
        let cause = HashSet::from([(2, Source::Inside)]);
        assert_eq!(causes(&group, &Error::TooSlow), cause);
        let message = String::new();
        assert_eq!(causes(&group, &Error::Refused { code: 159, message }), cause);
        assert!(causes(&group, &Error::CutOff).is_empty(), "not by its time");
        assert!(causes(&group[1..2], &Error::TooSlow).is_empty(), "it was alone");
        let few = [about(1, &["a"]), about(3, &["b"])];
        assert!(causes(&few, &Error::TooSlow).is_empty(), "nobody sent much");
    }

    #[test]
    fn whoever_would_fit_alone_waits_for_the_next_group() {
        let most = Most {
            bytes: 1_000,
            names: 10,
        };
        let mut people = People::default();
        for (team, name, size) in [(1, "a", 900), (2, "b", 200), (3, "c", 900), (3, "d", 900), (4, "e", 50)] {
            let id = know(&mut people, &(team, name.to_owned()), "");
            people.sizes.insert(id, size);
            if [2, 3].contains(&team) {
                people.left_out.insert(id);
            }
        }
        let group = vec![
            about(1, &["a"]),
            about(2, &["b"]),
            about(3, &["c", "d"]),
            about(4, &["e"]),
            about(2, &["new"]),
            about(3, &["new"]),
        ];
        let (now, left) = split(group, &people, most);
        assert_eq!(teams(&now), [1, 4]);
        assert_eq!(teams(&left.rest), [2, 2], "in their order");
        assert_eq!(teams(&left.large), [3, 3], "in their order");
        // Nobody took anything from the first.
        let (now, left) = split(vec![about(2, &["b"])], &people, most);
        assert!(now.is_empty() && left.rest.is_empty());
        assert_eq!(teams(&left.large), [2]);
    }

    #[test]
    fn whoever_is_about_too_many_names_does_not_wait_for_the_next_group() {
        let mut people = People::default();
        for team in [2, 3] {
            let id = know(&mut people, &(team, "a".to_owned()), "");
            people.sizes.insert(id, 10);
            people.left_out.insert(id);
        }
        let not_read = people.id_of(&(3, "a".to_owned()));
        people.names_not_read.insert(not_read);
        let group = vec![about(1, &["x"]), about(2, &["a"]), about(3, &["a"])];
        let (now, left) = split(group, &people, LITTLE);
        assert_eq!(teams(&now), [1]);
        assert_eq!((teams(&left.rest), teams(&left.large)), (vec![2], vec![3]));
    }

    #[test]
    fn what_is_large_does_not_overtake_what_had_no_room() {
        let mut left = Left {
            rest: vec![about(3, &["c"])],
            large: vec![about(1, &["a", "b"]), about(2, &["b"])],
            ..Left::default()
        };
        left.put_first(vec![about(1, &["a"])]);
        assert_eq!((teams(&left.rest), teams(&left.large)), (vec![1, 1, 3], vec![2]));
        assert_eq!(left.rest[0].events.len(), 1);
    }

    #[test]
    fn what_is_large_does_not_overtake_what_waits() {
        let most = Most {
            bytes: 1_000,
            names: 10,
        };
        let mut people = People::default();
        for (name, size) in [("a", 200), ("b", 900), ("c", 900)] {
            let id = know(&mut people, &(2, name.to_owned()), "");
            people.sizes.insert(id, size);
            people.left_out.insert(id);
        }
        let group = vec![about(1, &["x"]), about(2, &["a"]), about(2, &["b", "c"])];
        let (now, left) = split(group, &people, most);
        assert_eq!((teams(&now), teams(&left.rest)), (vec![1], vec![2, 2]));
        assert!(left.large.is_empty());
    }

    #[test]
    fn a_team_does_not_wait_for_what_strangers_send_with_its_token() {
        let mut people = People::default();
        know(&mut people, &(1, "large".to_owned()), &"x".repeat(510_000));
        let large = || event("x", "large", &json!({}));
        let stranger = || Hold::default().sent_from([127, 0, 0, 9].into());
        let group = vec![
            held(stranger(), 1, vec![large(); 256]),
            held(stranger(), 1, vec![event("x", "small", &json!({}))]),
            about(1, &["small"]),
        ];
        let (now, left) = split(group, &people, MUCH);
        let lengths = |appends: &[Append]| appends.iter().map(|append| append.events.len()).collect::<Vec<_>>();
        assert_eq!(lengths(&now), [1]);
        assert_eq!(now[0].sender().1, Source::Inside);
        assert_eq!(lengths(&left.large), [256, 1], "what one sender sent stays in order");
    }

    #[test]
    fn names_are_looked_up_in_the_order_of_the_group() {
        let merge = event("$identify", "d", &json!({"$anon_distinct_id": "b"}));
        let group = [
            about(2, &["c", "a", "c"]),
            append(1, vec![merge]),
            about(1, &["b", "a"]),
        ];
        let (names, merging) = wanted(&group, &People::default(), &HashSet::new());
        let name = |team: i64, name: &str| (team, name.to_owned());
        let expected = [name(2, "c"), name(2, "a"), name(1, "d"), name(1, "b"), name(1, "a")];
        assert_eq!(names, expected);
        assert_eq!(merging, HashSet::from([name(1, "d"), name(1, "b")]));
    }
}
