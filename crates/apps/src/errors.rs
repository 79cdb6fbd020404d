//! What is logged, and what is said to others, when something about apps fails.

use sandbox::Failure;
use service::TeamId;
use service::pipeline::Stop;

/// What is said when events cannot be read.
pub(crate) fn store_failed(cause: &events::Error) -> service::Error {
    tracing::error!(error = cause as &dyn std::error::Error, "the event store failed");
    service::Error::Conflict {
        code: "events_unavailable",
        detail: "events cannot be read at the moment: try again later".to_owned(),
    }
}

/// Logs that there is no telling whether something has come in for a team.
pub(crate) fn log_unreadable(team: TeamId, cause: &events::Error) {
    tracing::error!(
        team = team.0,
        error = cause as &dyn std::error::Error,
        "the event store failed for a team"
    );
}

/// What is said of an app that was slow while others waited. It is tried again later.
pub(crate) fn preempted() -> Failure {
    Failure::Thrown {
        name: "Preempted".to_owned(),
        message: "the app took longer than a second while others were waiting and was stopped; it will be retried"
            .to_owned(),
        stack: String::new(),
        is_retry: true,
    }
}

/// What a batch ends with after this failure: an app that had to wait for others is not to blame.
pub(crate) fn stop_after(failure: &Failure, otherwise: Stop) -> Stop {
    match failure {
        Failure::Evicted => Stop::Preempted,
        _ => otherwise,
    }
}

/// Logs why background work failed.
pub(crate) fn log(error: &service::Error) {
    if let service::Error::Unavailable { .. } | service::Error::Throttled(_) = error {
        // An organization waited too long for its turn at the database.
        tracing::info!(error = error as &dyn std::error::Error, "apps: work is done later");
        return;
    }
    tracing::error!(error = error as &dyn std::error::Error, "apps: background work failed");
}

/// Where in the app it happened, if that is known.
pub(crate) fn with_stack(error: &str, failure: &Failure) -> String {
    match failure {
        Failure::Thrown { stack, .. } if !stack.is_empty() => format!("{error}\n{stack}"),
        _ => error.to_owned(),
    }
}
