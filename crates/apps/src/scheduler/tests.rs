//! Who may begin, and who waits for how long beside organizations that are slow.

use std::collections::HashMap;
use std::time::Duration;

use service::{OrganizationId, UserId};

use super::history::{MAX_DOUBLINGS, MAX_REMEMBERED, QUICK_FOR, SLOW_FOR};
use super::search_timer::LOOK_EVERY;
use super::state::{Running, SLOW_AFTER, State};
use super::*;

const ANYONE: Look = Look {
    pass: Pass::Anyone,
    takes_tasks: true,
};
const TICK: Duration = Duration::from_millis(25);

pub(super) fn organization(number: u128) -> OrganizationId {
    OrganizationId(uuid::Uuid::from_u128(number))
}

/// Somebody whose organizations nobody else created.
pub(super) fn tenant(number: u128) -> Tenant {
    Tenant {
        organization: organization(number),
        creator: None,
    }
}

/// Begins as much as may begin, for these organizations in turn.
fn fill(state: &mut State, organizations: std::ops::Range<u128>, work: Work, now: Instant) -> Vec<u64> {
    let mut begun = Vec::new();
    loop {
        let before = begun.len();
        for number in organizations.clone() {
            if matches!(state.room(tenant(number), work, now), Some(Room::Free)) {
                let (number, _) = state.start(tenant(number), work, now);
                state.begin_call(number, now);
                begun.push(number);
            }
        }
        if begun.len() == before {
            return begun;
        }
    }
}

#[test]
fn one_organization_never_has_all_permits() {
    for slots in 1..100 {
        let (scheduler, now) = (Scheduler::new(slots), Instant::now());
        let mut state = scheduler.0.state();
        let own = fill(&mut state, 1..2, Work::Events, now);
        assert!(!own.is_empty() && own.len() <= slots, "{slots}");
        assert!(state.room(tenant(2), Work::Events, now).is_some(), "{slots}");
    }
}

#[test]
fn whoever_waits_long_for_the_database_keeps_no_permit_from_others() {
    let (scheduler, now) = (Scheduler::new(4), Instant::now());
    let mut state = scheduler.0.state();
    // Each has a permit, and waits for its own turn at the database.
    let begun: Vec<u64> = (1..1000)
        .map_while(|number| {
            let room = state.room(tenant(number), Work::Events, now);
            let (number, _) =
                matches!(room, Some(Room::Free)).then(|| state.start(tenant(number), Work::Events, now))?;
            state.begin_waiting(number, now);
            Some(number)
        })
        .collect();
    let full = |state: &State, now| state.room(tenant(5000), Work::Events, now);
    assert!(begun.len() > 4 && full(&state, now).is_none());
    assert!(
        full(&state, now + SLOW_AFTER).is_some(),
        "they no longer stand in the way"
    );
    // Those who waited for a moment have done nothing that would make them quick.
    state.end(begun[1], now + TICK);
    assert_eq!(state.standing(organization(2), now + TICK), SpeedClass::New);
}

#[tokio::test]
async fn what_is_waited_for_is_timed_until_it_is_done() {
    let scheduler = Scheduler::new(4);
    let permit = scheduler.begin(ANYONE, tenant(1), Work::Events, Instant::now());
    let permit = permit.expect("there is room");
    let is_timed = || {
        scheduler
            .0
            .state()
            .running
            .values()
            .any(|one| one.calling_since.is_some())
    };
    assert!(permit.timed(async { is_timed() }).await && !is_timed());
}

#[test]
fn new_ones_and_tasks_have_a_share() {
    let (scheduler, now) = (Scheduler::new(4), Instant::now());
    let mut state = scheduler.0.state();
    assert_eq!(fill(&mut state, 1..100, Work::Events, now).len(), 14);
    state.history.note_quick(organization(200), now);
    assert!(state.room(tenant(200), Work::Events, now).is_some());
    state.running.clear();
    for number in 1..100 {
        state.history.note_quick(organization(number), now);
    }
    assert_eq!(fill(&mut state, 1..100, Work::Task, now).len(), 14);
    assert_eq!(fill(&mut state, 1..100, Work::Events, now).len(), 14);
    // Of tasks that are slow, too, the oldest gives way.
    let later = now + SLOW_AFTER;
    assert!(state.room(tenant(300), Work::Task, now).is_none());
    assert!(matches!(
        state.room(tenant(300), Work::Task, later),
        Some(Room::InsteadOf(_))
    ));
}

