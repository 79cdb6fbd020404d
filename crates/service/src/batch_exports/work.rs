//! Carrying runs out: taken with a lease, kept by heartbeats, ended by whoever holds them.

use boxed::boxed;
use chrono::TimeDelta;

use super::types::{BatchExport, LogLevel, Progress, Run, RunStatus};
use super::{logs, sql};
use crate::Service;
use crate::access::Actor;
use crate::activity::Entry;
use crate::error::Result;
use crate::id::{OrganizationId, WorkerId};
use crate::lease::{Backoff, Lease};
use crate::mail::{self, EmailMessage};
use crate::rotation::{Rotation, Round};
use crate::transaction::WriteTx;
use crate::{members, organizations};

/// For as long as a run is tried again automatically.
const RETRIED_FOR: TimeDelta = TimeDelta::hours(24);
const RETRY: Backoff = Backoff {
    first: TimeDelta::seconds(5),
    factor: 2,
    longest: TimeDelta::minutes(10),
};
/// How many organizations that have a run due are looked at, and how many if none of them is to be served first.
const FEW_ORGANIZATIONS: usize = 64;
const MANY_ORGANIZATIONS: usize = 2048;
/// After so many runs in a row that failed for good, an export pauses itself.
const MAX_FAILURES: i64 = 5;

/// A run that somebody holds, and what it takes to carry it out.
#[derive(Debug, Clone)]
pub struct Job {
    pub run: Run,
    pub export: BatchExport,
    /// What earlier attempts delivered for good, oldest rows first.
    pub delivered: Progress,
    lease: Lease,
}

/// Which of the organizations that have a run due is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    Take(OrganizationId),
    /// There may be others that come before those that were named.
    AskFurther,
    Nobody,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Completed(Progress),
    Failed {
        /// For the export's owner.
        error: String,
        /// Trying again would not help.
        is_permanent: bool,
        delivered: Progress,
    },
    TimedOut(Progress),
}

impl Service {
    /// Takes the run that has waited longest for the organization that is chosen, unless it goes to one of these destinations.
    ///
    /// `choose` is asked with some organizations that have a run due, from the one on whose turn it is, and if that does not do,
    /// with very many; then with `true`.
    pub async fn claim_run(
        &self,
        worker: WorkerId,
        busy: &[String],
        rotation: &Rotation,
        choose: impl Fn(&[OrganizationId], bool) -> Choice,
    ) -> Result<Option<Job>> {
        let now = self.core.clock.now();
        let mut round = rotation.take().await;
        let Some(organization) = self.next_for_runs(busy, &round, choose).await? else {
            return Ok(None);
        };
        round.served(organization);
        let mut db = self.write().await?;
        organizations::sql::keep(&mut db, organization).await?;
        // Others may have been faster.
        let Some(mut run) = sql::runs::lock_due(&mut db, organization, busy).await? else {
            return Ok(None);
        };
        let export = sql::exports::find(&mut db, run.organization_id, run.batch_export).await?;
        let Some(export) = export else { return Ok(None) };
        if run.status == RunStatus::Running {
            logs::write(
                &mut db,
                &run,
                LogLevel::Warning,
                "The worker stopped responding; another one takes over.",
            )
            .await?;
        }
        let delivered = delivered_before(&run, &export);
        let lease = Lease::next(worker, run.attempt);
        run.become_(RunStatus::Running, now)?;
        run.attempt = lease.attempt;
        run.tries += 1;
        (run.worker, run.started_at, run.due_at) = (Some(worker), Some(now), Some(Lease::ends_at(now)));
        (run.records_completed, run.bytes_exported, run.records_read) = (None, None, None);
        sql::runs::save(&mut db, &run).await?;
        db.commit_unrecorded().await?;
        Ok(Some(Job {
            run,
            export,
            delivered,
            lease,
        }))
    }

