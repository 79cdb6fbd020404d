//! One task writes: appends that wait for it go to ClickHouse together, because it wants few large inserts. Organizations take
//! turns, and a group has its limits: so nobody waits for all that another one sent.

use std::collections::HashSet;
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
use crate::persons::{Allowance, Budgets};
use crate::turns::{Owner, Source, Turn, Turns};
use crate::{Error, Hold, Incoming, Result, Time, size};

/// How long the first of a group waits for others.
const GATHERING: Duration = Duration::from_millis(3);
/// A group takes nobody else when it has this many events.
const FULL_AT: usize = 20_000;
/// It ends early when its rows have so many bytes: how much that is, only making them tells.
const FULL_AT_BYTES: usize = 64 << 20;
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
    now: Time,
    since: Instant,
    done: oneshot::Sender<Result<()>>,
    hold: Hold,
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

    /// Comes back when ClickHouse has the events.
    pub(super) async fn append(&self, hold: Hold, team: i64, events: Vec<Incoming>, now: Time) -> Result<()> {
        let (done, answer) = oneshot::channel();
        let append = Append {
            team,
            bytes: events.iter().map(|event| size::text_of_object(&event.properties)).sum(),
            events,
            now,
            since: Instant::now(),
            done,
            hold,
        };
        self.ask(Job::Append(append), answer).await
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
        let outcome = self.store(&group).await.map_err(Arc::new);
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

    /// Says how many of the group, from its first on, are stored: at least one.
    async fn store(&mut self, group: &[Append]) -> Result<usize> {
        let since = group
            .iter()
            .map(|append| append.since)
            .min()
            .unwrap_or_else(Instant::now);
        let (mut people, looked_up) = self.people(group).await?;
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

    /// Everybody whom the group is about. Remembered ones are good enough for events that change nothing; a change
    /// starts from what ClickHouse holds now, as another process may have changed it.
    async fn people(&self, group: &[Append]) -> Result<(People, HashSet<Name>)> {
        let events = || {
            group
                .iter()
                .flat_map(|append| append.events.iter().map(|event| (append.team, event)))
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
            let found = lookup::people(&self.inserter.client, &self.tables, &unknown, &merging).await?;
            people.owners.retain(|name, _| !unknown.contains(name));
            people.owners.extend(found.owners);
            people.persons.extend(found.persons);
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

/// Lets a job wait for its turn, and says how many events it has.
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
            Self::Append(append) => append.events.len(),
            Self::Forget(..) => 1,
        }
    }
}
