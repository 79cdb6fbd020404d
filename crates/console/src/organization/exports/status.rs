//! How runs and backfills stand, in words and with what to do about it.

use service::batch_exports::{BackfillStatus, Run, RunStatus};

use super::figures;

/// A word in a color that goes with it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tag {
    pub(super) word: &'static str,
    pub(super) class: &'static str,
}

pub(super) const fn tag(status: RunStatus) -> Tag {
    let (word, class) = match status {
        RunStatus::Starting => ("Queued", ""),
        RunStatus::Running => ("Running", ""),
        RunStatus::Completed => ("Succeeded", "tag-good"),
        RunStatus::Failed | RunStatus::FailedBilling => ("Failed", "tag-danger"),
        RunStatus::FailedRetryable => ("Retrying", "tag-warning"),
        RunStatus::TimedOut => ("Timed out", "tag-danger"),
        RunStatus::Cancelled | RunStatus::Terminated | RunStatus::ContinuedAsNew => ("Cancelled", ""),
    };
    Tag { word, class }
}

pub(super) const fn tag_of_backfill(status: BackfillStatus) -> Tag {
    let (word, class) = match status {
        BackfillStatus::Running => ("Running", ""),
        BackfillStatus::Completed => ("Completed", "tag-good"),
        BackfillStatus::Failed => ("Some runs failed", "tag-danger"),
        BackfillStatus::Cancelled => ("Cancelled", ""),
    };
    Tag { word, class }
}

/// What runs can be filtered by: the states that runs here get into.
pub(super) const FILTERS: [(RunStatus, &str); 7] = [
    (RunStatus::Completed, "Succeeded"),
    (RunStatus::Failed, "Failed"),
    (RunStatus::FailedRetryable, "Retrying"),
    (RunStatus::TimedOut, "Timed out"),
    (RunStatus::Running, "Running"),
    (RunStatus::Starting, "Queued"),
    (RunStatus::Cancelled, "Cancelled"),
];

/// What happens next, or what somebody can do.
pub(super) fn advice(run: &Run, is_export_paused: bool) -> String {
    // Runs of backfills go on while an export is paused.
    let is_held = is_export_paused && run.backfill.is_none();
    match run.status {
        RunStatus::Starting | RunStatus::FailedRetryable if is_held => {
            "The export is paused. This run continues when you resume it.".to_owned()
        }
        RunStatus::Starting => "It starts as soon as a worker is available.".to_owned(),
        RunStatus::Running => String::new(),
        RunStatus::Completed => "All data of this interval is at the destination.".to_owned(),
        RunStatus::FailedRetryable => {
            let next = run.due_at.map(|due| format!(", next at {} UTC", figures::clock(due)));
            let next = next.unwrap_or_default();
            format!("It is retried automatically{next}. If the error persists, fix it.")
        }
        RunStatus::Failed | RunStatus::FailedBilling => {
            "It is not retried automatically. Fix the error, then select Retry.".to_owned()
        }
        RunStatus::TimedOut => {
            "Select Retry to run it again with the same time limit. If it times out again, choose a shorter interval."
                .to_owned()
        }
        RunStatus::Cancelled | RunStatus::Terminated | RunStatus::ContinuedAsNew => {
            "This run delivered nothing of this interval. Select Retry to deliver it.".to_owned()
        }
    }
}
