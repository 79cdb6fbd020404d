//! How much memory the bodies of requests may use at once. Bytes count from when they arrive until the request is answered, and
//! what is built from them until it is gone. Bodies with events have a budget of their own.
//!
//! There is a part for large bodies of known users, one for their small ones, and one for strangers, who have shown no valid
//! credential. Of each nobody, neither a user nor a subnet of strangers, holds more than half of what others leave. Memory can
//! be held by never ending what is sent: if there is no room for somebody, whoever holds most loses the body that has been
//! coming for longest.

use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::BoxError;
use axum::body::{Body, BodyDataStream};
use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, stream};
use service::UserId;
use service::sign_in::{network, subnet};
use tokio::sync::oneshot;

use crate::http::bodies::{Bodies, BodyRef};

const MB: usize = 1024 * 1024;
/// No request needs more.
pub(crate) const MAX_BYTES: usize = 1024 * 1024;
/// The longest body of somebody who has shown no credential. To sign in takes a quarter of it at most.
pub(crate) const MAX_UNAUTHENTICATED_BYTES: usize = 16 * 1024;
/// Memory is reserved in steps of this size, so that a body in tiny pieces does not ask for each.
const STEP: usize = 4 * 1024;
/// Who needs more than this gets it from the part for large bodies.
const SMALL: usize = 16 * 1024;
/// When to try again.
const WAIT: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct BodyMemory {
    parts: Mutex<Parts>,
    entered: AtomicU64,
}

#[derive(Debug)]
struct Parts {
    large: Part,
    small: Part,
    strangers: Part,
}

#[derive(Debug)]
struct Part {
    limit: usize,
    bodies: Bodies<Whose>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Whose {
    User(UserId),
    /// Of somebody in this subnet.
    Stranger(IpAddr),
}

/// The part of one request, given back when dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    memory: Arc<BodyMemory>,
    network: IpAddr,
    number: u64,
    /// What follows is changed under the lock of the memory.
    bytes: AtomicUsize,
    user: OnceLock<UserId>,
}

impl Default for BodyMemory {
    fn default() -> Self {
        Self::with(192 * MB, 32 * MB, 32 * MB)
    }
}

impl BodyMemory {
    pub(crate) fn with(large: usize, small: usize, strangers: usize) -> Self {
        let part = |limit| Part {
            limit,
            bodies: Bodies::default(),
        };
        Self {
            parts: Mutex::new(Parts {
                large: part(large),
                small: part(small),
                strangers: part(strangers),
            }),
            entered: AtomicU64::new(0),
        }
    }

