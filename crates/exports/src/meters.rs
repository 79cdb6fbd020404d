//! What `/metrics` tells of each export.

use std::collections::HashSet;
use std::sync::{LazyLock, Mutex, PoisonError};

use service::ExportId;
use service::batch_exports::{Job, Outcome, Progress};

/// Exports that have figures of their own. More than this many would make the page, and the memory it takes, grow without end: the rest
/// is counted together, as `other`.
const MOST_EXPORTS: usize = 10_000;

static COUNTED: LazyLock<Mutex<HashSet<ExportId>>> = LazyLock::new(Mutex::default);

/// Counts an attempt that ended. Rows and bytes are those the destination has acknowledged in this attempt.
pub(crate) fn count(job: &Job, outcome: &Outcome) {
    let (name, delivered) = match outcome {
        Outcome::Completed(progress) => ("completed", progress),
        Outcome::Failed { delivered, .. } => ("failed", delivered),
        Outcome::TimedOut(progress) => ("timed_out", progress),
    };
    let export = label(job.export.id);
    let Progress { records, bytes, .. } = job.delivered;
    metrics::counter!("hedgerow_export_attempts_total", "export" => export.clone(), "outcome" => name).increment(1);
    metrics::counter!("hedgerow_export_rows_total", "export" => export.clone())
        .increment(delivered.records.saturating_sub(records));
    metrics::counter!("hedgerow_export_bytes_total", "export" => export.clone())
        .increment(delivered.bytes.saturating_sub(bytes));
    let is_live = job.run.backfill.is_none() && !job.run.is_resend;
    if is_live && name == "completed" && export != OTHER {
        let until = job.run.data_interval_end.timestamp();
        metrics::gauge!("hedgerow_export_delivered_until_seconds", "export" => export).set(seconds(until));
    }
}

const OTHER: &str = "other";

fn label(export: ExportId) -> String {
    let mut counted = COUNTED.lock().unwrap_or_else(PoisonError::into_inner);
    if counted.contains(&export) || (counted.len() < MOST_EXPORTS && counted.insert(export)) {
        export.to_string()
    } else {
        OTHER.to_owned()
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "seconds since 1970 are exact for millions of years"
)]
fn seconds(timestamp: i64) -> f64 {
    timestamp as f64
}
