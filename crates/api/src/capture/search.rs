//! The search for a token in what has arrived of a body.

use events::capture::{FIRST_SCANNED_BYTES, Progress, Refusal, TokenScan, unpack};
use tokio::task::spawn_blocking;

use super::answers::{Refused, Result};
use super::budget::Reservation;
use super::decode::is_much_longer;
use super::readers::{Sender, Task};
use super::state::Capture;

/// What is searched for a token in one go.
const PIECE: usize = 32 * 1024;
/// The memory that takes.
pub(super) const SCANNER: usize = 128 * 1024;

/// Searches a part of these bytes, and says how many. Few may unpack to many, so that is done where nobody waits for it,
/// not too much of it in one turn; and who has shown nothing for long waits behind those who come.
pub(super) async fn search(
    capture: &Capture,
    sender: Sender,
    mut scan: TokenScan,
    bytes: &[u8],
) -> Result<(TokenScan, usize)> {
    let piece = &bytes[..bytes.len().min(PIECE)];
    if !scan.will_unpack(piece) {
        scan.feed(piece);
        return Ok((scan, piece.len()));
    }
    let is_first = scan.seen() < FIRST_SCANNED_BYTES;
    let task = if is_first { Task::Search } else { Task::LongSearch };
    let turn = capture.readers.turn(task, sender).await?;
    let piece = piece.to_vec();
    let searching = spawn_blocking(move || {
        let taken = scan.feed_some(&piece);
        drop(turn);
        (scan, taken)
    });
    searching.await.map_err(|_| Refused::Failed)
}

/// A body that could be read only as a whole, unpacked and searched.
pub(super) struct Opened {
    /// As it came, if that is much less than what it holds.
    pub(super) bytes: Vec<u8>,
    pub(super) scan: TokenScan,
    pub(super) progress: Progress,
}

/// None: it is larger than `most`. The thread that works holds the turn and what is reserved: if the sender hangs up, neither
/// is free before it has ended.
pub(super) async fn open(
    capture: &Capture,
    mut reservation: Reservation,
    bytes: Vec<u8>,
    most: usize,
    task: Task,
) -> Result<(Reservation, Option<Opened>)> {
    let turn = capture.readers.turn(task, reservation.sender()).await?;
    let working = spawn_blocking(move || {
        let unpacked = unpack(&bytes, most, &mut |more| reservation.grow(more));
        let opened = match unpacked {
            Ok(text) => {
                let (scan, progress) = searched(&text);
                let bytes = if is_much_longer(&text, &bytes) { bytes } else { text };
                reservation.shrink_to(bytes.capacity());
                Some(Opened { bytes, scan, progress })
            }
            Err(Refused::Body(Refusal::TooLarge)) => None,
            Err(refused) => return Err(refused),
        };
        drop(turn);
        Ok((reservation, opened))
    });
    working.await.map_err(|_| Refused::Failed)?
}

pub(super) fn searched(text: &[u8]) -> (TokenScan, Progress) {
    let mut scan = TokenScan::default();
    let progress = match scan.feed(text) {
        Progress::Searching => scan.end(),
        other => other,
    };
    (scan, progress)
}
