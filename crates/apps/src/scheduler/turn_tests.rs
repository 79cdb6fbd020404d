//! How long somebody waits beside many organizations whose apps are quick, and always have more to do.

use std::collections::HashMap;

use service::UserId;

use super::recent::IDLE_AFTER;
use super::search_timer::{LATEST, LOOK_EVERY};
use super::state::{SHORTEST_TURN, SLOW_AFTER};
use super::tests::{organization, tenant};
use super::*;

/// How long an app takes for one event.
const EVENT: Duration = Duration::from_millis(20);
const SLOTS: usize = 4;
const OVERDUE: Look = Look {
    pass: Pass::Overdue,
    takes_tasks: true,
};
const MANY: u128 = 200;
const VICTIM: u128 = 500;
/// How long a slot waits for one call.
const SLOT_WAIT: Duration = Duration::from_millis(100);
/// How long a turn lasts at most, whoever waits.
const TURN: Duration = Duration::from_secs(3);

struct Turn {
    id: u128,
    permit: u64,
    begun: Instant,
    call_begun: Instant,
    /// Otherwise it goes on without one.
    is_in_slot: bool,
}

/// The slots of a process in a time of their own. All who wait have more events than they are ever done with.
struct Slots {
    count: usize,
    scheduler: Scheduler,
    work: Work,
    now: Instant,
    turns: Vec<Turn>,
    /// Where the round of organizations is, in each pass.
    served: [u128; Pass::COUNT],
    takes: fn(u128) -> Duration,
    creator: fn(u128) -> Option<i64>,
    /// Who has one event at a time.
    has_one: fn(u128) -> bool,
}

impl Slots {
    fn new(work: Work) -> Self {
        Self {
            count: SLOTS,
            scheduler: Scheduler::new(SLOTS),
            work,
            now: Instant::now(),
            turns: Vec::new(),
            served: [0; Pass::COUNT],
            takes: |_| EVENT,
            creator: |_| None,
            has_one: |_| false,
        }
    }

    fn tenant(&self, id: u128) -> Tenant {
        Tenant {
            creator: (self.creator)(id).map(UserId),
            ..tenant(id)
        }
    }

    /// The time of one event. Whoever has a turn is done with one, and slots that are free look for the next.
    fn tick(&mut self, waiting: &[u128]) -> Vec<u128> {
        self.now += EVENT;
        let now = self.now;
        {
            let mut state = self.scheduler.0.state();
            let is_task = self.work == Work::Task;
            self.turns.retain_mut(|turn| {
                let lasts = now - turn.begun;
                if now - turn.call_begun < (self.takes)(turn.id) {
                    turn.is_in_slot &= now - turn.call_begun < SLOT_WAIT;
                    return true;
                }
                state.end_call(turn.permit, now);
                if is_task || (self.has_one)(turn.id) || lasts >= TURN || state.should_yield(turn.permit, now) {
                    state.end(turn.permit, now);
                    return false;
                }
                state.begin_call(turn.permit, now);
                turn.call_begun = now;
                turn.is_in_slot &= lasts < SLOW_AFTER;
                true
            });
        }
        let mut begun = Vec::new();
        while self.turns.iter().filter(|turn| turn.is_in_slot).count() < self.count {
            let Some(id) = self.look(waiting) else { break };
            begun.push(id);
        }
        begun
    }

    fn look(&mut self, waiting: &[u128]) -> Option<u128> {
        if let Some(pass) = self.scheduler.first_pass(true, self.now)
            && let Some(id) = self.look_in(pass, waiting)
        {
            return Some(id);
        }
        let passes = self.scheduler.passes(true, self.now);
        passes.iter().find_map(|pass| self.look_in(*pass, waiting))
    }

    fn look_in(&mut self, pass: Pass, waiting: &[u128]) -> Option<u128> {
        let (now, served) = (self.now, self.served[pass.number()]);
        let look = Look {
            pass,
            takes_tasks: true,
        };
        let mut round = waiting.to_vec();
        round.retain(|id| self.turns.iter().all(|turn| turn.id != *id));
        round.sort_unstable_by_key(|id| (*id <= served, *id));
        let mut state = self.scheduler.0.state();
        let may_begin = |id: &&u128| {
            let whose = self.tenant(**id);
            let room = || state.room_in(look, whose, self.work, now);
            state.includes(look, whose, now) && matches!(room(), Some(Room::Free))
        };
        let found = round.iter().find(may_begin).copied();
        state.end_look(true, pass, found.is_some(), Duration::ZERO, now);
        let id = found?;
        let (permit, _) = state.start_found(look, self.tenant(id), self.work, now);
        state.begin_call(permit, now);
        self.turns.push(Turn {
            id,
            permit,
            begun: now,
            call_begun: now,
            is_in_slot: true,
        });
        self.served[pass.number()] = id;
        found
    }

