//! What events wanted to do to persons and what was left out, because a person or a request has its limits. The events
//! themselves are kept, so nobody is told in the answer; it is counted, and the log says now and then whose they are.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// The person would have more properties than any may have.
    TooLarge,
    /// One request is about more properties of persons than it may be.
    TooMuchAtOnce,
}

/// How long the log says nothing more of the same.
const SILENCE: Duration = Duration::from_mins(1);

pub(crate) fn note(team: i64, why: Why) {
    static TOO_LARGE: Mutex<Option<Instant>> = Mutex::new(None);
    static TOO_MUCH: Mutex<Option<Instant>> = Mutex::new(None);
    let (name, last) = match why {
        Why::TooLarge => ("too_large", &TOO_LARGE),
        Why::TooMuchAtOnce => ("limit_exceeded", &TOO_MUCH),
    };
    metrics::counter!("hedgerow_person_updates_dropped_total", "reason" => name).increment(1);
    let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
    if is_due(&mut last, Instant::now()) {
        tracing::warn!(team, reason = name, "properties of persons are left out");
    }
}

fn is_due(last: &mut Option<Instant>, now: Instant) -> bool {
    let is_over = last.is_none_or(|last| now.duration_since(last) >= SILENCE);
    if is_over {
        *last = Some(now);
    }
    is_over
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_says_it_now_and_then() {
        let (mut last, start) = (None, Instant::now());
        let said = [0, 1, 59, 60, 61].map(|second| is_due(&mut last, start + Duration::from_secs(second)));
        assert_eq!(said, [true, false, false, true, false]);
    }
}
