//! The schedule: runs made, and carried out.

use std::fs;

use anyhow::Result;
use serde_json::Value;

use super::super::figures::{json, kept, number};
use super::super::machine;
use super::measuring::Bench;
use crate::postgres::Cluster;
use crate::{process, say, tools};

/// Exports that are due at the same full hour.
pub(super) const EXPORTS: u32 = 100_000;
/// Runs to carry out: so many that Temporal's server does not take an hour.
pub(super) const RUNS: u32 = 10_000;

/// What scheduling took, in seconds.
pub(super) struct Tick {
    /// How many ticks it took until all runs were made, and all of them together.
    pub(super) count: f64,
    pub(super) all: Cost,
    /// The most expensive of them.
    pub(super) due: Cost,
    /// The one after them, which finds nothing to do.
    pub(super) idle: Cost,
    pub(super) postgres: String,
    pub(super) load: String,
}

/// The same number of runs carried out by Hedgerow, and of empty workflows by Temporal's development server.
pub(super) struct CarriedOut {
    pub(super) ours: Cost,
    /// Seconds; none if it is not installed.
    pub(super) temporal: Option<f64>,
}

pub(super) struct Cost {
    pub(super) wall: f64,
    pub(super) ours: f64,
    pub(super) database: f64,
}

impl Bench<'_> {
    pub(super) fn schedule(&self) -> Result<Tick> {
        say("schedule");
        let cluster = Cluster::start(self.disk, &["shared_buffers=256MB"])?;
        let load = fs::read_to_string("/proc/loadavg")?;
        let took = json(
            self.helper()
                .args(["schedule", "--exports", &EXPORTS.to_string()])
                .env("TESTKIT_POSTGRES", cluster.url()),
        )?;
        let tick = Tick {
            count: number(&took, "ticks")?,
            all: cost(&took["all"])?,
            due: cost(&took["due"])?,
            idle: cost(&took["idle"])?,
            postgres: cluster.version()?,
            load: load.split(' ').next().unwrap_or_default().to_owned(),
        };
        say(&format!(
            "  {} ticks, the most expensive {:.2} s, {:.2} CPU s of Hedgerow, {:.2} of PostgreSQL",
            tick.count, tick.due.wall, tick.due.ours, tick.due.database
        ));
        Ok(tick)
    }
}

impl Bench<'_> {
    pub(super) fn carry_out(&self) -> Result<CarriedOut> {
        say("runs carried out");
        // The folder of the schedule has a cluster already.
        let folder = self.disk.join("carry-out");
        fs::create_dir_all(&folder)?;
        let cluster = Cluster::start(&folder, &["shared_buffers=256MB"])?;
        machine::wait_for_quiet()?;
        let took = json(
            self.helper()
                .args(["carry-out", "--exports", &RUNS.to_string()])
                .env("TESTKIT_POSTGRES", cluster.url()),
        )?;
        drop(cluster);
        let ours = cost(&took)?;
        say(&format!("  {RUNS} runs in {:.1} s", ours.wall));
        let temporal = kept("Temporal", temporal());
        Ok(CarriedOut { ours, temporal })
    }
}

fn temporal() -> Result<f64> {
    let scripts = crate::root().join("bench/schedule");
    let wanted = fs::read_to_string(scripts.join("requirements.txt"))?;
    let python = tools::python("temporal", &wanted.lines().collect::<Vec<_>>())?.join("python");
    machine::wait_for_quiet()?;
    let mut command = process::command(python);
    command.arg(scripts.join("temporal.py")).arg(RUNS.to_string());
    let seconds = number(&json(&mut command)?, "wall")?;
    say(&format!("  {RUNS} empty workflows of Temporal in {seconds:.1} s"));
    Ok(seconds)
}

fn cost(took: &Value) -> Result<Cost> {
    Ok(Cost {
        wall: number(took, "wall")?,
        ours: number(took, "ours")?,
        database: number(took, "database")?,
    })
}
