//! Serving: from an open database to the last answer before the process ends.

use std::io::{ErrorKind, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::Context;
use apps::Apps;
use exports::Exports;
use identity::Identity;
use metrics_exporter_prometheus::PrometheusHandle;
use service::Service;
use service::bootstrap::{BootstrapOptions, InitialCredentials};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{interval, sleep, timeout};
use tokio_util::sync::CancellationToken;
use url::Position;

use crate::connections::{self, Limits};
use crate::operation::{self, Audience, Readiness};
use crate::settings::Settings;
use crate::{cleanup, commands, data_folder, deleted_teams, deps, open_files, store, telemetry};

/// Stopping ends by then, whatever is in progress: draining, and taking back what runs have sent, each in its own time.
const STOP_LIMIT: Duration = Duration::from_mins(1);
const UPKEEP_EVERY: Duration = Duration::from_secs(5);
/// How often a process that lives long compares its clock with the database's.
const CLOCK_EVERY: Duration = Duration::from_secs(5);
const CLEAR_EVERY: Duration = Duration::from_mins(10);
const ADDRESS_WAIT_LIMIT: Duration = Duration::from_secs(2);
const ADDRESS_PAUSE: Duration = Duration::from_millis(50);
/// For those who look after the server.
const HEALTH_CONNECTIONS: usize = 100;

pub(crate) async fn serve(settings: Settings) -> anyhow::Result<()> {
    let traces = telemetry::start(&settings)?;
    let listener = listen(settings.listen).await?;
    let address = listener.local_addr()?;
    let _lock = data_folder::lock(&settings)?;
    let service = commands::open(&settings, settings.site_url(address)).await?;
    service.follow_database_clock().await?;
    let identity = Identity::new(service.clone(), deps::deps(&settings)?);
    service.store().check().await?;
    let events = store::open(&settings, &service).await?;
    store::check(&events).await?;
    let exports = Exports::new(
        service.clone(),
        events.clone(),
        deps::exports_deps(&settings)?,
        settings.data.workers.into(),
    );
    let apps = Apps::new(service.clone(), events.clone(), deps::apps(&settings)?);
    let metrics = telemetry::count(service.store().kind())?;
    if let Some(credentials) = service.bootstrap(&bootstrap_options(&settings)).await? {
        greet(&credentials, &settings, address)?;
    }

    let readiness = Readiness::default();
    let app = api::router(
        identity.clone(),
        exports.clone(),
        apps.clone(),
        api_settings(&settings),
        Some(console::router(identity.clone(), exports.clone(), apps.clone())),
    )
    .merge(api::capture_router(
        service.clone(),
        events.clone(),
        api_settings(&settings),
    ))
    .merge(operation::health(
        service.clone(),
        readiness.clone(),
        apps.clone(),
        &settings,
    ));
    let stop = CancellationToken::new();
    let measures = |audience| operation::metrics(service.clone(), metrics.clone(), audience, &settings);
    let app = match settings.health_listen {
        None => app.merge(measures(Audience::Anybody)),
        Some(at) => {
            let health = operation::health(service.clone(), readiness.clone(), apps.clone(), &settings);
            watch_over(at, health.merge(measures(Audience::Operators)), stop.clone()).await?;
            app
        }
    };
    let work = tokio::spawn({
        let (identity, stop) = (identity.clone(), stop.clone());
        async move { identity.work(stop).await }
    });
    let exporting = tokio::spawn({
        let stop = stop.clone();
        async move { exports.work(stop).await }
    });
    let running = tokio::spawn({
        let stop = stop.clone();
        async move { apps.work(stop).await }
    });
    let forgetting = tokio::spawn(deleted_teams::forget(service.clone(), events.clone(), stop.clone()));
    let deleting = tokio::spawn(cleanup::delete(service.clone(), stop.clone()));
    let clock = tokio::spawn(keep_time(service.clone(), stop.clone()));
    let heartbeat = tokio::spawn(listen_to_database(service.clone(), stop.clone()));
    let upkeep = tokio::spawn(keep_up(service.clone(), metrics, stop.clone()));
    let stopping = tokio::spawn(wait_to_stop(readiness.clone(), settings.shutdown_delay, stop.clone()));

    readiness.set(true);
    tracing::info!(%address, database = service.store().kind(), events = events.kind(), "listening");
    connections::accept(listener, app, limits(&settings), stop).await;
    stopping.abort();
    work.await?;
    exporting.await?;
    running.await?;
    forgetting.await?;
    deleting.await?;
    upkeep.await?;
    clock.await?;
    heartbeat.await?;
    // What was noted while the last requests were answered.
    log(service.flush_key_use().await.map(drop));
    service.store().close().await;
    if let Err(error) = store::close(&events).await {
        tracing::error!(
            error = &error as &dyn std::error::Error,
            "the event store did not close cleanly"
        );
    }
    tracing::info!("stopped");
    drop(traces);
    Ok(())
}

/// A server that was killed may leave its address to processes that it was just starting, for a moment.
async fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    let began = Instant::now();
    loop {
        match TcpListener::bind(address).await {
            Err(error) if error.kind() == ErrorKind::AddrInUse && began.elapsed() < ADDRESS_WAIT_LIMIT => {
                sleep(ADDRESS_PAUSE).await;
            }
            bound => {
                return bound.with_context(|| {
                    format!("cannot listen on {address}: set another address with --listen, such as 127.0.0.1:8001")
                });
            }
        }
    }
}

