use std::net::Ipv4Addr;
use std::sync::mpsc;

use super::*;

fn address(text: &str) -> Option<IpAddr> {
    text.parse().ok()
}

fn email(name: &str) -> Email {
    Email::new(&format!("{name}@example.com")).expect("an address")
}

fn make_suspect(queue: &HashQueue, from: &str) {
    for _ in 0..SUSPICIOUS {
        queue.note_failure(address(from));
    }
}

fn waiting_in(queue: &HashQueue) -> usize {
    queue.state().lines.iter().map(Line::waiting).sum()
}

/// Requests that wait, and tell when it is their turn. One slot is kept from them, so that there is an order to see.
struct Crowd {
    queue: HashQueue,
    held: Vec<mpsc::Sender<()>>,
    tasks: Vec<tokio::task::JoinHandle<Result<()>>>,
    told: mpsc::Sender<String>,
    turns: mpsc::Receiver<String>,
}

impl Crowd {
    async fn new() -> Self {
        let queue = HashQueue::default();
        let mut held = Vec::new();
        for _ in 0..SLOTS {
            held.push(occupy(&queue).await);
        }
        let (told, turns) = mpsc::channel();
        Self {
            queue,
            held,
            tasks: Vec::new(),
            told,
            turns,
        }
    }

    fn refuses(&self, from: &str, known_as: Option<&str>) -> bool {
        let account = known_as.map(email);
        matches!(
            self.queue.enter(address(from), account.as_ref()),
            Err(Error::Throttled(_))
        )
    }

    /// Comes and waits; the name is told when it is its turn.
    async fn add(&mut self, name: &str, from: &str, known_as: Option<&str>) {
        let account = known_as.map(email);
        let place = self
            .queue
            .enter(address(from), account.as_ref())
            .expect("there is room");
        let (told, name) = (self.told.clone(), name.to_owned());
        self.tasks.push(tokio::spawn(
            place.run(move || told.send(name).expect("somebody listens")),
        ));
        tokio::task::yield_now().await;
    }

    /// Lets them be served, one after the other: in which order that was.
    async fn served(mut self) -> Vec<String> {
        self.held.pop();
        for task in self.tasks {
            let _ = task.await.expect("it ends");
        }
        self.turns.try_iter().collect()
    }
}

/// Takes a slot until it is told to let go.
async fn occupy(queue: &HashQueue) -> mpsc::Sender<()> {
    let (release, released) = mpsc::channel::<()>();
    let (begun, begins) = oneshot::channel();
    let place = queue.enter(None, None).expect("there is room");
    tokio::spawn(place.run(move || {
        begun.send(()).expect("somebody listens");
        let _ = released.recv();
    }));
    begins.await.expect("it begins");
    release
}

fn position(order: &[String], name: &str) -> usize {
    order.iter().position(|turn| turn == name).expect("a turn")
}

#[tokio::test]
async fn the_honest_do_not_wait_behind_those_who_guess() {
    let mut crowd = Crowd::new().await;
    for n in 1..=9 {
        let guesser = format!("192.0.{n}.1");
        make_suspect(&crowd.queue, &guesser);
        crowd.add(&guesser, &guesser, None).await;
    }
    crowd.add("honest", "198.51.100.7", None).await;
    let queue = crowd.queue.clone();
    assert_eq!(crowd.served().await[0], "honest");
    assert_eq!(queue.begun(), 10 + SLOTS as u64);
}

/// Whoever has many networks, each of them new, makes a line that is short, and not before those who were here before.
#[tokio::test]
async fn people_who_were_here_before_do_not_wait_for_all_strangers() {
    let mut crowd = Crowd::new().await;
    for n in 0..Rank::Stranger.limits().total {
        let stranger = format!("2001:db8:{n:x}::1");
        crowd.add(&stranger, &stranger, None).await;
    }
    assert!(crowd.refuses("192.0.2.1", None));
    crowd.add("known", "192.0.2.1", Some("olga")).await;
    let order = crowd.served().await;
    assert!(position(&order, "known") < 2, "{order:?}");
}

/// With one account, and however many networks one has signed in from.
#[tokio::test]
async fn people_on_new_networks_have_every_second_turn() {
    let mut crowd = Crowd::new().await;
    for n in 0..200 {
        crowd
            .add("known", &format!("2001:db8:{n:x}::1"), Some(&format!("m{n}")))
            .await;
    }
    for n in 0..5 {
        crowd.add("stranger", &format!("192.0.{n}.1"), None).await;
    }
    let order = crowd.served().await;
    let strangers = order[..10].iter().filter(|turn| *turn == "stranger").count();
    assert_eq!(strangers, 5, "{order:?}");
}

#[tokio::test]
async fn those_who_guess_are_served_in_the_end_and_keep_nobody_out() {
    let mut crowd = Crowd::new().await;
    make_suspect(&crowd.queue, "192.0.2.1");
    crowd.add("suspect", "192.0.2.1", None).await;
    for n in 0..60 {
        let (known, stranger) = (format!("2001:db8:{n:x}::1"), format!("198.18.{n}.1"));
        crowd.add("known", &known, Some(&format!("p{n}"))).await;
        crowd.add("stranger", &stranger, None).await;
    }
    let order = crowd.served().await;
    assert!(position(&order, "suspect") < SHARES.len(), "{order:?}");
    let strangers = order[..40].iter().filter(|turn| *turn == "stranger").count();
    assert!(strangers >= 20, "{order:?}");
}

