use std::collections::HashMap;

use super::*;

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

/// The same where others are quick, and some are quick and slow by turns.
#[test]
fn whoever_has_few_slow_calls_keeps_them_while_there_are_too_many() {
    let seconds = Duration::from_secs;
    let just_over = SLOW_AFTER + TICK;
    let mut apps: Vec<App> = (0..99).map(|_| always(1, just_over)).collect();
    apps.extend((0..99).map(|_| always(2, ALMOST_SLOW)));
    let alternating = apps.len()..apps.len() + 4;
    apps.extend((3..7).map(|person| always(person, QUICK)));
    apps.extend((0..4).map(|_| every(11, 20, seconds(8))));
    let mut slots = Slots::new(SLOTS, &apps);
    for second in 0..240 {
        for app in &mut slots.apps[alternating.clone()] {
            app.app.takes = if second % 3 == 0 {
                QUICK
            } else {
                Duration::from_millis(1500)
            };
        }
        if second == 60 {
            slots.measure(Duration::ZERO);
        }
        slots.pass(seconds(1));
    }
    for one in &slots.apps[alternating.end..] {
        assert!(one.median() < seconds(2), "{:?}: {:?}", one.app, one.median());
    }
}

/// These never wait for one of the places for slow calls, as none of their organizations is known as slow.
#[test]
fn whoever_is_known_as_slow_does_not_wait_for_many_who_become_slow() {
    let (seconds, millis) = (Duration::from_secs, Duration::from_millis);
    let of_one = |person: i64| (0..62).map(move |_| every(person, 310, millis(4900)));
    let mut apps: Vec<App> = (100..120).flat_map(of_one).collect();
    let people = apps.len();
    apps.extend([every(11, 12, millis(1500)), every(12, 64, seconds(8))]);
    let mut slots = Slots::new(SLOTS, &apps);
    for (place, app) in (0..).zip(&mut slots.apps[..people]) {
        app.next += seconds(5) * (place % 62) + millis(250) * (place / 62);
    }
    slots.pass(seconds(60));
    slots.measure(seconds(300));
    for one in &slots.apps[people..] {
        assert!(one.median() < seconds(2), "{:?}: {:?}", one.app, one.median());
    }
}

/// All of theirs are over at the same moment, and the next ones begin.
#[test]
fn whoever_is_slow_does_not_wait_for_many_who_end_together() {
    let (seconds, millis) = (Duration::from_secs, Duration::from_millis);
    let victims = [
        (every(11, 20, seconds(8)), millis(15_900)),
        (every(11, 64, seconds(8)), millis(15_900)),
        (every(11, 30, seconds(15)), millis(29_900)),
        (every(11, 10, seconds(3)), millis(5900)),
    ];
    for ((victim, period), people) in victims
        .into_iter()
        .flat_map(|one| [14, 16, 20].map(|people| (one, people)))
    {
        let mut apps: Vec<App> = (100..100 + people).map(|person| always(person, period)).collect();
        let attackers = apps.len();
        apps.push(victim);
        let mut slots = Slots::new(SLOTS, &apps);
        let begun = slots.now;
        for _ in 0..Duration::from_mins(10).as_millis() / TICK.as_millis() {
            let since = (slots.now - begun).as_millis() % period.as_millis();
            let left = period.saturating_sub(millis(u64::try_from(since).unwrap()));
            // A quick call would make them known as quick.
            let takes = if left > SLOW_AFTER { left } else { left + period };
            for app in slots.apps[..attackers].iter_mut().filter(|app| !app.is_running) {
                app.app.takes = takes;
            }
            slots.pass(TICK);
        }
        let median = slots.apps[attackers].median();
        assert!(median < seconds(1), "{median:?} beside {people}: {victim:?}");
    }
}

