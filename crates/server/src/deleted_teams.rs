//! Deleting the events of teams that were deleted. Only from the embedded store: the tables of ClickHouse are looked after
//! by whoever runs it.

use std::time::Duration;

use events::Events;
use service::Service;
use tokio::time::interval;
use tokio_util::sync::CancellationToken;

const EVERY: Duration = Duration::from_mins(10);

pub(crate) async fn forget(service: Service, events: Events, stop: CancellationToken) {
    if !matches!(events, Events::Embedded(_)) {
        return;
    }
    let mut tick = interval(EVERY);
    let forgetting = async {
        loop {
            tick.tick().await;
            if let Err(error) = forget_once(&service, &events).await {
                let error: &dyn std::error::Error = &*error;
                tracing::error!(error, "the events of a deleted team could not be deleted");
            }
        }
    };
    // What was begun and not finished is done the next time.
    let _ = stop.run_until_cancelled(forgetting).await;
}

async fn forget_once(service: &Service, events: &Events) -> anyhow::Result<()> {
    for team in service.deleted_teams().await? {
        events.forget_team(team.0).await?;
        service.forget_deleted_team(team).await?;
        tracing::info!(team = %team, "the events of a deleted team are deleted");
    }
    Ok(())
}
