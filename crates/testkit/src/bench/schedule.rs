//! The schedule after the full hour, on PostgreSQL, with very many exports: runs made, and carried out.

use std::time::{Duration, Instant};

use chrono::TimeDelta;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::usage::cpu_seconds;
use crate::Kit;
use crate::databases::Backend;

/// How often it is looked whether all runs are done.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Makes hourly exports and lets their hour come: what all ticks took that made the runs, what the dearest of them took, and
/// what the next one did, which finds nothing.
pub async fn schedule(exports: i64) -> anyhow::Result<Value> {
    let kit = with_due_exports(exports).await;
    let mut ticks = Vec::new();
    while kit.database.column::<i64>("SELECT count(*) FROM export_run").await != [exports] {
        ticks.push(tick(&kit).await?);
        anyhow::ensure!(ticks.len() < 1000, "the runs are never all made");
    }
    let idle = tick(&kit).await?.json();
    let dearest = ticks.iter().max_by(|one, other| one.cpu().total_cmp(&other.cpu()));
    let dearest = dearest.map(Cost::json);
    let all = ticks.iter().fold(Cost::default(), Cost::and);
    Ok(json!({ "exports": exports, "ticks": ticks.len(), "due": dearest, "all": all.json(), "idle": idle }))
}

/// Makes the runs of hourly exports to a destination that does nothing, and carries them all out, as a worker does.
pub async fn carry_out(exports: i64) -> anyhow::Result<Value> {
    let kit = with_due_exports(exports).await;
    let stop = CancellationToken::new();
    let worker = {
        let (exports, stop) = (kit.exports.clone(), stop.clone());
        tokio::spawn(async move { exports.work(stop).await })
    };
    let (ours, theirs, begun) = (cpu_seconds("self")?, database_seconds(&kit).await?, Instant::now());
    let completed = "SELECT count(*) FROM export_run WHERE status = 'Completed'";
    while kit.database.column::<i64>(completed).await != [exports] {
        tokio::time::sleep(LOOK_EVERY).await;
    }
    let cost = Cost {
        wall: begun.elapsed().as_secs_f64(),
        ours: cpu_seconds("self")? - ours,
        database: database_seconds(&kit).await? - theirs,
    };
    stop.cancel();
    worker.await?;
    Ok(cost.json())
}

/// An organization whose exports are all due now.
async fn with_due_exports(exports: i64) -> Kit {
    let kit = Kit::new(Backend::Postgres).await;
    let (organization, team) = (kit.organization, kit.team.0);
    kit.database
        .run(&format!(
            "INSERT INTO batch_export (id, organization_id, team_id, name, model, frequency, kind, config, paused, \
             scheduled_until, next_run_at, created_at, updated_at) \
             SELECT gen_random_uuid(), '{organization}', {team}, 'Export ' || i, 'events', 'hour', 'NoOp', '{{}}', false, \
             '2026-11-15 09:00Z', '2026-11-15 10:00Z', '2026-11-15 09:00Z', '2026-11-15 09:00Z' \
             FROM generate_series(1, {exports}) AS n(i)"
        ))
        .await;
    kit.database.run("VACUUM ANALYZE").await;
    kit.service.clock().advance(TimeDelta::minutes(30));
    kit
}

#[derive(Debug, Clone, Copy, Default)]
struct Cost {
    wall: f64,
    ours: f64,
    database: f64,
}

impl Cost {
    fn cpu(&self) -> f64 {
        self.ours + self.database
    }

    fn and(self, other: &Self) -> Self {
        Self {
            wall: self.wall + other.wall,
            ours: self.ours + other.ours,
            database: self.database + other.database,
        }
    }

    fn json(&self) -> Value {
        json!({ "wall": self.wall, "ours": self.ours, "database": self.database })
    }
}

async fn tick(kit: &Kit) -> anyhow::Result<Cost> {
    let (ours, theirs, begun) = (cpu_seconds("self")?, database_seconds(kit).await?, Instant::now());
    kit.exports.schedule().await?;
    let wall = begun.elapsed().as_secs_f64();
    Ok(Cost {
        wall,
        ours: cpu_seconds("self")? - ours,
        database: database_seconds(kit).await? - theirs,
    })
}

/// Of all processes of the database server but the one that starts them and those that have ended.
async fn database_seconds(kit: &Kit) -> anyhow::Result<f64> {
    let processes = kit
        .database
        .column::<i64>("SELECT pid::bigint FROM pg_stat_activity")
        .await;
    // The one that just answered may have gone.
    let seconds = processes
        .iter()
        .map(|process| cpu_seconds(&process.to_string()).unwrap_or(0.0));
    Ok(seconds.sum())
}
