//! A task writes: appends that wait for it go to ClickHouse together, because it wants few large inserts. Organizations take
//! turns, and a group has its limits: so nobody waits for all that another one sent. A second task does the same for teams whose
//! appends are much work, so that only they wait for that.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};

use super::address::Tables;
use super::append::{Append, LITTLE_WORK, MAX_WAIT, parts};
use super::groups::{Groups, LITTLE, Left, MUCH};
use super::insert::Inserter;
use super::slow_teams::SlowTeams;
use super::work_by_sender::WorkBySender;
use crate::fair_queue::{FairQueue, Owner, QueueKey, Source};
use crate::{Error, Hold, Incoming, Result, Time};

/// How long the first of a group waits for others.
const GATHERING: Duration = Duration::from_millis(3);
/// A group that took longer was noticeable for those who sent little.
const NOTICEABLE: Duration = Duration::from_millis(200);
/// How long the second task stores appends that are too much for a group, one by one, before the others have their turns again.
const LARGE_FOR: Duration = Duration::from_millis(500);
/// Of how many sources something comes first in the next group if there was no room for it.
const CARRIED: usize = 10;
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

    /// Comes back when ClickHouse has the events. If that fails, it may have the first of many: who sends them again with the same UUIDs
    /// repeats none.
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
        self.jobs.send_timeout(job, MAX_WAIT).await.map_err(too_slow)?;
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
        let (mut waiting, mut carried) = (FairQueue::default(), Vec::new());
        while gather(&mut waiting, &mut jobs, !carried.is_empty()).await {
            let group = self.quick_ones(next_group(carried, &mut waiting, |job| self.work(job)));
            let started = Instant::now();
            let left = self.groups.store(group, LITTLE).await;
            note_if_slow(&self.slow_teams, &left.work, started);
            for append in left.large {
                self.slow_teams.note(append.team);
                self.pass_on(Job::Append(append));
            }
            carried = carry_over(&mut waiting, left.rest);
        }
    }

    /// How much work a job is here: passing it on is none.
    fn work(&self, job: &Job) -> usize {
        let is_large = matches!(job, Job::Append(append) if append.is_large());
        if is_large || self.slow_teams.contains(job.team()) {
            return 0;
        }
        job.weight()
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
    let mut waiting = FairQueue::default();
    while let Some(first) = jobs.recv().await {
        put(first, &mut waiting);
        let mut carried = Vec::new();
        while !waiting.is_empty() || !carried.is_empty() {
            while let Ok(job) = jobs.try_recv() {
                put(job, &mut waiting);
            }
            let group = next_group(carried, &mut waiting, Job::weight);
            let left_over = store_slow_group(&groups, &slow_teams, group).await;
            carried = carry_over(&mut waiting, left_over);
        }
    }
}

/// Gives back those that have to wait.
async fn store_slow_group(groups: &Groups, slow_teams: &SlowTeams, jobs: Vec<Job>) -> Vec<Append> {
    let (mut group, mut teams) = (Vec::new(), Vec::new());
    for job in jobs {
        teams.push(job.team());
        match job {
            Job::Append(append) => group.push(append),
            Job::Forget(team, done) => forget(groups, team, done),
        }
    }
    let left = store_most(groups, slow_teams, group).await;
    let left_over: Vec<Append> = left.large.into_iter().chain(left.rest).collect();
    for append in &left_over {
        slow_teams.begin(append.team);
    }
    for team in teams {
        slow_teams.end(team);
    }
    left_over
}

/// How much work events are cannot be told from them alone: it depends on how many persons a team has.
fn note_if_slow(slow_teams: &SlowTeams, work: &WorkBySender, started: Instant) {
    if started.elapsed() < NOTICEABLE {
        return;
    }
    for team in work.heaviest_teams() {
        slow_teams.note(team);
    }
}

/// Those for whom little has to be read do not wait for the others, of whom at least one has its turn in any case.
async fn store_most(groups: &Groups, slow_teams: &SlowTeams, group: Vec<Append>) -> Left {
    let started = Instant::now();
    let mut left = match group.len() {
        // Nobody else waits: all that it is about is read at once.
        1 => Left {
            work: WorkBySender::of(&group),
            large: group,
            ..Left::default()
        },
        _ => groups.store(group, MUCH).await,
    };
    note_if_slow(slow_teams, &left.work, started);
    left.large = store_large(groups, slow_teams, left.large).await;
    left
}

