//! Storing a group of appends: looking up whom they are about, and writing what they change.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use uuid::Uuid;

use super::address::Tables;
use super::append::Append;
use super::insert::Inserter;
use super::lookup::{self, Most};
use super::memory::Memory;
use super::people::{Name, People, merges_with, set_by, touches_properties};
use super::rows::{EventRows, owner_rows, person_rows};
use crate::persons::{Allowance, Budgets};
use crate::{Error, Incoming, Result, size};

/// A group ends early when its rows have so many bytes: how much that is, only making them tells.
const FULL_AT_BYTES: usize = 64 << 20;
/// Whoever waited longer than this has no time left for the rest.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(8);

/// What is read of persons at once, while others wait.
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
const MOST_COMPARED: usize = 256 << 10;
/// How many bytes of properties are worked on at a stretch, and how much work an event is beside those of its person.
const YIELDING_AFTER: usize = 256 << 10;
const EVENT_BYTES: usize = 1 << 10;
/// An append that changes no more bytes of properties never waits for others that change much.
const LITTLE_REWRITTEN: usize = 64 << 10;

/// Shared by those who store groups: at no time do two of them store events of the same team.
#[derive(Debug, Clone)]
pub(super) struct Groups {
    inserter: Inserter,
    tables: Arc<Tables>,
    memory: Arc<Mutex<Memory>>,
    budgets: Arc<Mutex<Budgets>>,
}