    fn pass_time(&mut self, time: Duration, waiting: &[u128]) {
        let end = self.now + time;
        while self.now < end {
            self.tick(waiting);
        }
    }

    /// How long somebody waits who comes now, beside all these.
    fn wait_of(&mut self, id: u128, others: &[u128]) -> Duration {
        let begun = self.now;
        let waiting = [others, &[id]].concat();
        while !self.tick(&waiting).contains(&id) {
            assert!(self.now - begun < Duration::from_mins(5), "{id} is never served");
        }
        self.now - begun
    }
}

/// Until a slot is free, and somebody looks.
fn soon() -> Duration {
    LOOK_EVERY + SHORTEST_TURN + 4 * EVENT
}

#[test]
fn who_had_nothing_under_way_lately_goes_before_many_who_are_quick() {
    let many: Vec<u128> = (1..=MANY).collect();
    for work in [Work::Events, Work::Task] {
        let mut slots = Slots::new(work);
        slots.pass_time(Duration::from_secs(30), &many);
        // Somebody known, and each time somebody of whom nothing is known.
        for number in 0..5 {
            for id in [VICTIM, VICTIM + 1 + number] {
                let wait = slots.wait_of(id, &many);
                assert!(wait <= soon(), "{id} waits {wait:?} in round {number}");
            }
            slots.pass_time(IDLE_AFTER + TURN, &many);
        }
    }
}

#[test]
fn who_always_has_something_waits_for_one_round_of_short_turns() {
    let many: Vec<u128> = (1..=MANY).collect();
    let mut slots = Slots::new(Work::Events);
    // All come at the same moment, and this one is the last of them.
    let first = slots.wait_of(VICTIM, &many);
    assert!(first < Duration::from_secs(6), "{first:?}");
    for _ in 0..10 {
        slots.pass_time(SLOW_AFTER, &many);
        let wait = slots.wait_of(VICTIM, &many);
        assert!(wait < Duration::from_secs(6), "{wait:?}");
    }
}

/// Of those who are few each has as long a turn as before.
#[test]
fn turns_are_short_only_while_many_wait() {
    let (scheduler, start) = (Scheduler::new(SLOTS), Instant::now());
    let mut state = scheduler.0.state();
    let begin = |state: &mut state::State, id: u128, now: Instant| {
        let (number, _) = state.start(tenant(id), Work::Events, now);
        state.begin_call(number, now);
        number
    };
    let first: Vec<u64> = (0..4).map(|id| begin(&mut state, id, start)).collect();
    assert!(
        !state.should_yield(first[0], start + SLOW_AFTER),
        "nobody else was there"
    );
    state.end(first[0], start);
    let again = begin(&mut state, 0, start);
    for id in 4..8 {
        state.recent.note(organization(id), start);
    }
    assert!(state.should_yield(first[1], start + SHORTEST_TURN), "its first one");
    assert!(
        !state.should_yield(again, start + SLOW_AFTER / 2),
        "eight have a second each"
    );
    assert!(state.should_yield(again, start + SLOW_AFTER));
    for id in 8..48 {
        state.recent.note(organization(id), start);
    }
    assert!(state.should_yield(again, start + SLOW_AFTER / 4));
    // What it waits for before its app is called is not its turn.
    let (waiting, _) = state.start(tenant(100), Work::Events, start);
    state.begin_waiting(waiting, start);
    assert!(!state.should_yield(waiting, start + SLOW_AFTER));
}

/// Those who wait beside ever new organizations that had nothing in progress before, and who of all these is served.
fn serve_beside_new_ones(slots: &mut Slots, waiting: &[u128]) -> Vec<(Duration, u128)> {
    let begun = slots.now;
    let mut served = Vec::new();
    for tick in 0..1500 {
        let first = 1000 + tick * 10;
        let all: Vec<u128> = waiting.iter().copied().chain(first..first + 10).collect();
        let now_served = slots.tick(&all);
        served.extend(now_served.into_iter().map(|id| (slots.now - begun, id)));
    }
    served
}