#[test]
fn only_calls_that_last_are_slow_and_only_as_many_as_needed_are_preempted() {
    let (scheduler, start) = (Scheduler::new(4), Instant::now());
    let now = start + TICK;
    let mut state = scheduler.0.state();
    for number in 1..100 {
        state.history.note_quick(organization(number), now);
    }
    let all = fill(&mut state, 1..100, Work::Events, now);
    assert_eq!(all.len(), 28);
    let later = now + SLOW_AFTER;
    let almost = start + SLOW_AFTER;
    // Whoever is at its next event is not slow, however long its turn is.
    for number in &all[..19] {
        state.end_call(*number, almost);
        state.begin_call(*number, almost);
    }
    assert!(!state.has_any_room(later), "nine are slow, and a third may be");
    state.begin_call(all[27], now);
    state.end_call(all[0], almost);
    state.begin_call(all[0], start);
    let Some(Room::InsteadOf(oldest)) = state.room(tenant(90), Work::Events, later) else {
        panic!("the oldest gives way");
    };
    assert_eq!(oldest, all[0]);
    let token = state.running[&oldest].preempted.clone();
    let whose = state.running[&oldest].tenant;
    state.preempt(oldest, later);
    assert!(token.is_cancelled());
    assert_eq!(state.standing(whose.organization, later), SpeedClass::Slow);
    assert!(
        state.room(whose, Work::Events, later).is_none(),
        "slow ones preempt nobody"
    );
}

#[test]
fn who_was_slow_goes_behind_and_for_longer_each_time() {
    let (scheduler, mut now) = (Scheduler::new(4), Instant::now());
    let mut state = scheduler.0.state();
    let one = organization(1);
    for times in 0..8 {
        state.history.note_slow(one, SLOW_AFTER, now);
        state.history.note_slow(one, SLOW_AFTER, now);
        state.history.note_quick(one, now);
        let lasts = SLOW_FOR * 2_u32.pow(times.min(MAX_DOUBLINGS));
        assert_eq!(
            state.standing(one, now + lasts.saturating_sub(TICK)),
            SpeedClass::Slow,
            "{times}"
        );
        now += lasts;
        assert_eq!(state.standing(one, now), SpeedClass::New, "{times}");
        state.history.note_quick(one, now);
        assert_eq!(state.standing(one, now), SpeedClass::Quick, "{times}");
    }
    now += QUICK_FOR;
    state.history.note_slow(one, SLOW_AFTER, now);
    assert_eq!(state.standing(one, now + SLOW_FOR), SpeedClass::New, "forgotten");
}

#[test]
fn only_so_many_are_remembered() {
    let (scheduler, now) = (Scheduler::new(4), Instant::now());
    let mut state = scheduler.0.state();
    state.history.note_slow(organization(0), SLOW_AFTER, now);
    for number in 1..3 * MAX_REMEMBERED as u128 {
        state.history.note_quick(organization(number), now);
    }
    assert!(state.history.len() <= MAX_REMEMBERED);
    assert_eq!(state.standing(organization(0), now), SpeedClass::Slow);
}

/// A process with four slots in a time of its own.
struct Simulation {
    scheduler: Scheduler,
    now: Instant,
    /// When each call ends that nobody preempts.
    ends: HashMap<u64, Instant>,
    /// Where the round of organizations is, in each pass.
    served: [u128; Pass::COUNT],
    creator: fn(u128) -> Option<i64>,
}

impl Simulation {
    fn new() -> Self {
        Self::of(4)
    }

    fn of(slots: usize) -> Self {
        Self {
            scheduler: Scheduler::new(slots),
            now: Instant::now(),
            ends: HashMap::new(),
            served: [0; Pass::COUNT],
            creator: |_| None,
        }
    }

