//! One task writes: appends that wait for it go to ClickHouse together, because it wants few large inserts. Organizations take
//! turns, and a group has its limits: so nobody waits for all that another one sent.

use std::collections::HashSet;
use std::iter;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

use super::address::Tables;
use super::insert::Inserter;
use super::lookup;
use super::memory::Memory;
use super::people::{Name, People, merges_with};
use super::rows::{EventRows, owner_rows, person_rows};
use crate::persons::{self, Allowance, Budgets};
use crate::turns::{Owner, Source, Turn, Turns};
use crate::{Error, Hold, Incoming, Result, Time, size};

/// How long the first of a group waits for others.
const GATHERING: Duration = Duration::from_millis(3);
/// A group takes nobody else when it has this many events, or fewer that are more work.
const FULL_AT: usize = 20_000;
/// Others have their turns between parts of so many.
const PART: usize = FULL_AT / 4;
/// An event whose distinct id is not longer is no more work than others.
const USUAL_ID: usize = 48;
/// For those who are merged all their ids are looked up. That is as much work as so many bytes of ids.
const BYTES_OF_MERGE: usize = 5 * USUAL_ID;
/// It ends early when its rows have so many bytes: how much that is, only making them tells.
const FULL_AT_BYTES: usize = 64 << 20;
/// How many bytes of properties of persons are read for a group. Everybody waits in the meantime.
const MOST_READ: usize = 16 << 20;
/// The same for one append. Persons past that are left out of what it does.
const MOST_READ_FOR_ONE: usize = 2 * MOST_READ;
const WAITING: usize = 1024;
/// Whoever waited longer than this has no time left for the rest.
const LONGEST_WAIT: Duration = Duration::from_secs(8);

#[derive(Debug)]
enum Job {
    Append(Append),
    Forget(i64, oneshot::Sender<Result<()>>),
}

#[derive(Debug)]
struct Append {
    team: i64,
    events: Vec<Incoming>,
    /// How long they are, about.
    bytes: usize,
    /// How much work they are.
    weight: usize,
    now: Time,
    since: Instant,
    done: oneshot::Sender<Result<()>>,
    hold: Arc<Hold>,
}

impl Append {
    fn turn(&self) -> Turn {
        self.hold.turn(self.team)
    }
}

/// Where callers leave events. The task ends with the last of these.
#[derive(Debug, Clone)]
pub(super) struct Writer {
    jobs: mpsc::Sender<Job>,
}

impl Writer {
    pub(super) fn start(inserter: Inserter, tables: Arc<Tables>) -> Self {
        let (jobs, taken) = mpsc::channel(WAITING);
        let desk = Desk {
            inserter,
            tables,
            memory: Memory::default(),
            budgets: Budgets::default(),
        };
        tokio::spawn(desk.run(taken));
        Self { jobs }
    }

    /// Comes back when ClickHouse has the events. If that fails, it may have the first parts of many: who sends them again with the same
    /// UUIDs repeats none.
    pub(super) async fn append(&self, hold: Hold, team: i64, events: Vec<Incoming>, now: Time) -> Result<()> {
        let hold = Arc::new(hold);
        let started = Instant::now();
        let mut since = started;
        for part in parts(events) {
            let (done, answer) = oneshot::channel();
            let append = Append {
                team,
                bytes: part.iter().map(|event| size::text_of_object(&event.properties)).sum(),
                weight: part.iter().map(weight).sum(),
                events: part,
                // Exports read what was ingested until a time, some seconds later. A part that waited for others is not to come after them.
                now: now + (since - started),
                since,
                done,
                hold: hold.clone(),
            };
            self.ask(Job::Append(append), answer).await?;
            since = Instant::now();
        }
        Ok(())
    }

    /// Forgets what is remembered of a team that is gone.
    pub(super) async fn forget(&self, team: i64) -> Result<()> {
        let (done, answer) = oneshot::channel();
        self.ask(Job::Forget(team, done), answer).await
    }

    async fn ask(&self, job: Job, answer: oneshot::Receiver<Result<()>>) -> Result<()> {
        let too_slow = |_| Error::TooSlow;
        self.jobs.send_timeout(job, LONGEST_WAIT).await.map_err(too_slow)?;
        answer.await.map_err(|_| Error::Stopped)?
    }
}

/// Events in pieces, each of which is stored as one.
fn parts(events: Vec<Incoming>) -> impl Iterator<Item = Vec<Incoming>> {
    let mut left = events.into_iter();
    iter::from_fn(move || {
        let (mut part, mut size) = (Vec::new(), 0);
        while size < PART
            && let Some(event) = left.next()
        {
            size += weight(&event);
            part.push(event);
        }
        (!part.is_empty()).then_some(part)
    })
}

