//! Events in through `/batch/`, and one tick of the schedule.

use std::fs;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::super::machine;
use super::super::servers::Hedgerow;
use super::measuring::{Bench, json, number};
use crate::http;
use crate::postgres::Cluster;
use crate::say;

/// Exports that are due at the same full hour.
pub(super) const EXPORTS: u32 = 100_000;

const ROUNDS: usize = 3;
/// Of one round.
pub(super) const SECONDS: u32 = 8;

/// The median round of sending.
pub(super) struct Ingested {
    /// Events a second.
    pub(super) rate: f64,
    /// Of one request, in milliseconds.
    pub(super) p50: f64,
    pub(super) p99: f64,
    /// All that was answered with 200 in all rounds, and all that the store held afterwards.
    pub(super) sent: u64,
    pub(super) stored: u64,
    /// The share of the processor that was busy with anything at all.
    pub(super) busy: f64,
}

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

pub(super) struct Cost {
    pub(super) wall: f64,
    pub(super) ours: f64,
    pub(super) database: f64,
}

impl Bench<'_> {
    pub(super) fn ingest(&self) -> Result<Ingested> {
        say("ingest");
        let folder = self.disk.join("ingest");
        let hedgerow = Hedgerow::seeded(&crate::target().join("release/hedgerow"), &folder, None, 1, 1)?;
        let ready = hedgerow.start()?;
        let answer = http::send(ready.port, &hedgerow.teams())?;
        let teams: Value = serde_json::from_slice(&answer.body)?;
        let team = &teams["results"][0];
        let token = team["api_token"]
            .as_str()
            .with_context(|| format!("no team in {teams}"))?;
        let team = team["id"].as_i64().context("no id of the team")?;
        let mut rounds = Vec::new();
        let before = machine::times()?;
        for _ in 0..ROUNDS {
            let address = format!("127.0.0.1:{}", ready.port);
            let took = json(self.helper().args([
                "ingest",
                "--address",
                &address,
                "--token",
                token,
                "--seconds",
                &SECONDS.to_string(),
            ]))
            .with_context(|| format!("the server said:\n{}", ready.server.last_lines()))?;
            rounds.push(took);
        }
        let busy = machine::others(before, machine::times()?, 0.0);
        drop(ready);
        let store = folder.join("data/events.sqlite");
        let counted = json(
            self.helper()
                .args(["count", "--team", &team.to_string(), "--store"])
                .arg(&store),
        )?;
        let sent = rounds.iter().filter_map(|round| round["events"].as_u64()).sum();
        let stored = counted["events"].as_u64().context("no count")?;
        ensure!(stored >= sent, "{sent} events were sent and {stored} are stored");
        fs::remove_dir_all(&folder)?;
        median(&rounds, sent, stored, busy)
    }

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

fn median(rounds: &[Value], sent: u64, stored: u64, busy: f64) -> Result<Ingested> {
    let rate = |round: &Value| -> Result<f64> { Ok(number(round, "events")? / number(round, "wall")?) };
    let mut by_rate = rounds
        .iter()
        .map(|round| Ok((rate(round)?, round)))
        .collect::<Result<Vec<_>>>()?;
    by_rate.sort_by(|one, other| one.0.total_cmp(&other.0));
    let (rate, round) = by_rate[by_rate.len() / 2];
    say(&format!("  {rate:.0} events/s"));
    Ok(Ingested {
        rate,
        p50: number(round, "p50")? * 1000.0,
        p99: number(round, "p99")? * 1000.0,
        sent,
        stored,
        busy,
    })
}

fn cost(took: &Value) -> Result<Cost> {
    Ok(Cost {
        wall: number(took, "wall")?,
        ours: number(took, "ours")?,
        database: number(took, "database")?,
    })
}
