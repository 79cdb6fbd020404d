//! Who has room for what.

use service::{OrganizationId, Person, UserId};
use uuid::Uuid;

use super::loads::Loads;
use super::state::{SHORTEST_TURN, SLOW_AFTER};
use super::*;

pub(super) const SLOTS: usize = 4;
const MOST: usize = 42;

pub(super) fn tenant(organization: u128, creator: i64) -> Tenant {
    Tenant {
        organization: OrganizationId(Uuid::from_u128(organization)),
        creator: Some(UserId(creator)),
    }
}

/// Begins as much as there is room for, of a person with many organizations. Each is at a call from now on.
fn fill(state: &mut State, creator: i64, first: u128, most: usize, now: Instant) -> Vec<u64> {
    let mut begun = Vec::new();
    for organization in first.. {
        let tenant = tenant(organization, creator);
        if begun.len() == most || state.room(tenant, Work::Events, now) != Some(Room::Free) {
            return begun;
        }
        let (number, _) = state.start(tenant, Work::Events, now);
        state.begin_call(number, now);
        begun.push(number);
    }
    begun
}

#[test]
fn an_organization_has_a_few_permits_of_which_one_is_for_events() {
    let (mut state, now) = (State::new(SLOTS), Instant::now());
    let own = tenant(1, 1);
    for _ in 0..3 {
        assert_eq!(state.room(own, Work::Task, now), Some(Room::Free));
        state.start(own, Work::Task, now);
    }
    assert_eq!(state.room(own, Work::Task, now), None);
    assert_eq!(state.room(own, Work::Events, now), Some(Room::Free));
    state.start(own, Work::Events, now);
    assert_eq!(state.room(own, Work::Events, now), None);
    assert_eq!(
        state.room(tenant(2, 1), Work::Task, now),
        Some(Room::Free),
        "another one"
    );
    // With one slot there is one permit for both.
    assert_eq!(State::new(1).room(own, Work::Task, now), Some(Room::Free));
}

#[test]
fn some_permits_are_for_those_who_have_nothing_in_progress() {
    let (mut state, now) = (State::new(SLOTS), Instant::now());
    let kept = state.kept();
    assert_eq!(fill(&mut state, 1, 1, MOST, now).len(), MOST - kept);
    for person in 2..2 + i64::try_from(kept).unwrap() {
        assert_eq!(
            fill(&mut state, person, 100 * u128::try_from(person).unwrap(), MOST, now).len(),
            1
        );
    }
    assert!(!state.has_any_room(now), "all are quick");
    assert_eq!(state.room(tenant(1000, 50), Work::Events, now), None);
}

/// Others need not wait for calls that are slow, beyond half of all permits.
#[test]
fn too_many_slow_calls_make_room_and_the_last_ones_of_whoever_has_most_first() {
    let (mut state, start) = (State::new(SLOTS), Instant::now());
    fill(&mut state, 1, 1, 10, start);
    let second = start + Duration::from_millis(10);
    let of_most = fill(&mut state, 2, 100, MOST, second);
    assert!(of_most.len() > 10);
    for person in 3..3 + i64::try_from(state.kept()).unwrap() {
        fill(&mut state, person, 1000 * u128::try_from(person).unwrap(), 1, start);
    }
    let nobody = |state: &State, now: Instant| state.room(tenant(9999, 99), Work::Events, now);
    assert_eq!(nobody(&state, start + SLOW_AFTER / 2), None, "none is slow yet");
    let slow = second + SLOW_AFTER;
    // One of these has just begun another call.
    let last = of_most.len() - 1;
    state.begin_waiting(of_most[last], slow);
    assert_eq!(nobody(&state, slow), Some(Room::InsteadOf(of_most[last - 1])));
    state.preempt(of_most[last - 1], slow);
    assert_eq!(nobody(&state, slow), Some(Room::Free));
    state.end(of_most[last - 1], slow);
    assert_eq!(
        state.permits.in_progress(tenant(100, 2).person()),
        u32::try_from(last).unwrap(),
        "it is over once"
    );
    // The rest of them keeps its permits.
    state.start(tenant(9999, 99), Work::Events, slow);
    let mut preempted = 0;
    while let Some(Room::InsteadOf(number)) = nobody(&state, slow) {
        preempted += 1;
        state.preempt(number, slow);
        state.start(tenant(10_000 + preempted, 200), Work::Events, slow);
    }
    assert_eq!(usize::try_from(preempted).unwrap(), MOST - 2 - MOST / 2);
}

