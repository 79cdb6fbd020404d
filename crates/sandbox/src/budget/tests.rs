//! Who has room in a budget, who waits, and who is ended for others.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::reservation::{UNCOUNTED, counted};
use super::used::{Growth, Held, LEAST_GROWTH, MIB, OF_ALL, OF_ONE, OF_ORGANIZATION, OWN, STALLED};
use super::*;

fn of(number: u128) -> Uuid {
    Uuid::from_u128(number)
}

/// As much as an organization gets, in pieces.
fn fill(budget: &Budget, organization: u128) -> (Vec<Reservation>, usize) {
    let mut all = Vec::new();
    let mut bytes = 0;
    loop {
        let one = budget.reserve(of(organization), &Arc::default());
        let pieces = std::iter::repeat_with(|| one.try_grow(MIB / 4) == Growth::Fits).take(4 * OF_ONE / MIB);
        let got = pieces.take_while(|is_there| *is_there).count();
        bytes += got * MIB / 4;
        all.push(one);
        if got == 0 {
            return (all, bytes);
        }
    }
}

#[test]
fn an_organization_has_its_share_and_whoever_comes_next_gets_something() {
    let budget = Budget::default();
    let (one, bytes) = fill(&budget, 1);
    assert!(bytes <= OF_ORGANIZATION + MIB, "{bytes}");
    let mut others = Vec::new();
    for organization in 2..8 {
        let (held, bytes) = fill(&budget, organization);
        assert!(bytes >= MIB, "{organization} gets {bytes}");
        others.push(held);
    }
    assert!(budget.0.used().all <= OF_ALL);
    drop((one, others));
    let used = budget.0.used();
    assert!(used.all == 0 && used.organizations.is_empty(), "nothing is left behind");
}

#[tokio::test]
async fn answers_that_are_halfway_do_not_wait_for_each_other() {
    let budget = Budget::default();
    let read = |()| {
        let one = budget.reserve(of(1), &Arc::default());
        async move {
            for _ in 0..OF_ONE / MIB {
                one.grow(MIB).await;
                tokio::task::yield_now().await;
            }
        }
    };
    let all: Vec<_> = std::iter::repeat_n((), 6).map(|()| tokio::spawn(read(()))).collect();
    for one in all {
        one.await.expect("no panic");
    }
    assert_eq!(budget.0.used().all, 0);
}

#[tokio::test]
async fn small_answers_are_not_held_up_by_large_ones() {
    let budget = Budget::default();
    let (_held, _) = fill(&budget, 1);
    let small = budget.reserve(of(1), &Arc::default());
    small.grow(UNCOUNTED).await;
    assert_eq!(small.try_grow(MIB), Growth::TooMuch);
    small.settle(MIB);
    assert!(
        small.bytes.load(Ordering::Relaxed) == MIB,
        "what is there is counted, whatever it is"
    );
}

#[tokio::test]
async fn a_piece_takes_what_it_and_its_text_take() {
    for (piece, expected) in [(&[b'x'; 300][..], 700), (&[1; 300], 900), (&[255; 300], 700)] {
        let one = Budget::default().reserve(of(1), &Arc::default());
        one.grow_by_piece(piece).await;
        assert_eq!(one.bytes.load(Ordering::Relaxed), expected);
    }
}

#[test]
fn each_organization_has_a_part_of_its_own() {
    let budget = Budget::default();
    let held: Vec<_> = (1..100).map(|organization| fill(&budget, organization)).collect();
    assert!(budget.0.used().all <= OF_ALL);
    for (_, bytes) in &held {
        assert!(*bytes >= OWN, "{bytes}");
    }
}

/// Lets time pass for all that is held.
fn stall(budget: &Budget) {
    for held in budget
        .0
        .used()
        .organizations
        .values_mut()
        .flat_map(BTreeMap::values_mut)
    {
        held.since -= STALLED;
    }
}

fn is_told(notify: &Notify) -> bool {
    std::pin::pin!(notify.notified()).enable()
}

#[tokio::test]
async fn who_waits_ends_the_largest_that_stands_still() {
    let budget = Budget::default();
    let held = (1..40).flat_map(|organization| fill(&budget, organization).0);
    let mut held: Vec<_> = held.collect();
    stall(&budget);
    let bytes = |one: &Reservation| one.bytes.load(Ordering::Relaxed);
    held.sort_by_key(bytes);
    // One that goes on is left alone, however large it is.
    let moving = held.pop().expect("there are many");
    let future = Instant::now() + Duration::from_hours(1);
    if let Some(own) = budget.0.used().organizations.get_mut(&moving.organization) {
        own.get_mut(&moving.number).expect("it is there").since = future;
    }
    let waiting = budget.reserve(of(1000), &Arc::default());
    let waiting = tokio::spawn(async move { waiting.grow(OWN + 2 * MIB).await });
    let mut ended = 0;
    while !waiting.is_finished() {
        tokio::task::yield_now().await;
        if let Some(place) = held.iter().position(|one| is_told(&one.ended)) {
            let one = held.remove(place);
            assert!(
                held.last().is_none_or(|largest| bytes(largest) <= bytes(&one)),
                "the largest"
            );
            ended += 1;
        }
    }
    assert!(ended > 0 && !is_told(&moving.ended));
}