    /// In each tick one of those who wait may begin, as the slots look for them.
    fn tick(&mut self, tick: Duration, waiting: &[u128], takes: impl Fn(u128) -> Duration) -> Option<u128> {
        self.now += tick;
        let now = self.now;
        let over = self.ends.extract_if(|_, end| *end <= now);
        let mut state = self.scheduler.0.state();
        for (number, _) in over {
            state.end(number, now);
        }
        drop(state);
        if let Some(pass) = self.scheduler.first_pass(true, now)
            && let Some(id) = self.look(pass, waiting, &takes)
        {
            return Some(id);
        }
        let passes = self.scheduler.passes(true, now);
        passes.iter().find_map(|pass| self.look(*pass, waiting, &takes))
    }

    fn look(&mut self, pass: Pass, waiting: &[u128], takes: &impl Fn(u128) -> Duration) -> Option<u128> {
        let (now, served) = (self.now, self.served[pass.number()]);
        let look = Look {
            pass,
            takes_tasks: true,
        };
        let mut round: Vec<u128> = waiting.to_vec();
        round.sort_unstable_by_key(|id| (*id <= served, *id));
        let mut state = self.scheduler.0.state();
        for id in round {
            let whose = Tenant {
                creator: (self.creator)(id).map(UserId),
                ..tenant(id)
            };
            if !state.includes(look, whose, now) {
                continue;
            }
            let Some(room) = state.room_in(look, whose, Work::Events, now) else {
                continue;
            };
            if let Room::InsteadOf(number) = room {
                state.preempt(number, now);
                self.ends.remove(&number);
            }
            let (number, _) = state.start_found(look, whose, Work::Events, now);
            state.begin_call(number, now);
            self.ends.insert(number, now + takes(id));
            self.served[pass.number()] = id;
            state.end_look(true, pass, true, Duration::ZERO, now);
            return Some(id);
        }
        // The next look is due in the next tick.
        let earlier = now.checked_sub(LOOK_EVERY).unwrap_or(now);
        state.end_look(true, pass, false, Duration::ZERO, earlier);
        None
    }

    /// How long somebody waits who comes now, beside all these.
    fn wait_of(&mut self, id: u128, others: &[u128], takes: impl Fn(u128) -> Duration + Copy) -> Duration {
        let begun = self.now;
        let waiting = [others, &[id]].concat();
        while self.tick(TICK, &waiting, takes) != Some(id) {
            assert!(self.now - begun < Duration::from_mins(5), "{id} is never served");
        }
        self.now - begun
    }

    fn pass_time(&mut self, time: Duration, waiting: &[u128], takes: impl Fn(u128) -> Duration + Copy) {
        let end = self.now + time;
        while self.now < end {
            self.tick(4 * TICK, waiting, takes);
        }
    }
}

const QUICK: Duration = Duration::from_millis(50);
const SLOW: Duration = Duration::from_secs(29);
const VICTIM: u128 = 500;

fn attacker(id: u128) -> Duration {
    if id >= VICTIM { QUICK } else { SLOW }
}

/// 200 organizations that were quick all become slow at the same moment, and go on.
#[test]
fn many_organizations_that_become_slow_keep_nobody_waiting_for_long() {
    let mut simulation = Simulation::new();
    let attackers: Vec<u128> = (1..=200).collect();
    for id in attackers.iter().chain([&VICTIM]) {
        simulation.wait_of(*id, &[], |_| QUICK);
    }
    simulation.pass_time(Duration::from_secs(1), &[], attacker);
    // Whoever comes last in the round waits for a moment of each of them, once.
    let first = simulation.wait_of(VICTIM, &attackers, attacker);
    assert!(first < Duration::from_secs(12), "{first:?}");
    // Someone of whom nothing is known does not wait for those who are.
    let new = simulation.wait_of(VICTIM + 1, &attackers, attacker);
    assert!(new < Duration::from_secs(2), "{new:?}");
    for minute in 0..7 {
        for id in [VICTIM, VICTIM + 2 + minute] {
            let wait = simulation.wait_of(id, &attackers, attacker);
            assert!(wait < Duration::from_secs(12), "{id} waits {wait:?} in minute {minute}");
        }
        simulation.pass_time(Duration::from_mins(1), &attackers, attacker);
    }
}

