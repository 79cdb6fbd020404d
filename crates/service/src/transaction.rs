//! The transaction of a use case, which also records what was done and settles the idempotency claim.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU16, Ordering};

use auth::encryption::Encryptor;
use uuid::Uuid;

use crate::access::Actor;
use crate::activity::{self, Budget, Entry};
use crate::clock::{Clock, RandomSource, Time, time_ordered_uuid};
use crate::db::{Session, Store};
use crate::error::Result;
use crate::id::ActivityId;
use crate::idempotency;

/// A transaction of a use case, with the one moment it happens at.
pub(crate) struct WriteTx {
    session: Session,
    pub(crate) now: Time,
    pub(crate) random: RandomSource,
    budget: Budget,
    made: AtomicU16,
}

impl Deref for WriteTx {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.session
    }
}

impl DerefMut for WriteTx {
    fn deref_mut(&mut self) -> &mut Session {
        &mut self.session
    }
}

impl WriteTx {
    /// Begins one. Dropped without [`WriteTx::commit`], it leaves no trace.
    pub(crate) async fn begin(store: &Store, clock: &Clock, random: RandomSource, budget: Budget) -> Result<Self> {
        let session = store.begin().await?;
        Ok(Self {
            session,
            // Not when it was asked for: many may have come before.
            now: clock.now(),
            random,
            budget,
            made: AtomicU16::new(0),
        })
    }

    pub(crate) fn uuid(&self) -> Uuid {
        // What is made in one transaction, at one moment, sorts in the order it was made in.
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        time_ordered_uuid(self.now, number, self.random.bytes())
    }

    /// Encrypts a secret for the one place it is kept in.
    pub(crate) fn encrypt(&self, encryptor: &Encryptor, place: &str, plain: &[u8]) -> Vec<u8> {
        encryptor.encrypt(place, plain, self.random.bytes())
    }

    /// Codes for people to print out and keep, as they are compared.
    pub(crate) fn recovery_codes(&self) -> Vec<String> {
        auth::totp::recovery::recovery_codes(std::array::from_fn(|_| self.random.bytes()))
    }

    /// Records entries before the end, for those that another one is the actor of.
    pub(crate) async fn record(&mut self, actor: &Actor, entries: &[Entry]) -> Result<()> {
        let rows: Vec<(ActivityId, &Entry)> = entries.iter().map(|entry| (ActivityId(self.uuid()), entry)).collect();
        if rows.is_empty() {
            return Ok(());
        }
        self.budget.take(actor, entries)?;
        activity::insert(&mut self.session, actor, &rows, self.now).await
    }

    /// Ends the use case: its activity entries and idempotency claim are written with it or not at all.
    ///
    /// Bookkeeping aside there is no other way to commit, so no action goes unrecorded. A dry run goes through all of
    /// it and is then undone.
    pub(crate) async fn commit(mut self, actor: &Actor, entries: &[Entry]) -> Result<()> {
        self.record(actor, entries).await?;
        if let Some(claim) = &actor.request.claim {
            idempotency::settle(&mut self.session, claim).await?;
        }
        if actor.request.is_dry_run {
            self.session.undo().await
        } else {
            self.session.commit().await
        }
    }

    /// Commits bookkeeping that is nobody's action: leases, time stamps of use, clearing away.
    pub(crate) async fn commit_unrecorded(self) -> Result<()> {
        self.commit(&Actor::system(), &[]).await
    }
}
