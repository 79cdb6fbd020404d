//! The bytes of one body as they are put together, in memory that was reserved before.

use bytes::Bytes;
use service::teams::TeamToken;

use super::answers::Result;
use super::budget::Reservation;
use super::decode::Reading;
use super::state::Capture;
use crate::http::receive::Receiver;

/// Reading a body up to this size takes so little time that nobody waits for it.
pub(super) const SMALL: usize = 64 * 1024;

pub(super) struct Upload<'a> {
    pub(super) capture: &'a Capture,
    pub(super) receiver: &'a mut Receiver,
    pub(super) reservation: Reservation,
    pub(super) reading: Reading,
    /// The token that was found, and the team that has it.
    pub(super) authenticated: Option<(String, TeamToken)>,
    /// Whether there was a token that no team has.
    pub(super) has_candidate: bool,
}

impl Upload<'_> {
    /// All of a small body, or the beginning of a larger one. What was announced does not count, only what is there.
    pub(super) async fn start(&mut self, mut bytes: Vec<u8>) -> Result<Vec<u8>> {
        if !self.receiver.is_finished() {
            self.reserve(bytes.capacity()).await?;
        }
        while bytes.len() <= SMALL
            && let Some(more) = self.receiver.next().await?
        {
            self.push(&mut bytes, &more).await?;
        }
        Ok(bytes)
    }

    pub(super) async fn receive_rest(&mut self, bytes: &mut Vec<u8>) -> Result<()> {
        while let Some(more) = self.receiver.next().await? {
            self.push(bytes, &more).await?;
        }
        Ok(())
    }

    pub(super) async fn push(&mut self, bytes: &mut Vec<u8>, more: &Bytes) -> Result<()> {
        if bytes.capacity() - bytes.len() < more.len() {
            let grown = (bytes.len() / 2).max(more.len());
            self.reserve(grown).await?;
            bytes.reserve_exact(grown);
        }
        bytes.extend_from_slice(more);
        Ok(())
    }

    pub(super) async fn reserve(&mut self, bytes: usize) -> Result<()> {
        self.reservation.patiently(|mine| mine.grow(bytes)).await
    }
}
