//! Handing events to apps: each configuration is held by one worker at a time, which knows how far it has got.

use boxed::boxed;
use chrono::TimeDelta;

use super::runnable::Runnable;
use super::sql::configs::Configs;
use super::types::{AppConfig, AppLogLevel, Cursor, DueAfter, DueApp, MAX_FAILURES, MAX_STARTS};
use super::{logs, schedule, sql};
use crate::Service;
use crate::access::Actor;
use crate::activity::Entry;
use crate::clock::Time;
use crate::error::Result;
use crate::id::{AppConfigId, WorkerId};
use crate::lease::{Backoff, Lease};
use crate::mail::{self, EmailMessage};
use crate::transaction::WriteTx;
use crate::{members, organizations};

const RETRY: Backoff = Backoff {
    first: TimeDelta::seconds(5),
    factor: 2,
    longest: TimeDelta::minutes(10),
};
/// How often one event is tried when the app asks for it; after that it is given up.
const MAX_TRIES: i64 = 10;

/// A configuration that somebody holds.
#[derive(Debug, Clone)]
pub struct AppJob {
    pub runnable: Runnable,
    lease: Lease,
}

impl AppJob {
    pub fn cursor(&self) -> Cursor {
        let AppConfig {
            delivered_until,
            delivered_count,
            ..
        } = self.runnable.config;
        Cursor {
            until: delivered_until,
            count: delivered_count,
        }
    }
}

/// How a batch ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// How far it got; the event there is the next.
    pub cursor: Cursor,
    /// How many events failed one after the other, up to there.
    pub failures: i64,
    /// What the latest of them said.
    pub error: Option<String>,
    /// Where it would go on if the event that has to wait were given up.
    pub beyond: Option<Cursor>,
    pub stop: Stop,
}

/// Why a batch ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// There is no more, or it was long enough.
    Done,
    /// The next event is to be tried again later.
    Retry,
    /// Others needed its permit or its memory. That is no failure of the app, and nothing is given up for it.
    Preempted,
    /// The app could not be started.
    Start,
}

impl Service {
    /// Configurations that wait for events and that nobody holds, one organization's after the other's.
    #[boxed]
    pub async fn due_apps(&self, after: &DueAfter, limit: i64) -> Result<Vec<DueApp>> {
        let now = self.core.clock.now();
        sql::configs::due(&mut self.core.store.read().await?, now, after, limit).await
    }

    /// Which of these configurations are there and enabled.
    #[boxed]
    pub async fn app_configs_in_use(&self, ids: &[AppConfigId]) -> Result<Vec<AppConfigId>> {
        let mut db = self.core.store.read().await?;
        let mut enabled = Vec::new();
        for &id in ids {
            let config = sql::configs::any(&mut db, id).await?;
            enabled.extend(config.filter(|config| config.enabled).map(|config| config.id));
        }
        Ok(enabled)
    }

    /// Takes a configuration, unless somebody else was faster.
    #[boxed]
    pub async fn claim_app(&self, worker: WorkerId, id: AppConfigId) -> Result<Option<AppJob>> {
        let mut db = self.write().await?;
        let now = db.now;
        let is_due = |config: &AppConfig| config.enabled && config.due_at.is_some_and(|due| due <= now);
        let Some(mut config) = sql::configs::lock(&mut db, id).await?.filter(is_due) else {
            return Ok(None);
        };
        let lease = Lease::next(worker, config.attempt);
        config.attempt = lease.attempt;
        config.due_at = Some(Lease::ends_at(now));
        sql::configs::save(&mut db, &config).await?;
        sql::configs::hold(&mut db, id, Some(worker)).await?;
        db.commit_unrecorded().await?;
        let runnable = self.runnable(config).await?;
        Ok(runnable.map(|runnable| AppJob { runnable, lease }))
    }

