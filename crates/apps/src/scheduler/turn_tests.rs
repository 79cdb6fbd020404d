//! How long people wait beside others who have many organizations, in a time of its own.

use std::collections::HashMap;

use super::state::SLOW_AFTER;
use super::tests::{SLOTS, tenant};
use super::*;

const TICK: Duration = Duration::from_millis(20);
const QUICK: Duration = TICK;
const ALMOST_SLOW: Duration = Duration::from_millis(940);
const LONG: Duration = Duration::from_secs(30);
/// A call that lasts longer goes on without its slot.
const SLOT_WAIT: Duration = Duration::from_millis(100);
/// A turn ends after this, whoever waits, and what is preempted waits for this.
const TURN: Duration = Duration::from_secs(3);
const RETRIED_AFTER: Duration = Duration::from_secs(5);
/// Of those who take what they can get: four people, each with many organizations.
const ATTACKERS: i64 = 4;
const ORGANIZATIONS: u128 = 12;

/// What an app of an organization has to do.
#[derive(Debug, Clone, Copy)]
struct App {
    creator: i64,
    takes: Duration,
    /// How often there is something to do. None: always.
    every: Option<Duration>,
    work: Work,
}

/// An app, and where it is.
struct Waiting {
    app: App,
    organization: u128,
    /// When what it waits with came in.
    came: Vec<Instant>,
    next: Instant,
    not_before: Instant,
    is_running: bool,
    waits: Vec<Duration>,
    done: Vec<Instant>,
}

impl Waiting {
    fn waits(&self, now: Instant) -> bool {
        let has_something = self.app.every.is_none() || !self.came.is_empty();
        !self.is_running && has_something && self.not_before <= now
    }

    fn median(&self) -> Duration {
        let mut waits = self.waits.clone();
        waits.sort_unstable();
        assert!(waits.len() > 2, "{:?} was served {} times", self.app, waits.len());
        waits[waits.len() / 2]
    }
}

struct Turn {
    app: usize,
    permit: u64,
    begun: Instant,
    call_begun: Instant,
    is_in_slot: bool,
}

/// The slots of a process, and all who wait for them.
struct Slots {
    count: usize,
    state: State,
    now: Instant,
    apps: Vec<Waiting>,
    turns: Vec<Turn>,
}

impl Slots {
    fn new(count: usize, apps: &[App]) -> Self {
        let now = Instant::now();
        let waiting = |(organization, app): (u128, &App)| Waiting {
            app: *app,
            organization,
            came: Vec::new(),
            next: now,
            not_before: now,
            is_running: false,
            waits: Vec::new(),
            done: Vec::new(),
        };
        Self {
            count,
            state: State::new(count),
            now,
            apps: (1..).zip(apps).map(waiting).collect(),
            turns: Vec::new(),
        }
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.now += TICK;
            self.come();
            self.go_on();
            self.begin();
        }
    }

    /// What is waited for from now on counts.
    fn measure(&mut self, time: Duration) {
        for app in &mut self.apps {
            app.waits.clear();
            app.done.clear();
        }
        self.pass(time);
    }

    fn come(&mut self) {
        for app in &mut self.apps {
            if let Some(every) = app.app.every.filter(|_| app.next <= self.now) {
                app.came.push(self.now);
                app.next += every;
            }
        }
    }

    fn go_on(&mut self) {
        let (now, state, apps) = (self.now, &mut self.state, &mut self.apps);
        self.turns.retain_mut(|turn| {
            let app = &mut apps[turn.app];
            if !state.running.contains_key(&turn.permit) {
                (app.is_running, app.not_before) = (false, now + RETRIED_AFTER);
                return false;
            }
            let lasts = now - turn.begun;
            if now - turn.call_begun < app.app.takes {
                if turn.is_in_slot && (now - turn.call_begun >= SLOT_WAIT || lasts >= SLOW_AFTER) {
                    turn.is_in_slot = false;
                    state.leave_slot(turn.permit, now);
                }
                return true;
            }
            app.done.push(now);
            if app.app.every.is_some() {
                // What was preempted has waited until it began for the last time.
                app.waits.push(turn.call_begun - app.came.remove(0));
            }
            let has_more = app.app.every.is_none() || !app.came.is_empty();
            let is_over = app.app.work == Work::Task || lasts >= TURN || state.should_yield(turn.permit, now);
            if !has_more || is_over {
                state.end(turn.permit, now);
                app.is_running = false;
                return false;
            }
            begin_call(state, turn, now);
            true
        });
    }

    fn begin(&mut self) {
        while self.turns.iter().filter(|turn| turn.is_in_slot).count() < self.count {
            let (now, apps) = (self.now, &self.apps);
            let waiting = apps.iter().filter(|app| app.waits(now));
            let waiting = waiting.map(|app| (tenant(app.organization, app.app.creator), app.app.work));
            let Some((tenant, work)) = self.state.in_order(waiting, now).first().copied() else {
                return;
            };
            if let Some(Room::InsteadOf(number)) = self.state.room(tenant, work, now) {
                self.state.preempt(number, now);
            }
            let (permit, _) = self.state.start(tenant, work, now);
            let place = tenant.organization.0.as_u128() - 1;
            let app = usize::try_from(place).expect("there are few");
            let mut turn = Turn {
                app,
                permit,
                begun: now,
                call_begun: now,
                is_in_slot: true,
            };
            self.apps[app].is_running = true;
            begin_call(&mut self.state, &mut turn, now);
            self.turns.push(turn);
        }
    }
}

