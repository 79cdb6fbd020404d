//! Deletes what is left of exports and configurations of apps that were deleted.

use std::time::Duration;

use service::Service;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

const EVERY: Duration = Duration::from_secs(5);
/// Between two transactions while there is something to delete: others write in the meantime.
const PAUSE: Duration = Duration::from_millis(50);

pub(crate) async fn delete(service: Service, stop: CancellationToken) {
    let deleting = async {
        loop {
            let is_more = service.delete_leftovers().await.unwrap_or_else(|error| {
                let error = &error as &dyn std::error::Error;
                tracing::error!(error, "could not delete what deleted exports and apps have left");
                false
            });
            sleep(if is_more { PAUSE } else { EVERY }).await;
        }
    };
    // A transaction that was begun is undone.
    let _: Option<()> = stop.run_until_cancelled(Box::pin(deleting)).await;
}