/// Answers those who look after the server at an address of their own, where nobody else is in their way.
pub(crate) async fn watch_over(at: SocketAddr, health: axum::Router, stop: CancellationToken) -> anyhow::Result<()> {
    let listener = listen(at).await?;
    tracing::info!(address = %listener.local_addr()?, "listening for health checks");
    let limits = Limits {
        connections: HEALTH_CONNECTIONS,
        of_network: HEALTH_CONNECTIONS,
        ..Limits::default()
    };
    tokio::spawn(connections::accept(listener, health, limits, stop));
    Ok(())
}

fn limits(settings: &Settings) -> Limits {
    let connections = open_files::room_for_connections(Limits::default().connections);
    // Where there is room for few, one address must not have all of it either.
    let of_network = settings.connections_per_address.min((connections / 4).max(1));
    Limits {
        connections,
        of_network,
        requests_of_network: settings.connections_per_address.saturating_mul(2),
        proxies: settings.trusted_proxies.clone(),
        ..Limits::default()
    }
}

fn bootstrap_options(settings: &Settings) -> BootstrapOptions {
    BootstrapOptions {
        email: settings.bootstrap_email.clone(),
        password: settings.bootstrap_password.clone(),
        api_key: settings.bootstrap_api_key.clone(),
    }
}

fn api_settings(settings: &Settings) -> api::Settings {
    api::Settings {
        site_url: settings.site_url.as_ref().map(ToString::to_string),
        apps_host: settings
            .apps_url
            .as_ref()
            .map(|url| url[Position::BeforeHost..Position::AfterPort].to_owned()),
        trusted_proxies: settings.trusted_proxies.clone(),
        rate_limit: settings.rate_limit,
        cors_origins: settings.cors_origins.clone(),
        capture_memory: Some(settings.data.capture_memory.saturating_mul(1024 * 1024)),
        traces_requests: settings.otlp_endpoint.is_some(),
    }
}