fn slots_with_slow(busy: &[u128], slow: &[u128]) -> Slots {
    let mut slots = Slots::new(Work::Events);
    slots.pass_time(TURN, &[busy, slow].concat());
    for id in slow {
        let mut state = slots.scheduler.0.state();
        state.history.note_slow(organization(*id), SLOW_AFTER, slots.now);
    }
    slots
}

#[test]
fn every_second_time_others_are_served_however_many_come_who_had_nothing() {
    let (busy, slow): (Vec<u128>, Vec<u128>) = ((1..=100).collect(), (101..=200).collect());
    let mut slots = slots_with_slow(&busy, &slow);
    let mut served = serve_beside_new_ones(&mut slots, &[busy, slow].concat());
    served.retain(|(after, _)| *after > TURN);
    let count = |is_meant: &dyn Fn(u128) -> bool| served.iter().filter(|(_, id)| is_meant(*id)).count();
    let (of_busy, of_slow) = (count(&|id| id <= 100), count(&|id| (101..=200).contains(&id)));
    let all = served.len();
    assert!((of_busy + of_slow) * 9 >= all * 4, "{of_busy} and {of_slow} of {all}");
    assert!((of_busy + of_slow) * 9 <= all * 5, "{of_busy} and {of_slow} of {all}");
    assert!(
        of_busy * 6 >= all && of_slow * 6 >= all,
        "{of_busy} and {of_slow} of {all}"
    );
}

#[test]
fn one_who_is_busy_and_one_who_is_slow_wait_for_a_round_however_many_come_who_had_nothing() {
    let mut slots = slots_with_slow(&[1, 3, 4, 5, 6], &[2]);
    let served = serve_beside_new_ones(&mut slots, &[1, 2]);
    for id in [1, 2] {
        let own = served.iter().filter(|one| one.1 == id).map(|one| one.0);
        let times: Vec<Duration> = std::iter::once(Duration::ZERO).chain(own).collect();
        let longest = times.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).max();
        assert!(longest.is_some_and(|longest| longest < 2 * TURN), "{id} {longest:?}");
        assert!(times.len() > 5, "{id} {times:?}");
    }
}

#[test]
fn who_waits_for_long_comes_first_after_somebody_who_had_nothing() {
    let (scheduler, start) = (Scheduler::new(SLOTS), Instant::now());
    for id in 1..=20 {
        scheduler.0.state().recent.note(organization(id), start);
    }
    scheduler.0.state().history.note_quick(organization(1), start);
    scheduler
        .0
        .state()
        .history
        .note_slow(organization(2), SLOW_AFTER, start);
    let now = start + TURN;
    let is_overdue = |id: u128| scheduler.may_begin(OVERDUE, tenant(id), Work::Events, now);
    assert!(is_overdue(1) && is_overdue(2) && !is_overdue(50));
    for id in 101..=114 {
        scheduler.0.state().start(tenant(id), Work::Events, now);
    }
    assert!(is_overdue(1) && !is_overdue(2), "there is little room");
    let first = |takes_tasks: bool| scheduler.passes(takes_tasks, now)[0];
    for takes_tasks in [false, true] {
        for _ in 0..3 {
            assert_eq!(first(takes_tasks), Pass::Underserved);
            scheduler.note_look(takes_tasks, Pass::Underserved, true, EVENT, now);
            assert_eq!(first(takes_tasks), Pass::Overdue);
            scheduler.note_look(takes_tasks, Pass::Overdue, true, EVENT, now);
        }
        assert_eq!(first(takes_tasks), Pass::Underserved);
        scheduler.note_look(takes_tasks, Pass::Underserved, true, EVENT, now);
        assert_eq!(first(takes_tasks), Pass::Overdue);
        scheduler.note_look(takes_tasks, Pass::Overdue, false, EVENT, now);
        scheduler.note_look(takes_tasks, Pass::Underserved, true, EVENT, now);
        // They are not looked for each time while there are none.
        for _ in 0..3 {
            assert_eq!(first(takes_tasks), Pass::Underserved);
            scheduler.note_look(takes_tasks, Pass::Underserved, true, EVENT, now);
        }
    }
}

