//! Deleting the events of teams that were deleted. Only from the embedded store: the tables of ClickHouse are looked after
//! by whoever runs it.

use std::time::Duration;

use events::Events;
use service::{Service, TeamId};
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
                tracing::error!(error, "could not read the deleted teams");
            }
        }
    };
    // What was begun and not finished is done the next time.
    let _ = stop.run_until_cancelled(Box::pin(forgetting)).await;
}

async fn forget_once(service: &Service, events: &Events) -> anyhow::Result<()> {
    for team in service.deleted_teams().await? {
        // One that fails does not keep the others' events.
        match forget_team(service, events, team).await {
            Ok(()) => tracing::info!(team = %team, "deleted the events of a deleted team"),
            Err(error) => {
                let error: &dyn std::error::Error = &*error;
                tracing::error!(team = %team, error, "could not delete the events of a deleted team");
            }
        }
    }
    Ok(())
}

async fn forget_team(service: &Service, events: &Events, team: TeamId) -> anyhow::Result<()> {
    events.forget_team(team.0).await?;
    service.forget_deleted_team(team).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use testkit::Kit;
    use testkit::databases::Backend;

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn one_team_that_fails_does_not_keep_the_others() {
        let kit = Kit::new(Backend::Sqlite).await;
        let mut deleted = Vec::new();
        for name in ["First", "Second"] {
            let team = kit
                .post(&kit.owner.key, &kit.at("teams/"), json!({ "name": name }))
                .await;
            let id = team.body["id"].as_i64().expect("a number");
            let gone = kit.delete(&kit.owner.key, &kit.at(&format!("teams/{id}/"))).await;
            assert_eq!(gone.status, 204, "{gone:?}");
            deleted.push(TeamId(id));
        }
        kit.service.clock().advance(chrono::TimeDelta::hours(1));
        assert_eq!(kit.service.deleted_teams().await.unwrap(), deleted);
        let [TeamId(failing), _] = deleted[..] else {
            panic!("{deleted:?}")
        };
        let refuse = format!(
            "CREATE TRIGGER refuse BEFORE DELETE ON deleted_team WHEN OLD.team_id = {failing} \
             BEGIN SELECT RAISE(ABORT, 'refused'); END"
        );
        kit.database.run(&refuse).await;
        forget_once(&kit.service, &kit.events).await.unwrap();
        assert_eq!(kit.service.deleted_teams().await.unwrap(), [TeamId(failing)]);
    }
}