    async fn next_for_runs(
        &self,
        busy: &[String],
        round: &Round<'_>,
        choose: impl Fn(&[OrganizationId], bool) -> Choice,
    ) -> Result<Option<OrganizationId>> {
        let now = self.core.clock.now();
        let mut db = self.core.store.read().await?;
        if !sql::runs::is_due(&mut db, now).await? {
            choose(&[], true);
            return Ok(None);
        }
        for (most, is_last) in [(FEW_ORGANIZATIONS, false), (MANY_ORGANIZATIONS, true)] {
            let [after, from_the_start] = round.starts();
            let mut due = sql::runs::due_organizations(&mut db, now, after, busy, most).await?;
            let others = sql::runs::due_organizations(&mut db, now, from_the_start, busy, most - due.len()).await?;
            due.extend(others.into_iter().filter(|id| *id <= after));
            let is_all = is_last || due.len() < most;
            match choose(&due, is_all) {
                Choice::Take(organization) => return Ok(Some(organization)),
                _ if is_all => return Ok(None),
                Choice::AskFurther | Choice::Nobody => {}
            }
        }
        Ok(None)
    }

    /// A heartbeat. False: the lease is lost, and the run must be abandoned.
    #[boxed]
    pub async fn renew_lease(&self, job: &Job, progress: &Progress) -> Result<bool> {
        let mut db = self.write().await?;
        let until = Lease::ends_at(db.now);
        let is_held = sql::runs::keep(&mut db, job.run.id, job.lease, until, progress).await?;
        db.commit_unrecorded().await?;
        Ok(is_held)
    }

    /// Gives a run back unfinished: the process ends. Another takes it immediately.
    #[boxed]
    pub async fn release_run(&self, job: &Job, progress: &Progress) -> Result<()> {
        let mut db = self.write().await?;
        let now = db.now;
        sql::runs::keep(&mut db, job.run.id, job.lease, now, progress).await?;
        db.commit_unrecorded().await
    }

    /// What was delivered before whoever carried out a cancelled run noticed. Nothing else about it can be changed any more.
    #[boxed]
    pub async fn note_cancelled_run(&self, job: &Job, delivered: &Progress) -> Result<()> {
        let mut db = self.write().await?;
        sql::runs::note_cancelled(&mut db, job.run.id, job.lease.attempt, delivered).await?;
        db.commit_unrecorded().await
    }

    /// Writes down how a run ended. False: it was no longer held, and nothing was written.
    #[boxed]
    pub async fn finish_run(&self, job: &Job, outcome: &Outcome) -> Result<bool> {
        let mut db = self.write().await?;
        // The export first, as everybody who changes both does.
        let Some(mut export) = sql::exports::lock(&mut db, job.export.id).await? else {
            return Ok(false);
        };
        let held = |run: &Run| run.status == RunStatus::Running && job.lease.is_of(run.worker, run.attempt);
        let Some(mut run) = sql::runs::lock(&mut db, job.run.id).await?.filter(held) else {
            return Ok(false);
        };
        end(&mut run, outcome, &db)?;
        sql::runs::save(&mut db, &run).await?;
        let (level, message) = tell(&run, outcome);
        logs::write(&mut db, &run, level, &message).await?;
        let entries = self.count_failures(&mut db, &mut export, &run).await?;
        db.commit(&Actor::system(), &entries).await?;
        Ok(true)
    }

    #[boxed]
    pub async fn log_run(&self, job: &Job, level: LogLevel, message: &str) -> Result<()> {
        let mut db = self.write().await?;
        logs::write(&mut db, &job.run, level, message).await?;
        db.commit_unrecorded().await
    }

    /// After too many failures in a row the export pauses itself and says so.
    async fn count_failures(&self, db: &mut WriteTx, export: &mut BatchExport, run: &Run) -> Result<Vec<Entry>> {
        let failures = match run.status {
            RunStatus::Completed => 0,
            RunStatus::Failed | RunStatus::TimedOut => export.failures + 1,
            _ => return Ok(Vec::new()),
        };
        if failures == export.failures {
            return Ok(Vec::new());
        }
        let before = export.clone();
        export.failures = failures;
        let mut entries = Vec::new();
        if failures >= MAX_FAILURES && !export.paused {
            export.set_paused(true, db.now);
            export.reschedule();
            export.updated_at = db.now;
            entries.extend(Entry::updated(&before, export));
            self.tell_of_pause(db, export, run).await?;
        }
        sql::exports::save(db, export).await?;
        Ok(entries)
    }