/// Who of a group has not been stored.
#[derive(Debug, Default)]
pub(super) struct Left {
    /// Because the group was full.
    pub rest: Vec<Append>,
    /// Because too much would have been read for them.
    pub large: Vec<Append>,
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
            Ok((people, looked_up)) => {
                let (large, group) = group.into_iter().partition(|append| is_large(append, &people, most));
                let (group, mut rest) = split(group, &people, most);
                let more = self.store_looked_up(group, people, looked_up).await;
                rest.splice(..0, more);
                Left { rest, large }
            }
            Err(error) => {
                self.finish(group, Err(error));
                Left::default()
            }
        }
    }

    /// Stores one, whatever has to be read for it. Persons that are too much even so are left out of what it does.
    pub(super) async fn store_alone(&self, append: Append) {
        let group = in_time(vec![append]);
        if group.is_empty() {
            return;
        }
        match self.look_up(&group, ALL).await {
            Ok((people, looked_up)) => {
                self.store_looked_up(group, people, looked_up).await;
            }
            Err(error) => self.finish(group, Err(error)),
        }
    }

    /// Stores a group until it is full, and gives back the rest.
    async fn store_looked_up(&self, mut group: Vec<Append>, people: People, looked_up: HashSet<Name>) -> Vec<Append> {
        if group.is_empty() {
            return group;
        }
        match self.write(&group, people, looked_up).await {
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
    async fn write(&self, group: &[Append], mut people: People, looked_up: HashSet<Name>) -> Result<usize> {
        let since = group.iter().map(|append| append.since).min();
        let since = since.unwrap_or_else(Instant::now);
        let mut rows = EventRows::default();
        let mut uuids = HashSet::new();
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
        inserter.insert(&tables.events, &rows.finish()?, since).await?;
        let mut memory = self.memory();
        memory.remember(&people, &looked_up);
        memory.see(uuids);
        Ok(count)
    }

    /// Makes the rows of one append, and does to persons what its events tell.
    async fn take(&self, append: &Append, people: &mut People, uuids: &mut HashSet<(i64, Uuid)>, rows: &mut EventRows) {
        let budget = self.budgets().of(append.team, append.bytes);
        let mut allowance = Allowance::new(append.bytes, budget);
        let mut bytes = 0;
        for event in &append.events {
            // Persons with many properties are much work; others come in between.
            if bytes > YIELDING_AFTER {
                tokio::task::yield_now().await;
                bytes = 0;
            }
            let mut is_repeated =
                |uuid: Uuid| self.memory().has_seen(append.team, uuid) || !uuids.insert((append.team, uuid));
            if event.uuid.is_some_and(&mut is_repeated) {
                continue;
            }
            let person = people.take(append.team, event, append.now, &mut allowance);
            bytes += EVENT_BYTES + person.1.len();
            rows.push(append.team, event, append.now, person);
        }
        self.budgets().put_back(append.team, allowance.budget());
    }

    /// Everybody whom a group is about. Remembered ones are good enough for events that change nothing; a change starts from what
    /// ClickHouse holds now, as another process may have changed it.
    async fn look_up(&self, group: &[Append], most: Most) -> Result<(People, HashSet<Name>)> {
        let (mut people, unknown, merging) = self.remembered(group);
        if !unknown.is_empty() {
            let found = lookup::people(&self.inserter.client, &self.tables, &unknown, &merging, most).await?;
            people.owners.retain(|name, _| !unknown.contains(name));
            people.owners.extend(found.owners);
            people.persons.extend(found.persons);
            people.left_out = found.left_out;
        }
        Ok((people, unknown))
    }

    /// Those who are remembered, the names that have to be looked up, and those of them that are merged.
    fn remembered(&self, group: &[Append]) -> (People, HashSet<Name>, HashSet<Name>) {
        let (events, people) = self.new_events(group);
        let (mut unknown, mut merging): (HashSet<Name>, HashSet<Name>) = Default::default();
        let mut compared = 0;
        for (team, event) in events {
            let name = (team, event.distinct_id.clone());
            if let Some(other) = merges_with(event) {
                merging.extend([name, (team, other)]);
                continue;
            }
            if touches_properties(event) {
                compared += people.bytes_of(team, &event.distinct_id);
            }
            if compared > MOST_COMPARED || !people.leaves_as_is(&name, event) {
                unknown.insert(name);
            }
        }
        unknown.extend(merging.iter().cloned());
        (people, unknown, merging)
    }

    /// Those that have not been stored lately, and who is remembered of those they are about.
    fn new_events<'a>(&self, group: &'a [Append]) -> (Vec<(i64, &'a Incoming)>, People) {
        let memory = self.memory();
        let is_new = |team, event: &Incoming| event.uuid.is_none_or(|uuid| !memory.has_seen(team, uuid));
        let events: Vec<_> = group
            .iter()
            .flat_map(|append| append.events.iter().map(|event| (append.team, event)))
            .filter(|(team, event)| is_new(*team, event))
            .collect();
        let names: HashSet<Name> = events
            .iter()
            .map(|(team, event)| (*team, event.distinct_id.clone()))
            .collect();
        let people = memory.people(names.iter());
        (events, people)
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn budgets(&self) -> MutexGuard<'_, Budgets> {
        self.budgets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Those that have not waited for too long. The others are told so.
fn in_time(group: Vec<Append>) -> Vec<Append> {
    let is_in_time = |append: &Append| append.since.elapsed() < LONGEST_WAIT;
    let (group, late): (Vec<_>, Vec<_>) = group.into_iter().partition(is_in_time);
    for append in late {
        let _ = append.done.send(Err(Error::TooSlow));
    }
    group
}

/// Whether an append is about somebody who was not read as a whole, or changes much.
fn is_large(append: &Append, people: &People, most: Most) -> bool {
    let is_about = |event| people.is_about_left_out(append.team, event);
    (people.has_left_out() && append.events.iter().any(is_about)) || rewritten(append, people) > most.bytes
}

/// How many bytes of properties its events may change: all of a person's are read and written again for each, with those that earlier ones
/// have set.
fn rewritten(append: &Append, people: &People) -> usize {
    let mut keys: HashSet<(&str, &str)> = HashSet::new();
    let mut added: HashMap<&str, usize> = HashMap::new();
    let mut total = 0;
    for event in append.events.iter().filter(|event| touches_properties(event)) {
        let name = event.distinct_id.as_str();
        let added = added.entry(name).or_default();
        for (key, value) in set_by(event).filter(|(key, _)| keys.insert((name, key))) {
            *added += key.len() + size::text(value);
        }
        total += people.bytes_of(append.team, name) + *added;
    }
    total
}

/// Those that a group has time for, and the rest. Whoever changes little is among the first in any case.
fn split(group: Vec<Append>, people: &People, most: Most) -> (Vec<Append>, Vec<Append>) {
    let mut total = 0;
    group.into_iter().partition(|append| {
        let bytes = rewritten(append, people);
        let has_time = total <= most.bytes || bytes <= LITTLE_REWRITTEN;
        total += if has_time { bytes } else { 0 };
        has_time
    })
}
