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
use super::people::{Id, Name, People, merges_with, set_by, touches_properties};
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
    /// Because too much would have been read or changed for them.
    pub large: Vec<Append>,
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
                left.rest.splice(..0, more);
                left
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
        inserter.insert(&tables.events, &rows.finish()?, since).await?;
        let mut memory = self.memory();
        memory.remember(&people, &names);
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
            if event.uuid.is_some_and(|uuid| !uuids.insert((append.team, uuid))) {
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
    async fn look_up(&self, group: &[Append], most: Most) -> Result<LookedUp> {
        let (mut people, seen) = self.remembered(group);
        let (unknown, merging) = wanted(group, &people, &seen);
        if !unknown.is_empty() {
            let found = lookup::people(&self.inserter.client, &self.tables, &unknown, &merging, most).await?;
            people.owners.retain(|name, _| !unknown.contains(name));
            people.owners.extend(found.owners);
            people.persons.extend(found.persons);
            people.left_out = found.left_out;
        }
        Ok(LookedUp {
            people,
            names: unknown,
            seen,
        })
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

/// The names that have to be looked up, and those of them that are merged.
fn wanted(group: &[Append], people: &People, seen: &HashSet<(i64, Uuid)>) -> (HashSet<Name>, HashSet<Name>) {
    let (mut unknown, mut merging): (HashSet<Name>, HashSet<Name>) = Default::default();
    let mut compared = 0;
    let is_new = |team, event: &Incoming| event.uuid.is_none_or(|uuid| !seen.contains(&(team, uuid)));
    for (team, event) in events(group).filter(|(team, event)| is_new(*team, event)) {
        let name = (team, event.distinct_id.clone());
        if let Some(other) = merges_with(event) {
            merging.extend([name, (team, other)]);
            continue;
        }
        if touches_properties(event) {
            compared += people.bytes_of(&name);
        }
        if compared > MOST_COMPARED || !people.leaves_as_is(&name, event) {
            unknown.insert(name);
        }
    }
    unknown.extend(merging.iter().cloned());
    (unknown, merging)
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

/// How many bytes of properties its events may change: all of a person's are read and written again for each, with those that earlier ones
/// have set.
fn rewritten(append: &Append, people: &People) -> usize {
    let mut set: HashMap<(Id, &str), usize> = HashMap::new();
    let mut added: HashMap<Id, usize> = HashMap::new();
    let mut total = 0;
    for event in append.events.iter().filter(|event| touches_properties(event)) {
        let name = (append.team, event.distinct_id.clone());
        let id = people.id_of(&name);
        let added = added.entry(id).or_default();
        for (key, value) in set_by(event) {
            let longest = set.entry((id, key)).or_default();
            let size = key.len() + size::text(value);
            *added += size.saturating_sub(*longest);
            *longest = size.max(*longest);
        }
        total += people.bytes_of(&name) + *added;
    }
    total
}

/// Those that are stored now, and the others. Whoever changes little is among the first in any case, unless something else of the team has
/// to wait: it stays in order.
fn split(group: Vec<Append>, people: &People, most: Most) -> (Vec<Append>, Left) {
    let (mut now, mut left, mut total) = (Vec::new(), Left::default(), 0);
    let (mut large_teams, mut waiting_teams) = (HashSet::new(), HashSet::new());
    for append in group {
        let bytes = rewritten(&append, people);
        let has_time = total <= most.bytes || bytes <= LITTLE_REWRITTEN;
        if large_teams.contains(&append.team) || bytes > most.bytes || is_left_out(&append, people) {
            large_teams.insert(append.team);
            left.large.push(append);
        } else if waiting_teams.contains(&append.team) || !has_time {
            waiting_teams.insert(append.team);
            left.rest.push(append);
        } else {
            total += bytes;
            now.push(append);
        }
    }
    (now, left)
}

/// Whether an append is about somebody who was not read as a whole.
fn is_left_out(append: &Append, people: &People) -> bool {
    let is_about = |event| people.is_about_left_out(append.team, event);
    people.has_left_out() && append.events.iter().any(is_about)
}