/// Nobody has more than one: none of them is ended for another.
#[test]
fn long_calls_get_done_beside_many_who_have_shorter_ones() {
    let (seconds, millis) = (Duration::from_secs, Duration::from_millis);
    for (many, takes, few, short) in [
        (5, 7900, 11, 1020),
        (8, 7900, 8, 1020),
        (10, 9900, 6, 1500),
        (4, 12_000, 12, 1020),
    ] {
        let longer = (100..100 + many).map(|person| always(person, millis(takes)));
        let shorter = (200..200 + few).map(|person| always(person, millis(short)));
        let mut apps: Vec<App> = longer.chain(shorter).collect();
        let attackers = apps.len();
        apps.extend([
            every(11, 60, seconds(15)),
            every(12, 120, seconds(25)),
            every(13, 60, seconds(29)),
        ]);
        let mut slots = Slots::new(SLOTS, &apps);
        slots.pass(seconds(60));
        slots.measure(Duration::from_mins(10));
        for one in &slots.apps[attackers..] {
            assert!(one.median() < seconds(1), "{:?}: {:?}", one.app, one.median());
        }
    }
}

/// Of sixteen people, however many organizations these have.
#[test]
fn whoever_is_slow_has_a_call_at_once_beside_people_with_many_organizations() {
    let (seconds, millis) = (Duration::from_secs, Duration::from_millis);
    let durations = [[900, 1020], [4900, 4900], [980, 1005], [300, 4900], [29_000, 1500]];
    for [one, other] in durations {
        let of_one =
            |person: i64| (0..8).map(move |number| always(person, millis(if number % 2 == 0 { one } else { other })));
        let mut apps: Vec<App> = (100..116).flat_map(of_one).collect();
        let attackers = apps.len();
        apps.extend([
            every(11, 1, millis(60)),
            every(12, 12, millis(1500)),
            every(13, 20, seconds(8)),
            every(14, 120, seconds(25)),
        ]);
        let mut slots = Slots::new(SLOTS, &apps);
        slots.pass(seconds(60));
        slots.measure(Duration::from_mins(10));
        for app in &slots.apps[attackers..] {
            assert!(
                app.median() < millis(1200),
                "{:?} beside {one} and {other}: {:?}",
                app.app,
                app.median()
            );
        }
    }
}

/// Four configurations with something to do at the same moment.
#[test]
fn several_slow_calls_of_a_person_do_not_wait_for_each_other() {
    let seconds = Duration::from_secs;
    for (people, of_each, takes) in [(10, 2, 29), (16, 4, 29), (10, 2, 8)] {
        let of_one = |person: i64| (0..of_each).map(move |_| always(person, seconds(takes)));
        let mut apps: Vec<App> = (100..100 + people).flat_map(of_one).collect();
        let attackers = apps.len();
        apps.extend((0..4).map(|_| every(11, 60, seconds(8))));
        let mut slots = Slots::new(SLOTS, &apps);
        slots.pass(seconds(60));
        slots.measure(Duration::from_mins(10));
        let mut waits: Vec<Duration> = slots.apps[attackers..]
            .iter()
            .flat_map(|app| app.waits.clone())
            .collect();
        waits.sort_unstable();
        let median = waits[waits.len() / 2];
        assert!(median < seconds(1), "{median:?} beside {people}");
    }
}

/// These never wait for a place, as none of their organizations is known as slow, and have one call each.
#[test]
fn many_who_are_slow_have_places_beside_people_whose_organizations_become_slow() {
    let seconds = Duration::from_secs;
    let of_one = |person: i64| (0..14).map(move |_| every(person, 406, seconds(29)));
    let mut apps: Vec<App> = (100..116).flat_map(of_one).collect();
    let attackers = apps.len();
    apps.extend((0..11).map(|person| always(person, seconds(8))));
    let mut slots = Slots::new(SLOTS, &apps);
    for (place, app) in (0..).zip(&mut slots.apps[..attackers]) {
        app.next += seconds(29) * (place % 14) + seconds(1) * (place / 14);
    }
    slots.pass(seconds(60));
    slots.measure(Duration::from_mins(10));
    let done: usize = slots.apps[attackers..].iter().map(|app| app.done.len()).sum();
    // 825 without the others.
    assert!(done > 600, "{done}");
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
