//! Calls that are refused, and why.

use super::error::{ParseError, refuse};

/// What gives another result each time, so that a run that is repeated would not repeat its rows.
pub(super) const UNSTEADY: &[&str] = &[
    "now",
    "now64",
    "today",
    "yesterday",
    "current_timestamp",
    "current_date",
    "current_time",
    "localtimestamp",
    "rand",
    "rand32",
    "rand64",
    "random",
    "randcanonical",
    "randomstring",
    "generateuuidv4",
    "generateuuidv7",
    "nowinblock",
    "utctimestamp",
    "rownumberinallblocks",
    "rownumberinblock",
];

pub(super) const AGGREGATES: &[&str] = &[
    "count",
    "countif",
    "sum",
    "sumif",
    "avg",
    "avgif",
    "min",
    "minif",
    "max",
    "maxif",
    "any",
    "anylast",
    "argmin",
    "argmax",
    "uniq",
    "uniqexact",
    "uniqif",
    "grouparray",
    "groupuniqarray",
    "quantile",
    "quantiles",
    "median",
    "stddevpop",
    "stddevsamp",
    "varpop",
    "varsamp",
    "topk",
    "sumarray",
    "countdistinct",
    "array_agg",
    "string_agg",
];

pub(super) fn is_one_of(name: &str, names: &[&str]) -> bool {
    names.iter().any(|other| other.eq_ignore_ascii_case(name))
}

pub(super) fn short(name: &str) -> String {
    name.chars().take(60).collect()
}

pub(super) fn wrong_count(name: &str, at_least: usize) -> ParseError {
    refuse(format!(
        "Wrong number of arguments for {name}. It takes at least {at_least}."
    ))
}

pub(super) fn unknown(name: &str) -> ParseError {
    let shown = short(name);
    if is_one_of(name, UNSTEADY) {
        return refuse(format!(
            "{shown} is not supported. A repeated run must return the same rows."
        ));
    }
    if is_one_of(name, AGGREGATES) {
        return refuse(format!(
            "Aggregate functions are not supported ({shown}). An export has one row per event or person."
        ));
    }
    refuse(format!(
        "Unknown function {shown}. See the query documentation for supported functions."
    ))
}
