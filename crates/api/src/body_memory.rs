//! How much memory the bodies of requests may use at once: all together, those of one neighborhood, and those of one user.
//! Bytes count from when they arrive until the request is answered, and what is built from them until it is gone. Bodies with
//! events have a budget of their own.
//!
//! However many large bodies there are, a part is left for small ones. Strangers can hold memory by never ending what they
//! send: if there is no room for somebody, whoever holds most loses the body that has been coming for longest.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::BoxError;
use axum::body::{Body, BodyDataStream};
use bytes::Bytes;
use futures_util::task::AtomicWaker;
use futures_util::{StreamExt, stream};
use service::UserId;
use service::sign_in::neighborhood;

const MB: usize = 1024 * 1024;
/// The longest body of somebody who has shown no credential. To sign in takes a quarter of it at most.
pub(crate) const MOST_UNPROVEN_BYTES: usize = 16 * 1024;
/// Memory is reserved in steps of this size, so that a body in tiny pieces does not ask for each.
const STEP: usize = 4 * 1024;
/// Who needs more than this gets it from the part for large bodies.
const SMALL: usize = 16 * 1024;
/// When to try again.
const WAIT: Duration = Duration::from_secs(5);

/// In bytes. Unproven are bodies of whoever has shown no valid credential.
#[derive(Debug, Clone, Copy)]
struct Limits {
    all: usize,
    large: usize,
    of_neighborhood: usize,
    of_user: usize,
    unproven: usize,
    unproven_of_neighborhood: usize,
}

const LIMITS: Limits = Limits {
    all: 256 * MB,
    large: 224 * MB,
    of_neighborhood: 64 * MB,
    of_user: 32 * MB,
    unproven: 64 * MB,
    unproven_of_neighborhood: 8 * MB,
};

#[derive(Debug)]
pub(crate) struct BodyMemory {
    limits: Limits,
    used: Mutex<Used>,
}

#[derive(Debug, Default)]
struct Used {
    all: Share,
    neighborhoods: HashMap<IpAddr, Neighborhood>,
    users: HashMap<UserId, usize>,
    /// The latest place among unfinished bodies.
    latest: u64,
}

#[derive(Debug, Default)]
struct Neighborhood {
    share: Share,
    /// Bodies of strangers of which more is waited for, by how long.
    unfinished: BTreeMap<u64, Weak<Reservation>>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Share {
    bytes: usize,
    large: usize,
    unproven: usize,
}

/// What there is too much of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Full {
    /// All bodies, or all those of strangers.
    All,
    /// Bodies of strangers in the same neighborhood.
    Neighborhood,
    /// What strangers do not use up for others.
    Other,
}

/// The part of one request, given back when dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    memory: Arc<BodyMemory>,
    neighborhood: IpAddr,
    /// What follows is changed under the lock of the memory.
    bytes: AtomicUsize,
    user: OnceLock<UserId>,
    /// The place among unfinished bodies, if there is one.
    place: AtomicU64,
    /// Others needed the memory.
    is_ended: AtomicBool,
    /// Who waits for more of the body, and has to hear that it is ended.
    waiting: AtomicWaker,
}

impl Default for BodyMemory {
    fn default() -> Self {
        Self {
            limits: LIMITS,
            used: Mutex::default(),
        }
    }
}

