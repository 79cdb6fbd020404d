//! Working: carrying out exports and running apps beside the processes that serve.

use anyhow::ensure;
use apps::Apps;
use exports::Exports;
use tokio_util::sync::CancellationToken;

use crate::operation::{self, Audience, Readiness};
use crate::settings::Settings;
use crate::{commands, deps, serve, store, telemetry};

pub(crate) async fn work(settings: Settings) -> anyhow::Result<()> {
    ensure!(
        settings.data.workers > 0,
        "HEDGEROW_WORKERS is 0: set it to at least 1 to run workers"
    );
    let traces = telemetry::start(&settings)?;
    let service = commands::service(&settings).await?;
    service.follow_database_clock().await?;
    let events = store::open(&settings, &service).await?;
    let exports_deps = deps::exports_deps(&settings)?;
    let exports = Exports::new(
        service.clone(),
        events.clone(),
        exports_deps,
        settings.data.workers.into(),
    );
    let stop = CancellationToken::new();
    let apps = Apps::new(service.clone(), events.clone(), deps::apps(&settings)?);
    let readiness = Readiness::default();
    if let Some(at) = settings.health_listen {
        let metrics = telemetry::count(service.store().kind())?;
        let measures = operation::metrics(service.clone(), metrics, Audience::Operators, &settings);
        let health = operation::health(service.clone(), readiness.clone(), apps.clone(), &settings);
        serve::watch_over(at, health.merge(measures), stop.clone()).await?;
    }
    let work = tokio::spawn({
        let stop = stop.clone();
        async move { exports.work(stop).await }
    });
    let clock = tokio::spawn(serve::keep_time(service.clone(), stop.clone()));
    let heartbeat = tokio::spawn(serve::listen_to_database(service.clone(), stop.clone()));
    let running = tokio::spawn({
        let stop = stop.clone();
        async move { apps.work(stop).await }
    });
    readiness.set(true);
    tracing::info!(
        workers = settings.data.workers,
        database = service.store().kind(),
        events = events.kind(),
        "working"
    );
    serve::told_to_stop().await;
    tracing::info!("stopping");
    readiness.set(false);
    tokio::spawn(serve::end_at_last());
    stop.cancel();
    work.await?;
    running.await?;
    clock.await?;
    heartbeat.await?;
    service.store().close().await;
    store::close(&events).await?;
    drop(traces);
    Ok(())
}