#[test]
fn only_what_stands_still_is_ended() {
    let budget = Budget::default();
    let one = budget.reserve(of(1), &Arc::default());
    let end = |more: usize| {
        budget.0.used().end_stalled(of(2), more);
        (is_told(&one.ended), is_told(&one.app))
    };
    assert_eq!(one.try_grow(OWN), Growth::Fits);
    stall(&budget);
    assert_eq!(end(1), (false, false), "it has no more than its own");
    assert_eq!(one.try_grow(OWN), Growth::Fits);
    assert_eq!(end(1), (false, false), "it has just grown");
    stall(&budget);
    assert_eq!(one.try_grow(LEAST_GROWTH / 2), Growth::Fits);
    assert_eq!(end(9 * MIB), (true, false), "a little now and then does not count");
    budget.0.used().wait(of(1), one.number);
    assert_eq!(end(9 * MIB), (false, false), "it waits itself");
    assert_eq!(end(MIB), (true, false), "and has more");
    one.settle(3 * MIB);
    assert_eq!(end(1), (false, false), "it can be read");
    stall(&budget);
    assert_eq!(
        end(9 * MIB),
        (false, true),
        "what is not read is the app's to answer for"
    );
}

/// Each of many organizations, one after the other.
fn line(budget: &Budget, organizations: std::ops::Range<u128>) -> Vec<Reservation> {
    let each = organizations.map(|organization| budget.reserve(of(organization), &Arc::default()));
    each.collect()
}

#[test]
fn room_that_appears_is_taken_in_order_and_never_twice() {
    const LARGE: usize = 8 * MIB;
    let budget = Budget::default();
    let held = line(&budget, 100..120);
    let count = held.iter().filter(|one| one.try_take(LARGE, LARGE)).count();
    assert!((2..8).contains(&count), "{count} have room");
    let waiting = line(&budget, 1..20);
    let take = |one: &Reservation| one.try_take(OWN + MIB, LARGE);
    assert!(!waiting.iter().any(take));
    drop(held);
    let (mut order, mut done) = (Vec::new(), std::collections::VecDeque::new());
    let mut waiting: Vec<_> = waiting.into_iter().enumerate().collect();
    while !waiting.is_empty() {
        // All of them look, the last to come first.
        let found = waiting.iter().rposition(|(_, one)| take(one));
        assert!(budget.0.used().all <= OF_ALL, "{}", budget.0.used().all);
        if let Some(place) = found {
            let (number, one) = waiting.remove(place);
            order.push(number);
            done.push_back(one);
        } else {
            assert!(done.pop_front().is_some(), "somebody has the room");
        }
    }
    assert!(order.is_sorted() && order.len() == 19, "{order:?}");
    drop(done);
    assert!(budget.0.used().all == 0 && budget.0.used().line.is_empty());
}

#[tokio::test]
async fn whoever_goes_beyond_their_own_takes_all_of_it_at_once() {
    let budget = Budget::default();
    let one = budget.reserve(of(1), &Arc::default());
    one.take(OWN, 8 * MIB).await;
    assert_eq!((one.bytes.load(Ordering::Relaxed), budget.0.used().all), (OWN, 0));
    one.take(OWN + MIB, 8 * MIB).await;
    assert_eq!(one.bytes.load(Ordering::Relaxed), 8 * MIB);
    one.settle(2 * MIB);
    assert_eq!(
        budget.0.used().all,
        counted(2 * MIB) - OWN,
        "what it turns out not to need is free again"
    );
}

#[tokio::test]
async fn an_organization_that_has_sent_little_may_always_send() {
    let budget = Budget::default();
    let held = line(&budget, 1..100);
    for one in &held {
        one.try_take(8 * MIB, 8 * MIB);
    }
    for one in line(&budget, 200..300) {
        one.take(OWN, 8 * MIB).await;
    }
}

#[test]
fn whoever_waits_for_their_own_organization_keeps_nobody_waiting() {
    let budget = Budget::default();
    let of_one = [1, 1, 1].map(|organization| budget.reserve(of(organization), &Arc::default()));
    assert!(of_one[0].try_take(12 * MIB, 12 * MIB));
    assert!(!of_one[1].try_take(8 * MIB, 8 * MIB), "its organization has too much");
    let other = budget.reserve(of(2), &Arc::default());
    assert!(other.try_take(8 * MIB, 8 * MIB));
    let [first, second, _] = of_one;
    drop(first);
    assert!(second.try_take(8 * MIB, 8 * MIB));
}