    pub(crate) fn enter(self: &Arc<Self>, address: IpAddr) -> Reservation {
        Reservation {
            memory: self.clone(),
            network: network(address),
            number: self.entered.fetch_add(1, Ordering::Relaxed),
            bytes: AtomicUsize::new(0),
            user: OnceLock::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Parts> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Parts {
    /// Where a body of so many bytes belongs.
    fn bodies(&mut self, whose: Whose, bytes: usize) -> &mut Bodies<Whose> {
        &mut self.part(whose, bytes).bodies
    }

    fn part(&mut self, whose: Whose, bytes: usize) -> &mut Part {
        match whose {
            Whose::Stranger(_) => &mut self.strangers,
            Whose::User(_) if is_large(bytes) => &mut self.large,
            Whose::User(_) => &mut self.small,
        }
    }
}

fn is_large(bytes: usize) -> bool {
    bytes > SMALL
}

impl Part {
    /// Whether there is room for a body, once others have made some.
    fn make_room(&mut self, body_ref: BodyRef<Whose>, bytes: usize) -> bool {
        let is_stranger = matches!(body_ref.whose, Whose::Stranger(_));
        loop {
            let (all, mine) = (self.bodies.bytes(), self.bodies.bytes_of(body_ref.whose));
            if all + mine + 2 * bytes <= self.limit {
                return true;
            }
            let mut ended = self.bodies.end_any(body_ref, bytes);
            // Strangers of one network may be strangers to each other.
            if ended.is_none() && is_stranger {
                ended = self.bodies.end_oldest(body_ref);
            }
            if ended.is_none() {
                return false;
            }
        }
    }
}

impl Reservation {
    pub(crate) fn is_authenticated(&self) -> bool {
        self.user.get().is_some()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Whether this is more than every body has.
    pub(crate) fn is_more_than_a_step(&self) -> bool {
        self.bytes() > STEP
    }

    /// The request is that of a known user.
    pub(crate) fn authenticate(&self, user: UserId) {
        let mut parts = self.memory.lock();
        let body = parts.strangers.bodies.remove(self.body_ref());
        // Known to be somebody's, it stays that.
        if self.user.set(user).is_ok()
            && let Some(body) = body
        {
            let body_ref = self.body_ref();
            parts
                .bodies(body_ref.whose, body.bytes)
                .add(body_ref, body.bytes, body.end);
        }
    }

    /// Makes room for so many bytes in all.
    pub(crate) fn grow_to(&self, bytes: usize) -> Result<(), service::Error> {
        if bytes <= self.bytes() || self.change(bytes.next_multiple_of(STEP)) {
            Ok(())
        } else {
            Err(busy())
        }
    }

    /// Gives back what is more than so many bytes.
    pub(crate) fn shrink_to(&self, bytes: usize) {
        let bytes = bytes.next_multiple_of(STEP);
        if bytes < self.bytes() {
            self.change(bytes);
        }
    }

    /// Counts the request as one of so many bytes, if there is room. Less is always allowed within a part; in another one, it needs
    /// room there as well, and stays where it is otherwise.
    fn change(&self, bytes: usize) -> bool {
        let mut parts = self.memory.lock();
        let (body_ref, before) = (self.body_ref(), self.bytes());
        let end = match parts.bodies(body_ref.whose, before).remove(body_ref) {
            Some(body) => body.end,
            None if before == 0 => None,
            // Others needed the memory.
            None => return false,
        };
        let is_stranger = matches!(body_ref.whose, Whose::Stranger(_));
        let is_same_part = is_stranger || bytes == 0 || is_large(bytes) == is_large(before);
        let has_room =
            (bytes <= before && is_same_part) || parts.part(body_ref.whose, bytes).make_room(body_ref, bytes);
        let bytes = if has_room { bytes } else { before };
        if bytes > 0 {
            parts.bodies(body_ref.whose, bytes).add(body_ref, bytes, end);
        }
        self.bytes.store(bytes, Ordering::Relaxed);
        has_room
    }

    fn body_ref(&self) -> BodyRef<Whose> {
        let whose = match self.user.get() {
            Some(user) => Whose::User(*user),
            None => Whose::Stranger(subnet(self.network)),
        };
        BodyRef {
            whose,
            network: self.network,
            number: self.number,
        }
    }

    /// More of the body is waited for, so it may have to make room. It is told by what this returns.
    pub(crate) fn wait(&self) -> oneshot::Receiver<()> {
        let (end, ended) = oneshot::channel();
        self.set_end(Some(end));
        ended
    }

    /// All of the body is there.
    fn finish(&self) {
        self.set_end(None);
    }

    fn set_end(&self, end: Option<oneshot::Sender<()>>) {
        let mut parts = self.memory.lock();
        let body_ref = self.body_ref();
        parts.bodies(body_ref.whose, self.bytes()).set_end(body_ref, end);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.bytes() > 0 {
            self.change(0);
        }
    }
}

pub(crate) fn busy() -> service::Error {
    service::Error::Unavailable {
        detail: "Too much data is being sent at the same time".to_owned(),
        wait: WAIT,
    }
}

/// A body has more bytes than whoever sends it may send.
#[derive(Debug)]
pub(crate) struct TooLarge;

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("The request body is too large.")
    }
}

impl std::error::Error for TooLarge {}

/// A body whose bytes are counted as they arrive. It fails with [`TooLarge`], or with what [`busy`] says.
pub(crate) fn counted(body: Body, reservation: Arc<Reservation>, most_unauthenticated: usize) -> Body {
    let mut counted = Counted {
        body: body.into_data_stream(),
        reservation,
        ended: None,
        most_unauthenticated,
        received: 0,
    };
    Body::from_stream(stream::poll_fn(move |cx| counted.poll_next(cx)))
}

struct Counted {
    body: BodyDataStream,
    reservation: Arc<Reservation>,
    /// Most bodies are there immediately, and need not listen.
    ended: Option<oneshot::Receiver<()>>,
    most_unauthenticated: usize,
    received: usize,
}

impl Counted {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, BoxError>>> {
        let polled = self.body.poll_next_unpin(cx);
        if polled.is_pending() && self.ended.is_none() && self.reservation.bytes() > 0 {
            self.ended = Some(self.reservation.wait());
        }
        if self.is_ended(cx) {
            return Poll::Ready(Some(Err(busy().into())));
        }
        let Some(piece) = ready!(polled) else {
            if self.ended.take().is_some() {
                self.reservation.finish();
            }
            return Poll::Ready(None);
        };
        let piece = piece?;
        self.received += piece.len();
        if self.received > self.most_unauthenticated && !self.reservation.is_authenticated() {
            return Poll::Ready(Some(Err(TooLarge.into())));
        }
        self.reservation.grow_to(capacity(self.received))?;
        Poll::Ready(Some(Ok(piece)))
    }

    fn is_ended(&mut self, cx: &mut Context<'_>) -> bool {
        let told = self.ended.as_mut().map(|ended| ended.poll_unpin(cx));
        // Who was told is not asked again.
        let is_told = matches!(told, Some(Poll::Ready(_)));
        if is_told {
            self.ended = None;
        }
        is_told
    }
}

/// The room that so many bytes of a body are copied to, as more are to come.
pub(crate) fn capacity(received: usize) -> usize {
    received.next_power_of_two()
}

#[cfg(test)]
mod tests {
    use futures_util::task::noop_waker_ref;

    use super::*;

    /// In small steps, but for large bodies.
    fn memory() -> Arc<BodyMemory> {
        Arc::new(BodyMemory::with(64 * STEP, 16 * STEP, 8 * STEP))
    }

    /// From a subnet of this number.
    fn enter(memory: &Arc<BodyMemory>, number: u8) -> Arc<Reservation> {
        Arc::new(memory.enter(IpAddr::from([192, 0, number, number])))
    }

    fn authenticated(memory: &Arc<BodyMemory>, number: u8, user: i64) -> Arc<Reservation> {
        let reservation = enter(memory, number);
        reservation.authenticate(UserId(user));
        reservation
    }

    type Listening = (Arc<Reservation>, oneshot::Receiver<()>);

    /// A body that came so far, and no further. None: there was no room.
    fn unfinished(reservation: Arc<Reservation>, steps: usize) -> Option<Listening> {
        reservation.grow_to(steps * STEP).ok()?;
        let ended = reservation.wait();
        Some((reservation, ended))
    }

    fn which_ended(held: &mut [Listening]) -> Vec<usize> {
        let all = held.iter_mut().enumerate();
        all.filter_map(|(place, (_, ended))| ended.try_recv().is_ok().then_some(place))
            .collect()
    }

    fn is_empty(memory: &BodyMemory) -> bool {
        let parts = memory.lock();
        [&parts.large, &parts.small, &parts.strangers]
            .iter()
            .all(|part| part.bodies.is_empty())
    }

    #[test]
    fn bodies_that_shrink_leave_room_for_others_small_ones() {
        let memory = memory();
        let held: Vec<_> = (1..=20).map(|number| authenticated(&memory, number, 1)).collect();
        let let_in = held.iter().filter(|each| {
            let has_room = each.grow_to(8 * STEP).is_ok();
            each.shrink_to(STEP);
            has_room
        });
        assert_eq!(let_in.count(), 12, "8 small ones, and 4 that stay where large ones are");
        assert!(authenticated(&memory, 30, 2).grow_to(STEP).is_ok());
        drop(held);
        assert!(is_empty(&memory));
    }

    #[test]
    fn nobody_holds_more_than_half_of_what_others_leave() {
        let memory = memory();
        let let_in = |held: &[Arc<Reservation>], steps: usize| {
            held.iter().filter(|each| each.grow_to(steps * STEP).is_ok()).count()
        };
        let users = |user, from: u8| {
            (from..from + 20)
                .map(|number| authenticated(&memory, number, user))
                .collect::<Vec<_>>()
        };
        let (first, second) = (users(1, 1), users(2, 1));
        assert_eq!((let_in(&first, 1), let_in(&second, 1)), (8, 4), "small bodies");
        let (third, fourth) = (users(1, 1), users(2, 1));
        assert_eq!((let_in(&third, 8), let_in(&fourth, 8)), (4, 2), "large bodies");
        let strangers = |number| (0..20).map(|_| enter(&memory, number)).collect::<Vec<_>>();
        let (fifth, sixth) = (strangers(1), strangers(2));
        assert_eq!((let_in(&fifth, 1), let_in(&sixth, 1)), (4, 2), "strangers");
        drop((first, second, third, fourth, fifth, sixth));
        assert!(is_empty(&memory));
    }

    #[test]
    fn networks_beside_each_other_share_one_part() {
        let memory = memory();
        let texts = ["1:100", "1:200", "1:300", "1:400", "1:500", "2:100"];
        let held = texts.map(|text| memory.enter(format!("2001:db8:{text}::1").parse().expect("an address")));
        let let_in = held.each_ref().map(|each| each.grow_to(1).is_ok());
        assert_eq!(let_in, [true, true, true, true, false, true]);
    }

    /// What eight accounts in four subnets did to all of it.
    #[test]
    fn users_who_never_end_leave_room_for_others() {
        let memory = Arc::new(BodyMemory::with(640 * STEP, 160 * STEP, 8 * STEP));
        let mut held = Vec::new();
        for user in 1..=8 {
            let from = u8::try_from(user % 4).expect("a small number");
            for steps in [8, 1] {
                held.extend((0..160).filter_map(|_| unfinished(authenticated(&memory, from, user), steps)));
            }
        }
        assert!(enter(&memory, 1).grow_to(STEP).is_ok(), "a stranger");
        let (small, large) = (authenticated(&memory, 1, 9), authenticated(&memory, 1, 9));
        assert!(small.grow_to(STEP).is_ok() && large.grow_to(8 * STEP).is_ok());
        assert!(!which_ended(&mut held).is_empty());
        drop((held, small, large));
        assert!(is_empty(&memory));
    }

    #[test]
    fn whoever_holds_most_loses_what_has_been_coming_for_longest() {
        for is_known in [true, false] {
            // As much for each.
            let memory = Arc::new(BodyMemory::with(0, 8 * STEP, 8 * STEP));
            let new = |number: u8| {
                let body = enter(&memory, number);
                if is_known {
                    body.authenticate(UserId(number.into()));
                }
                body
            };
            let mut held = [1, 2, 2, 2].map(|number| unfinished(new(number), 1).expect("there is room"));
            held[1].0.finish();
            let third = unfinished(new(3), 1).expect("there is room");
            let fourth = unfinished(new(4), 2).expect("there is room, once another has made some");
            assert_eq!(which_ended(&mut held), [2], "the oldest that is not whole");
            assert!(held[2].0.grow_to(2 * STEP).is_err());
            assert!(new(2).grow_to(3 * STEP).is_err(), "nobody has more");
            drop((held, third, fourth));
            assert!(is_empty(&memory));
        }
    }

    #[test]
    fn strangers_of_one_network_make_room_for_each_other_but_a_user_does_not() {
        let memory = memory();
        let mut strangers = (0..4)
            .filter_map(|_| unfinished(enter(&memory, 1), 1))
            .collect::<Vec<_>>();
        let new = unfinished(enter(&memory, 1), 1);
        assert!(new.is_some());
        assert_eq!(which_ended(&mut strangers), [0]);
        let mut own = (0..9)
            .filter_map(|_| unfinished(authenticated(&memory, 1, 1), 1))
            .collect::<Vec<_>>();
        assert_eq!(own.len(), 8);
        assert!(which_ended(&mut own).is_empty(), "the newest waits");
    }

    #[test]
    fn whoever_becomes_known_makes_no_room_for_strangers() {
        let memory = memory();
        let mut held = [unfinished(enter(&memory, 1), 1).expect("there is room")];
        held[0].0.authenticate(UserId(1));
        let others = (0..9)
            .filter_map(|_| unfinished(enter(&memory, 1), 1))
            .collect::<Vec<_>>();
        assert_eq!((others.len(), which_ended(&mut held).len()), (9, 0));
        assert_eq!(memory.lock().small.bodies.bytes(), STEP);
        held[0].0.grow_to(8 * STEP).expect("there is room");
        held[0].0.shrink_to(1);
        assert_eq!(memory.lock().small.bodies.bytes(), STEP);
        drop((held, others));
        assert!(is_empty(&memory));
    }

    #[test]
    fn a_body_hears_that_it_is_ended() {
        for is_known in [true, false] {
            let memory = Arc::new(BodyMemory::with(0, 4 * STEP, 4 * STEP));
            let new = |number: u8| {
                let body = enter(&memory, number);
                if is_known {
                    body.authenticate(UserId(number.into()));
                }
                body
            };
            let first = stream::iter([Ok::<_, BoxError>(Bytes::from_static(b"{"))]);
            let body = Body::from_stream(first.chain(stream::pending()));
            let mut body = counted(body, new(1), 10).into_data_stream();
            let mut cx = Context::from_waker(noop_waker_ref());
            assert!(matches!(body.poll_next_unpin(&mut cx), Poll::Ready(Some(Ok(_)))));
            assert!(body.poll_next_unpin(&mut cx).is_pending());
            let others = [new(1), new(2), new(3)];
            assert!(others.iter().all(|each| each.grow_to(1).is_ok()));
            assert!(matches!(body.poll_next_unpin(&mut cx), Poll::Ready(Some(Err(_)))));
        }
    }
}
