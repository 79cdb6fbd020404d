//! Many organizations, in a time that only goes on when told to.

use std::collections::{BTreeMap, VecDeque};

use super::*;

const FINE: Duration = Duration::from_millis(100);
const COARSE: Duration = Duration::from_millis(500);

fn organization(number: u128) -> OrganizationId {
    OrganizationId(uuid::Uuid::from_u128(number))
}

/// How a run spends its time: it waits for its destination and works, by turns, so often.
#[derive(Debug, Clone, Copy)]
struct Manner {
    waits: Duration,
    works: Duration,
    rounds: usize,
}

const QUICK: Manner = Manner {
    waits: Duration::from_millis(100),
    works: Duration::from_millis(100),
    rounds: 1,
};
/// What the review did: answers after a minute that ask to come again after another.
const SILENT: Manner = Manner {
    waits: Duration::from_mins(10),
    works: Duration::from_millis(100),
    rounds: 1,
};

struct Wait {
    organization: OrganizationId,
    manner: Manner,
    since: Instant,
    tries: u32,
}

struct InProgress {
    wait: Wait,
    end: CancellationToken,
    left: Manner,
    /// Until when it waits for its destination; none: it works.
    until: Option<Instant>,
    worked: Duration,
}

/// A process, the runs that are due, and the runs in progress.
struct Simulation {
    state: State,
    step: Duration,
    now: Instant,
    due: VecDeque<Wait>,
    in_progress: BTreeMap<u64, InProgress>,
    /// How long each run of an organization waited for its beginning, and how long until its end.
    began: HashMap<OrganizationId, Vec<Duration>>,
    done: HashMap<OrganizationId, usize>,
    most: usize,
    ended: usize,
}

impl Simulation {
    fn new(slots: usize, step: Duration) -> Self {
        Self {
            state: State::new(slots, SLOT_TIME),
            step,
            now: Instant::now(),
            due: VecDeque::new(),
            in_progress: BTreeMap::new(),
            began: HashMap::new(),
            done: HashMap::new(),
            most: 0,
            ended: 0,
        }
    }

    fn ask(&mut self, number: u128, manner: Manner) {
        self.due.push_back(Wait {
            organization: organization(number),
            manner,
            since: self.now,
            tries: 1,
        });
    }

    fn go_on(&mut self, time: Duration) {
        let until = self.now + time;
        while self.now < until {
            self.claim();
            self.move_on();
            self.now += self.step;
        }
    }

    fn claim(&mut self) {
        loop {
            let mut waiting: Vec<_> = self.due.iter().map(|wait| wait.organization).collect();
            waiting.sort_unstable();
            waiting.dedup();
            let Choice::Take(chosen) = self.state.choose(&waiting, true, self.now) else {
                return;
            };
            let index = self.due.iter().position(|wait| wait.organization == chosen);
            let wait = self.due.remove(index.expect("it waits")).expect("it is there");
            let end = CancellationToken::new();
            let key = format!("{chosen} {}", self.now.elapsed().as_nanos());
            let number = self.state.begin(chosen, &key, wait.tries, end.clone(), self.now);
            self.began.entry(chosen).or_default().push(self.now - wait.since);
            let run = InProgress {
                left: wait.manner,
                until: Some(self.now + wait.manner.waits),
                worked: Duration::ZERO,
                wait,
                end,
            };
            self.in_progress.insert(number, run);
            self.most = self.most.max(self.in_progress.len());
        }
    }

    fn move_on(&mut self) {
        let numbers: Vec<u64> = self.in_progress.keys().copied().collect();
        for number in numbers {
            let run = self.in_progress.get_mut(&number).expect("it is in progress");
            if run.end.is_cancelled() {
                let mut run = self.in_progress.remove(&number).expect("it is in progress").wait;
                self.state.leave(number, self.now);
                self.ended += 1;
                run.tries += 1;
                self.due.push_back(run);
                continue;
            }
            let holds = self.state.runs[&number].slot.is_some();
            if holds && self.now >= self.state.slot_ends(number, self.now) {
                self.state.step_aside(number, self.now);
                if run.until.is_none() {
                    self.state.want(number);
                }
            }
            match run.until {
                Some(until) if self.now < until => {}
                Some(_) => {
                    run.until = None;
                    self.state.want(number);
                }
                None => {}
            }
            if run.until.is_none() && self.state.runs[&number].slot.is_none() {
                self.state.try_to_resume(number, self.now);
            }
            if run.until.is_none() && self.state.runs[&number].slot.is_some() {
                run.worked += self.step;
                if run.worked >= run.left.works {
                    run.worked = Duration::ZERO;
                    run.left.rounds -= 1;
                    run.until = Some(self.now + run.left.waits);
                    if run.left.rounds == 0 {
                        let owner = run.wait.organization;
                        self.in_progress.remove(&number);
                        self.state.leave(number, self.now);
                        *self.done.entry(owner).or_default() += 1;
                    }
                }
            }
        }
        let (holders, slow) = (self.state.holders(), self.state.slow_holders());
        assert!(
            holders <= self.state.slots + 2 && slow <= self.state.slots,
            "{holders} {slow}"
        );
    }