    async fn tell_of_pause(&self, db: &mut WriteTx, export: &BatchExport, run: &Run) -> Result<()> {
        let message = format!("The export was paused after {MAX_FAILURES} failed runs in a row.");
        logs::write(db, run, LogLevel::Warning, &message).await?;
        let email = EmailMessage::ExportPaused {
            organization: organizations::sql::name(db, export.organization_id).await?,
            export: export.name.to_string(),
            error: run.latest_error.clone().unwrap_or_default(),
            failures: MAX_FAILURES,
        };
        let admins = members::administrators(db, export.organization_id).await?;
        let addresses = admins.into_iter().map(|user| user.email).collect();
        mail::notify(db, &self.core.instance, export.organization_id, &email, addresses).await
    }
}

fn end(run: &mut Run, outcome: &Outcome, db: &WriteTx) -> Result<()> {
    let now = db.now;
    match outcome {
        Outcome::Completed(progress) => {
            run.become_(RunStatus::Completed, now)?;
            note(run, progress);
            run.records_total_count = Some(number(progress.records));
            run.latest_error = None;
        }
        Outcome::TimedOut(delivered) => {
            run.become_(RunStatus::TimedOut, now)?;
            note(run, delivered);
            run.latest_error = Some("The run exceeded its time limit and was stopped.".to_owned());
        }
        Outcome::Failed {
            error,
            is_permanent,
            delivered,
        } => {
            note(run, delivered);
            let is_over = *is_permanent || now - run.queued_at > RETRIED_FOR;
            run.become_(
                if is_over {
                    RunStatus::Failed
                } else {
                    RunStatus::FailedRetryable
                },
                now,
            )?;
            run.latest_error = Some(logs::cut(error));
            if !is_over {
                (run.worker, run.due_at) = (None, Some(now + RETRY.after(run.tries)));
            }
        }
    }
    Ok(())
}

/// What the last attempt delivered of the same rows: nothing, if they were asked for again, or if the export has changed since.
fn delivered_before(run: &Run, export: &BatchExport) -> Progress {
    let is_same = run.tries > 0 && !run.is_resend && run.started_at.is_some_and(|started| export.updated_at < started);
    let count = |number: Option<i64>| number.filter(|_| is_same).and_then(|number| u64::try_from(number).ok());
    Progress {
        records: count(run.records_completed).unwrap_or_default(),
        bytes: count(run.bytes_exported).unwrap_or_default(),
        ..Progress::default()
    }
}

fn note(run: &mut Run, delivered: &Progress) {
    run.records_completed = Some(number(delivered.records));
    run.bytes_exported = Some(number(delivered.bytes));
    run.records_read = Some(number(delivered.read));
    run.records_total_count = delivered.total.map(number).or(run.records_total_count);
}

fn tell(run: &Run, outcome: &Outcome) -> (LogLevel, String) {
    let error = run.latest_error.as_deref().unwrap_or_default();
    match (outcome, run.due_at) {
        (Outcome::Completed(progress), _) => (
            LogLevel::Info,
            format!(
                "Delivered {} {} ({} bytes).",
                progress.records,
                if progress.records == 1 { "row" } else { "rows" },
                progress.bytes
            ),
        ),
        (_, Some(next)) => {
            let next = next.format("%H:%M:%S");
            (LogLevel::Warning, format!("Failed, retrying at {next} UTC: {error}"))
        }
        (_, None) => (LogLevel::Error, format!("Failed permanently: {error}")),
    }
}

fn number(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_up_to_a_limit() {
        assert_eq!(RETRY.after(1), TimeDelta::seconds(5));
        assert_eq!(RETRY.after(4), TimeDelta::seconds(40));
        assert_eq!(RETRY.after(100), TimeDelta::minutes(10));
    }
}
