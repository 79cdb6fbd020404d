//! What apps do without an event: every minute, hour or day, or because they asked for it.

use boxed::boxed;
use chrono::TimeDelta;

use super::runnable::Runnable;
use super::schedule::next_turn;
use super::types::{AppConfig, AppLogLevel, TaskKind, Waiting};
use super::{logs, sql};
use crate::Service;
use crate::clock::Time;
use crate::error::{Error, Result};
use crate::id::{AppTaskId, OrganizationId, WorkerId};
use crate::lease::{Backoff, Lease};
use crate::transaction::WriteTx;

/// So many jobs may wait for one configuration.
const MAX_WAITING: i64 = 1000;
const MAX_PAYLOAD: usize = 256 * 1024;
const MAX_JOB_NAME: usize = 1000;
/// Names, payloads and rows of the jobs that wait: of one configuration, and of all of an organization. Several that queue at the same moment
/// may go beyond the latter by one job each.
const MAX_BYTES: i64 = 16 << 20;
const MAX_OF_ORGANIZATION: i64 = 64 << 20;
/// What a job counts for besides. Jobs are deleted with their organization, so that there must not be many thousands of them.
const ROW_SIZE: usize = 8 * 1024;
/// A configuration may have this many jobs done in a minute, all at once if it likes. What it queues beyond that is
/// done later, so that a job that queues itself does not keep the server busy.
const JOBS_A_MINUTE: i64 = 300;
const JOBS_AHEAD: TimeDelta = TimeDelta::minutes(1);
const JOB_EVERY: TimeDelta = TimeDelta::milliseconds(60_000 / JOBS_A_MINUTE);
/// How often a job is tried when it asks for it.
const MAX_TRIES: i64 = 5;
const RETRY: Backoff = Backoff {
    first: TimeDelta::seconds(10),
    factor: 2,
    longest: TimeDelta::minutes(10),
};

/// Something that somebody carries out.
#[derive(Debug, Clone)]
pub struct AppTask {
    pub id: AppTaskId,
    pub kind: TaskKind,
    pub name: String,
    /// JSON, as it was written.
    pub payload: String,
    pub runnable: Runnable,
    lease: Lease,
}

/// How a task went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskOutcome<'a> {
    Done,
    Failed {
        error: &'a str,
        is_retryable: bool,
    },
    /// Others needed its permit or its memory, or there was no room for it. That is no failure of the app: it starts again, with as many tries as
    /// before.
    Postponed {
        reason: &'a str,
    },
}

impl Service {
    /// Those that have a task due that may begin.
    #[boxed]
    pub async fn organizations_with_due_tasks(&self) -> Result<Vec<OrganizationId>> {
        let now = self.core.clock.now();
        let mut db = self.core.store.read().await?;
        if !sql::tasks::is_due(&mut db, now).await? {
            return Ok(Vec::new());
        }
        sql::tasks::due_organizations(&mut db, now).await
    }

    /// Takes the task that has waited longest for the organization. A configuration has one at a time.
    #[boxed]
    pub async fn claim_app_task(&self, worker: WorkerId, organization: OrganizationId) -> Result<Option<AppTask>> {
        let mut db = self.write().await?;
        // Others may have been faster.
        let Some(waiting) = sql::tasks::lock_due(&mut db, organization).await? else {
            return Ok(None);
        };
        let lease = Lease::next(worker, waiting.attempt);
        let until = Lease::ends_at(db.now);
        sql::tasks::hold(&mut db, waiting.id, Some(worker), lease.attempt, until).await?;
        let config = sql::configs::any(&mut db, waiting.config).await?;
        let Some(config) = config.filter(|config| config.enabled) else {
            waiting.forget(&mut db).await?;
            db.commit_unrecorded().await?;
            return Ok(None);
        };
        db.commit_unrecorded().await?;
        let runnable = self.runnable(config).await?;
        Ok(runnable.map(|runnable| AppTask {
            id: waiting.id,
            kind: waiting.kind,
            name: waiting.name,
            payload: waiting.payload,
            runnable,
            lease,
        }))
    }

    /// Writes down how a task went: scheduled ones wait for their next turn, jobs are done, or tried again.
    #[boxed]
    pub async fn end_app_task(&self, task: &AppTask, outcome: TaskOutcome<'_>) -> Result<()> {
        let mut db = self.write().await?;
        if !sql::tasks::is_held(&mut db, task.id, task.lease).await? {
            return Ok(());
        }
        let config = &task.runnable.config;
        match outcome {
            TaskOutcome::Done => {}
            TaskOutcome::Failed { error, .. } => {
                let message = format!("{} failed: {error}", task.name);
                logs::say(&mut db, config, AppLogLevel::Error, &message).await?;
            }
            TaskOutcome::Postponed { reason } => {
                let message = format!("{} was postponed: {reason}", task.name);
                logs::say(&mut db, config, AppLogLevel::Warn, &message).await?;
            }
        }
        if let Some((attempt, due_at)) = task.due_after(outcome, db.now) {
            sql::tasks::hold(&mut db, task.id, None, attempt, due_at).await?;
        } else {
            sql::tasks::delete(&mut db, task.id).await?;
            let bytes = job_size(&task.name, &task.payload);
            sql::usage::add_payload(&mut db, config.id, -bytes).await?;
        }
        db.commit_unrecorded().await
    }

