//! What one tenant has of a fair semaphore.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::super::caller::CredentialId;
use crate::id::UserId;
use crate::round::Round;

/// How many requests of one tenant can wait; further ones are rejected immediately. A user gets at most half of what the others
/// leave, and a credential at most half of what the user's others leave, so that none can lock the others out.
pub(super) const MAX_WAITING: usize = 1024;
/// Those who wait with one credential.
type Line<T> = VecDeque<oneshot::Sender<T>>;

/// `T` is what they wait for.
pub(super) struct TenantUse<T> {
    pub(super) held: usize,
    pub(super) waiting: Round<Option<UserId>, Round<Option<CredentialId>, Line<T>>>,
    pub(super) waiters: usize,
    pub(super) slow_until: Option<Instant>,
    /// How long a permit was held lately, and until when that is remembered.
    pub(super) usual: Duration,
    pub(super) known_until: Option<Instant>,
}

impl<T> TenantUse<T> {
    pub(super) fn is_slow(&self) -> bool {
        self.slow_until.is_some_and(|until| Instant::now() < until)
    }

    /// Whether another one may wait.
    pub(super) fn has_place_for(&self, user: Option<UserId>, credential: Option<CredentialId>) -> bool {
        let person = self.waiting.get(user);
        let of_person: usize = person.map_or(0, |person| person.queues().map(VecDeque::len).sum());
        let own = person
            .and_then(|person| person.get(credential))
            .map_or(0, VecDeque::len);
        let share = MAX_WAITING.saturating_sub(self.waiters - of_person).div_ceil(2);
        own < share.saturating_sub(of_person - own).div_ceil(2)
    }

    pub(super) fn is_over(&self) -> bool {
        let is_known = || self.known_until.is_some_and(|until| Instant::now() < until);
        self.held == 0 && self.waiters == 0 && !self.is_slow() && !is_known()
    }
}

impl<T> Default for TenantUse<T> {
    fn default() -> Self {
        Self {
            held: 0,
            waiting: Round::default(),
            waiters: 0,
            slow_until: None,
            usual: Duration::ZERO,
            known_until: None,
        }
    }
}
