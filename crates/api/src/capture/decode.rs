//! Unpacking and parsing a large body, on a thread where nobody waits for it, in memory that was reserved before.

use std::net::IpAddr;

use events::Time;
use events::capture::{
    Captured, Envelope, MAX_BYTES, Parameters, Refusal, claimed_size, estimate, is_json, parse, unpack,
};
use tokio::task::spawn_blocking;

use super::answers::{Refused, Result};
use super::budget::Reservation;
use super::readers::{Sender, Task};
use super::state::Capture;

/// A text that is so many times as long as when it was packed is unpacked again rather than kept while it waits.
const MUCH_LONGER: usize = 4;
/// How often it is.
const MAX_UNPACKED: usize = 3;

pub(super) fn is_much_longer(text: &[u8], packed: &[u8]) -> bool {
    text.len() > MUCH_LONGER * packed.len()
}

/// How many times as long as when it is packed a text usually is at most: events are about five times as long, and their batches up to ten times.
pub(super) const USUAL_RATIO: usize = 16;
/// How many times as long a text that is usual takes to be read, in memory. Where it takes more, there is little to read and much to do.
const USUAL_WORK: usize = 16;
/// Nothing shorter counts for its ratio.
const LEAST_SENT: usize = 256;

/// Whether a few bytes become something that takes long to read.
pub(super) fn is_costly(sent: usize, needed: usize) -> bool {
    needed > USUAL_RATIO * USUAL_WORK * sent.max(LEAST_SENT)
}

/// What it takes to read a body, apart from its bytes.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) parameters: Parameters,
    pub(super) address: IpAddr,
    pub(super) unnamed: Option<&'static str>,
    pub(super) now: Time,
}

impl Reading {
    pub(super) fn parse(&self, text: Vec<u8>) -> Result<Captured> {
        let envelope = Envelope {
            parameters: &self.parameters,
            address: Some(self.address),
            unnamed: self.unnamed,
            now: self.now,
        };
        Ok(parse(text, &envelope)?)
    }
}

/// The thread that works holds the turn and what is reserved, so that neither is free before it has ended.
pub(super) async fn decode(
    capture: &Capture,
    bytes: Vec<u8>,
    reservation: Reservation,
    reading: Reading,
) -> Result<(Captured, Reservation, Reading)> {
    let is_highly_compressed = claimed_size(&bytes).is_some_and(|size| size > USUAL_RATIO * bytes.len());
    let mut work = Work {
        is_highly_compressed,
        sent: bytes.len(),
        text: bytes,
        packed: None,
        needed: None,
        is_unpacked: false,
        unpacked: 0,
        reservation,
        reading,
    };
    loop {
        let turn = capture.readers.turn(Task::Read, work.sender()).await?;
        let running = spawn_blocking(move || {
            let outcome = work.run();
            drop(turn);
            outcome
        });
        match running.await.map_err(|_| Refused::Failed)?? {
            Outcome::Done(captured, work) => return Ok((captured, work.reservation, work.reading)),
            Outcome::HighlyCompressed(again) => work = *again,
            // What gzip only claims to need, or needed before, is not taken from others until it is its turn.
            Outcome::WaitsToUnpack(waiting, needed) => {
                work = *waiting;
                work.reservation.patiently(|mine| mine.has_room(needed)).await?;
            }
            Outcome::WaitsToParse(waiting, needed) => {
                work = *waiting;
                work.reservation.patiently(|mine| mine.grow(needed)).await?;
                work.needed = Some(needed);
            }
        }
    }
}

struct Work {
    /// Packed at first.
    text: Vec<u8>,
    /// Whether it becomes longer, or takes more, than is usual. If so, it waits with others of which that is known.
    is_highly_compressed: bool,
    sent: usize,
    /// What it was, if that is much less.
    packed: Option<Vec<u8>>,
    is_unpacked: bool,
    /// How often.
    unpacked: usize,
    /// What parsing takes, once it is reserved.
    needed: Option<usize>,
    reservation: Reservation,
    reading: Reading,
}

