//! How runs and backfills stand, in words and with what to do about it.

use service::batch_exports::{BackfillStatus, Run, RunStatus};

use super::figures;

/// A word in a colour that goes with it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tag {
    pub(super) word: &'static str,
    pub(super) class: &'static str,
}

pub(super) const fn tag(status: RunStatus) -> Tag {
    let (word, class) = match status {
        RunStatus::Starting => ("Waiting", ""),
        RunStatus::Running => ("Running", ""),
        RunStatus::Completed => ("Delivered", "tag-good"),
        RunStatus::Failed | RunStatus::FailedBilling => ("Failed", "tag-danger"),
        RunStatus::FailedRetryable => ("Failed, tried again", "tag-warning"),
        RunStatus::TimedOut => ("Took too long", "tag-danger"),
        RunStatus::Cancelled | RunStatus::Terminated | RunStatus::ContinuedAsNew => ("Cancelled", ""),
    };
    Tag { word, class }
}

pub(super) const fn tag_of_backfill(status: BackfillStatus) -> Tag {
    let (word, class) = match status {
        BackfillStatus::Running => ("Running", ""),
        BackfillStatus::Completed => ("Done", "tag-good"),
        BackfillStatus::Failed => ("Some runs failed", "tag-danger"),
        BackfillStatus::Cancelled => ("Cancelled", ""),
    };
    Tag { word, class }
}

/// What runs can be filtered by: the states that runs here get into.
pub(super) const FILTERS: [(RunStatus, &str); 7] = [
    (RunStatus::Completed, "Delivered"),
    (RunStatus::Failed, "Failed"),
    (RunStatus::FailedRetryable, "Failed, tried again"),
    (RunStatus::TimedOut, "Took too long"),
    (RunStatus::Running, "Running"),
    (RunStatus::Starting, "Waiting"),
    (RunStatus::Cancelled, "Cancelled"),
];

/// What happens next, or what somebody can do.
pub(super) fn advice(run: &Run, is_export_paused: bool) -> String {
    // Runs of backfills go on while an export is paused.
    let is_held = is_export_paused && run.backfill.is_none();
    match run.status {
        RunStatus::Starting | RunStatus::FailedRetryable if is_held => {
            "The export is paused. This run goes on when the export does.".to_owned()
        }
        RunStatus::Starting => "It begins as soon as a worker is free.".to_owned(),
        RunStatus::Running => String::new(),
        RunStatus::Completed => "Everything of this interval is at the destination.".to_owned(),
        RunStatus::FailedRetryable => {
            let next = run.due_at.map(|due| format!(", next at {} UTC", figures::clock(due)));
            let next = next.unwrap_or_default();
            format!("It is tried again by itself{next}. If the error stays, change what it names.")
        }
        RunStatus::Failed | RunStatus::FailedBilling => {
            "Trying again by itself would not help. Change what the error names, then press Retry.".to_owned()
        }
        RunStatus::TimedOut => {
            "Press Retry to give it the same time once more. If it is too slow again, choose a shorter interval."
                .to_owned()
        }
        RunStatus::Cancelled | RunStatus::Terminated | RunStatus::ContinuedAsNew => {
            "Nothing of this interval was delivered by this run. Retry delivers it after all.".to_owned()
        }
    }
}