impl BodyMemory {
    pub(crate) fn enter(self: &Arc<Self>, address: IpAddr) -> Reservation {
        Reservation {
            memory: self.clone(),
            neighborhood: neighborhood(address),
            bytes: AtomicUsize::new(0),
            user: OnceLock::new(),
            place: AtomicU64::new(0),
            is_ended: AtomicBool::new(false),
            waiting: AtomicWaker::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Share {
    /// What a request with so many bytes counts as.
    fn of(bytes: usize, is_proven: bool) -> Self {
        Self {
            bytes,
            large: if bytes > SMALL { bytes } else { 0 },
            unproven: if is_proven { 0 } else { bytes },
        }
    }

    /// With one part of it as it was exchanged for another.
    fn with(self, before: Self, after: Self) -> Self {
        Self {
            bytes: self.bytes + after.bytes - before.bytes,
            large: self.large + after.large - before.large,
            unproven: self.unproven + after.unproven - before.unproven,
        }
    }
}

impl Limits {
    fn check(self, all: Share, of_neighborhood: Share, of_user: Option<usize>) -> Result<(), Full> {
        let is_proven = of_user.is_some();
        if all.large > self.large
            || of_neighborhood.bytes > self.of_neighborhood
            || of_user.is_some_and(|bytes| bytes > self.of_user)
        {
            Err(Full::Other)
        } else if !is_proven && of_neighborhood.unproven > self.unproven_of_neighborhood {
            Err(Full::Neighborhood)
        } else if all.bytes > self.all || (!is_proven && all.unproven > self.unproven) {
            Err(Full::All)
        } else {
            Ok(())
        }
    }
}

impl Used {
    /// Ends the body that has been unfinished for longest, of those who use most, and gives its memory back. None if that
    /// is the body of the one who needs it, or if there is none.
    fn end_another(&mut self, full: Full, needed_by: &Reservation) -> Option<Arc<Reservation>> {
        let whose = match full {
            Full::All => self.holder_of_most()?,
            Full::Neighborhood => needed_by.neighborhood,
            Full::Other => return None,
        };
        loop {
            let (_, oldest) = self.neighborhoods.get_mut(&whose)?.unfinished.pop_first()?;
            // One that is not there any more gives its memory back by itself.
            let Some(oldest) = oldest.upgrade() else { continue };
            if std::ptr::eq(Arc::as_ptr(&oldest), needed_by) {
                return None;
            }
            let _ = oldest.change(self, 0, None);
            oldest.is_ended.store(true, Ordering::Relaxed);
            return Some(oldest);
        }
    }

    fn count_user(&mut self, user: UserId, bytes: usize) {
        if bytes == 0 {
            self.users.remove(&user);
        } else {
            self.users.insert(user, bytes);
        }
    }

    fn holder_of_most(&self) -> Option<IpAddr> {
        let with_unfinished = self
            .neighborhoods
            .iter()
            .filter(|(_, each)| !each.unfinished.is_empty());
        let most = with_unfinished.max_by_key(|(_, each)| each.share.unproven);
        most.map(|(neighborhood, _)| *neighborhood)
    }
}

impl Reservation {
    pub(crate) fn is_proven(&self) -> bool {
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
    pub(crate) fn prove(&self, user: UserId) {
        // Mostly nothing has come yet, and nothing is to be counted anew.
        if self.bytes() == 0 {
            let _ = self.user.set(user);
        } else if !self.is_proven() {
            let _ = self.change(&mut self.memory.lock(), self.bytes(), Some(user));
        }
    }

    /// Makes room for so many bytes in all.
    pub(crate) fn grow_to(&self, bytes: usize) -> Result<(), service::Error> {
        if bytes <= self.bytes() {
            return Ok(());
        }
        let bytes = bytes.next_multiple_of(STEP);
        let mut ended = Vec::new();
        let mut used = self.memory.lock();
        let has_room = !self.is_ended()
            && loop {
                let Err(full) = self.change(&mut used, bytes, self.user.get().copied()) else {
                    break true;
                };
                match used.end_another(full, self) {
                    Some(other) => ended.push(other),
                    None => break false,
                }
            };
        // Whoever is the last to hold one of these needs the lock.
        drop(used);
        for other in ended {
            other.waiting.wake();
        }
        if has_room { Ok(()) } else { Err(busy()) }
    }

    /// Gives back what is more than so many bytes.
    pub(crate) fn shrink_to(&self, bytes: usize) {
        let bytes = bytes.next_multiple_of(STEP);
        if bytes < self.bytes() {
            let _ = self.change(&mut self.memory.lock(), bytes, self.user.get().copied());
        }
    }

    /// Counts the request anew, unless it would then be more than is allowed. Less is always allowed.
    fn change(&self, used: &mut Used, bytes: usize, whose: Option<UserId>) -> Result<(), Full> {
        let (before, after) = (
            Share::of(self.bytes(), self.is_proven()),
            Share::of(bytes, whose.is_some()),
        );
        let all = used.all.with(before, after);
        let share = used.neighborhoods.get(&self.neighborhood).map(|known| known.share);
        let of_neighborhood = share.unwrap_or_default().with(before, after);
        let of_user = whose.map(|user| {
            let before = if self.is_proven() { before.bytes } else { 0 };
            used.users.get(&user).map_or(0, |bytes| *bytes) + after.bytes - before
        });
        if after.bytes > before.bytes {
            self.memory.limits.check(all, of_neighborhood, of_user)?;
        }
        used.all = all;
        if of_neighborhood.bytes == 0 {
            used.neighborhoods.remove(&self.neighborhood);
        } else {
            let neighborhood = used.neighborhoods.entry(self.neighborhood).or_default();
            neighborhood.share = of_neighborhood;
            if bytes == 0 || whose.is_some() {
                neighborhood.unfinished.remove(&self.place.load(Ordering::Relaxed));
            }
        }
        if let Some((user, bytes)) = whose.zip(of_user) {
            used.count_user(user, bytes);
            let _ = self.user.set(user);
        }
        self.bytes.store(bytes, Ordering::Relaxed);
        Ok(())
    }

    fn is_ended(&self) -> bool {
        self.is_ended.load(Ordering::Relaxed)
    }

    /// More of the body is waited for, so that it may be ended.
    fn wait(self: &Arc<Self>) {
        if self.is_proven() || self.bytes() == 0 || self.place.load(Ordering::Relaxed) > 0 {
            return;
        }
        let mut used = self.memory.lock();
        used.latest += 1;
        let place = used.latest;
        if let Some(neighborhood) = used.neighborhoods.get_mut(&self.neighborhood) {
            neighborhood.unfinished.insert(place, Arc::downgrade(self));
            self.place.store(place, Ordering::Relaxed);
        }
    }

    /// All of the body is there.
    fn finish(&self) {
        let place = self.place.load(Ordering::Relaxed);
        if place > 0
            && let Some(neighborhood) = self.memory.lock().neighborhoods.get_mut(&self.neighborhood)
        {
            neighborhood.unfinished.remove(&place);
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.bytes() > 0 {
            let _ = self.change(&mut self.memory.lock(), 0, self.user.get().copied());
        }
    }
}

pub(crate) fn busy() -> service::Error {
    service::Error::Unavailable {
        detail: "too much is being sent at once".to_owned(),
        wait: WAIT,
    }
}

/// A body has more bytes than whoever sends it may send.
#[derive(Debug)]
pub(crate) struct TooLarge;

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the body is too large")
    }
}

impl std::error::Error for TooLarge {}

/// A body whose bytes are counted as they arrive. It fails with [`TooLarge`], or with what [`busy`] says.
pub(crate) fn counted(body: Body, reservation: Arc<Reservation>, most_unproven: usize) -> Body {
    let mut counted = Counted {
        body: body.into_data_stream(),
        reservation,
        most_unproven,
        received: 0,
    };
    Body::from_stream(stream::poll_fn(move |cx| counted.poll_next(cx)))
}

struct Counted {
    body: BodyDataStream,
    reservation: Arc<Reservation>,
    most_unproven: usize,
    received: usize,
}

impl Counted {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, BoxError>>> {
        let reservation = &self.reservation;
        let is_proven = reservation.is_proven();
        if !is_proven {
            // Before the look at whether it is ended, so that no end is missed.
            reservation.waiting.register(cx.waker());
            if reservation.is_ended() {
                return Poll::Ready(Some(Err(busy().into())));
            }
        }
        let polled = self.body.poll_next_unpin(cx);
        if polled.is_pending() {
            reservation.wait();
        }
        let Some(piece) = ready!(polled) else {
            reservation.finish();
            return Poll::Ready(None);
        };
        let piece = piece?;
        self.received += piece.len();
        if self.received > self.most_unproven && !is_proven {
            return Poll::Ready(Some(Err(TooLarge.into())));
        }
        reservation.grow_to(capacity(self.received))?;
        Poll::Ready(Some(Ok(piece)))
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
        let limits = Limits {
            all: 20 * STEP,
            large: 16 * STEP,
            of_neighborhood: 12 * STEP,
            of_user: 8 * STEP,
            unproven: 5 * STEP,
            unproven_of_neighborhood: 2 * STEP,
        };
        Arc::new(BodyMemory {
            limits,
            used: Mutex::default(),
        })
    }

    /// From a neighborhood of this number.
    fn enter(memory: &Arc<BodyMemory>, number: u8) -> Arc<Reservation> {
        Arc::new(memory.enter(IpAddr::from([192, 0, number, number])))
    }

    fn proven(memory: &Arc<BodyMemory>, number: u8, user: i64) -> Arc<Reservation> {
        let reservation = enter(memory, number);
        reservation.prove(UserId(user));
        reservation
    }

    /// A body that came so far, and no further.
    fn unfinished(memory: &Arc<BodyMemory>, number: u8) -> Arc<Reservation> {
        let reservation = enter(memory, number);
        assert!(reservation.grow_to(1).is_ok());
        reservation.wait();
        reservation
    }

    #[test]
    fn a_neighborhood_has_a_part_of_it_and_more_once_it_is_known() {
        let memory = memory();
        let (first, second) = (enter(&memory, 1), enter(&memory, 1));
        assert!(first.grow_to(1).is_ok() && second.grow_to(STEP).is_ok());
        assert!(first.grow_to(STEP).is_ok(), "it was there already");
        assert!(first.grow_to(STEP + 1).is_err());
        first.prove(UserId(1));
        assert!(first.grow_to(8 * STEP).is_ok());
        let third = proven(&memory, 1, 2);
        assert!(third.grow_to(4 * STEP).is_err(), "the neighborhood has no more");
        drop(first);
        assert!(third.grow_to(4 * STEP).is_ok());
        third.shrink_to(1);
        assert_eq!(memory.lock().all.bytes, 2 * STEP);
        drop((second, third));
        let used = memory.lock();
        assert!(used.neighborhoods.is_empty() && used.users.is_empty());
        assert_eq!((used.all.bytes, used.all.large, used.all.unproven), (0, 0, 0));
    }

    #[test]
    fn networks_beside_each_other_share_one_part() {
        let memory = memory();
        let held: Vec<_> = [
            "2001:db8:1:100::1",
            "2001:db8:1:200::1",
            "2001:db8:1:300::1",
            "2001:db8:2::1",
        ]
        .map(|text| memory.enter(text.parse().expect("an address")))
        .into_iter()
        .collect();
        let let_in: Vec<bool> = held.iter().map(|each| each.grow_to(1).is_ok()).collect();
        assert_eq!(let_in, [true, true, false, true]);
    }

    #[test]
    fn a_user_has_a_part_of_it_wherever_they_are() {
        let memory = memory();
        let held: Vec<_> = (1..5).map(|number| proven(&memory, number, 7)).collect();
        let let_in = held.iter().filter(|each| each.grow_to(4 * STEP).is_ok()).count();
        assert_eq!(let_in, 2);
        assert!(proven(&memory, 5, 8).grow_to(4 * STEP).is_ok());
    }

    #[test]
    fn large_bodies_leave_room_for_small_ones() {
        let memory = memory();
        let large: Vec<_> = (1..5).map(|number| proven(&memory, number, number.into())).collect();
        let let_in = large.iter().filter(|each| each.grow_to(SMALL + STEP).is_ok()).count();
        assert_eq!(let_in, 3);
        assert!(large[3].grow_to(SMALL).is_ok(), "that is small");
        assert!(enter(&memory, 9).grow_to(STEP).is_ok());
    }

    #[test]
    fn strangers_leave_room_for_others() {
        let memory = memory();
        let strangers: Vec<_> = (1..10).map(|number| enter(&memory, number)).collect();
        let let_in = strangers.iter().filter(|each| each.grow_to(STEP).is_ok()).count();
        assert_eq!(let_in, 5, "what has come to its end is not ended");
        let known: Vec<_> = (20..40).map(|number| proven(&memory, number, number.into())).collect();
        let let_in = known.iter().filter(|each| each.grow_to(STEP).is_ok()).count();
        assert_eq!(let_in, 15);
    }

    #[test]
    fn whoever_holds_most_loses_what_has_been_coming_for_longest() {
        let memory = memory();
        let held: Vec<_> = [1, 2, 2, 3, 3].map(|number| unfinished(&memory, number)).into();
        let ended = || -> Vec<bool> { held.iter().map(|each| each.is_ended()).collect() };
        held[3].finish();
        let new = enter(&memory, 4);
        assert!(new.grow_to(1).is_ok());
        let first = ended();
        assert!(first == [false, true, false, false, false] || first == [false, false, false, false, true]);
        assert!(enter(&memory, 5).grow_to(1).is_ok());
        assert!(!held[3].is_ended(), "all of it was there");
        drop((new, held));
        let used = memory.lock();
        assert_eq!((used.all.bytes, used.neighborhoods.len()), (0, 0));
    }

    #[test]
    fn a_neighbor_who_never_ends_makes_room() {
        let memory = memory();
        let held = [unfinished(&memory, 1), unfinished(&memory, 1)];
        assert!(held[0].grow_to(STEP + 1).is_err(), "not by ending what is newer");
        let new = enter(&memory, 1);
        assert!(new.grow_to(1).is_ok());
        assert!(held[1].is_ended() && held[1].grow_to(1).is_err());
    }

    #[test]
    fn whoever_is_known_is_not_ended() {
        let memory = memory();
        let held = unfinished(&memory, 1);
        held.prove(UserId(1));
        let others = [enter(&memory, 1), enter(&memory, 1), enter(&memory, 1)];
        let let_in = others.iter().filter(|each| each.grow_to(1).is_ok()).count();
        assert_eq!((let_in, held.is_ended()), (2, false));
    }

    #[test]
    fn a_body_hears_that_it_is_ended() {
        let memory = memory();
        let reservation = enter(&memory, 1);
        let first = stream::iter([Ok::<_, BoxError>(Bytes::from_static(b"{"))]);
        let mut body = counted(Body::from_stream(first.chain(stream::pending())), reservation, 10).into_data_stream();
        let mut cx = Context::from_waker(noop_waker_ref());
        assert!(matches!(body.poll_next_unpin(&mut cx), Poll::Ready(Some(Ok(_)))));
        assert!(body.poll_next_unpin(&mut cx).is_pending());
        let others = [enter(&memory, 1), enter(&memory, 1)];
        assert!(others.iter().all(|each| each.grow_to(1).is_ok()));
        assert!(matches!(body.poll_next_unpin(&mut cx), Poll::Ready(Some(Err(_)))));
    }
}
