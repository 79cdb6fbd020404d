//! What we promise, held against what was measured.

use std::time::Duration;

use super::growth::Growth;
use super::measure::Measured;
use super::names::{BETTER_AUTH, DJANGO, FLOOR, POCKETBASE, POSTGRES, SQLITE};
use super::servers::Operation;

/// Ours, theirs on the same kind of database, and how many times as fast we want to be.
const PEERS: [(&str, &str, f64); 3] = [
    (POSTGRES, DJANGO, 10.0),
    (POSTGRES, BETTER_AUTH, 5.0),
    (SQLITE, POCKETBASE, 1.5),
];

const FLOOR_SHARES: [(&str, f64); 2] = [(SQLITE, 0.6), (POSTGRES, 0.4)];
/// Of the bare handler's rate for the same bytes.
const LIST_SHARES: [(&str, f64); 2] = [(SQLITE, 0.2), (POSTGRES, 0.15)];
const HALF_LOAD_P99: f64 = 5.0;
/// Single events on SQLite, over connections that are kept open.
const EVENTS: f64 = 40_000.0;
const EVENT_P99: f64 = 25.0;
const IDLE_MEGABYTES: f64 = 60.0;
const READY: Duration = Duration::from_millis(300);
const GROWTH: f64 = 1.5;

/// One promise.
pub(super) struct Target {
    pub(super) promise: String,
    pub(super) measured: String,
    pub(super) is_met: bool,
}

/// Every promise that this run can judge.
pub(super) fn judge(servers: &[Measured], growth: &[Growth]) -> Vec<Target> {
    let mut targets = shares_of_the_floor(servers, &[Operation::Retrieve], FLOOR_SHARES);
    targets.extend(shares_of_the_floor(servers, &Operation::LISTS, LIST_SHARES));
    targets.extend(against_peers(servers));
    for ours in [SQLITE, POSTGRES].into_iter().filter_map(|name| find(servers, name)) {
        targets.extend(of_itself(ours));
    }
    targets.extend(growth.iter().map(|growth| {
        let what = format!(
            "{}, {}: a large database costs at most {GROWTH} times a small one",
            growth.database, growth.request
        );
        target(what, format!("{:.2} times", growth.cost()), growth.cost() <= GROWTH)
    }));
    targets
}

pub(super) fn find<'a>(servers: &'a [Measured], name: &str) -> Option<&'a Measured> {
    servers.iter().find(|server| server.name == name)
}

/// How many times as fast `ours` is as `theirs`.
pub(super) fn ratio(ours: &Measured, theirs: &Measured, operation: Operation) -> Option<f64> {
    Some(ours.speeds.get(&operation)?.full.rate / theirs.speeds.get(&operation)?.full.rate)
}

fn shares_of_the_floor(servers: &[Measured], operations: &[Operation], shares: [(&str, f64); 2]) -> Vec<Target> {
    let judged = shares.into_iter().flat_map(|(name, share)| {
        operations.iter().filter_map(move |operation| {
            let measured = ratio(find(servers, name)?, find(servers, FLOOR)?, *operation)?;
            let what = lower(operation.title());
            let promise = format!("{name}: {what} at {share} of the {FLOOR}'s rate or more");
            Some(target(promise, format!("{measured:.2}"), measured >= share))
        })
    });
    judged.collect()
}

fn against_peers(servers: &[Measured]) -> Vec<Target> {
    let mut targets = Vec::new();
    for (ours, theirs, times) in PEERS {
        for operation in Operation::OF_ALL_SERVERS {
            let (Some(our), Some(their)) = (find(servers, ours), find(servers, theirs)) else {
                continue;
            };
            let Some(measured) = ratio(our, their, operation) else {
                continue;
            };
            let promise = format!(
                "{ours}: {} {times} times as fast as {theirs} or more",
                lower(operation.title())
            );
            targets.push(target(promise, format!("{measured:.1} times"), measured >= times));
        }
    }
    targets
}