/// 200 new organizations that are slow from the start.
#[test]
fn many_new_slow_organizations_keep_nobody_waiting_for_long() {
    let mut simulation = Simulation::new();
    let attackers: Vec<u128> = (1..=200).collect();
    simulation.wait_of(VICTIM, &[], attacker);
    simulation.pass_time(Duration::from_secs(5), &attackers, attacker);
    let known = simulation.wait_of(VICTIM, &attackers, attacker);
    assert!(known < Duration::from_secs(2), "{known:?}");
    let new = simulation.wait_of(VICTIM + 1, &attackers, attacker);
    assert!(new < Duration::from_secs(12), "{new:?}");
    simulation.pass_time(Duration::from_secs(30), &attackers, attacker);
    for id in [VICTIM, VICTIM + 2] {
        let wait = simulation.wait_of(id, &attackers, attacker);
        assert!(wait < Duration::from_secs(2), "{wait:?}");
    }
}

/// Those who are slow for good reason are served as well, and to their end while nobody else needs their permits.
#[test]
fn slow_organizations_have_their_part() {
    let mut simulation = Simulation::new();
    for id in 1..=20 {
        simulation.wait_of(id, &[], attacker);
    }
    for id in VICTIM..VICTIM + 20 {
        simulation.wait_of(id, &[], attacker);
        simulation.pass_time(SLOW_AFTER, &[], attacker);
    }
    assert_eq!(simulation.scheduler.0.state().running.len(), 20, "all of them go on");
    simulation.pass_time(SLOW, &[], attacker);
    let again: Vec<u128> = (1..=20).collect();
    simulation.pass_time(Duration::from_secs(5), &again, attacker);
    let busy = simulation.scheduler.0.state().running.len();
    assert_eq!(
        busy, 12,
        "a third of the permits is enough for those who were very slow, and two that are kept for them"
    );
}

/// Whoever is slow is late beside those who are quicker, but never left out.
#[test]
fn slow_organizations_are_served_beside_any_number_of_quicker_ones() {
    let quick = Duration::from_millis(900);
    for (count, of_attackers, limit) in [
        (5, quick, Duration::from_secs(3)),
        (40, quick, Duration::from_secs(3)),
        // They never have as much in progress that there is little room, and somebody who is quick always waits.
        (20, Duration::from_millis(400), Duration::from_secs(8)),
        (99, Duration::from_millis(1300), Duration::from_mins(1)),
        (40, Duration::from_secs(4), Duration::from_mins(2)),
    ] {
        for of_victim in [1300, 3000, 8000].map(Duration::from_millis) {
            let takes = |id: u128| if id == VICTIM { of_victim } else { of_attackers };
            let mut simulation = Simulation::new();
            let attackers: Vec<u128> = (1..=count).collect();
            simulation.wait_of(VICTIM, &[], takes);
            simulation.pass_time(2 * of_victim, &[], takes);
            simulation.pass_time(Duration::from_secs(30), &attackers, takes);
            for _ in 0..5 {
                let wait = simulation.wait_of(VICTIM, &attackers, takes);
                assert!(
                    wait < limit,
                    "{of_victim:?} beside {count} of {of_attackers:?}: {wait:?}"
                );
                let is_running = |simulation: &Simulation| {
                    let state = simulation.scheduler.0.state();
                    state
                        .running
                        .values()
                        .any(|one| one.tenant.organization == organization(VICTIM))
                };
                simulation.pass_time(of_victim.saturating_sub(8 * TICK), &attackers, takes);
                assert!(is_running(&simulation), "nobody takes its permit");
                simulation.pass_time(16 * TICK, &attackers, takes);
            }
        }
    }
}

fn of_one_person(id: u128) -> Option<i64> {
    (id < VICTIM).then_some(1)
}