/// How many apps of a person run on average, who has so many with more events than they are ever done with, beside people with 99 organizations each.
fn average_in_progress(count: usize, attackers: u128, takes: fn(u128) -> Duration, own: u128) -> f64 {
    let all: Vec<u128> = (1..=attackers * 99).chain(VICTIM..VICTIM + own).collect();
    let mut slots = Slots {
        count,
        scheduler: Scheduler::new(count),
        takes,
        creator: of_persons_with_99,
        ..Slots::new(Work::Events)
    };
    slots.pass_time(Duration::from_secs(30), &all);
    let (mut ticks, mut in_progress) = (0_u32, 0_u32);
    let end = slots.now + Duration::from_secs(30);
    while slots.now < end {
        slots.tick(&all);
        ticks += 1;
        in_progress += slots.turns.iter().map(|turn| u32::from(turn.id >= VICTIM)).sum::<u32>();
    }
    f64::from(in_progress) / f64::from(ticks)
}

/// Calls that are almost slow take all permits, and short ones all slots.
#[test]
fn whoever_has_few_organizations_has_a_share_beside_people_with_many() {
    let almost_slow: fn(u128) -> Duration = |id| if id < VICTIM { 45 * EVENT } else { EVENT };
    for (slots, attackers, takes, own, least) in [
        (4, 1, almost_slow, 1, 0.95),
        (4, 1, almost_slow, 3, 2.8),
        (4, 4, almost_slow, 1, 0.95),
        (64, 4, almost_slow, 3, 2.8),
        // Half of an equal share.
        (4, 1, |_| EVENT, 1, 0.9),
        (4, 4, |_| EVENT, 1, 0.35),
        (2, 2, |_| EVENT, 2, 0.3),
        (16, 4, |_| EVENT, 2, 1.6),
    ] {
        let average = average_in_progress(slots, attackers, takes, own);
        assert!(
            average >= least,
            "{own} beside {attackers} of {:?} in {slots} slots: {average:.2}",
            takes(1)
        );
    }
}

fn of_persons_with_99(id: u128) -> Option<i64> {
    i64::try_from((id.min(VICTIM) - 1) / 99).ok()
}

/// One person always has something to do, so that four others, whose 396 organizations have an event now and then, have little beside that one.
#[test]
fn whoever_has_one_organization_has_turns_beside_many_persons_who_have_little() {
    let mut slots = Slots {
        takes: |id| if id < VICTIM { 45 * EVENT } else { EVENT },
        creator: of_persons_with_99,
        has_one: |id| id > 99,
        ..Slots::new(Work::Events)
    };
    let rest = Duration::from_secs(20);
    let mut next: Vec<Instant> = vec![slots.now; 397];
    let (mut came, mut waits) = (None, Vec::new());
    let end = slots.now + Duration::from_mins(3);
    while slots.now < end {
        let now = slots.now;
        let mut waiting: Vec<u128> = (1..=99).collect();
        waiting.extend(
            (100..=396_u16)
                .filter(|id| next[usize::from(*id)] <= now)
                .map(u128::from),
        );
        // Of this one an event comes a second after the last was done.
        if came.is_none() && next[0] <= now {
            came = Some(now);
        }
        waiting.extend(came.map(|_| VICTIM));
        for id in slots.tick(&waiting) {
            if id == VICTIM {
                waits.extend(came.take().map(|came| now - came));
                next[0] = now + SLOW_AFTER;
            } else if let Some(next) = usize::try_from(id).ok().and_then(|id| next.get_mut(id)) {
                *next = now + rest;
            }
        }
    }
    waits.drain(..20);
    waits.sort_unstable();
    assert!(waits.len() > 80, "{}", waits.len());
    let (median, longest) = (waits[waits.len() / 2], waits[waits.len() - 1]);
    assert!(
        median < Duration::from_millis(500) && longest < TURN,
        "{median:?}, {longest:?}"
    );
}