    /// A heartbeat, and how far it has got. False: the lease is lost, and the batch must be abandoned.
    #[boxed]
    pub async fn renew_app_lease(&self, job: &AppJob, cursor: &Cursor) -> Result<bool> {
        let mut db = self.write().await?;
        let until = Lease::ends_at(db.now);
        let id = job.runnable.config.id;
        let is_held = sql::configs::keep(&mut db, id, job.lease, cursor, until).await?;
        db.commit_unrecorded().await?;
        Ok(is_held)
    }

    /// Writes down how a batch ended. False: it was no longer held, and nothing was written.
    #[boxed]
    pub async fn end_app_batch(&self, job: &AppJob, step: &Step) -> Result<bool> {
        let mut db = self.write().await?;
        let is_held = |config: &AppConfig| config.attempt == job.lease.attempt && config.enabled;
        let id = job.runnable.config.id;
        let Some(mut config) = sql::configs::lock(&mut db, id).await?.filter(is_held) else {
            return Ok(false);
        };
        let before = config.clone();
        let is_over = config.end_batch(step, step.cursor != job.cursor(), db.now);
        let mut entries = Vec::new();
        if is_over {
            (config.enabled, config.due_at) = (false, None);
            config.updated_at = db.now;
            entries.extend(Entry::updated(&before, &config).map(|entry| entry.named("disabled")));
            self.tell_of_end(&mut db, &config).await?;
        }
        sql::configs::save(&mut db, &config).await?;
        if is_over {
            schedule::schedule(&mut db, Configs::one(&config), &[]).await?;
        }
        sql::configs::hold(&mut db, id, None).await?;
        db.commit(&Actor::system(), &entries).await?;
        Ok(true)
    }

    async fn tell_of_end(&self, db: &mut WriteTx, config: &AppConfig) -> Result<()> {
        let error = config.latest_error.clone().unwrap_or_default();
        let message = format!("The app was disabled after repeated failures. Latest error: {error}");
        logs::say(db, config, AppLogLevel::Error, &message).await?;
        let email = EmailMessage::AppDisabled {
            organization: organizations::sql::name(db, config.organization_id).await?,
            app: config.app_name.clone(),
            error,
        };
        let admins = members::administrators(db, config.organization_id).await?;
        let addresses = admins.into_iter().map(|user| user.email).collect();
        mail::notify(db, &self.core.instance, config.organization_id, &email, addresses).await
    }
}

impl AppConfig {
    /// True: it failed too often, and is to be disabled.
    fn end_batch(&mut self, step: &Step, has_moved: bool, now: Time) -> bool {
        (self.delivered_until, self.delivered_count) = (step.cursor.until, step.cursor.count);
        self.failures = step.failures;
        self.due_at = Some(now);
        if has_moved || step.stop == Stop::Done {
            self.tries = 0;
        }
        self.latest_error = match (&step.error, step.stop) {
            // Lists show it of every configuration.
            (Some(error), _) => Some(error.chars().filter(|&c| c != '\0').take(logs::MAX_LENGTH).collect()),
            // Something got through: what was wrong is over.
            (None, Stop::Done) if step.failures == 0 => None,
            (None, _) => self.latest_error.clone(),
        };
        match step.stop {
            Stop::Done => {}
            Stop::Preempted => self.due_at = Some(now + RETRY.first),
            Stop::Start => {
                self.tries += 1;
                self.due_at = Some(now + RETRY.after(self.tries));
                return self.tries >= MAX_STARTS;
            }
            Stop::Retry => {
                self.tries += 1;
                self.due_at = Some(now + RETRY.after(self.tries));
                if self.tries >= MAX_TRIES {
                    // This one is given up; the next may do better.
                    let Cursor { until, count } = step.beyond.unwrap_or(step.cursor);
                    (self.delivered_until, self.delivered_count) = (until, count);
                    self.failures += 1;
                    (self.tries, self.due_at) = (0, Some(now));
                }
            }
        }
        self.failures >= MAX_FAILURES
    }
}