/// Who created a hundred organizations has one of the permits that are kept for slow ones, and less of the processor for each call.
#[test]
fn organizations_of_one_person_wait_for_each_other() {
    for of_attackers in [900, 1300, 1990, 30_000].map(Duration::from_millis) {
        for of_victim in [1300, 8000].map(Duration::from_millis) {
            wait_beside_one_person(4, of_attackers, of_victim);
        }
    }
    for slots in 1..4 {
        wait_beside_one_person(slots, SLOW, Duration::from_secs(8));
    }
}

/// The calls of a hundred organizations take just less than would make them slow. Without them it waits for no more than its own events.
#[test]
fn quick_ones_do_not_wait_for_the_many_organizations_of_a_person() {
    for of_attackers in [250, 900].map(Duration::from_millis) {
        let takes = |id: u128| if id < VICTIM { of_attackers } else { QUICK };
        let mut simulation = Simulation::new();
        simulation.creator = of_one_person;
        let attackers: Vec<u128> = (1..=99).collect();
        let pass_time = |simulation: &mut Simulation, ticks| {
            for _ in 0..ticks {
                simulation.tick(TICK, &attackers, takes);
            }
        };
        pass_time(&mut simulation, 800);
        for _ in 0..20 {
            let wait = simulation.wait_of(VICTIM, &attackers, takes);
            assert!(wait < Duration::from_millis(500), "beside {of_attackers:?}: {wait:?}");
            pass_time(&mut simulation, 16);
        }
    }
}

/// Each of four persons has a hundred organizations, so that the next one of them is always waiting for a kept permit.
#[test]
fn slow_organizations_do_not_wait_for_the_many_of_several_persons() {
    for (slots, of_all, of_victim) in [(1, 1500, 1200), (4, 8000, 8000)] {
        let [of_all, of_victim] = [of_all, of_victim].map(Duration::from_millis);
        let takes = |id: u128| if id < VICTIM { of_all } else { of_victim };
        let mut simulation = Simulation::of(slots);
        simulation.creator = |id| i64::try_from(id / 99).ok();
        let attackers: Vec<u128> = (1..396).collect();
        simulation.wait_of(VICTIM, &[], takes);
        simulation.pass_time(2 * of_victim, &[], takes);
        simulation.pass_time(Duration::from_mins(1), &attackers, takes);
        for _ in 0..3 {
            let wait = simulation.wait_of(VICTIM, &attackers, takes);
            assert!(
                wait < Duration::from_secs(25),
                "{of_victim:?} beside {of_all:?} with {slots}: {wait:?}"
            );
            simulation.pass_time(2 * of_victim, &attackers, takes);
        }
    }
}

fn wait_beside_one_person(slots: usize, of_attackers: Duration, of_victim: Duration) {
    let takes = |id: u128| match id {
        ..VICTIM => of_attackers,
        VICTIM => of_victim,
        // Others are quick, and always have something.
        _ => Duration::from_millis(900),
    };
    let mut simulation = Simulation::of(slots);
    simulation.creator = of_one_person;
    let all: Vec<u128> = (1..=91).chain(VICTIM + 1..VICTIM + 9).collect();
    simulation.wait_of(VICTIM, &[], takes);
    simulation.pass_time(2 * of_victim, &[], takes);
    simulation.pass_time(Duration::from_mins(2), &all, takes);
    for _ in 0..5 {
        let wait = simulation.wait_of(VICTIM, &all, takes);
        assert!(
            wait < Duration::from_secs(3),
            "{of_victim:?} beside {of_attackers:?} with {slots} slots: {wait:?}"
        );
        let of_person = |one: &&Running| one.is_kept() && one.tenant.creator.is_some();
        let kept = simulation
            .scheduler
            .0
            .state()
            .running
            .values()
            .filter(of_person)
            .count();
        assert!(kept <= 1);
        simulation.pass_time(of_victim + 8 * TICK, &all, takes);
    }
}

