use super::*;

fn limits(of_network: usize) -> Limits {
    Limits {
        of_network,
        requests_of_network: 3,
        proxies: vec!["10.0.0.0/8".parse().unwrap()],
        ..Limits::default()
    }
}

fn networks(limits: Limits) -> Networks {
    Networks::new(Arc::new(limits))
}

/// There is room for ten connections, but from the ninth on some are closed.
fn crowded() -> Networks {
    networks(Limits {
        connections: 10,
        of_network: 6,
        ..limits(6)
    })
}

fn is_closing(networks: &Networks, permit: &ConnectionPermit) -> bool {
    let open = networks.lock();
    open.closing
        .iter()
        .any(|activity| Arc::ptr_eq(activity, &permit.activity))
}

#[test]
fn addresses_of_one_network_count_together() {
    let networks = networks(limits(1));
    let enter = |text: &str| networks.enter(text.parse().unwrap()).ok();
    let first = enter("2001:db8:1:200::1");
    assert!(first.is_some());
    assert!(enter("2001:db8:1:200:ffff::9").is_none());
    assert!(enter("2001:db8:1:2ff::1").is_none(), "one customer has a /56");
    assert!(enter("2001:db8:1:300::1").is_some());
    assert!(enter("192.0.2.1").is_some());
    drop(first);
    assert!(enter("2001:db8:1:2ff:ffff::9").is_some());
    let open = networks.lock();
    assert!(open.networks.is_empty() && open.sites.is_empty() && open.by_size.is_empty());
}

#[test]
fn networks_of_one_site_count_together() {
    let networks = networks(limits(1));
    let enter = |text: &str| networks.enter(text.parse().unwrap()).ok();
    let mut open: Vec<_> = (1..=NETWORKS_OF_SITE)
        .map(|number| enter(&format!("2001:db8:1:{number:x}00::1")).unwrap())
        .collect();
    assert!(enter("2001:db8:1:ff00::1").is_none());
    assert!(enter("2001:db8:2::1").is_some());
    let requests: Vec<_> = open
        .iter()
        .flat_map(|permit| [permit.requests.enter().unwrap(), permit.requests.enter().unwrap()])
        .collect();
    open.pop();
    let next = enter("2001:db8:1:ff00::1").unwrap();
    let more: Vec<_> = std::iter::from_fn(|| next.requests.enter()).collect();
    assert_eq!(more.len(), 3, "as many as one network may have");
    let first: Vec<_> = std::iter::from_fn(|| open[0].requests.enter()).collect();
    assert_eq!((requests.len() + more.len(), first.len()), (11, 1));
    assert!(open[1].requests.enter().is_none(), "twelve is what the site may have");
}

#[test]
fn requests_of_all_connections_count_together() {
    let networks = networks(limits(2));
    let enter = |text: &str| networks.enter(text.parse().unwrap()).unwrap();
    let (first, second, other) = (enter("192.0.2.1"), enter("192.0.2.1"), enter("192.0.2.2"));
    let mut in_progress = vec![first.requests.enter().unwrap(), second.requests.enter().unwrap()];
    in_progress.push(first.requests.enter().unwrap());
    for _ in 0..5 {
        assert!(second.requests.enter().is_none(), "and what is refused does not count");
    }
    assert!(other.requests.enter().is_some());
    in_progress.pop();
    assert!(second.requests.enter().is_some());
    let proxy = enter("10.1.2.3");
    let many: Vec<_> = (0..100).map(|_| proxy.requests.enter()).collect();
    assert!(many.iter().all(Option::is_some));
}

#[test]
fn requests_count_although_their_connection_has_ended() {
    let networks = networks(limits(2));
    let enter = || networks.enter("192.0.2.1".parse().unwrap()).unwrap();
    let first = enter();
    let in_progress: Vec<_> = std::iter::from_fn(|| first.requests.enter()).collect();
    drop(first);
    assert!(enter().requests.enter().is_none());
    drop(in_progress);
    assert!(enter().requests.enter().is_some());
}