    fn longest_wait(&self, number: u128) -> Duration {
        self.began[&organization(number)]
            .iter()
            .copied()
            .max()
            .expect("it began")
    }

    fn done(&self, number: u128) -> usize {
        self.done.get(&organization(number)).copied().unwrap_or_default()
    }
}

/// The attack that the limit by half of the slots let through: two organizations with all slots, for minutes.
#[test]
fn two_organizations_whose_receivers_are_silent_keep_nobody_waiting() {
    let mut world = Simulation::new(4, FINE);
    for _ in 0..4 {
        world.ask(1, SILENT);
        world.ask(2, SILENT);
    }
    world.go_on(Duration::from_secs(8));
    world.ask(3, QUICK);
    world.go_on(Duration::from_secs(5));
    assert_eq!(world.done(3), 1, "{:?}", world.began);
}

#[test]
fn many_slow_organizations_keep_no_quick_one_waiting() {
    for slots in [1, 4] {
        let mut world = Simulation::new(slots, COARSE);
        world.ask(1000, QUICK);
        world.go_on(Duration::from_secs(2));
        for _ in 0..3 {
            (1..201).for_each(|number| world.ask(number, SILENT));
        }
        // One that is known to be quick comes first even while nothing is known of the others.
        for _ in 0..30 {
            world.ask(1000, QUICK);
            world.go_on(Duration::from_secs(5));
        }
        let (longest, done) = (world.longest_wait(1000), world.done(1000));
        assert!(
            longest <= Duration::from_secs(4) && done >= 30,
            "{slots}: {longest:?} {done}"
        );
        // One that comes now and is new has to wait for nobody, either: the others are known by now.
        world.go_on(Duration::from_mins(10));
        world.ask(2000, QUICK);
        world.go_on(Duration::from_secs(10));
        let longest = world.longest_wait(2000);
        assert!(longest <= Duration::from_secs(4), "{slots}: {longest:?}");
        let room = world.state.most_slow() + 3 * slots + 2;
        assert!(world.most <= room, "{slots}: {} of {room}", world.most);
    }
}

/// Those whose destinations take their time share among themselves, and each comes to its turn and to its end.
#[test]
fn slow_ones_take_turns_with_those_that_never_end() {
    let mut world = Simulation::new(4, COARSE);
    let endless = Manner {
        waits: Duration::from_secs(3),
        works: Duration::from_secs(1),
        rounds: usize::MAX,
    };
    (1..31).for_each(|number| world.ask(number, endless));
    world.go_on(Duration::from_mins(2));
    let warehouse = Manner {
        waits: Duration::from_secs(20),
        works: Duration::from_secs(1),
        rounds: 1,
    };
    world.ask(1000, warehouse);
    world.go_on(Duration::from_mins(12));
    assert_eq!(world.done(1000), 1, "{:?}", world.began.get(&organization(1000)));
    // From then on there is room for it that those which last longer do not get.
    for _ in 0..10 {
        world.ask(1000, warehouse);
        world.go_on(Duration::from_mins(5));
    }
    assert!(world.done(1000) >= 10, "{:?}", world.began.get(&organization(1000)));
    assert!(world.ended > 0);
}

/// Ended again and again for others, a long run is left alone for longer each time.
#[test]
fn a_long_run_gets_to_its_end_though_others_wait() {
    let mut world = Simulation::new(4, Duration::from_secs(1));
    let hour = Manner {
        waits: Duration::from_secs(5),
        works: Duration::from_secs(1),
        rounds: 100,
    };
    for number in 1..40 {
        world.ask(number, hour);
    }
    world.go_on(Duration::from_hours(6));
    assert!(world.ended > 0);
    assert_eq!((1..40).filter(|number| world.done(*number) == 1).count(), 39);
}

