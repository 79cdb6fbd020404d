//! A server whose time passes as quickly as it can be computed: how long people wait beside others who have many organizations.

mod tests;

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
