//! Unpacking and parsing a large body, on a thread where nobody waits for it, in memory that was reserved before.

use events::capture::{Captured, MOST_BYTES, estimate, unpack};
use tokio::task::spawn_blocking;

use super::Capture;
use super::answers::Refused;
use super::budget::Reservation;
use super::upload::{Reading, Result};

/// `expected` bytes are reserved already for what is unpacked.
pub(super) async fn decode(
    capture: &Capture,
    bytes: Vec<u8>,
    expected: usize,
    reservation: Reservation,
    reading: Reading,
) -> Result<(Captured, Reservation, Reading)> {
    let mut work = Work {
        text: bytes,
        expected,
        needed: None,
        reservation,
        reading,
    };
    loop {
        let turn = capture.readers.acquire().await.map_err(|_| Refused::Failed)?;
        let outcome = spawn_blocking(|| work.run()).await.map_err(|_| Refused::Failed)??;
        drop(turn);
        match outcome {
            Outcome::Done(captured, work) => return Ok((captured, work.reservation, work.reading)),
            Outcome::Waits(waiting, needed) => {
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
    expected: usize,
    /// What parsing takes, once it is reserved.
    needed: Option<usize>,
    reservation: Reservation,
    reading: Reading,
}

enum Outcome {
    Done(Captured, Box<Work>),
    /// Others have the memory that this needs: it goes on when they give it back.
    Waits(Box<Work>, usize),
}

impl Work {
    fn run(mut self) -> Result<Outcome> {
        let needed = if let Some(reserved) = self.needed {
            reserved
        } else {
            self.unpack()?;
            let needed = estimate(&self.text);
            match self.reservation.grow(needed) {
                Ok(()) => needed,
                Err(Refused::Busy) => return Ok(Outcome::Waits(Box::new(self), needed)),
                Err(refused) => return Err(refused),
            }
        };
        let captured = self.reading.parse(std::mem::take(&mut self.text))?;
        self.reservation.shrink_to(needed);
        Ok(Outcome::Done(captured, Box::new(self)))
    }

    fn unpack(&mut self) -> Result<()> {
        let (mut expected, reservation) = (self.expected, &mut self.reservation);
        let mut allocate = |bytes: usize| {
            let reserved = bytes.min(expected);
            expected -= reserved;
            reservation.grow(bytes - reserved)
        };
        self.text = unpack(std::mem::take(&mut self.text), MOST_BYTES, &mut allocate)?;
        self.reservation.shrink_to(self.text.capacity());
        Ok(())
    }
}