fn begin_call(state: &mut State, turn: &mut Turn, now: Instant) {
    turn.call_begun = now;
    state.begin_call(turn.permit, now);
    state.begin_turn(turn.permit, now);
}

fn always(creator: i64, takes: Duration) -> App {
    App {
        creator,
        takes,
        every: None,
        work: Work::Events,
    }
}

fn every(creator: i64, seconds: u64, takes: Duration) -> App {
    App {
        every: Some(Duration::from_secs(seconds)),
        ..always(creator, takes)
    }
}

/// Of each of the attackers.
fn attack(app: impl Fn(u128) -> App) -> Vec<App> {
    let of_one = |creator: i64| {
        let app = &app;
        (0..ORGANIZATIONS).map(move |number| App { creator, ..app(number) })
    };
    (1..=ATTACKERS).flat_map(of_one).collect()
}

/// Whose share is smaller than that of others waits for a moment, whatever these do.
#[test]
fn whoever_has_little_hardly_waits_beside_people_with_many_organizations() {
    let task = |app: App| App {
        work: Work::Task,
        ..app
    };
    let seconds = Duration::from_secs;
    let attacks: [(&str, Vec<App>); 5] = [
        ("quick", attack(|_| always(0, QUICK))),
        ("almost slow", attack(|_| always(0, ALMOST_SLOW))),
        ("long", attack(|_| always(0, LONG))),
        ("tasks", attack(|_| task(always(0, ALMOST_SLOW)))),
        (
            "mixed",
            attack(|number| {
                always(
                    0,
                    [QUICK, ALMOST_SLOW, seconds(3), seconds(8), LONG][usize::try_from(number % 5).unwrap()],
                )
            }),
        ),
    ];
    for (name, mut apps) in attacks {
        let people = apps.len();
        apps.extend([
            every(11, 1, QUICK),
            every(12, 15, QUICK),
            task(every(13, 1, QUICK)),
            every(14, 3, ALMOST_SLOW),
            every(15, 12, seconds(3)),
            every(16, 20, seconds(8)),
        ]);
        // Somebody with ten organizations, and things to do for one or another of them all the time.
        apps.extend((0..10).map(|_| every(17, 5, QUICK)));
        let mut slots = Slots::new(SLOTS, &apps);
        slots.pass(seconds(30));
        slots.measure(seconds(70));
        for one in &slots.apps[people..] {
            let median = one.median();
            assert!(median < SLOW_AFTER, "{median:?} beside {name}: {:?}", one.app);
        }
    }
}

#[test]
fn whoever_always_has_something_to_do_has_a_share_beside_people_with_many_organizations() {
    for takes in [QUICK, ALMOST_SLOW, LONG] {
        let mut apps = attack(|_| always(0, takes));
        apps.push(always(11, QUICK));
        let mut slots = Slots::new(SLOTS, &apps);
        slots.pass(Duration::from_secs(40));
        slots.measure(Duration::from_mins(1));
        // Of four slots for five persons.
        let half = Duration::from_secs(30).as_millis() / QUICK.as_millis();
        let done = slots.apps[apps.len() - 1].done.len();
        assert!(done as u128 > half, "{done} of {} beside {takes:?}", 2 * half);
    }
}

/// However many organizations somebody has: none of them is forgotten.
#[test]
fn all_organizations_of_a_person_have_turns() {
    let mut apps = attack(|_| always(0, ALMOST_SLOW));
    let people = apps.len();
    apps.extend((0..30).map(|_| always(11, QUICK)));
    let mut slots = Slots::new(SLOTS, &apps);
    slots.pass(Duration::from_secs(30));
    slots.measure(Duration::from_mins(2));
    let turns: Vec<usize> = slots.apps[people..].iter().map(|app| app.done.len()).collect();
    let (least, most) = (turns.iter().min(), turns.iter().max());
    assert!(
        least.zip(most).is_some_and(|(least, most)| 2 * least > *most),
        "{turns:?}"
    );
}

