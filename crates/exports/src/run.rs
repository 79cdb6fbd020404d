//! One run, from the store to the destination.

use std::sync::Arc;

use arrow_array::RecordBatch;
use events::{Rows, Scan};
use service::batch_exports::destination::Destination;
use service::batch_exports::{Job, LogLevel, Outcome, Progress};
use tokio_util::sync::CancellationToken;

use crate::exporter::{Exports, query_of, without_secret_hosts};
use crate::heartbeat::Heartbeat;
use crate::run_slots::Slot;
use crate::{Delivery, Error, Receipt, Upload, destinations};

/// What a run has while it is in progress.
#[derive(Clone)]
pub(crate) struct RunContext {
    pub(crate) heartbeat: Arc<Heartbeat>,
    pub(crate) slot: Arc<Slot>,
    pub(crate) cancel: CancellationToken,
}

/// Reads one interval and delivers it. When cancelled, takes back what was sent.
pub(crate) async fn deliver(exports: Exports, job: Job, course: RunContext) -> Outcome {
    match try_to_deliver(&exports, &job, &course).await {
        Ok(receipt) => Outcome::Completed(Progress {
            records: receipt.rows,
            bytes: receipt.bytes,
            read: receipt.rows,
            total: Some(receipt.rows),
        }),
        Err(error) => {
            tracing::warn!(
                run = %job.run.id,
                destination = job.export.kind.name(),
                error = &error as &dyn std::error::Error,
                "a run failed"
            );
            Outcome::Failed {
                error: error.sentence.clone(),
                is_permanent: error.is_permanent,
                delivered: course.heartbeat.read(),
            }
        }
    }
}

async fn try_to_deliver(exports: &Exports, job: &Job, course: &RunContext) -> Result<Receipt, Error> {
    let core = &exports.core;
    let config = job.export.destination(core.service.instance());
    let config = config.map_err(|cause| Error::permanent("the destination's configuration cannot be used", cause))?;
    let delivered = deliver_to(&config, exports, job, course).await;
    delivered.map_err(|mut error| {
        error.sentence = without_secret_hosts(error.sentence, &config);
        error
    })
}

async fn deliver_to(config: &Destination, exports: &Exports, job: &Job, course: &RunContext) -> Result<Receipt, Error> {
    let core = &exports.core;
    let RunContext {
        heartbeat,
        slot,
        cancel,
    } = course;
    let destination = destinations::open(config, &core.deps.of(job.export.organization_id))?;
    let layout = destination.layout(job.export.model);
    let scan = Scan {
        team: job.export.team_id.0,
        query: query_of(&job.export, layout),
        start: Some(job.run.data_interval_start),
        end: job.run.data_interval_end,
        skip: 0,
        limit: None,
    };
    // From here on the interval is complete: nothing is added to it any more.
    slot.reading(core.events.settle(scan.end)).await?;
    // With a condition, counting would be a second scan.
    if scan.query.filter.is_none() {
        let total = slot.reading(core.events.count(scan.clone())).await?;
        heartbeat.note(|progress| progress.total = Some(total));
    }
    let delivery = delivery(job, &scan, destination.resumes());
    let mut rows = core.events.scan(scan.clone());
    let Some(first) = unless_cancelled(cancel, slot.reading(next_of(&mut rows))).await? else {
        // Nothing to deliver; the destination need not even know.
        return Ok(Receipt::default());
    };
    let Some(mut upload) = unless_cancelled(cancel, slot.sending(destination.begin(&delivery))).await? else {
        note(exports, job, "An earlier attempt already delivered this interval.").await;
        let rows = unless_cancelled(cancel, slot.reading(async { Ok(core.events.count(scan).await?) })).await?;
        return Ok(Receipt { rows, bytes: 0 });
    };
    heartbeat.follow(&delivery.acknowledged);
    match send(&mut *upload, first, &mut rows, delivery.resumed_after.rows, course).await {
        Ok(()) if still_ours(exports, job, heartbeat).await? => slot.finishing(upload.commit()).await,
        Ok(()) => {
            slot.waiting(upload.abort()).await;
            Err(cancelled())
        }
        Err(error) => {
            slot.waiting(upload.abort()).await;
            Err(error)
        }
    }
}

async fn next_of(rows: &mut Rows) -> Result<Option<RecordBatch>, Error> {
    Ok(rows.next().await.transpose()?)
}

async fn send(
    upload: &mut dyn Upload,
    first: RecordBatch,
    rows: &mut Rows,
    mut skipped: u64,
    course: &RunContext,
) -> Result<(), Error> {
    let RunContext {
        heartbeat,
        slot,
        cancel,
    } = course;
    let mut next = Some(first);
    while let Some(batch) = next {
        let count = batch.num_rows();
        let there = usize::try_from(skipped).unwrap_or(count).min(count);
        skipped -= there as u64;
        if there < count {
            let new = batch.slice(there, count - there);
            unless_cancelled(cancel, slot.sending(upload.write(new))).await?;
        }
        heartbeat.note(|progress| progress.read += count as u64);
        next = unless_cancelled(cancel, slot.reading(next_of(rows))).await?;
    }
    Ok(())
}

/// The last look before the commit: whoever lost the run must not deliver it.
async fn still_ours(exports: &Exports, job: &Job, heartbeat: &Heartbeat) -> Result<bool, Error> {
    let kept = exports.core.service.renew_lease(job, &heartbeat.read()).await;
    kept.map_err(|cause| Error::retryable("the database of this server is unavailable; it will be retried", cause))
}

async fn unless_cancelled<T>(
    cancel: &CancellationToken,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    tokio::select! {
        biased;
        () = cancel.cancelled() => Err(cancelled()),
        done = work => done,
    }
}

fn cancelled() -> Error {
    Error::retryable("the run was interrupted", "cancelled")
}

fn delivery(job: &Job, scan: &Scan, resumes: bool) -> Delivery {
    let resumed_after = Receipt {
        rows: job.delivered.records,
        bytes: job.delivered.bytes,
    };
    Delivery {
        resumed_after: if resumes { resumed_after } else { Receipt::default() },
        export: job.export.id,
        run: job.run.id,
        team: scan.team,
        model: job.export.model,
        start: job.run.data_interval_start,
        end: job.run.data_interval_end,
        schema: events::schema(&scan.query),
        is_custom: job.export.hogql_query.is_some(),
        is_resend: job.run.is_resend,
        acknowledged: crate::Acknowledged::default(),
    }
}

async fn note(exports: &Exports, job: &Job, message: &str) {
    if let Err(error) = exports.core.service.log_run(job, LogLevel::Info, message).await {
        tracing::error!(error = &error as &dyn std::error::Error, "could not write a run's log");
    }
}