/// Stores one in any case, and others as long as there is time. Gives back the rest.
async fn store_large(groups: &Groups, slow_teams: &SlowTeams, large: Vec<Append>) -> Vec<Append> {
    let started = Instant::now();
    let mut large = large.into_iter();
    for append in large.by_ref() {
        let (team, append_started) = (append.team, Instant::now());
        groups.store_alone(append).await;
        if append_started.elapsed() >= NOTICEABLE {
            slow_teams.note(team);
        }
        if started.elapsed() > LARGE_FOR {
            break;
        }
    }
    large.collect()
}

fn forget(groups: &Groups, team: i64, done: oneshot::Sender<Result<()>>) {
    groups.forget_team(team);
    // The caller may have gone.
    let _ = done.send(Ok(()));
}

/// Takes all that has come, because turns decide who is next and not who came first; if nobody waited, nor was carried over, also what
/// comes in the next moment. False: nobody is left.
async fn gather(waiting: &mut FairQueue<Job>, jobs: &mut mpsc::Receiver<Job>, are_carried: bool) -> bool {
    if waiting.is_empty() && !are_carried {
        let Some(first) = jobs.recv().await else {
            return false;
        };
        let mut gathered = put(first, waiting);
        let deadline = tokio::time::Instant::now() + GATHERING;
        while gathered < LITTLE_WORK {
            let Ok(Some(next)) = tokio::time::timeout_at(deadline, jobs.recv()).await else {
                break;
            };
            gathered += put(next, waiting);
        }
    }
    while let Ok(next) = jobs.try_recv() {
        put(next, waiting);
    }
    true
}

/// Lets a job wait for its turn, and says how much work it is.
fn put(job: Job, waiting: &mut FairQueue<Job>) -> usize {
    let (turn, weight) = (job.turn(), job.weight());
    waiting.push(turn, job);
    weight
}

/// Those for which a group had no room, and which come first in the next one: they have paid for their turns, and would wait for all who
/// are new. That is one of each source, as far as they are not too many; the others wait for their turns again.
fn carry_over(waiting: &mut FairQueue<Job>, rest: Vec<Append>) -> Vec<Job> {
    let (mut sources, mut total) = (HashSet::new(), 0);
    let is_carried = |append: &Append| {
        // Only the first of a source, so that none of its appends overtakes another.
        let is_first = sources.insert(append.turn().source);
        let fits = sources.len() == 1 || (sources.len() <= CARRIED && total + append.weight <= LITTLE_WORK);
        total += if is_first && fits { append.weight } else { 0 };
        is_first && fits
    };
    let (carried, others): (Vec<_>, Vec<_>) = rest.into_iter().partition(is_carried);
    let others = others.into_iter().map(|append| (append.turn(), Job::Append(append)));
    waiting.put_back(others.collect());
    carried.into_iter().map(Job::Append).collect()
}

/// What was carried over, and those whose turn it is: they have half of a group in any case.
fn next_group(carried: Vec<Job>, waiting: &mut FairQueue<Job>, work: impl Fn(&Job) -> usize) -> Vec<Job> {
    let carried_work: usize = carried.iter().map(&work).sum();
    let mut group = carried;
    group.extend(taken(waiting, LITTLE_WORK - carried_work.min(LITTLE_WORK / 2), work));
    group
}