/// How much work an event is: most of it is to look up whom it is about.
fn weight(event: &Incoming) -> usize {
    let merged = persons::merge(event).map_or(0, |merge| merge.distinct_id.len() + BYTES_OF_MERGE);
    1 + (event.distinct_id.len() + merged) / (USUAL_ID + 1)
}

/// The task's own.
struct Desk {
    inserter: Inserter,
    tables: Arc<Tables>,
    memory: Memory,
    budgets: Budgets,
}

impl Desk {
    async fn run(mut self, mut jobs: mpsc::Receiver<Job>) {
        let mut waiting = Waiting::default();
        while gather(&mut waiting, &mut jobs).await {
            let mut group = Vec::new();
            for job in taken(&mut waiting) {
                match job {
                    Job::Append(append) => group.push(append),
                    Job::Forget(team, done) => {
                        self.memory.forget_team(team);
                        // The caller may have gone; so below.
                        let _ = done.send(Ok(()));
                    }
                }
            }
            for append in self.finish(group).await.into_iter().rev() {
                waiting.put_back(append.turn(), Job::Append(append));
            }
        }
    }

    /// Stores a group. Gives back what is left for the next.
    async fn finish(&mut self, group: Vec<Append>) -> Vec<Append> {
        let in_time = |append: &Append| append.since.elapsed() < LONGEST_WAIT;
        let (mut group, late): (Vec<_>, Vec<_>) = group.into_iter().partition(in_time);
        for append in late {
            let _ = append.done.send(Err(Error::TooSlow));
        }
        if group.is_empty() {
            return group;
        }
        let outcome = self.store(&mut group).await.map_err(Arc::new);
        if let Err(error) = &outcome {
            tracing::error!(error = error as &dyn std::error::Error, "events could not be stored");
            // What was written before it failed is not known.
            self.memory.forget_people();
        }
        let left = outcome
            .as_ref()
            .map_or_else(|_| Vec::new(), |count| group.split_off(*count));
        for append in group {
            let _ = append.done.send(outcome.clone().map(drop).map_err(Error::Shared));
        }
        left
    }

    /// Says how many of the group, from its first on, are stored: at least one. Those that have to wait are its last then.
    async fn store(&mut self, group: &mut [Append]) -> Result<usize> {
        let (mut people, looked_up, count) = self.people(group).await?;
        let group = &group[..count];
        let since = group
            .iter()
            .map(|append| append.since)
            .min()
            .unwrap_or_else(Instant::now);
        let mut rows = EventRows::default();
        let mut uuids = HashSet::new();
        let mut count = 0;
        for append in group {
            if rows.bytes >= FULL_AT_BYTES {
                break;
            }
            count += 1;
            // Persons with many properties are much work; others come in between.
            tokio::task::consume_budget().await;
            let budget = self.budgets.of(append.team, append.bytes);
            let mut allowance = Allowance::new(append.bytes, budget);
            for event in &append.events {
                let is_repeated =
                    |uuid: Uuid| self.memory.has_seen(append.team, uuid) || !uuids.insert((append.team, uuid));
                if event.uuid.is_some_and(is_repeated) {
                    continue;
                }
                let person = people.take(append.team, event, append.now, &mut allowance);
                rows.push(append.team, event, append.now, person);
            }
            self.budgets.put_back(append.team, allowance.budget());
        }
        // Persons first: a repeat after a failure changes nothing about them, and events never wait for a person.
        let (owners, persons) = (owner_rows(&people)?, person_rows(&people)?);
        let (tables, inserter) = (&self.tables, &self.inserter);
        tokio::try_join!(
            inserter.insert(&tables.persons, &persons, since),
            inserter.insert(&tables.distinct_ids, &owners, since),
        )?;
        inserter.insert(&tables.events, &rows.finish()?, since).await?;
        self.memory.remember(&people, &looked_up);
        self.memory.see(uuids);
        Ok(count)
    }

    /// Everybody whom the first of a group are about, and how many of it these are. If they are too much to be read at once, the first
    /// is stored alone, or, if it is not the reason, all those that are not.
    async fn people(&self, group: &mut [Append]) -> Result<(People, HashSet<Name>, usize)> {
        let (people, looked_up) = self.look_up(group, MOST_READ).await?;
        if !people.has_left_out() {
            return Ok((people, looked_up, group.len()));
        }
        let is_left_out = |append: &Append| {
            let mut events = append.events.iter();
            events.any(|event| people.is_about_left_out(append.team, event))
        };
        if is_left_out(&group[0]) {
            let (people, looked_up) = self.look_up(&group[..1], MOST_READ_FOR_ONE).await?;
            return Ok((people, looked_up, 1));
        }
        group.sort_by_cached_key(is_left_out);
        let count = group.iter().take_while(|append| !is_left_out(append)).count();
        Ok((people, looked_up, count))
    }