#[test]
fn quick_ones_do_not_shut_slow_ones_out() {
    let mut world = Simulation::new(4, FINE);
    let nearly_slow = Manner {
        waits: Duration::from_millis(1700),
        works: Duration::from_millis(100),
        rounds: 1,
    };
    let slow = Manner {
        waits: Duration::from_secs(10),
        works: Duration::from_secs(1),
        rounds: 3,
    };
    for _ in 0..1000 {
        (1..11).for_each(|number| world.ask(number, nearly_slow));
    }
    world.ask(1000, slow);
    world.go_on(Duration::from_mins(2));
    world.ask(1000, slow);
    world.go_on(Duration::from_mins(2));
    assert_eq!(world.done(1000), 2);
}

/// Work that costs processor time is done in as many slots as there are, and two.
#[test]
fn those_that_work_take_turns() {
    let mut world = Simulation::new(2, FINE);
    let heavy = Manner {
        waits: Duration::ZERO,
        works: Duration::from_mins(1),
        rounds: 1,
    };
    for number in 1..9 {
        world.ask(number, heavy);
    }
    world.go_on(Duration::from_secs(30));
    world.ask(1000, QUICK);
    world.go_on(Duration::from_secs(5));
    assert_eq!(world.done(1000), 1, "{:?}", world.began.get(&organization(1000)));
    world.go_on(Duration::from_mins(10));
    assert_eq!((1..9).filter(|number| world.done(*number) == 1).count(), 8);
}

#[test]
fn whoever_has_half_of_the_slots_comes_after_others() {
    let (mut state, now) = (State::new(4, SLOT_TIME), Instant::now());
    let [a, b] = [1, 2].map(organization);
    let begin = |state: &mut State, id, key: &str| state.begin(id, key, 1, CancellationToken::new(), now);
    for _ in 0..2 {
        assert_eq!(state.choose(&[a], true, now), Choice::Take(a));
        begin(&mut state, a, "here");
    }
    assert_eq!(state.choose(&[a, b], true, now), Choice::Take(b));
    assert_eq!(state.choose(&[a], true, now), Choice::Take(a), "but before nobody");
    for _ in 0..2 {
        begin(&mut state, a, "here");
    }
    assert_eq!(
        state.choose(&[a], true, now),
        Choice::Nobody,
        "the others are not for it"
    );
    assert_eq!(state.choose(&[a, b], true, now), Choice::Take(b));
}

#[tokio::test]
async fn a_run_that_waits_gives_its_slot_back_and_takes_one_again() {
    let run_slots = RunSlots::with_slot_time(1, Duration::from_millis(10));
    let slot = run_slots.begin_run(organization(1), "here", 1);
    let (answer, answered) = tokio::sync::oneshot::channel();
    let run = tokio::spawn(async move {
        slot.sending(answered).await.expect("an answer");
        let has_slot = slot.shared.state().runs[&slot.number].slot.is_some();
        (slot, has_slot)
    });
    while run_slots.state().holders() > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // Others take the slots in the meantime, and the run waits for one of them.
    let others = [2, 3].map(|number| run_slots.begin_run(organization(number), "there", 1));
    answer.send(()).expect("somebody listens");
    while run_slots.state().runs.values().all(|run| run.wants.is_none()) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(!run.is_finished());
    drop(others);
    let (slot, has_slot) = run.await.expect("it ends");
    assert!(has_slot);
    drop(slot);
    assert!(run_slots.state().runs.is_empty());
}

/// Whoever goes away while it lines up stands in nobody's way.
#[tokio::test]
async fn a_run_that_is_cancelled_leaves_the_line() {
    let run_slots = RunSlots::with_slot_time(1, Duration::ZERO);
    let slot = Arc::new(run_slots.begin_run(organization(1), "here", 1));
    let others = [2, 3].map(|number| run_slots.begin_run(organization(number), "there", 1));
    let lining_up = slot.sending(tokio::task::yield_now());
    let gone = tokio::time::timeout(Duration::from_millis(20), lining_up).await;
    assert!(gone.is_err());
    assert!(run_slots.state().runs.values().all(|run| run.wants.is_none()));
    drop((slot, others));
}
