//! The measurement of one server: first that it answers rightly, then how fast.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::load::{Load, Run};
use super::servers::{Operation, Ready, Requests};
use crate::http::{self, Answer, Request};

/// How long everything takes.
#[derive(Clone, Copy)]
pub(super) struct Plan {
    /// Seconds of one measured round.
    pub(super) round: u32,
    /// Seconds of one round of warming up.
    pub(super) warm_up: u32,
}

/// Measured rounds, of which the median counts.
pub(super) const ROUNDS: usize = 3;

/// Seconds at half load, at the least.
const HALF_LOAD: u32 = 5;
/// Rounds of warming up at most; just-in-time compilers need many.
const MAX_WARM_UPS: usize = 12;

/// The speed of one operation on one server.
#[derive(Clone, Copy)]
pub(super) struct Speed {
    /// Under full load.
    pub(super) full: Run,
    /// At half the rate of full load.
    pub(super) half: Run,
}

/// All that is known of one server.
pub(super) struct Measured {
    pub(super) name: &'static str,
    pub(super) speeds: HashMap<Operation, Speed>,
    /// Megabytes before the first measured request.
    pub(super) idle: f64,
    /// Megabytes after the last one.
    pub(super) loaded: f64,
    /// From start to readiness on an existing database, where it was measured.
    pub(super) ready_after: Option<Duration>,
}

/// Measures all operations of a server that is ready and at rest.
pub(super) fn all(name: &'static str, ready: &Ready, requests: &Requests, load: &Load, plan: Plan) -> Result<Measured> {
    let idle = ready.server.memory()?;
    let mut speeds = HashMap::new();
    for operation in Operation::ALL {
        let Some(request) = requests.get(&operation) else {
            continue;
        };
        let measured = checked(ready.port, request)
            .and_then(|_| speed(ready.port, request, load, plan))
            .with_context(|| format!("{name}: {}; it said:\n{}", operation.title(), ready.server.last_lines()))?;
        crate::say(&format!(
            "  {:<26} {:>9.0} requests/s, p99 {:.2} ms; at half load p99 {:.2} ms",
            operation.title(),
            measured.full.rate,
            measured.full.p99,
            measured.half.p99
        ));
        speeds.insert(operation, measured);
    }
    Ok(Measured {
        name,
        speeds,
        idle,
        loaded: ready.server.memory()?,
        ready_after: None,
    })
}

pub(super) fn speed(port: u16, request: &Request, load: &Load, plan: Plan) -> Result<Speed> {
    let full = full_load(port, request, load, plan)?;
    // A slow server answers so seldom at half its rate that less time would show nothing.
    let half = load.paced(port, request, plan.round.max(HALF_LOAD), full.rate / 2.0)?;
    Ok(Speed { full, half })
}

/// The median round, by rate, after warming up until the rate has stopped rising.
pub(super) fn full_load(port: u16, request: &Request, load: &Load, plan: Plan) -> Result<Run> {
    let mut best = 0.0;
    let mut without_rise = 0;
    for _ in 0..MAX_WARM_UPS {
        let rate = load.full(port, request, plan.warm_up)?.rate;
        without_rise = if rate > best * 1.05 { 0 } else { without_rise + 1 };
        best = rate.max(best);
        if without_rise == 2 {
            break;
        }
    }
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        rounds.push(load.full(port, request, plan.round)?);
    }
    rounds.sort_by(|one, other| one.rate.total_cmp(&other.rate));
    Ok(rounds[ROUNDS / 2])
}

/// The answer to a plain request, when it is right with the credential and refused without it and with a wrong one.
pub(super) fn checked(port: u16, request: &Request) -> Result<Answer> {
    let answer = http::send(port, request)?;
    ensure!(
        matches!(answer.status, 200 | 201),
        "{} {} answered {}: {}",
        request.method,
        request.path,
        answer.status,
        String::from_utf8_lossy(&answer.body)
    );
    let others = [
        (request.without_credential(), "no"),
        (request.with_wrong_credential(), "a wrong"),
    ];
    // Events have their token in the body.
    for (other, kind) in others.into_iter().filter(|_| request.has_credential()) {
        let other = http::send(port, &other)?;
        ensure!(
            is_refusal(&other),
            "{} {} answered {} with {kind} credential; a server that checks none is no fair peer",
            request.method,
            request.path,
            other.status
        );
    }
    Ok(answer)
}

/// `PocketBase` refuses a list by showing nothing of it.
fn is_refusal(answer: &Answer) -> bool {
    if answer.status != 200 {
        return matches!(answer.status, 401 | 403 | 404);
    }
    let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    body["items"].as_array().is_some_and(Vec::is_empty)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_or_an_empty_list_is_a_refusal() {
        let refuses = |status, body: &str| {
            is_refusal(&Answer {
                head: String::new(),
                status,
                body: body.into(),
            })
        };
        assert!(refuses(401, ""));
        assert!(refuses(200, r#"{"items":[]}"#));
        assert!(!refuses(200, r#"{"items":[1]}"#));
        assert!(!refuses(200, "{}"));
        assert!(!refuses(500, ""));
    }
}