    /// Remembered ones are good enough for events that change nothing; a change starts from what ClickHouse holds now, as another
    /// process may have changed it.
    async fn look_up(&self, group: &[Append], most_read: usize) -> Result<(People, HashSet<Name>)> {
        let is_new = |team, event: &Incoming| event.uuid.is_none_or(|uuid| !self.memory.has_seen(team, uuid));
        let events = || {
            group
                .iter()
                .flat_map(|append| append.events.iter().map(|event| (append.team, event)))
                .filter(|(team, event)| is_new(*team, event))
        };
        let names: HashSet<Name> = events()
            .map(|(team, event)| (team, event.distinct_id.clone()))
            .collect();
        let mut people = self.memory.people(names.iter());
        let (mut unknown, mut merging): (HashSet<Name>, HashSet<Name>) = Default::default();
        for (team, event) in events() {
            let name = (team, event.distinct_id.clone());
            if let Some(other) = merges_with(event) {
                merging.extend([name, (team, other)]);
            } else if !people.leaves_as_is(&name, event) {
                unknown.insert(name);
            }
        }
        unknown.extend(merging.iter().cloned());
        if !unknown.is_empty() {
            let found = lookup::people(&self.inserter.client, &self.tables, &unknown, &merging, most_read).await?;
            people.owners.retain(|name, _| !unknown.contains(name));
            people.owners.extend(found.owners);
            people.persons.extend(found.persons);
            people.left_out = found.left_out;
        }
        Ok((people, unknown))
    }
}

type Waiting = Turns<Job>;

/// Takes what has come; if that is little, also what comes in the next moment. False: nobody is left.
async fn gather(waiting: &mut Waiting, jobs: &mut mpsc::Receiver<Job>) -> bool {
    let mut gathered = 0;
    if waiting.is_empty() {
        let Some(first) = jobs.recv().await else {
            return false;
        };
        gathered = put(first, waiting);
        let deadline = tokio::time::Instant::now() + GATHERING;
        while gathered < FULL_AT {
            let Ok(Some(next)) = tokio::time::timeout_at(deadline, jobs.recv()).await else {
                break;
            };
            gathered += put(next, waiting);
        }
    }
    while gathered < 2 * FULL_AT
        && let Ok(next) = jobs.try_recv()
    {
        gathered += put(next, waiting);
    }
    true
}

/// Lets a job wait for its turn, and says how much work it is.
fn put(job: Job, waiting: &mut Waiting) -> usize {
    let (turn, weight) = (job.turn(), job.weight());
    waiting.push(turn, job);
    weight
}

/// The next ones of everybody in turn.
fn taken(waiting: &mut Waiting) -> Vec<Job> {
    let mut group = Vec::new();
    let mut weight = 0;
    while weight < FULL_AT
        && let Some(job) = waiting.next()
    {
        weight += job.weight();
        waiting.charge(job.turn(), job.weight() as u64);
        group.push(job);
    }
    group
}

impl Job {
    fn turn(&self) -> Turn {
        match self {
            Self::Append(append) => append.turn(),
            Self::Forget(team, _) => Turn {
                source: Source::Inside,
                owner: Owner::Team(*team),
            },
        }
    }

    fn weight(&self) -> usize {
        match self {
            Self::Append(append) => append.weight,
            Self::Forget(..) => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use super::*;

    fn event(name: &str, distinct_id: String, properties: &Value) -> Incoming {
        Incoming {
            uuid: None,
            event: name.to_owned(),
            distinct_id,
            properties: properties.as_object().map_or_else(Map::new, Clone::clone),
            timestamp: Time::UNIX_EPOCH,
        }
    }

    fn sizes(events: &[Incoming]) -> Vec<usize> {
        parts(events.to_vec()).map(|part| part.len()).collect()
    }

    #[test]
    fn a_large_append_is_stored_in_parts_by_how_much_is_looked_up() {
        let usual: Vec<_> = (0..25_000)
            .map(|n| event("x", format!("{n:036}"), &json!({})))
            .collect();
        assert_eq!(sizes(&usual), [5_000; 5]);
        let long = vec![event("x", "\u{1f600}".repeat(196), &json!({})); 1_000];
        assert_eq!(sizes(&long), [295, 295, 295, 115]);
        let merges = vec![event("$create_alias", "ada".to_owned(), &json!({"alias": "lovelace"})); 1_000];
        assert_eq!(sizes(&merges), [834, 166]);
        let joined: Vec<_> = parts(usual.clone()).flatten().collect();
        assert_eq!(joined, usual);
        assert!(sizes(&[]).is_empty());
    }
}