#[test]
fn whoever_has_little_hardly_waits_beside_many_who_are_busy() {
    let mut apps = attack(|_| always(0, ALMOST_SLOW));
    apps.extend((100..300).map(|person| always(person, ALMOST_SLOW)));
    apps.push(every(11, 3, QUICK));
    let mut slots = Slots::new(SLOTS, &apps);
    slots.pass(Duration::from_secs(20));
    slots.measure(Duration::from_mins(1));
    let median = slots.apps[apps.len() - 1].median();
    assert!(median < Duration::from_millis(500), "{median:?}");
    // And the others have equal shares.
    let mut of_person: HashMap<i64, usize> = HashMap::new();
    for app in &slots.apps {
        *of_person.entry(app.app.creator).or_default() += app.done.len();
    }
    let attackers = (1..=ATTACKERS).map(|creator| of_person[&creator]).max();
    let busy: usize = (100..300).map(|person| of_person[&person]).sum();
    assert!(
        attackers.is_some_and(|most| 200 * most < 3 * busy),
        "{attackers:?} of {busy}"
    );
}

/// As when the services that many send to do not respond.
#[test]
fn whoever_is_quick_goes_on_beside_many_who_are_slow() {
    let mut apps: Vec<App> = (100..200).map(|person| always(person, LONG)).collect();
    apps.extend([always(11, QUICK), every(12, 3, QUICK)]);
    let mut slots = Slots::new(SLOTS, &apps);
    slots.pass(Duration::from_secs(40));
    slots.measure(Duration::from_mins(1));
    let (busy, rare) = (&slots.apps[100], &slots.apps[101]);
    let all = Duration::from_mins(1).as_millis() / QUICK.as_millis();
    assert!(busy.done.len() as u128 > all / 2, "{} of {all}", busy.done.len());
    assert!(rare.median() < Duration::from_millis(500), "{:?}", rare.median());
}

/// Each of those who are slower has one call in progress, and no more than others who wait.
#[test]
fn whoever_is_less_slow_does_not_wait_for_many_who_are_slower() {
    let seconds = Duration::from_secs;
    let mut apps: Vec<App> = (100..148).map(|person| always(person, LONG)).collect();
    apps.extend([
        every(11, 12, Duration::from_millis(1500)),
        every(12, 24, seconds(3)),
        every(13, 64, seconds(8)),
    ]);
    let mut slots = Slots::new(SLOTS, &apps);
    slots.pass(seconds(150));
    slots.measure(Duration::from_mins(5));
    for one in &slots.apps[48..] {
        assert!(one.median() < seconds(2), "{:?}: {:?}", one.app, one.median());
    }
    let done: usize = slots.apps[..48].iter().map(|app| app.done.len()).sum();
    // Half of what 14 permits could do in five minutes.
    assert!(done > 14 * 10 / 2, "{done}");
}

/// Such calls are hardly ever slow at the moment somebody looks.
#[test]
fn whoever_makes_calls_of_just_over_a_second_has_no_others_preempted() {
    let seconds = Duration::from_secs;
    let just_over = SLOW_AFTER + TICK;
    let mut apps: Vec<App> = (0..99).map(|_| always(1, just_over)).collect();
    apps.push(App {
        every: Some(Duration::from_millis(1500)),
        ..always(2, just_over)
    });
    apps.extend((0..2).map(|_| every(11, 10, seconds(8))));
    let mut slots = Slots::new(SLOTS, &apps);
    slots.pass(seconds(60));
    slots.measure(Duration::from_mins(4));
    for one in &slots.apps[100..] {
        assert!(one.median() < seconds(2), "{:?}: {:?}", one.app, one.median());
    }
}

#[test]
fn calls_that_are_preempted_get_done_in_the_end() {
    let mut apps = attack(|_| always(0, Duration::from_secs(8)));
    let people = apps.len();
    apps.extend((0..10).map(|_| every(11, 30, Duration::from_secs(8))));
    let mut slots = Slots::new(SLOTS, &apps);
    slots.pass(Duration::from_secs(30));
    slots.measure(Duration::from_mins(2));
    let done: Vec<usize> = slots.apps[people..].iter().map(|app| app.done.len()).collect();
    assert!(done.iter().all(|count| *count >= 2), "{done:?}");
}
