//! Attempts that failed, and how many of them lock an address.

use std::net::IpAddr;

use auth::key::SecretHash;
use chrono::TimeDelta;

use super::sql;
use crate::clock::Time;
use crate::error::{Error, Result};
use crate::network::network;
use crate::text::Email;
use crate::transaction::WriteTx;

/// After this many failures in a row from one network an address is locked there, whether it has an account or not.
const MAX_FAILURES: i64 = 20;
/// The same from anywhere.
const MAX_FROM_ANYWHERE: i64 = 200;
const LOCK: TimeDelta = TimeDelta::minutes(10);
/// Failures that are older than this are forgotten.
const MEMORY: TimeDelta = TimeDelta::hours(1);

/// An attempt at an account.
pub(crate) struct Tried<'a> {
    pub(super) email: &'a Email,
    /// None: by somebody who knows the password already, and guesses what comes after it.
    pub(super) from: Option<IpAddr>,
    /// Whether the account was signed in to from there before. Those are not locked out by failures from anywhere else.
    pub(super) is_known: bool,
}

impl<'a> Tried<'a> {
    pub(crate) fn inside(email: &'a Email) -> Self {
        Self {
            email,
            from: None,
            is_known: false,
        }
    }

    /// What a failure is counted under, and how many lock: few from one network, so that nobody locks out somebody who is
    /// elsewhere, and more from anywhere. Failures from inside are a count of their own, or wrong passwords in between would
    /// hide them.
    ///
    /// Hashes, for the table shall not list the addresses that people tried.
    fn counters(&self) -> Vec<(SecretHash, i64)> {
        let Some(address) = self.from else {
            return vec![(inside(self.email), MAX_FAILURES)];
        };
        let mut counters = vec![(account_and_network(self.email, address), MAX_FAILURES)];
        if !self.is_known {
            counters.push((anywhere(self.email), MAX_FROM_ANYWHERE));
        }
        counters
    }
}

/// Counts an attempt against the address that is tried, from where it is tried, before anything is compared: of many that come
/// at once, no more are looked at than may fail. One that succeeds is taken back.
pub(crate) async fn count_attempt(db: &mut WriteTx, tried: &Tried<'_>) -> Result<()> {
    let now = db.now;
    sql::forget_old_failures(db, now - MEMORY).await?;
    refuse_locked(db, tried).await?;
    for (counted, most) in tried.counters() {
        let (failures, locked_until) = sql::add_failure(db, &counted).await?;
        expect_unlocked(locked_until, now)?;
        if failures % most == 0 {
            sql::lock(db, &counted, now + LOCK).await?;
        }
    }
    Ok(())
}

/// Whatever the failures were: each lock holds for all of signing in.
async fn refuse_locked(db: &mut WriteTx, tried: &Tried<'_>) -> Result<()> {
    let now = db.now;
    let counters = tried.counters().into_iter().map(|(counted, _)| counted);
    for counted in counters.chain([inside(tried.email)]) {
        expect_unlocked(sql::locked_until(db, &counted).await?, now)?;
    }
    Ok(())
}

fn expect_unlocked(locked_until: Option<Time>, now: Time) -> Result<()> {
    match locked_until {
        // An end that is farther ahead was written by a clock that was wrong.
        Some(end) if end > now && end <= now + LOCK => Err(Error::Throttled((end - now).to_std().unwrap_or_default())),
        _ => Ok(()),
    }
}

/// The attempt that was counted was none of a guesser's.
pub(crate) async fn uncount_attempt(db: &mut WriteTx, tried: &Tried<'_>) -> Result<()> {
    for (counted, most) in tried.counters() {
        sql::take_failure_back(db, &counted, most).await?;
    }
    Ok(())
}

/// Somebody has proven to be the one whose account it is: forgets the failures, and with them the lock, and remembers from
/// where they came.
pub(crate) async fn unlock(db: &mut WriteTx, email: &Email, from: Option<IpAddr>) -> Result<()> {
    let network = from.map(|address| account_and_network(email, address));
    // In the order in which attempts are counted, or two sign-ins at the same time could wait for each other.
    for counted in network.into_iter().chain([anywhere(email), inside(email)]) {
        sql::forget_failures(db, &counted).await?;
    }
    if let Some(network) = network {
        sql::remember_network(db, &network).await?;
    }
    Ok(())
}

pub(super) fn account_and_network(email: &Email, address: IpAddr) -> SecretHash {
    auth::key::hash(&format!("{} {}", email.key(), network(address)))
}

fn anywhere(email: &Email) -> SecretHash {
    auth::key::hash(&email.key())
}

fn inside(email: &Email) -> SecretHash {
    auth::key::hash(&format!("{} inside", email.key()))
}