#[test]
fn a_quick_turn_counts_only_if_it_began_after_the_slow_one_had_ended() {
    let (mut state, start) = (State::new(SLOTS), Instant::now());
    let one = tenant(1, 1);
    let begin = |state: &mut State, at: Instant| {
        let (number, _) = state.start(one, Work::Events, at);
        state.begin_call(number, at);
        state.begin_turn(number, at);
        number
    };
    let is_slow = |state: &State, at: Instant| state.is_known_as_slow(one.organization, at);
    let (second, moment) = (SLOW_AFTER, SLOW_AFTER / 2);
    let slow = begin(&mut state, start);
    let overlapping = begin(&mut state, start + second);
    state.end(slow, start + second + moment / 2);
    state.end(overlapping, start + second + moment);
    assert!(is_slow(&state, start + second + moment));
    let quick = begin(&mut state, start + 2 * second);
    state.end(quick, start + 2 * second + moment);
    assert!(!is_slow(&state, start + 2 * second + moment));
}

#[test]
fn whoever_was_slow_waits_for_others_who_are_unless_these_have_more() {
    let (mut state, start) = (State::new(SLOTS), Instant::now());
    let slow = start + SLOW_AFTER;
    for (person, count) in [(1, 13), (2, 8)] {
        fill(&mut state, person, 100 * u128::try_from(person).unwrap(), count, start);
    }
    // These were slow, have nothing in progress, and are known for that.
    for organization in [1, 2, 3] {
        let known = tenant(1000 + organization, i64::try_from(organization).unwrap());
        let (number, _) = state.start(known, Work::Events, start);
        state.begin_call(number, start);
        state.end(number, slow);
    }
    let room = |state: &State, person: i64| {
        let known = tenant(1000 + u128::try_from(person).unwrap(), person);
        state.room(known, Work::Events, slow)
    };
    assert!(state.running.len() < MOST / 2 + 1, "there is room for others");
    assert_eq!(state.room(tenant(5000, 1), Work::Events, slow), Some(Room::Free));
    assert_eq!(room(&state, 1), None);
    assert!(
        matches!(room(&state, 2), Some(Room::InsteadOf(_))),
        "eight, and the other has thirteen"
    );
    assert!(matches!(room(&state, 3), Some(Room::InsteadOf(_))), "none");
    // Until a turn without a slow call that began when the slow one had ended.
    let (number, _) = state.start(tenant(1001, 1), Work::Events, slow);
    state.begin_call(number, slow);
    state.begin_turn(number, slow);
    state.end(number, slow + SLOW_AFTER / 2);
    assert_eq!(room(&state, 1), Some(Room::Free));
    let organization = tenant(1002, 2).organization;
    assert!(state.is_known_as_slow(organization, slow));
    assert!(!state.is_known_as_slow(organization, slow + Duration::from_mins(5)));
}

#[test]
fn whoever_waits_long_for_the_database_keeps_no_permit_from_others() {
    let (mut state, now) = (State::new(SLOTS), Instant::now());
    for person in 0.. {
        let begun = fill(&mut state, person, 100 * u128::try_from(person).unwrap(), 1, now);
        let Some(number) = begun.first() else { break };
        state.begin_waiting(*number, now);
    }
    assert!(!state.has_any_room(now));
    assert!(state.has_any_room(now + SLOW_AFTER));
    assert_eq!(state.next_slow_at(now), now + SLOW_AFTER);
    // That is no fault of theirs.
    state.end(1, now + SLOW_AFTER);
    assert!(!state.is_known_as_slow(tenant(0, 0).organization, now + SLOW_AFTER));
}

#[tokio::test]
async fn what_is_waited_for_is_timed_until_it_is_done() {
    let scheduler = Scheduler::new(SLOTS);
    let permit = scheduler.begin(tenant(1, 1), Work::Events, Instant::now());
    let permit = permit.expect("there is room");
    let is_timed = || {
        let state = scheduler.0.state();
        state.running.values().any(|one| one.calling_since.is_some())
    };
    assert!(permit.timed(async { is_timed() }).await && !is_timed());
}

#[tokio::test]
async fn whoever_has_nothing_in_progress_waits_until_there_is_room() {
    let scheduler = Scheduler::new(1);
    let now = Instant::now();
    let begin = |person: i64| scheduler.begin(tenant(u128::try_from(person).unwrap(), person), Work::Events, now);
    let mut permits: Vec<Permit> = (1..100).map_while(begin).collect();
    assert_eq!(permits.len(), MOST);
    let waiting = scheduler.until_room();
    tokio::pin!(waiting);
    let soon = tokio::time::timeout(Duration::from_millis(20), &mut waiting).await;
    assert!(soon.is_err(), "all are taken");
    permits.pop();
    waiting.await;
}