#[test]
fn the_largest_network_makes_room() {
    let networks = crowded();
    let enter = |text: &str| networks.enter(text.parse().unwrap());
    let few: Vec<_> = (0..2).map(|_| enter("192.0.2.1").unwrap()).collect();
    let many: Vec<_> = (0..6).map(|_| enter("192.0.2.2").unwrap()).collect();
    let busy = many[0].activity.begin();
    let stranger = enter("192.0.2.3").unwrap();
    assert!(!is_closing(&networks, &many[0]), "it is busy");
    assert!(is_closing(&networks, &many[1]), "it is idle, and the oldest that is");
    let second = enter("192.0.2.4").unwrap();
    assert!(is_closing(&networks, &many[2]));
    assert_eq!(
        enter("192.0.2.5").err(),
        Some(NoPermit::Full),
        "ten are open until those that were told have closed"
    );
    assert!(many[1].activity.is_cut(), "it has had its time");
    drop(many);
    let third = enter("192.0.2.5").unwrap();
    for permit in few.iter().chain([&stranger, &second, &third]) {
        assert!(!is_closing(&networks, permit));
    }
    drop(busy);
}

#[test]
fn a_network_with_few_connections_keeps_them_from_one_with_more() {
    let networks = crowded();
    let enter = |text: &str| networks.enter(text.parse().unwrap());
    let few: Vec<_> = (0..3).map(|_| enter("192.0.2.1").unwrap()).collect();
    let many: Vec<_> = (0..5).map(|_| enter("192.0.2.2").unwrap()).collect();
    let sixth = enter("192.0.2.2").unwrap();
    assert!(is_closing(&networks, &many[0]), "it has to do with one of its own");
    let rest = many[1..].iter().chain([&sixth]);
    let busy: Vec<_> = rest.map(|permit| permit.activity.begin()).collect();
    assert_eq!(
        enter("192.0.2.2").err(),
        Some(NoPermit::TooMany),
        "none of its own is idle"
    );
    assert!(few.iter().all(|permit| !is_closing(&networks, permit)));
    drop(busy);
}

#[test]
fn if_all_are_busy_the_largest_network_loses_its_oldest() {
    let networks = crowded();
    let enter = |text: &str| networks.enter(text.parse().unwrap());
    let open: Vec<_> = (0..8)
        .map(|number| enter(if number < 3 { "192.0.2.1" } else { "192.0.2.2" }).unwrap())
        .collect();
    let busy: Vec<_> = open.iter().map(|permit| permit.activity.begin()).collect();
    let stranger = enter("192.0.2.3").unwrap();
    let told: Vec<_> = (0..8).filter(|number| is_closing(&networks, &open[*number])).collect();
    assert_eq!(told, [3]);
    drop((busy, stranger));
}

#[test]
fn of_many_small_networks_the_one_that_is_there_longest_makes_room() {
    let networks = crowded();
    let enter = |number: usize| networks.enter(format!("192.0.2.{number}").parse().unwrap()).unwrap();
    let mut open: Vec<_> = (0..8).map(enter).collect();
    for number in 8..20 {
        open.push(enter(number));
        assert!(is_closing(&networks, &open[0]));
        open.remove(0);
    }
}

#[test]
fn connections_of_proxies_are_never_closed_for_others() {
    let networks = crowded();
    let enter = |text: &str| networks.enter(text.parse().unwrap());
    let proxied: Vec<_> = (0..7).map(|_| enter("10.1.2.3").unwrap()).collect();
    let one = enter("192.0.2.1").unwrap();
    let more: Vec<_> = (0..2).map(|_| enter("10.1.2.3").unwrap()).collect();
    assert!(is_closing(&networks, &one));
    assert_eq!(enter("10.1.2.3").err(), Some(NoPermit::Full));
    drop(one);
    let last = enter("192.0.2.1").unwrap();
    assert_eq!(enter("192.0.2.2").err(), Some(NoPermit::Full));
    assert!(proxied.iter().chain(&more).all(|permit| !is_closing(&networks, permit)));
    drop(last);
}