/// Tells a new operator what to do next. Secrets they chose themselves are not repeated.
fn greet(credentials: &InitialCredentials, settings: &Settings, address: SocketAddr) -> std::io::Result<()> {
    let base = settings
        .site_url
        .as_ref()
        .map_or_else(|| format!("http://{address}"), ToString::to_string);
    let base = base.trim_end_matches('/');
    let shown =
        |given: &Option<String>, made: &str| given.as_ref().map_or(made.to_owned(), |_| "(as configured)".to_owned());
    let key = match &settings.bootstrap_api_key {
        Some(_) => "$HEDGEROW_BOOTSTRAP_API_KEY",
        None => &credentials.api_key,
    };
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "\nWelcome to Hedgerow. Save these credentials, they are shown only once:\n"
    )?;
    writeln!(out, "  email     {}", credentials.email)?;
    writeln!(
        out,
        "  password  {}",
        shown(&settings.bootstrap_password, &credentials.password)
    )?;
    writeln!(
        out,
        "  API key   {}",
        shown(&settings.bootstrap_api_key, &credentials.api_key)
    )?;
    writeln!(out, "\nYour first request:\n")?;
    writeln!(
        out,
        "  curl -H \"Authorization: Bearer {key}\" {base}/api/organizations/"
    )?;
    writeln!(out, "\nYour first event:\n")?;
    let event = format!(
        r#"{{"api_key":"{}","event":"hello","distinct_id":"me"}}"#,
        credentials.team_token
    );
    writeln!(out, "  curl {base}/capture/ -d '{event}'")?;
    writeln!(out, "\nConsole:        {base}/login/")?;
    writeln!(out, "API reference:  {base}/api/docs/\n")?;
    out.flush()
}

/// Small work that is due now and then.
async fn keep_up(service: Service, metrics: PrometheusHandle, stop: CancellationToken) {
    let (mut often, mut seldom) = (interval(UPKEEP_EVERY), interval(CLEAR_EVERY));
    while !stop.is_cancelled() {
        tokio::select! {
            () = stop.cancelled() => {}
            _ = often.tick() => metrics.run_upkeep(),
            _ = seldom.tick() => {
                log(recover_from_clock(&service).await);
                log(service.delete_old_idempotent_responses().await.map(drop));
                log(service.forget_old_mail().await.map(drop));
                log(service.forget_old_counts().await);
                log(service.forget_old_networks().await);
                log(service.forget_old_logs().await.map(drop));
                log(service.forget_old_app_logs().await.map(drop));
            }
        }
        log(service.flush_key_use().await.map(drop));
    }
}

async fn recover_from_clock(service: &Service) -> service::Result<()> {
    let left = service.recover_from_clock().await?;
    if left.recalled > 0 {
        tracing::warn!(
            count = left.recalled,
            "resuming work that was delayed by a clock that was ahead"
        );
    }
    if left.ahead > 0 {
        tracing::error!(
            count = left.ahead,
            "exports are waiting: a clock was ahead, and future intervals are marked as exported"
        );
    }
    Ok(())
}

/// Listens whether the database answers.
pub(crate) async fn listen_to_database(service: Service, stop: CancellationToken) {
    let _ = stop.run_until_cancelled(service.listen_to_database()).await;
}

/// Compares the clock with the database's, again and again.
pub(crate) async fn keep_time(service: Service, stop: CancellationToken) {
    let mut tick = interval(CLOCK_EVERY);
    let keeping = async {
        loop {
            tick.tick().await;
            let off_by = service.clock().jump().unwrap_or_default();
            metrics::gauge!("hedgerow_clock_jump_seconds").set(off_by.as_seconds_f64());
            if let Err(error) = service.follow_database_clock().await {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "could not read the time from the database"
                );
            }
        }
    };
    let _ = stop.run_until_cancelled(keeping).await;
}

fn log(result: service::Result<()>) {
    if let Err(error) = result {
        tracing::error!(error = &error as &dyn std::error::Error, "maintenance failed");
    }
}

/// Waits for SIGTERM or Ctrl-C.
pub(crate) async fn told_to_stop() {
    let Ok(mut terminate) = signal(SignalKind::terminate()) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}

/// On SIGTERM or Ctrl-C readiness goes first, so that load balancers look elsewhere; serving ends after the delay.
async fn wait_to_stop(readiness: Readiness, delay: u64, stop: CancellationToken) {
    told_to_stop().await;
    readiness.set(false);
    tracing::info!("stopping");
    // Whoever says it twice does not want to wait.
    let _ = timeout(Duration::from_secs(delay), told_to_stop()).await;
    tokio::spawn(end_at_last());
    stop.cancel();
}

/// Ends the process when stopping takes too long.
pub(crate) async fn end_at_last() {
    tokio::time::sleep(STOP_LIMIT).await;
    tracing::error!("shutdown timed out; exiting anyway");
    std::process::exit(1);
}
