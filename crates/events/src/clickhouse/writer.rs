//! One task writes: appends that wait for it go to ClickHouse together, because it wants few large inserts.

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
use crate::{Error, Incoming, Result, Time};

/// How long the first of a group waits for others.
const GATHERING: Duration = Duration::from_millis(3);
/// A group takes nobody else when it has this many events.
const FULL_AT: usize = 20_000;
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
    now: Time,
    since: Instant,
    done: oneshot::Sender<Result<()>>,
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
        };
        tokio::spawn(desk.run(taken));
        Self { jobs }
    }

    /// Comes back when ClickHouse has the events.
    pub(super) async fn append(&self, team: i64, events: Vec<Incoming>, now: Time) -> Result<()> {
        let (done, answer) = oneshot::channel();
        let append = Append {
            team,
            events,
            now,
            since: Instant::now(),
            done,
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
}

impl Desk {
    async fn run(mut self, mut jobs: mpsc::Receiver<Job>) {
        while let Some(first) = jobs.recv().await {
            let mut group = Vec::new();
            for job in gathered(first, &mut jobs).await {
                match job {
                    Job::Append(append) => group.push(append),
                    Job::Forget(team, done) => {
                        self.memory.forget_team(team);
                        // The caller may have gone; so below.
                        let _ = done.send(Ok(()));
                    }
                }
            }
            self.finish(group).await;
        }
    }

    async fn finish(&mut self, group: Vec<Append>) {
        let in_time = |append: &Append| append.since.elapsed() < LONGEST_WAIT;
        let (group, late): (Vec<_>, Vec<_>) = group.into_iter().partition(in_time);
        for append in late {
            let _ = append.done.send(Err(Error::TooSlow));
        }
        let outcome = self.store(&group).await.map_err(Arc::new);
        if let Err(error) = &outcome {
            tracing::error!(error = error as &dyn std::error::Error, "events could not be stored");
            // What was written before it failed is not known.
            self.memory.forget_people();
        }
        for append in group {
            let _ = append.done.send(outcome.clone().map_err(Error::Shared));
        }
    }

    async fn store(&mut self, group: &[Append]) -> Result<()> {
        let since = group
            .iter()
            .map(|append| append.since)
            .min()
            .unwrap_or_else(Instant::now);
        let (mut people, looked_up) = self.people(group).await?;
        let mut rows = EventRows::default();
        let mut uuids = HashSet::new();
        for append in group {
            for event in &append.events {
                let is_repeated =
                    |uuid: Uuid| self.memory.has_seen(append.team, uuid) || !uuids.insert((append.team, uuid));
                if event.uuid.is_some_and(is_repeated) {
                    continue;
                }
                let (person, properties) = people.take(append.team, event, append.now);
                rows.push(append.team, event, append.now, (person, properties));
            }
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
        Ok(())
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

async fn gathered(first: Job, jobs: &mut mpsc::Receiver<Job>) -> Vec<Job> {
    let weight = |job: &Job| match job {
        Job::Append(append) => append.events.len(),
        Job::Forget(..) => 1,
    };
    let deadline = tokio::time::Instant::now() + GATHERING;
    let mut gathered = weight(&first);
    let mut group = vec![first];
    while gathered < FULL_AT {
        let Ok(Some(next)) = tokio::time::timeout_at(deadline, jobs.recv()).await else {
            break;
        };
        gathered += weight(&next);
        group.push(next);
    }
    group
}
