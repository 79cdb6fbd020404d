//! Runs the tasks of apps: what they do on a schedule, and the jobs that they queued.

use std::sync::{Arc, OnceLock};

use sandbox::{Failure, Json};
use service::lease::until_lost;
use service::pipeline::{AppTask, TaskKind, TaskOutcome};
use service::{OrganizationId, Result};
use tokio::time::timeout;

use crate::apps::Apps;
use crate::errors::{log, preempted};
use crate::host::Outlet;
use crate::instances::PooledInstance;
use crate::scheduler::Permit;

/// How the work on a task ended.
enum Ended {
    Called(Result<(), Failure>),
    Preempted,
    LeaseLost,
}

impl Apps {
    /// False: others were faster.
    pub(super) async fn do_task(&self, organization: OrganizationId, permit: &Permit) -> Result<bool> {
        let core = &self.core;
        let claimed = permit
            .timed(Box::pin(core.service.claim_app_task(core.worker, organization)))
            .await?;
        match claimed {
            // Others have the permit by now.
            Some(task) if permit.is_preempted() => {
                let reason = preempted().to_string();
                let postponed = TaskOutcome::Postponed { reason: &reason };
                permit
                    .timed(Box::pin(core.service.end_app_task(&task, postponed)))
                    .await
                    .map(|()| true)
            }
            Some(task) => self.run_task(&task, permit).await.map(|()| true),
            None => Ok(false),
        }
    }

    async fn run_task(&self, task: &AppTask, permit: &Permit) -> Result<()> {
        let service = &self.core.service;
        permit.begin_call();
        let outlet = OnceLock::new();
        let ended = tokio::select! {
            outcome = self.call(task, permit.rank(), &outlet) => Ended::Called(outcome),
            () = permit.preempted() => Ended::Preempted,
            () = until_lost(|| service.renew_task_lease(task), |error| log(&error)) => Ended::LeaseLost,
        };
        permit.end_call();
        // However it ended: what the app has said, and whom it has sent something.
        if let Some(outlet) = outlet.into_inner() {
            permit.timed(Outlet::flush(&outlet)).await;
        }
        let error;
        let outcome = match ended {
            Ended::LeaseLost => {
                tracing::info!(task = task.name, "lost the task's lease");
                return Ok(());
            }
            Ended::Called(Ok(())) => TaskOutcome::Done,
            Ended::Preempted => {
                error = preempted().to_string();
                TaskOutcome::Postponed { reason: &error }
            }
            Ended::Called(Err(failure)) => {
                error = failure.to_string();
                match failure {
                    Failure::Busy | Failure::Evicted => TaskOutcome::Postponed { reason: &error },
                    failure => TaskOutcome::Failed {
                        error: &error,
                        is_retryable: failure.is_retry(),
                    },
                }
            }
        };
        permit.timed(Box::pin(service.end_app_task(task, outcome))).await
    }

    /// How it went. What the app says goes into the outlet, which is in `used_outlet` also if nobody waits for the end of this.
    async fn call(&self, task: &AppTask, rank: u32, used_outlet: &OnceLock<Arc<Outlet>>) -> Result<(), Failure> {
        let core = &self.core;
        let mut pooled = match self.instances.take(core, &task.runnable, rank).await {
            Ok(pooled) => pooled,
            Err((failure, outlet)) => {
                used_outlet.get_or_init(|| outlet);
                return Err(failure);
            }
        };
        used_outlet.get_or_init(|| pooled.outlet.clone());
        match timeout(core.longest(), set_up_and_call(&mut pooled, task)).await {
            Ok(outcome) => {
                self.instances.put_back(task.runnable.config.id, pooled);
                outcome
            }
            // One that was cut short is dropped, and its process with it.
            Err(_) => Err(pooled.instance.out_of_time()),
        }
    }
}

async fn set_up_and_call(pooled: &mut PooledInstance, task: &AppTask) -> Result<(), Failure> {
    pooled.instance.setup().await?;
    match task.kind {
        TaskKind::Schedule => {
            let nothing: [(); 0] = [];
            pooled.instance.call_with(&task.name, &nothing).await.map(drop)
        }
        TaskKind::Job => {
            let payload = Json::from_text(task.payload.clone()).unwrap_or_else(Json::null);
            pooled.instance.call_job(&task.name, payload).await
        }
    }
}