#[tokio::test]
async fn whoever_leaves_the_line_lets_the_next_one_through() {
    let budget = Budget::default();
    let held = line(&budget, 1..20);
    assert!(!held.iter().all(|one| one.try_take(8 * MIB, 8 * MIB)));
    budget.0.used().line.clear();
    let [first, last] = [20, 21].map(|organization| budget.reserve(of(organization), &Arc::default()));
    assert!(!first.try_take(12 * MIB, 12 * MIB));
    assert!(
        !last.try_take(4 * MIB, 4 * MIB),
        "there is room, and it is not its turn"
    );
    let last = tokio::spawn(async move { last.take(4 * MIB, 4 * MIB).await });
    tokio::task::yield_now().await;
    drop(first);
    last.await.expect("no panic");
}

#[tokio::test]
async fn whoever_waits_in_line_ends_what_stands_still() {
    let budget = Budget::default();
    let mut held = line(&budget, 1..20);
    held.retain(|one| one.try_take(8 * MIB, 8 * MIB));
    budget.0.used().line.clear();
    stall(&budget);
    let waiting = budget.reserve_for(of(100));
    let waiting = tokio::spawn(async move { waiting.take(OWN + MIB, 8 * MIB).await });
    let ended = async {
        while !held.iter().any(|one| is_told(&one.ended)) {
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(30), ended)
        .await
        .expect("one is told to end");
    held.clear();
    waiting.await.expect("no panic");
}

#[test]
fn what_is_taken_goes_on_as_long_as_more_of_it_comes() {
    let budget = Budget::default();
    let one = budget.reserve_for(of(1));
    let end = || {
        budget.0.used().end_stalled(of(2), 1);
        is_told(&one.ended)
    };
    assert!(one.try_take(2 * MIB, 8 * MIB));
    stall(&budget);
    assert!(one.try_take(2 * MIB + LEAST_GROWTH, 8 * MIB) && !end(), "it goes on");
    stall(&budget);
    assert!(one.try_take(2 * MIB + LEAST_GROWTH + 1, 8 * MIB) && end(), "hardly");
    one.settle_sent(4 * MIB);
    assert!(!end(), "it is there by now");
    stall(&budget);
    assert!(end());
}

#[test]
fn whoever_waits_in_line_does_not_stand_still() {
    let budget = Budget::default();
    let first = budget.reserve_for(of(1));
    let second = budget.reserve_for(of(1));
    assert!(second.try_take(OWN / 2, 12 * MIB) && first.try_take(12 * MIB, 12 * MIB));
    assert!(!second.try_take(OWN, 12 * MIB), "its organization has too much");
    stall(&budget);
    first.settle_sent(13 * MIB);
    budget.0.used().end_stalled(of(2), 16 * MIB);
    assert!(!is_told(&first.ended) && !is_told(&second.ended));
}

#[test]
fn those_who_kept_others_waiting_wait_for_them() {
    const LARGE: usize = 16 * MIB;
    let budget = Budget::default();
    let [first, second] = [1, 2].map(|organization| budget.reserve_for(of(organization)));
    assert!(first.try_take(LARGE, LARGE) && second.try_take(LARGE, LARGE));
    stall(&budget);
    drop(first);
    let third = budget.reserve_for(of(3));
    assert!(third.try_take(LARGE, LARGE));
    let [slow, quick] = [1, 4].map(|organization| budget.reserve_for(of(organization)));
    assert!(
        !slow.try_take(LARGE, LARGE) && !quick.try_take(LARGE, LARGE),
        "there is no room"
    );
    drop(third);
    assert!(!slow.try_take(LARGE, LARGE), "another one goes first");
    assert!(quick.try_take(LARGE, LARGE));
    drop(quick);
    assert!(slow.try_take(LARGE, LARGE));
}

#[test]
fn a_slow_receiver_of_little_does_not_count_as_much_for_a_moment_often() {
    let now = Instant::now();
    let held = |bytes: usize, milliseconds: u64| Held {
        bytes,
        since: now.checked_sub(Duration::from_millis(milliseconds)).unwrap(),
        ..Held::new(&Arc::default())
    };
    let budget = Budget::default();
    let mut used = budget.0.used();
    for _ in 0..10 {
        used.note(of(1), &held(8 * MIB, 300));
    }
    used.note(of(2), &held(2 * MIB, 700));
    let later = |organization: u128| used.debts[&of(organization)].left(Instant::now());
    assert!(later(1) > 2.0 && later(2) < 0.3, "{} {}", later(1), later(2));
    assert!(used.debts[&of(1)].left(now + Duration::from_mins(5)) <= 0.0);
}

#[tokio::test]
async fn what_stays_is_counted_from_its_first_byte() {
    let budget = Budget::default();
    let small: Vec<_> = (0..64).map(|_| budget.reserve_for(of(1))).collect();
    for one in &small {
        one.take_all(1000).await;
    }
    assert_eq!(budget.0.used().of(of(1)), 64 * 1000);
}
