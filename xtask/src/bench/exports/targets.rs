//! What we promise of exports, held against what was measured.

use super::super::document::grouped;
use super::super::figures::f64_of;
use super::results::Report;
use super::rows::{Copied, DUCKDB, Form, OURS};
use super::server::{EXPORTS, RUNS};

/// How many times as fast as `DuckDB` we want to be.
const TIMES: [(Form, f64); 2] = [(Form::Parquet, 1.0), (Form::Jsonl, 2.0)];
const PEAK_MEGABYTES: f64 = 400.0;
const TICK_SECONDS: f64 = 1.0;
/// 100,000 in a minute.
const RUNS_A_SECOND: f64 = 100_000.0 / 60.0;

/// One promise, and what came of it; none if it was not measured.
pub(super) struct Target {
    pub(super) promise: String,
    pub(super) measured: Option<(String, bool)>,
}

pub(super) fn judge(report: &Report) -> Vec<Target> {
    let mut targets = Vec::new();
    for rows in report.sizes() {
        let size = grouped(f64_of(rows));
        for (form, times) in TIMES {
            let ratio = ratio(&report.copies, rows, form);
            targets.push(Target {
                promise: format!("{}, {size} rows: {times} times as fast as DuckDB or more", form.title()),
                measured: ratio.map(|ratio| (format!("{ratio:.2} times"), ratio >= times)),
            });
        }
        let ours = report
            .copies
            .iter()
            .filter(|copied| copied.rows == rows && copied.engine.starts_with(OURS));
        let peak = ours.map(|copied| copied.peak).reduce(f64::max);
        targets.push(Target {
            promise: format!("{size} rows: under {PEAK_MEGABYTES} MB of memory"),
            measured: peak.map(|peak| (format!("{peak:.0} MB"), peak < PEAK_MEGABYTES)),
        });
    }
    targets.push(Target {
        promise: format!(
            "{} hourly exports: a tick under {TICK_SECONDS} s of CPU, ours and PostgreSQL's",
            grouped(EXPORTS.into())
        ),
        measured: report.tick.as_ref().map(|tick| {
            let cpu = tick.due.ours + tick.due.database;
            (format!("{cpu:.2} s"), cpu < TICK_SECONDS)
        }),
    });
    targets.push(Target {
        promise: format!("{} runs carried out a second", grouped(RUNS_A_SECOND)),
        measured: report.carried_out.as_ref().map(|carried_out| {
            let rate = f64::from(RUNS) / carried_out.ours.wall;
            (format!("{}/s", grouped(rate)), rate >= RUNS_A_SECOND)
        }),
    });
    targets
}

fn ratio(copies: &[Copied], rows: u64, form: Form) -> Option<f64> {
    let rate = |engine: &str| {
        let mut of = copies.iter();
        of.find(|copied| copied.engine == engine && copied.rows == rows && copied.form == form)
            .map(Copied::rate)
    };
    Some(rate(OURS)? / rate(DUCKDB)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copied(engine: &'static str, wall: f64, peak: f64) -> Copied {
        Copied {
            engine,
            form: Form::Jsonl,
            rows: 100,
            wall,
            cpu: 1.0,
            peak,
            written: 1.0,
            others: 0.0,
        }
    }

    #[test]
    fn each_promise_is_judged_at_its_limit_and_gaps_are_seen() {
        let verdicts = |wall, peak| {
            let report = Report {
                copies: vec![copied(OURS, wall, peak), copied(DUCKDB, 2.0, 1000.0)],
                ..Report::default()
            };
            let judged = judge(&report);
            judged
                .iter()
                .map(|target| target.measured.as_ref().map(|(_, is_met)| *is_met))
                .collect::<Vec<_>>()
        };
        assert_eq!(verdicts(1.0, 399.0), [None, Some(true), Some(true), None, None]);
        assert_eq!(verdicts(1.01, 400.0), [None, Some(false), Some(false), None, None]);
    }
}
