//! Working: carrying out exports and running apps beside the processes that serve.

use anyhow::ensure;
use apps::Apps;
use exports::Exports;
use tokio_util::sync::CancellationToken;

use crate::settings::Settings;
use crate::{commands, outside, serve, store, telemetry};

pub(crate) async fn work(settings: Settings) -> anyhow::Result<()> {
    ensure!(
        settings.data.workers > 0,
        "HEDGEROW_WORKERS is 0: there is nothing to work with"
    );
    let traces = telemetry::start(&settings)?;
    let service = commands::service(&settings).await?;
    service.follow_database_clock().await?;
    let events = store::open(&settings, &service).await?;
    let far_sides = outside::far_sides(&settings)?;
    let exports = Exports::new(service.clone(), events.clone(), far_sides, settings.data.workers.into());
    let stop = CancellationToken::new();
    let work = tokio::spawn({
        let stop = stop.clone();
        async move { exports.work(stop).await }
    });
    let clock = tokio::spawn(serve::keep_time(service.clone(), stop.clone()));
    let apps = Apps::new(service.clone(), events.clone(), outside::apps(&settings)?);
    let running = tokio::spawn({
        let stop = stop.clone();
        async move { apps.work(stop).await }
    });
    tracing::info!(
        workers = settings.data.workers,
        database = service.store().kind(),
        events = events.kind(),
        "working"
    );
    serve::told_to_stop().await;
    tracing::info!("stopping");
    tokio::spawn(serve::end_at_last());
    stop.cancel();
    work.await?;
    running.await?;
    clock.await?;
    service.store().close().await;
    store::close(&events).await?;
    drop(traces);
    Ok(())
}