#[test]
fn turns_are_as_long_as_few_persons_have_most() {
    let (mut state, start) = (State::new(SLOTS), Instant::now());
    let numbers = fill(&mut state, 1, 1, 8, start);
    for number in &numbers {
        state.begin_turn(*number, start);
    }
    let yields = |state: &State, after: Duration| state.should_yield(numbers[0], start + after);
    assert!(!yields(&state, 2 * SLOW_AFTER), "nobody else was there");
    let (other, _) = state.start(tenant(500, 1), Work::Events, start);
    state.end(other, start + Duration::from_millis(1));
    assert!(
        !yields(&state, SLOW_AFTER / 2) && yields(&state, SLOW_AFTER),
        "somebody waits"
    );
    // Fifty persons with as much each. Those who have next to nothing do not matter.
    let mut state = State::new(SLOTS);
    for person in 1..=50 {
        state.start(tenant(u128::try_from(person).unwrap(), person), Work::Events, start);
        state.begin_turn(u64::try_from(person).unwrap(), start);
    }
    for person in 51..200 {
        let (number, _) = state.start(tenant(u128::try_from(person).unwrap(), person), Work::Events, start);
        state.end(number, start + Duration::from_millis(1));
    }
    let later = start + 2 * SLOW_AFTER;
    let (number, _) = state.start(tenant(1, 1), Work::Events, later);
    state.begin_turn(number, later);
    assert!(
        !state.should_yield(number, later + 3 * SHORTEST_TURN),
        "3 s for 4 slots and 50 persons: 240 ms"
    );
    assert!(state.should_yield(number, later + 6 * SHORTEST_TURN));
}

#[test]
fn starting_the_app_is_not_part_of_its_turn() {
    let (mut state, start) = (State::new(SLOTS), Instant::now());
    let numbers = fill(&mut state, 1, 1, 8, start);
    let (other, _) = state.start(tenant(500, 1), Work::Events, start);
    state.end(other, start);
    assert!(
        !state.should_yield(numbers[0], start + 5 * SLOW_AFTER),
        "nothing is done yet"
    );
    state.begin_turn(numbers[0], start + SLOW_AFTER);
    assert!(!state.should_yield(numbers[0], start + SLOW_AFTER + SHORTEST_TURN));
    assert!(state.should_yield(numbers[0], start + 2 * SLOW_AFTER));
}

/// Somebody whose calls are slow has few slots, and somebody whose calls are quick few permits.
#[test]
fn a_share_is_that_of_the_slots_or_of_the_permits() {
    let (mut state, now) = (State::new(SLOTS), Instant::now());
    let [quick, slow] = [1, 2].map(|person| tenant(u128::try_from(person).unwrap(), person));
    let share = |state: &State, whose: Tenant| state.share(whose.person(), now);
    let number = state.start(slow, Work::Events, now).0;
    state.leave_slot(number, now);
    state.leave_slot(number, now);
    state.start(quick, Work::Events, now);
    assert!(share(&state, quick) > share(&state, slow));
    for organization in 10..22 {
        let number = state.start(tenant(organization, 2), Work::Events, now).0;
        state.leave_slot(number, now);
    }
    assert!(share(&state, quick) < share(&state, slow));
    let waiting = [(slow, Work::Events), (quick, Work::Events), (quick, Work::Task)];
    let first = |state: &State, waiting: &[(Tenant, Work)]| state.in_order(waiting.iter().copied(), now)[0];
    assert_eq!(first(&state, &waiting), (quick, Work::Events));
    let third = tenant(3, 3);
    let waiting = [(slow, Work::Events), (quick, Work::Events), (third, Work::Task)];
    assert_eq!(first(&state, &waiting), (third, Work::Task));
}

#[test]
fn what_was_in_progress_counts_less_and_less_and_is_forgotten() {
    let (mut loads, start) = (Loads::<Person>::default(), Instant::now());
    let [person, other] = [1, 2].map(|number| Person::Creator(UserId(number)));
    loads.begin(person, start);
    let later = start + Duration::from_mins(1);
    assert!(
        (1.6..1.7).contains(&loads.load(person, later)),
        "one now, and 1 - 1/e on average"
    );
    loads.end(person, later);
    assert!((0.6..0.7).contains(&loads.load(person, later)));
    assert!(loads.load(person, later + Duration::from_mins(3)) < 0.05);
    loads.add(other, Duration::from_secs(6), later);
    assert!((0.09..0.11).contains(&loads.load(other, later)));
    assert_eq!(loads.len(), 2);
    assert!(
        (1.0..1.5).contains(&loads.effective_count()),
        "{}",
        loads.effective_count()
    );
    let much_later = later + Duration::from_mins(30);
    loads.begin(other, much_later);
    assert_eq!(loads.len(), 1);
}