/// Others may have the memory that this needs: it goes on when they give it back.
enum Outcome {
    Done(Captured, Box<Work>),
    /// It becomes longer, or takes more, than is usual.
    HighlyCompressed(Box<Work>),
    WaitsToUnpack(Box<Work>, usize),
    WaitsToParse(Box<Work>, usize),
}

impl Work {
    fn sender(&self) -> Sender {
        Sender {
            is_highly_compressed: self.is_highly_compressed,
            ..self.reservation.sender()
        }
    }

    /// How long it may become in this line.
    fn most(&self) -> usize {
        if self.is_highly_compressed {
            MAX_BYTES
        } else {
            (USUAL_RATIO * self.sent).min(MAX_BYTES)
        }
    }

    fn run(mut self) -> Result<Outcome> {
        if !self.is_unpacked {
            let claimed = claimed_size(&self.text).unwrap_or_default().min(self.most());
            match self.reservation.grow(claimed) {
                Ok(()) => match self.unpack(claimed) {
                    Err(Refused::Body(Refusal::TooLarge)) if !self.is_highly_compressed => {
                        self.reservation.shrink_to(self.text.capacity());
                        return Ok(self.wait_with_highly_compressed());
                    }
                    unpacked => unpacked?,
                },
                Err(Refused::Busy) => return Ok(Outcome::WaitsToUnpack(Box::new(self), claimed)),
                Err(refused) => return Err(refused),
            }
        }
        let needed = if let Some(reserved) = self.needed {
            reserved
        } else {
            let needed = estimate(&self.text);
            if !self.is_highly_compressed && is_costly(self.sent, needed) {
                self.repack();
                return Ok(self.wait_with_highly_compressed());
            }
            match self.reservation.grow(needed) {
                Ok(()) => needed,
                Err(Refused::Busy) => return self.wait(needed),
                Err(refused) => return Err(refused),
            }
        };
        self.packed = None;
        let captured = self.reading.parse(std::mem::take(&mut self.text))?;
        self.reservation.shrink_to(needed);
        Ok(Outcome::Done(captured, Box::new(self)))
    }

    /// Whoever waits for memory keeps others from what it has: a few kilobytes that became megabytes are a few kilobytes again.
    fn wait(mut self, needed: usize) -> Result<Outcome> {
        if self.packed.is_none() {
            return Ok(Outcome::WaitsToParse(Box::new(self), needed));
        }
        if self.unpacked == MAX_UNPACKED {
            return Err(Refused::Busy);
        }
        let needed = needed + self.text.len();
        self.repack();
        Ok(Outcome::WaitsToUnpack(Box::new(self), needed))
    }

    fn wait_with_highly_compressed(mut self) -> Outcome {
        self.is_highly_compressed = true;
        self.unpacked = 0;
        Outcome::HighlyCompressed(Box::new(self))
    }

    /// Makes it what it was, if that is much less.
    fn repack(&mut self) {
        if let Some(packed) = self.packed.take() {
            self.text = packed;
            self.is_unpacked = false;
            self.reservation.shrink_to(self.text.capacity());
        }
    }

    /// `expected` bytes are reserved already for what is unpacked.
    fn unpack(&mut self, mut expected: usize) -> Result<()> {
        let most = self.most();
        let reservation = &mut self.reservation;
        let mut allocate = |bytes: usize| {
            let reserved = bytes.min(expected);
            expected -= reserved;
            reservation.grow(bytes - reserved)
        };
        if !is_json(&self.text) {
            let text = unpack(&self.text, most, &mut allocate)?;
            let packed = std::mem::replace(&mut self.text, text);
            self.packed = is_much_longer(&self.text, &packed).then_some(packed);
        }
        let kept = self.packed.as_ref().map_or(0, Vec::capacity);
        self.reservation.shrink_to(self.text.capacity() + kept);
        self.is_unpacked = true;
        self.unpacked += 1;
        Ok(())
    }
}