/// Nor do those who take half a minute keep what is there for all slow ones.
#[test]
fn a_little_slow_is_not_behind_very_slow_beside_many_quick_ones() {
    let takes = |id: u128| match id {
        VICTIM => Duration::from_millis(1300),
        1..=10 => Duration::from_millis(900),
        _ => Duration::from_secs(30),
    };
    let mut simulation = Simulation::new();
    let attackers: Vec<u128> = (1..=100).collect();
    simulation.wait_of(VICTIM, &[], takes);
    simulation.pass_time(Duration::from_secs(3), &[], takes);
    simulation.pass_time(Duration::from_mins(10), &attackers, takes);
    let mut waits: Vec<Duration> = (0..9)
        .map(|_| {
            let wait = simulation.wait_of(VICTIM, &attackers, takes);
            simulation.pass_time(Duration::from_secs(2), &attackers, takes);
            wait
        })
        .collect();
    waits.sort_unstable();
    assert!(waits[4] < Duration::from_secs(5), "{waits:?}");
}

/// Whoever takes a little more than a second does not wait for those who take half a minute.
#[test]
fn a_little_slow_is_not_behind_very_slow() {
    for (count, takes) in [(8, SLOW), (40, SLOW), (40, Duration::from_secs(4))] {
        let takes = |id: u128| {
            if id >= VICTIM {
                Duration::from_millis(1300)
            } else {
                takes
            }
        };
        let mut simulation = Simulation::new();
        let attackers: Vec<u128> = (1..=count).collect();
        simulation.wait_of(VICTIM, &[], takes);
        simulation.pass_time(Duration::from_secs(2), &[], takes);
        assert_eq!(
            simulation
                .scheduler
                .0
                .state()
                .standing(organization(VICTIM), simulation.now),
            SpeedClass::Slow
        );
        for minute in 0..6 {
            let wait = simulation.wait_of(VICTIM, &attackers, takes);
            assert!(wait < Duration::from_secs(10), "{count}: {wait:?} in minute {minute}");
            simulation.pass_time(Duration::from_secs(53), &attackers, takes);
        }
    }
}

/// 200 organizations whose calls are not slow, but almost, have all permits all the time.
#[test]
fn who_is_new_and_had_nothing_under_way_does_not_wait_for_those_known_to_be_quick() {
    let takes = |id: u128| {
        if id >= VICTIM {
            QUICK
        } else {
            Duration::from_millis(950)
        }
    };
    let mut simulation = Simulation::new();
    let attackers: Vec<u128> = (1..=200).collect();
    for id in &attackers {
        simulation.wait_of(*id, &[], |_| QUICK);
    }
    // Each of them has had its turn once.
    simulation.pass_time(Duration::from_secs(20), &attackers, takes);
    for number in 0..5 {
        for _ in 0..200 {
            simulation.tick(TICK, &attackers, takes);
        }
        let wait = simulation.wait_of(VICTIM + number, &attackers, takes);
        assert!(wait < Duration::from_secs(1), "{wait:?}");
    }
}

#[test]
fn the_more_a_person_has_in_progress_the_higher_is_the_rank() {
    let (scheduler, now) = (Scheduler::new(4), Instant::now());
    let of = |number, creator| Tenant {
        creator: Some(UserId(creator)),
        ..tenant(number)
    };
    let begin = |tenant| scheduler.begin(ANYONE, tenant, Work::Events, now).unwrap();
    let permits = [of(1, 1), of(2, 1), of(2, 1), of(3, 2), tenant(4), tenant(5)].map(begin);
    assert_eq!(permits.map(|permit| permit.rank()), [0, 1, 2, 0, 0, 0]);
}

#[test]
fn who_is_preempted_is_no_less_slow_for_it() {
    let (scheduler, now) = (Scheduler::new(4), Instant::now());
    let mut state = scheduler.0.state();
    let one = organization(1);
    state.history.note_slow(one, SLOW, now);
    for _ in 0..10 {
        let (number, _) = state.start(tenant(1), Work::Events, now);
        state.begin_call(number, now);
        state.preempt(number, now + SLOW_AFTER);
    }
    assert_eq!(state.standing(one, now + SLOW_AFTER), SpeedClass::Slowest);
    // One call that took long is made good by others.
    let other = organization(2);
    state.history.note_slow(other, SLOW, now);
    for _ in 0..6 {
        state.history.note_slow(other, SLOW_AFTER, now);
    }
    assert_eq!(state.standing(other, now), SpeedClass::Slow);
}
