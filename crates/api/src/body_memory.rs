//! How much memory the bodies of requests may use at once: all together, and those of one network. Bytes count from when
//! they arrive until the request is answered. Bodies with events have a budget of their own.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::BoxError;
use axum::body::Body;
use futures_util::StreamExt;
use service::sign_in::network;

const MB: usize = 1024 * 1024;
/// The longest body of somebody who has shown no credential.
pub(crate) const MOST_UNPROVEN_BYTES: usize = 64 * 1024;
/// Memory is reserved in steps of this size, so that a body in tiny pieces does not ask for each.
const STEP: usize = 4 * 1024;
/// When to try again.
const WAIT: Duration = Duration::from_secs(5);

/// In bytes. Unproven are bodies of whoever has shown no valid credential.
#[derive(Debug, Clone, Copy)]
struct Limits {
    all: usize,
    of_network: usize,
    unproven: usize,
    unproven_of_network: usize,
}

const LIMITS: Limits = Limits {
    all: 256 * MB,
    of_network: 64 * MB,
    unproven: 128 * MB,
    unproven_of_network: 8 * MB,
};

#[derive(Debug)]
pub(crate) struct BodyMemory {
    limits: Limits,
    used: Mutex<Used>,
}

#[derive(Debug, Default)]
struct Used {
    all: Share,
    networks: HashMap<IpAddr, Share>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Share {
    bytes: usize,
    unproven: usize,
}

/// The part of one request, given back when dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    memory: Arc<BodyMemory>,
    network: IpAddr,
    /// Both are changed under the lock of the memory.
    bytes: AtomicUsize,
    is_proven: AtomicBool,
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
            network: network(address),
            bytes: AtomicUsize::new(0),
            is_proven: AtomicBool::new(false),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Share {
    /// With one part of it as it was exchanged for another.
    fn with(self, before: Self, after: Self) -> Self {
        Self {
            bytes: self.bytes + after.bytes - before.bytes,
            unproven: self.unproven + after.unproven - before.unproven,
        }
    }
}

impl Reservation {
    fn is_proven(&self) -> bool {
        self.is_proven.load(Ordering::Relaxed)
    }

    /// What a request with so many bytes counts as.
    fn share(bytes: usize, is_proven: bool) -> Share {
        Share {
            bytes,
            unproven: if is_proven { 0 } else { bytes },
        }
    }

    /// The request is that of a known user.
    pub(crate) fn prove(&self) {
        let mut used = self.memory.lock();
        let _ = self.change(&mut used, self.bytes.load(Ordering::Relaxed), true);
    }

    /// Makes room for so many bytes more, such as what is built from those that came.
    pub(crate) fn grow(&self, bytes: usize) -> Result<(), service::Error> {
        self.grow_to(self.bytes.load(Ordering::Relaxed).saturating_add(bytes))
    }

    /// Makes room for so many bytes in all.
    fn grow_to(&self, received: usize) -> Result<(), service::Error> {
        if received <= self.bytes.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut used = self.memory.lock();
        let is_within = self.change(&mut used, received.next_multiple_of(STEP), self.is_proven());
        if is_within { Ok(()) } else { Err(busy()) }
    }

    /// Counts the request anew, unless it would then be more than is allowed. Less is always allowed.
    fn change(&self, used: &mut Used, bytes: usize, is_proven: bool) -> bool {
        let before = Self::share(self.bytes.load(Ordering::Relaxed), self.is_proven());
        let after = Self::share(bytes, is_proven);
        let of_network = used.networks.get(&self.network).copied().unwrap_or_default();
        let (all, of_network) = (used.all.with(before, after), of_network.with(before, after));
        let limits = self.memory.limits;
        let is_within = all.bytes <= limits.all
            && of_network.bytes <= limits.of_network
            && (is_proven || all.unproven <= limits.unproven)
            && (is_proven || of_network.unproven <= limits.unproven_of_network);
        if !is_within && after.bytes > before.bytes {
            return false;
        }
        used.all = all;
        if of_network.bytes == 0 {
            used.networks.remove(&self.network);
        } else {
            used.networks.insert(self.network, of_network);
        }
        self.bytes.store(bytes, Ordering::Relaxed);
        self.is_proven.store(is_proven, Ordering::Relaxed);
        true
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.bytes.load(Ordering::Relaxed) > 0 {
            let mut used = self.memory.lock();
            self.change(&mut used, 0, self.is_proven());
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
    let mut received = 0;
    let pieces = body.into_data_stream().map(move |piece| {
        let piece = piece?;
        received += piece.len();
        if received > most_unproven && !reservation.is_proven() {
            return Err(TooLarge.into());
        }
        reservation.grow_to(received)?;
        Ok::<_, BoxError>(piece)
    });
    Body::from_stream(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory() -> Arc<BodyMemory> {
        let limits = Limits {
            all: 10 * STEP,
            of_network: 6 * STEP,
            unproven: 5 * STEP,
            unproven_of_network: 2 * STEP,
        };
        Arc::new(BodyMemory {
            limits,
            used: Mutex::default(),
        })
    }

    #[test]
    fn a_network_has_a_part_of_it_and_more_once_it_is_known() {
        let memory = memory();
        let enter = |last: u8| memory.enter(IpAddr::from([192, 0, 2, last]));
        let (first, second) = (enter(1), enter(1));
        assert!(first.grow_to(1).is_ok() && second.grow_to(STEP).is_ok());
        assert!(first.grow_to(STEP).is_ok(), "it was there already");
        assert!(first.grow_to(STEP + 1).is_err());
        first.prove();
        assert!(first.grow_to(5 * STEP).is_ok());
        assert!(first.grow_to(6 * STEP).is_err(), "the network has no more");
        let third = enter(1);
        assert!(third.grow_to(1).is_err());
        drop(first);
        assert!(third.grow_to(1).is_ok());
        drop((second, third));
        let used = memory.lock();
        assert!(used.networks.is_empty() && used.all.bytes == 0 && used.all.unproven == 0);
    }

    #[test]
    fn strangers_leave_room_for_others() {
        let memory = memory();
        let enter = |last: u8| memory.enter(IpAddr::from([192, 0, 2, last]));
        let strangers: Vec<_> = (1..10).map(enter).collect();
        let let_in = strangers.iter().filter(|each| each.grow_to(STEP).is_ok()).count();
        assert_eq!(let_in, 5);
        let known: Vec<_> = (20..30).map(enter).collect();
        known.iter().for_each(Reservation::prove);
        let let_in = known.iter().filter(|each| each.grow_to(STEP).is_ok()).count();
        assert_eq!(let_in, 5);
    }
}
