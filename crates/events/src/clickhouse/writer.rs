//! A task writes: appends that wait for it go to ClickHouse together, because it wants few large inserts. Organizations take
//! turns, and a group has its limits: so nobody waits for all that another one sent. A second task does the same for teams whose
//! appends are much work, so that only they wait for that.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};

use super::address::Tables;
use super::append::{Append, parts};
use super::groups::{Groups, LITTLE, LONGEST_WAIT, Left, MUCH};
use super::insert::Inserter;
use super::slow_teams::SlowTeams;
use crate::turns::{Owner, Source, Turn, Turns};
use crate::{Error, Hold, Incoming, Result, Time};

/// How long the first of a group waits for others.
const GATHERING: Duration = Duration::from_millis(3);
/// A group takes nobody else when it has this many events, or fewer that are more work.
const FULL_AT: usize = 10_000;
const WAITING: usize = 1024;

#[derive(Debug)]
enum Job {
    Append(Append),
    Forget(i64, oneshot::Sender<Result<()>>),
}

/// Where callers leave events. The tasks end with the last of these.
#[derive(Debug, Clone)]
pub(super) struct Writer {
    jobs: mpsc::Sender<Job>,
}

impl Writer {
    pub(super) fn start(inserter: Inserter, tables: Arc<Tables>) -> Self {
        let (jobs, taken) = mpsc::channel(WAITING);
        // What waits there is limited by the memory that captured events may take.
        let (slow_jobs, slow_taken) = mpsc::unbounded_channel();
        let groups = Groups::new(inserter, tables);
        let slow_teams = SlowTeams::default();
        tokio::spawn(store_slow(groups.clone(), slow_teams.clone(), slow_taken));
        tokio::spawn(
            Quick {
                groups,
                slow_teams,
                slow_jobs,
            }
            .store(taken),
        );
        Self { jobs }
    }

    /// Comes back when ClickHouse has the events. If that fails, it may have the first parts of many: who sends them again with the same
    /// UUIDs repeats none.
    pub(super) async fn append(&self, hold: Hold, team: i64, events: Vec<Incoming>, now: Time) -> Result<()> {
        let hold = Arc::new(hold);
        let started = Instant::now();
        let mut since = started;
        for part in parts(events) {
            // Exports read what was ingested until a time, some seconds later. A part that waited for others is not to come after them.
            let now = now + (since - started);
            let (append, answer) = Append::new(hold.clone(), team, part, now, since);
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

/// Stores what is little work, and passes on the rest.
struct Quick {
    groups: Groups,
    slow_teams: SlowTeams,
    slow_jobs: mpsc::UnboundedSender<Job>,
}

impl Quick {
    async fn store(self, mut jobs: mpsc::Receiver<Job>) {
        let mut waiting = Turns::default();
        while gather(&mut waiting, &mut jobs).await {
            let group = self.quick_ones(taken(&mut waiting));
            let left = self.groups.store(group, LITTLE).await;
            for append in left.large {
                self.slow_teams.note(append.team);
                self.pass_on(Job::Append(append));
            }
            put_back(&mut waiting, left.rest);
        }
    }

    /// Passes on all jobs of slow teams, and of those that have just become so: the two tasks never work for the same team at once.
    fn quick_ones(&self, jobs: Vec<Job>) -> Vec<Append> {
        for job in &jobs {
            if let Job::Append(append) = job
                && append.is_large()
            {
                self.slow_teams.note(append.team);
            }
        }
        let mut group = Vec::new();
        for job in jobs {
            match job {
                job if self.slow_teams.contains(job.team()) => self.pass_on(job),
                Job::Append(append) => group.push(append),
                Job::Forget(team, done) => forget(&self.groups, team, done),
            }
        }
        group
    }

    fn pass_on(&self, job: Job) {
        self.slow_teams.begin(job.team());
        // If that task is gone, so are those who wait.
        let _ = self.slow_jobs.send(job);
    }
}

/// Stores what is much work.
async fn store_slow(groups: Groups, slow_teams: SlowTeams, mut jobs: mpsc::UnboundedReceiver<Job>) {
    let mut waiting = Turns::default();
    while let Some(first) = jobs.recv().await {
        put(first, &mut waiting);
        while !waiting.is_empty() {
            while let Ok(job) = jobs.try_recv() {
                put(job, &mut waiting);
            }
            store_slow_group(&groups, &slow_teams, &mut waiting).await;
        }
    }
}

async fn store_slow_group(groups: &Groups, slow_teams: &SlowTeams, waiting: &mut Turns<Job>) {
    let (mut group, mut teams) = (Vec::new(), Vec::new());
    for job in taken(waiting) {
        teams.push(job.team());
        match job {
            Job::Append(append) => group.push(append),
            Job::Forget(team, done) => forget(groups, team, done),
        }
    }
    let left_over = store_most(groups, group).await;
    for append in &left_over {
        slow_teams.begin(append.team);
    }
    for team in teams {
        slow_teams.end(team);
    }
    put_back(waiting, left_over);
}

/// Those for whom little has to be read do not wait for the others, of whom one has its turn in any case.
async fn store_most(groups: &Groups, group: Vec<Append>) -> Vec<Append> {
    let left = match group.len() {
        // Nobody else waits: all that it is about is read at once.
        1 => Left {
            large: group,
            ..Left::default()
        },
        _ => groups.store(group, MUCH).await,
    };
    let mut large = left.large.into_iter();
    if let Some(append) = large.next() {
        groups.store_alone(append).await;
    }
    large.chain(left.rest).collect()
}

fn forget(groups: &Groups, team: i64, done: oneshot::Sender<Result<()>>) {
    groups.forget_team(team);
    // The caller may have gone.
    let _ = done.send(Ok(()));
}

/// Takes what has come; if that is little, also what comes in the next moment. False: nobody is left.
async fn gather(waiting: &mut Turns<Job>, jobs: &mut mpsc::Receiver<Job>) -> bool {
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
fn put(job: Job, waiting: &mut Turns<Job>) -> usize {
    let (turn, weight) = (job.turn(), job.weight());
    waiting.push(turn, job);
    weight
}

fn put_back(waiting: &mut Turns<Job>, appends: Vec<Append>) {
    let jobs = appends.into_iter().map(|append| (append.turn(), Job::Append(append)));
    waiting.put_back(jobs.collect());
}

/// The next ones of everybody in turn.
fn taken(waiting: &mut Turns<Job>) -> Vec<Job> {
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
    fn team(&self) -> i64 {
        match self {
            Self::Append(append) => append.team,
            Self::Forget(team, _) => *team,
        }
    }

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