#[tokio::test]
async fn one_account_has_few_places_and_one_turn_before_somebody_else() {
    let mut crowd = Crowd::new().await;
    for n in 0..Rank::Known.limits().of_account {
        crowd
            .add("mallory", &format!("2001:db8:{n:x}::1"), Some("mallory"))
            .await;
    }
    assert!(crowd.refuses("192.0.2.1", Some("mallory")));
    crowd.add("ann", "198.51.100.7", Some("ann")).await;
    crowd.add("bob", "2001:db8::1", Some("bob")).await;
    let order = crowd.served().await;
    assert!(
        position(&order, "ann") <= 1 && position(&order, "bob") <= 2,
        "{order:?}"
    );
}

#[tokio::test]
async fn many_accounts_of_one_subnet_have_one_turn_before_another() {
    let mut crowd = Crowd::new().await;
    for n in 0..Rank::Known.limits().of_subnet {
        crowd
            .add("many", &format!("2001:db8:1:{n:x}00::1"), Some(&format!("m{n}")))
            .await;
    }
    assert!(crowd.refuses("2001:db8:1:ff00::1", Some("m999")));
    crowd.add("ann", "2001:db8:2::1", Some("ann")).await;
    let order = crowd.served().await;
    assert!(position(&order, "ann") <= 1, "{order:?}");
}

#[tokio::test]
async fn strangers_do_not_take_the_places_of_their_neighbors_who_were_here_before() {
    let mut crowd = Crowd::new().await;
    for n in 0..Rank::Stranger.limits().of_subnet {
        crowd.add("stranger", &format!("192.0.2.{n}"), None).await;
    }
    assert!(crowd.refuses("192.0.2.99", None));
    assert!(!crowd.refuses("192.0.2.99", Some("ann")));
}

/// Eight subnets could fill the line; somebody from a ninth gets the place of one who has many.
#[tokio::test]
async fn whoever_has_many_places_gives_one_up_for_somebody_new() {
    let mut crowd = Crowd::new().await;
    let Limits { total, of_subnet, .. } = Rank::Stranger.limits();
    for n in 0..total {
        crowd.add("many", &format!("192.0.{}.{n}", n / of_subnet), None).await;
    }
    assert!(crowd.refuses("192.0.0.200", None), "one of those who have many");
    crowd.add("new", "198.51.100.7", None).await;
    let order = crowd.served().await;
    assert_eq!(order.len(), total, "one was turned away");
    assert!(position(&order, "new") <= total / of_subnet, "{order:?}");
}

#[tokio::test]
async fn networks_take_turns() {
    let mut crowd = Crowd::new().await;
    for from in ["192.0.2.1", "192.0.2.2", "192.0.2.3", "198.51.100.1", "2001:db8::1"] {
        crowd.add(from, from, None).await;
    }
    assert_eq!(
        crowd.served().await,
        ["192.0.2.1", "198.51.100.1", "2001:db8::1", "192.0.2.2", "192.0.2.3"]
    );
}

/// The second of a subnet is not overtaken by ever new ones.
#[test]
fn requests_that_keep_coming_do_not_put_anybody_off_forever() {
    let mut line = Line::<Slot>::default();
    let party = |n: u32| vec![Party::Subnet(IpAddr::from(Ipv4Addr::from_bits(n)))];
    let mut receivers: Vec<_> = (0..2).map(|_| line.wait(&party(0))).collect();
    let mut second = receivers.pop().expect("the second");
    receivers.extend((1..20).map(|n| line.wait(&party(n))));
    for n in 100..200 {
        let turn = line.next().expect("somebody waits");
        drop(turn);
        if matches!(second.try_recv(), Err(oneshot::error::TryRecvError::Closed)) {
            return;
        }
        receivers.push(line.wait(&party(n)));
    }
    panic!("a hundred came later and were served");
}

#[tokio::test]
async fn a_suspect_is_refused_before_anything_is_hashed() {
    let queue = HashQueue::default();
    make_suspect(&queue, "192.0.2.1");
    let places: Vec<QueueTicket> = (0..Rank::Suspect.limits().of_subnet)
        .map(|n| {
            queue
                .enter(address(&format!("192.0.2.{n}")), None)
                .expect("a few are heard")
        })
        .collect();
    assert!(matches!(
        queue.enter(address("192.0.2.99"), None),
        Err(Error::Throttled(_))
    ));
    queue
        .enter(address("192.0.3.1"), None)
        .expect("others are not affected");
    drop(places);
    queue.enter(address("192.0.2.99"), None).expect("there is room again");
    assert_eq!(queue.begun(), 0);
}

#[tokio::test]
async fn whoever_goes_away_gives_their_turn_back() {
    let mut crowd = Crowd::new().await;
    crowd.add("gone", "192.0.2.1", None).await;
    let gone = crowd.tasks.pop().expect("a task");
    crowd.add("stays", "192.0.2.2", None).await;
    assert_eq!(waiting_in(&crowd.queue), 2);
    gone.abort();
    let _ = gone.await;
    let queue = crowd.queue.clone();
    assert_eq!(crowd.served().await, ["stays"]);
    // Those who held the slots end in their own time.
    let emptied = async {
        while !queue.state().lines.iter().all(Line::is_empty) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), emptied)
        .await
        .expect("nobody is left");
}

#[test]
fn failures_are_forgiven_in_time() {
    let now = Instant::now();
    let failures = Failures { count: 5, last: now };
    assert_eq!(failures.left(now + FORGIVEN_AFTER * 2), 3);
    assert_eq!(failures.left(now + FORGIVEN_AFTER * 100), 0);
}