/// Whoever has most of what is in progress is not left out for that.
#[test]
fn a_new_organization_has_turns_beside_others_of_the_same_person() {
    for (count, others, takes) in [(8, 60, 15 * EVENT), (64, 99, EVENT), (4, 99, 15 * EVENT)] {
        let mut slots = Slots {
            count,
            scheduler: Scheduler::new(count),
            takes: if takes == EVENT { |_| EVENT } else { |_| 15 * EVENT },
            creator: |id| Some(i64::from(id == VICTIM + 1)),
            ..Slots::new(Work::Events)
        };
        let mut others: Vec<u128> = (1..=others).collect();
        // And somebody else is always busy, too.
        others.push(VICTIM + 1);
        slots.pass_time(Duration::from_secs(20), &others);
        for _ in 0..3 {
            let wait = slots.wait_of(VICTIM, &others);
            assert!(wait < 4 * TURN, "{wait:?} with {count} slots");
            slots.pass_time(Duration::from_secs(20), &others);
        }
    }
}

/// How often each of these has a turn in a minute, and how long any of them waits.
fn turns_in_a_minute(slots: &mut Slots, waiting: &[u128], of: &[u128]) -> (Vec<usize>, Duration) {
    let begun = slots.now;
    let mut turns: HashMap<u128, Vec<Instant>> = of.iter().map(|id| (*id, vec![begun])).collect();
    while slots.now < begun + Duration::from_mins(1) {
        for id in slots.tick(waiting) {
            turns.entry(id).and_modify(|turns| turns.push(slots.now));
        }
    }
    for turns in turns.values_mut() {
        turns.push(slots.now);
    }
    let waits = turns
        .values()
        .flat_map(|turns| turns.windows(2))
        .map(|pair| pair[1] - pair[0]);
    let longest = waits.max().unwrap_or_default();
    (turns.values().map(|turns| turns.len() - 2).collect(), longest)
}

#[test]
fn all_organizations_of_a_person_have_turns_beside_people_with_many() {
    for attackers in [1, 4] {
        let own: Vec<u128> = (VICTIM..VICTIM + 5).collect();
        let all: Vec<u128> = (1..=attackers * 99).chain(own.iter().copied()).collect();
        let mut slots = Slots {
            takes: |id| if id < VICTIM { 45 * EVENT } else { EVENT },
            creator: of_persons_with_99,
            ..Slots::new(Work::Events)
        };
        slots.pass_time(Duration::from_secs(30), &all);
        let (turns, longest) = turns_in_a_minute(&mut slots, &all, &own);
        let (least, most) = (turns.iter().min(), turns.iter().max());
        assert!(
            least.zip(most).is_some_and(|(least, most)| 2 * least >= *most),
            "{turns:?}"
        );
        assert!(longest < 4 * TURN, "{longest:?} beside {attackers}");
    }
}

/// Somebody who has many organizations for good reasons, beside people with 99 whose calls are almost slow, and others who are always busy.
#[test]
fn all_organizations_of_a_reseller_have_turns_beside_people_with_many() {
    const BUSY: u128 = VICTIM + 100;
    let own: Vec<u128> = (VICTIM..VICTIM + 30).collect();
    let all: Vec<u128> = (1..=4 * 99).chain(own.iter().copied()).chain(BUSY..BUSY + 10).collect();
    let mut slots = Slots {
        takes: |id| if id < VICTIM { 45 * EVENT } else { EVENT },
        creator: |id| {
            if id < BUSY {
                of_persons_with_99(id)
            } else {
                i64::try_from(id).ok()
            }
        },
        ..Slots::new(Work::Events)
    };
    slots.pass_time(Duration::from_secs(30), &all);
    let (turns, longest) = turns_in_a_minute(&mut slots, &all, &own);
    assert!(longest < Duration::from_secs(50), "{longest:?}: {turns:?}");
}

/// A round of slow tasks goes on where it was, although slots for events alone find nobody.
#[test]
fn tasks_and_events_have_rounds_of_their_own() {
    let (scheduler, now) = (Scheduler::new(SLOTS), Instant::now());
    let of = |id: u128, creator: i64| Tenant {
        creator: Some(UserId(creator)),
        ..tenant(id)
    };
    let (first, second, other) = (of(1, 1), of(2, 1), of(3, 2));
    for tenant in [first, second, other] {
        scheduler
            .0
            .state()
            .history
            .note_slow(tenant.organization, SLOW_AFTER, now);
    }
    let look = |takes_tasks: bool| Look {
        pass: Pass::OverdueSlow,
        takes_tasks,
    };
    drop(scheduler.begin(look(true), first, Work::Task, now));
    let may_begin = |tenant: Tenant| scheduler.may_begin(look(true), tenant, Work::Task, now);
    scheduler.note_look(false, Pass::OverdueSlow, false, EVENT, now);
    assert!(may_begin(other) && !may_begin(second), "each person once in a round");
    scheduler.note_look(true, Pass::OverdueSlow, false, EVENT, now);
    assert!(may_begin(other) && may_begin(second), "the next round");
}