/// The next ones of everybody in turn, until they are so much work. Each source has one append in any case, so that nobody waits because of
/// its size, and more if that still fits: beside others into a quarter.
fn taken(waiting: &mut FairQueue<Job>, full_at: usize, work: impl Fn(&Job) -> usize) -> Vec<Job> {
    let (mut group, mut total) = (Vec::new(), 0);
    let mut shares: HashMap<Source, usize> = HashMap::new();
    while total < full_at
        && let Some(job) = waiting.next()
    {
        let (turn, weight) = (job.turn(), work(&job));
        let share = shares.entry(turn.source).or_default();
        let most = if *share == total { full_at } else { full_at / 4 };
        let fits = total + weight <= full_at && *share + weight <= most;
        if weight > 0 && *share > 0 && !fits {
            waiting.put_back(vec![(turn, job)]);
            break;
        }
        total += weight;
        *share += weight;
        waiting.charge(turn, weight as u64);
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

    fn turn(&self) -> QueueKey {
        match self {
            Self::Append(append) => append.turn(),
            Self::Forget(team, _) => QueueKey {
                source: Source::Inside,
                owner: Owner::Team(*team),
            },
        }
    }

    /// How much work it is. Nothing is done for those who have waited for too long: they are told so.
    fn weight(&self) -> usize {
        match self {
            Self::Append(append) if append.is_late() => 0,
            Self::Append(append) => append.weight,
            Self::Forget(..) => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use outbound::{Dialer, Http, Policy, Roots};
    use serde_json::Map;

    use super::super::address;
    use super::*;

    /// So many events of a team, from this subnet.
    fn append(subnet: u8, team: i64, count: usize) -> Append {
        let event = Incoming {
            uuid: None,
            event: "x".to_owned(),
            distinct_id: "ada".to_owned(),
            properties: Map::new(),
            timestamp: Time::UNIX_EPOCH,
        };
        let hold = Hold::default().sent_from(IpAddr::from([192, 0, subnet, 0]));
        let (append, _) = Append::new(
            Arc::new(hold),
            team,
            vec![event; count],
            Time::UNIX_EPOCH,
            Instant::now(),
        );
        append
    }

    fn waiting(appends: impl IntoIterator<Item = Append>) -> FairQueue<Job> {
        let mut waiting = FairQueue::default();
        for append in appends {
            put(Job::Append(append), &mut waiting);
        }
        waiting
    }

    fn weights(group: &[Job]) -> Vec<usize> {
        group.iter().map(Job::weight).collect()
    }

    #[test]
    fn a_group_is_one_append_of_much_work_or_many_of_little() {
        let mut much = waiting((0..4).map(|_| append(1, 1, 2_440)));
        for _ in 0..4 {
            assert_eq!(weights(&taken(&mut much, LITTLE_WORK, Job::weight)), [2_440]);
        }
        let mut little = waiting((0..2_000).map(|n| append(u8::try_from(n % 200).unwrap(), n, 1)));
        assert_eq!(taken(&mut little, LITTLE_WORK, Job::weight).len(), 2_000);
        assert!(much.is_empty() && little.is_empty());
    }

    #[test]
    fn a_source_has_no_more_than_its_share_beside_others() {
        let others = (2..12).map(|n| append(n, 2, 1));
        let mut both = waiting((0..20).map(|_| append(1, 1, 200)).chain(others));
        let group = taken(&mut both, LITTLE_WORK, Job::weight);
        let of = |team: i64| group.iter().filter(move |job| job.team() == team).count();
        assert_eq!((of(1), of(2)), (3, 10));
        let group = taken(&mut both, LITTLE_WORK, Job::weight);
        assert_eq!(group.len(), 12, "nobody else is left");
    }

    #[test]
    fn nobody_waits_for_ever_because_others_send_less() {
        let others = (2..202).map(|n| append(n, 2, 1));
        let mut both = waiting(others.chain([append(1, 1, 2_440), append(1, 1, 2_440)]));
        let group = taken(&mut both, LITTLE_WORK, Job::weight);
        assert_eq!((group.len(), weights(&group).last()), (201, Some(&2_440)));
    }

    #[test]
    fn what_is_only_passed_on_is_no_work() {
        let mut all = waiting([
            append(1, 1, 2_000),
            append(2, 2, 5_000),
            append(3, 3, 5_000),
            append(4, 4, 1),
        ]);
        let work = |job: &Job| if job.weight() > LITTLE_WORK { 0 } else { job.weight() };
        assert_eq!(weights(&taken(&mut all, LITTLE_WORK, work)), [2_000, 5_000, 5_000, 1]);
    }

    #[test]
    fn those_who_have_waited_for_too_long_are_no_work() {
        let late = || {
            let mut late = append(1, 1, 2_000);
            late.since = Instant::now().checked_sub(MAX_WAIT).unwrap();
            late
        };
        let mut all = waiting([late(), late(), late(), append(1, 1, 2_000), append(2, 2, 1)]);
        let group = taken(&mut all, LITTLE_WORK, Job::weight);
        assert_eq!(group.len(), 5);
        // What one waited for may have been its own look-up.
        assert_eq!(WorkBySender::of(&[late()]).heaviest_teams(), HashSet::from([1]));
    }

    #[test]
    fn whoever_had_no_room_is_first_in_the_next_group() {
        let mut all = waiting((2..4).map(|n| append(n, 2, 1)));
        let rest = vec![append(1, 1, 2_000), append(1, 1, 1), append(5, 5, 100)];
        let carried = carry_over(&mut all, rest);
        assert_eq!(weights(&carried), [2_000, 100], "one of each source");
        let group = next_group(carried, &mut all, Job::weight);
        assert_eq!(weights(&group), [2_000, 100, 1, 1, 1]);
        assert!(all.is_empty());
    }

    #[test]
    fn what_is_carried_over_leaves_room_for_others() {
        let mut all = FairQueue::default();
        let rest = (1..100).map(|n| append(n, 1, 400)).collect();
        let carried = carry_over(&mut all, rest);
        assert_eq!(carried.len(), LITTLE_WORK / 400);
        put(Job::Append(append(100, 2, 1)), &mut all);
        let rest = (101..200).map(|n| append(n, 1, 1)).collect();
        assert_eq!(carry_over(&mut all, rest).len(), CARRIED);
        let group = next_group(carried, &mut all, Job::weight);
        assert!(group.len() > LITTLE_WORK / 400, "not only what was carried over");
    }

    #[tokio::test]
    async fn nobody_waits_for_all_who_came_before() {
        let (sender, mut jobs) = mpsc::channel(WAITING);
        for _ in 0..60 {
            sender.send(Job::Append(append(1, 1, 2_440))).await.unwrap();
        }
        sender.send(Job::Append(append(2, 2, 1))).await.unwrap();
        let mut waiting = FairQueue::default();
        assert!(gather(&mut waiting, &mut jobs, false).await);
        assert_eq!(weights(&taken(&mut waiting, LITTLE_WORK, Job::weight)), [2_440, 1]);
    }

    #[test]
    fn a_group_is_slow_because_of_all_who_have_some_of_it() {
        let mut group: Vec<_> = (1..=10).map(|team| append(1, team, 245)).collect();
        group.push(append(2, 11, 1));
        let (slow_teams, work) = (SlowTeams::default(), WorkBySender::of(&group));
        note_if_slow(&slow_teams, &work, Instant::now());
        assert!(!slow_teams.contains(1));
        note_if_slow(&slow_teams, &work, Instant::now().checked_sub(NOTICEABLE).unwrap());
        assert!((1..=10).all(|team| slow_teams.contains(team)) && !slow_teams.contains(11));
    }

    #[test]
    fn the_second_task_looks_up_no_more_at_once_than_the_first() {
        let mut all = waiting((0..8).map(|_| append(1, 1, 2_440)).chain([append(2, 2, 1)]));
        let group = next_group(Vec::new(), &mut all, Job::weight);
        assert_eq!(weights(&group), [2_440, 1]);
        let mut all = waiting((1..8).map(|n| append(n, 1, 5_000)));
        assert_eq!(weights(&next_group(Vec::new(), &mut all, Job::weight)), [5_000]);
    }

    /// Appends without events, for which no server is asked.
    #[tokio::test]
    async fn large_appends_are_stored_as_long_as_there_is_time() {
        let http = Http::new(Dialer::new(Policy::default()), &Roots::default()).unwrap();
        let address = address::read("clickhouse://nobody.invalid", http).unwrap();
        let inserter = Inserter {
            client: address.client,
            settings: address.settings.into(),
        };
        let groups = Groups::new(inserter, Arc::new(address.tables));
        let large = vec![append(1, 1, 0), append(2, 2, 0), append(3, 3, 0)];
        assert!(store_large(&groups, &SlowTeams::default(), large).await.is_empty());
    }
}