fn of_itself(ours: &Measured) -> Vec<Target> {
    let name = ours.name;
    let mut targets = Vec::new();
    for operation in Operation::OF_ALL_SERVERS {
        let Some(speed) = ours.speeds.get(&operation) else {
            continue;
        };
        let promise = format!(
            "{name}: {} at half load, p99 under {HALF_LOAD_P99} ms",
            lower(operation.title())
        );
        targets.push(target(
            promise,
            format!("{:.2} ms", speed.half.p99),
            speed.half.p99 < HALF_LOAD_P99,
        ));
    }
    if let Some(event) = ours.speeds.get(&Operation::Event).filter(|_| name == SQLITE) {
        let (rate, p99) = (event.full.rate, event.full.p99);
        targets.push(target(
            format!("{name}: {EVENTS:.0} single events a second, p99 under {EVENT_P99} ms"),
            format!("{rate:.0}, {p99:.1} ms"),
            rate >= EVENTS && p99 < EVENT_P99,
        ));
    }
    let promise = format!("{name}: under {IDLE_MEGABYTES} MB when idle");
    targets.push(target(
        promise,
        format!("{:.0} MB", ours.idle),
        ours.idle < IDLE_MEGABYTES,
    ));
    if let Some(ready) = ours.ready_after {
        let promise = format!(
            "{name}: ready under {} ms after start on an existing database",
            READY.as_millis()
        );
        targets.push(target(promise, format!("{} ms", ready.as_millis()), ready < READY));
    }
    targets
}

fn target(promise: String, measured: String, is_met: bool) -> Target {
    Target {
        promise,
        measured,
        is_met,
    }
}

fn lower(title: &str) -> String {
    let mut characters = title.chars();
    characters
        .next()
        .map(|first| first.to_lowercase().collect::<String>() + characters.as_str())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::super::load::Run;
    use super::super::measure::Speed;
    use super::*;

    fn server(name: &'static str, rate: f64) -> Measured {
        let run = Run {
            rate,
            p50: 1.0,
            p99: 2.0,
        };
        let speeds =
            HashMap::from(Operation::OF_ALL_SERVERS.map(|operation| (operation, Speed { full: run, half: run })));
        Measured {
            name,
            speeds,
            idle: 30.0,
            loaded: 40.0,
            ready_after: Some(Duration::from_millis(100)),
        }
    }

    fn failed(servers: &[Measured], growth: &[Growth]) -> usize {
        judge(servers, growth).iter().filter(|target| !target.is_met).count()
    }

    #[test]
    fn every_promise_is_judged_at_its_limit() {
        let servers = |sqlite: f64, postgres: f64| {
            [
                server(FLOOR, 1000.0),
                server(SQLITE, sqlite),
                server(POSTGRES, postgres),
                server(DJANGO, 25.0),
                server(BETTER_AUTH, 50.0),
                server(POCKETBASE, 333.0),
            ]
        };
        assert_eq!(failed(&servers(600.0, 400.0), &[]), 0);
        assert_eq!(failed(&servers(599.0, 400.0), &[]), 1);
        assert_eq!(failed(&servers(499.0, 400.0), &[]), 1 + 3);
        assert_eq!(failed(&servers(600.0, 399.0), &[]), 1);
        assert_eq!(failed(&servers(600.0, 249.0), &[]), 1 + 3 + 3);
        assert_eq!(failed(&servers(600.0, 149.0), &[]), 2 + 3 + 3);
    }

    #[test]
    fn growth_is_judged_by_cost() {
        let growth = |large| {
            [Growth {
                database: "SQLite",
                request: "retrieve",
                small: 150.0,
                large,
            }]
        };
        assert_eq!(failed(&[], &growth(100.0)), 0);
        assert_eq!(failed(&[], &growth(99.0)), 1);
    }
}