    /// A heartbeat. False: the lease is lost, and the task must be abandoned.
    #[boxed]
    pub async fn renew_task_lease(&self, task: &AppTask) -> Result<bool> {
        let mut db = self.write().await?;
        let is_held = sql::tasks::is_held(&mut db, task.id, task.lease).await?;
        if is_held {
            let Lease { worker, attempt } = task.lease;
            let until = Lease::ends_at(db.now);
            sql::tasks::hold(&mut db, task.id, Some(worker), attempt, until).await?;
        }
        db.commit_unrecorded().await?;
        Ok(is_held)
    }

    /// What an app asked for, to be done at a time. The payload is JSON.
    #[boxed]
    pub async fn queue_app_job(&self, config: &AppConfig, name: &str, payload: &str, at: Time) -> Result<()> {
        if payload.len() > MAX_PAYLOAD || name.len() > MAX_JOB_NAME {
            return Err(Error::refused(
                "job_size",
                format!("job payloads have at most {MAX_PAYLOAD} bytes"),
            ));
        }
        if name.contains('\0') {
            return Err(Error::refused("job_name", "job names cannot contain null characters"));
        }
        let mut db = self.write().await?;
        if sql::tasks::count_jobs(&mut db, config.id).await? >= MAX_WAITING {
            return Err(Error::refused(
                "jobs_full",
                format!("at most {MAX_WAITING} jobs can be queued"),
            ));
        }
        let earliest = count_job(&mut db, config).await?;
        let bytes = job_size(name, payload);
        check_room(&mut db, config, bytes).await?;
        sql::usage::add_payload(&mut db, config.id, bytes).await?;
        let id = AppTaskId(db.uuid());
        sql::tasks::insert(&mut db, id, config, TaskKind::Job, name, payload, at.max(earliest)).await?;
        db.commit_unrecorded().await
    }
}

impl AppTask {
    /// After how many tries it is due again, and when. None: it is over.
    fn due_after(&self, outcome: TaskOutcome<'_>, now: Time) -> Option<(i64, Time)> {
        let tries = self.lease.attempt;
        match (self.kind, outcome) {
            (TaskKind::Schedule, TaskOutcome::Postponed { .. }) => {
                Some((tries - 1, next_turn(&self.name, now).min(now + RETRY.first)))
            }
            (TaskKind::Schedule, _) => Some((0, next_turn(&self.name, now))),
            (TaskKind::Job, TaskOutcome::Postponed { .. }) => Some((tries - 1, now + RETRY.first)),
            (TaskKind::Job, TaskOutcome::Failed { is_retryable: true, .. }) if tries < MAX_TRIES => {
                Some((tries, now + RETRY.after(tries)))
            }
            (TaskKind::Job, _) => None,
        }
    }
}

impl Waiting {
    /// Takes it from the queue: nobody carries it out.
    async fn forget(&self, db: &mut WriteTx) -> Result<()> {
        sql::tasks::delete(db, self.id).await?;
        match self.kind {
            TaskKind::Job => sql::usage::add_payload(db, self.config, -job_size(&self.name, &self.payload)).await,
            TaskKind::Schedule => Ok(()),
        }
    }
}

fn job_size(name: &str, payload: &str) -> i64 {
    i64::try_from(name.len() + payload.len() + ROW_SIZE).unwrap_or(i64::MAX)
}

async fn check_room(db: &mut WriteTx, config: &AppConfig, bytes: i64) -> Result<()> {
    let usage = sql::usage::lock(db, config.id).await?;
    let usage = usage.ok_or(Error::NotFound("configuration"))?;
    let full = |whose: &str, most: i64| {
        let detail = format!(
            "the queued jobs of {whose} can have at most {} MiB in total",
            most >> 20
        );
        Err(Error::refused("jobs_full", detail))
    };
    if usage.payload_bytes + bytes > MAX_BYTES {
        return full("a configuration", MAX_BYTES);
    }
    if sql::usage::payload_of_all(db, usage.organization_id).await? + bytes > MAX_OF_ORGANIZATION {
        return full("an organization", MAX_OF_ORGANIZATION);
    }
    Ok(())
}

/// Counts one more job, and tells when it may be done at the earliest: immediately, unless there were too many lately.
async fn count_job(db: &mut WriteTx, config: &AppConfig) -> Result<Time> {
    let now = db.now;
    let until = sql::configs::lock_jobs_until(db, config.id).await?;
    let until = until.map_or(now, |until| until.max(now));
    sql::configs::save_jobs_until(db, config.id, until + JOB_EVERY).await?;
    Ok(until - JOBS_AHEAD)
}
