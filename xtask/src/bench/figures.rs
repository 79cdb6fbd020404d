//! What programs of a benchmark print, and which of it becomes a gap in the table.

use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::{process, say};

/// The last line that a command printed, as JSON.
pub(super) fn json(command: &mut Command) -> Result<Value> {
    let printed = process::output(command)?;
    let line = printed.trim_end().lines().last().unwrap_or_default();
    serde_json::from_str(line).with_context(|| format!("{command:?} printed no JSON: {printed}"))
}

pub(super) fn number(value: &Value, name: &str) -> Result<f64> {
    value[name]
        .as_f64()
        .with_context(|| format!("no number `{name}` in {value}"))
}

/// A measurement that failed leaves a gap in the table and does not end the run.
pub(super) fn kept<T>(what: &str, measured: Result<T>) -> Option<T> {
    measured
        .inspect_err(|error| say(&format!("not measured: {what}: {error:#}")))
        .ok()
}

#[expect(clippy::cast_precision_loss, reason = "counts far below what a float holds")]
pub(super) fn f64_of(count: u64) -> f64 {
    count as f64
}

/// Of an odd number of measurements the one in the middle.
pub(super) fn median<T>(mut measured: Vec<T>, figure: impl Fn(&T) -> f64) -> Option<T> {
    measured.sort_by(|one, other| figure(one).total_cmp(&figure(other)));
    let middle = measured.len() / 2;
    (!measured.is_empty()).then(|| measured.swap_remove(middle))
}

pub(super) fn verdict(is_met: bool) -> &'static str {
    if is_met { "met" } else { "**not met**" }
}