/// However short the turns of organizations are, because there are so many of them.
#[test]
fn turns_of_those_who_have_little_are_as_long_as_persons_are_few() {
    let (scheduler, start) = (Scheduler::new(SLOTS), Instant::now());
    let mut state = scheduler.0.state();
    for id in 1..=48 {
        let creator = i64::try_from(id % 12).ok().map(UserId);
        let (number, _) = state.start(Tenant { creator, ..tenant(id) }, Work::Events, start);
        if id > 12 {
            state.end(number, start);
        }
    }
    let look = |pass: Pass| Look {
        pass,
        takes_tasks: true,
    };
    let numbers = [Pass::Underserved, Pass::Anyone].map(|pass| {
        let own = Tenant {
            creator: Some(UserId(1)),
            ..tenant(13)
        };
        let (number, _) = state.start_found(look(pass), own, Work::Events, start);
        state.begin_call(number, start);
        number
    });
    let yields = |after: Duration| numbers.map(|number| state.should_yield(number, start + after));
    assert_eq!(yields(SLOW_AFTER / 2), [false, true]);
    assert_eq!(yields(SLOW_AFTER), [true, true]);
}

/// A look that finds nobody goes over all configurations.
#[test]
fn one_slot_of_a_kind_looks_for_those_who_had_nothing_and_the_next_one_later() {
    let (scheduler, start) = (Scheduler::new(SLOTS), Instant::now());
    for id in 1..=20 {
        scheduler.0.state().recent.note(organization(id), start);
    }
    let looks = |takes_tasks: bool, now: Instant| scheduler.passes(takes_tasks, now).contains(&Pass::Underserved);
    for takes_tasks in [false, true] {
        assert!(looks(takes_tasks, start));
        assert!(!looks(takes_tasks, start), "another slot looks");
        let second = start + SLOW_AFTER;
        assert!(!looks(takes_tasks, second), "it still looks");
        scheduler.note_look(takes_tasks, Pass::Underserved, false, Duration::from_millis(1), second);
        assert!(!looks(takes_tasks, second + LOOK_EVERY / 2));
        let third = second + LOOK_EVERY;
        assert!(looks(takes_tasks, third));
        let took = Duration::from_millis(20);
        scheduler.note_look(takes_tasks, Pass::Underserved, false, took, third);
        assert!(!looks(takes_tasks, third + took * 9));
        let fourth = third + took * 10;
        assert!(looks(takes_tasks, fourth));
        assert!(!looks(takes_tasks, fourth + took));
        let took = Duration::from_secs(1);
        scheduler.note_look(takes_tasks, Pass::Underserved, false, took, fourth);
        assert!(!looks(takes_tasks, fourth + took / 2));
        assert!(looks(takes_tasks, fourth + took), "half of the time is for looks");
    }
    // One whose end nobody noted does not last for ever.
    for id in 1..=20 {
        scheduler.0.state().recent.note(organization(id), start + 2 * LATEST);
    }
    assert!(looks(true, start + 2 * LATEST));
}

#[test]
fn starting_the_app_is_not_part_of_its_turn() {
    let (scheduler, start) = (Scheduler::new(SLOTS), Instant::now());
    let mut state = scheduler.0.state();
    let numbers: Vec<u64> = (1..=8)
        .map(|id| state.start(tenant(id), Work::Events, start).0)
        .collect();
    state.begin_start(numbers[0], start);
    let started = start + 2 * SHORTEST_TURN;
    assert!(!state.should_yield(numbers[0], started), "nothing is done yet");
    state.begin_batch(numbers[0], started);
    assert!(!state.should_yield(numbers[0], started + SHORTEST_TURN / 2));
    assert!(state.should_yield(numbers[0], started + SHORTEST_TURN));
    // It is slow all the same if it takes that long to start.
    state.begin_start(numbers[1], start);
    state.end_call(numbers[1], start + SLOW_AFTER);
    assert_eq!(state.standing(organization(2), start + SLOW_AFTER), SpeedClass::Slow);
}
