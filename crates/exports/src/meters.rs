//! What `/metrics` tells of each export.

use service::Series;
use service::batch_exports::{Job, Outcome, Progress};

static EXPORTS: Series = Series::new();

/// Counts an attempt that ended. Rows and bytes are those the destination has acknowledged in this attempt.
pub(crate) fn count(job: &Job, outcome: &Outcome) {
    let (name, delivered) = match outcome {
        Outcome::Completed(progress) => ("completed", progress),
        Outcome::Failed { delivered, .. } => ("failed", delivered),
        Outcome::TimedOut(progress) => ("timed_out", progress),
    };
    let export = EXPORTS.label(job.export.id);
    let Progress { records, bytes, .. } = job.delivered;
    metrics::counter!("hedgerow_export_attempts_total", "export" => export.clone(), "outcome" => name).increment(1);
    metrics::counter!("hedgerow_export_rows_total", "export" => export.clone())
        .increment(delivered.records.saturating_sub(records));
    metrics::counter!("hedgerow_export_bytes_total", "export" => export.clone())
        .increment(delivered.bytes.saturating_sub(bytes));
    let is_live = job.run.backfill.is_none() && !job.run.is_resend;
    if is_live && name == "completed" && export != Series::OTHER {
        let [start, end] = [job.run.data_interval_start, job.run.data_interval_end].map(|at| at.timestamp());
        metrics::gauge!("hedgerow_export_interval_seconds", "export" => export.clone()).set(seconds(end - start));
        metrics::gauge!("hedgerow_export_delivered_until_seconds", "export" => export).set(seconds(end));
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "seconds since 1970 are exact for millions of years"
)]
fn seconds(count: i64) -> f64 {
    count as f64
}
