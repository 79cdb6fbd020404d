//! Serving: from an open database to the last answer before the process ends.

use std::convert::Infallible;
use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use apps::Apps;
use axum::Router;
use axum::body::Body;
use exports::Exports;
use hyper::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use identity::Identity;
use metrics_exporter_prometheus::PrometheusHandle;
use service::Service;
use service::bootstrap::{Welcome, Wishes};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Semaphore;
use tokio::time::interval;
use tokio_util::sync::CancellationToken;

use crate::operation::{self, Readiness};
use crate::settings::Settings;
use crate::{commands, outside, store, telemetry};

const HEADER_LIMIT: Duration = Duration::from_secs(15);
const DRAIN_LIMIT: Duration = Duration::from_secs(30);
/// Stopping ends by then, whatever is under way: draining, and taking back what runs have sent, each in its own time.
const STOP_LIMIT: Duration = Duration::from_mins(1);
const UPKEEP_EVERY: Duration = Duration::from_secs(5);
const CLEAR_EVERY: Duration = Duration::from_mins(10);
const MOST_CONNECTIONS: usize = 10_000;

pub(crate) async fn serve(settings: Settings) -> anyhow::Result<()> {
    let traces = telemetry::start(&settings)?;
    let listener = listen(settings.listen).await?;
    let address = listener.local_addr()?;
    let service = commands::open(&settings, settings.site_url(address)).await?;
    let identity = Identity::new(service.clone(), outside::outside(&settings)?);
    let events = store::open(&settings).await?;
    let exports = Exports::new(
        service.clone(),
        events.clone(),
        outside::far_sides(&settings)?,
        settings.data.workers.into(),
    );
    let apps = Apps::new(service.clone(), events.clone(), outside::apps(&settings)?);
    let metrics = telemetry::count(service.store().kind())?;
    if let Some(welcome) = service.bootstrap(&wishes(&settings)).await? {
        greet(&welcome, &settings, address)?;
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
    .merge(operation::router(service.clone(), readiness.clone(), metrics.clone()));
    let stop = CancellationToken::new();
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
    let upkeep = tokio::spawn(keep_up(service.clone(), metrics, stop.clone()));
    let stopping = tokio::spawn(wait_to_stop(readiness.clone(), settings.shutdown_delay, stop.clone()));

    readiness.set(true);
    tracing::info!(%address, database = service.store().kind(), events = events.kind(), "listening");
    accept(listener, app, stop).await;
    stopping.abort();
    work.await?;
    exporting.await?;
    running.await?;
    upkeep.await?;
    // What was noted while the last requests were answered.
    log(service.flush_key_use().await.map(drop));
    service.store().close().await;
    if let Err(error) = store::close(&events).await {
        tracing::error!(
            error = &error as &dyn std::error::Error,
            "the event store did not close well"
        );
    }
    tracing::info!("stopped");
    drop(traces);
    Ok(())
}

async fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen at {address}: choose another with --listen, such as 127.0.0.1:8001"))
}

fn wishes(settings: &Settings) -> Wishes {
    Wishes {
        email: settings.bootstrap_email.clone(),
        password: settings.bootstrap_password.clone(),
        api_key: settings.bootstrap_api_key.clone(),
    }
}

fn api_settings(settings: &Settings) -> api::Settings {
    api::Settings {
        site_url: settings.site_url.as_ref().map(ToString::to_string),
        trusted_proxies: settings.trusted_proxies.clone(),
        rate_limit: settings.rate_limit,
        cors_origins: settings.cors_origins.clone(),
        capture_memory: Some(settings.data.capture_memory.saturating_mul(1024 * 1024)),
        traces_requests: settings.otlp_endpoint.is_some(),
    }
}

/// Tells a new operator what to do next. Secrets they chose themselves are not repeated.
fn greet(welcome: &Welcome, settings: &Settings, address: SocketAddr) -> std::io::Result<()> {
    let base = settings
        .site_url
        .as_ref()
        .map_or_else(|| format!("http://{address}"), ToString::to_string);
    let base = base.trim_end_matches('/');
    let shown =
        |given: &Option<String>, made: &str| given.as_ref().map_or(made.to_owned(), |_| "(as you set it)".to_owned());
    let key = match &settings.bootstrap_api_key {
        Some(_) => "$HEDGEROW_BOOTSTRAP_API_KEY",
        None => &welcome.api_key,
    };
    let mut out = std::io::stdout().lock();
    writeln!(out, "\nWelcome to Hedgerow. This is shown once, so keep it:\n")?;
    writeln!(out, "  e-mail    {}", welcome.email)?;
    writeln!(
        out,
        "  password  {}",
        shown(&settings.bootstrap_password, &welcome.password)
    )?;
    writeln!(
        out,
        "  API key   {}",
        shown(&settings.bootstrap_api_key, &welcome.api_key)
    )?;
    writeln!(out, "\nYour first request:\n")?;
    writeln!(
        out,
        "  curl -H \"Authorization: Bearer {key}\" {base}/api/organizations/"
    )?;
    writeln!(out, "\nYour first event:\n")?;
    let event = format!(
        r#"{{"api_key":"{}","event":"hello","distinct_id":"me"}}"#,
        welcome.project_token
    );
    writeln!(out, "  curl {base}/capture/ -d '{event}'")?;
    writeln!(out, "\nThe console, in a browser:   {base}/login/")?;
    writeln!(out, "The API, to read and to try: {base}/api/docs/\n")?;
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
                log(service.forget_old_answers().await.map(drop));
                log(service.forget_old_mail().await.map(drop));
                log(service.forget_old_counts().await);
                log(service.forget_old_logs().await.map(drop));
                log(service.forget_old_app_logs().await.map(drop));
            }
        }
        log(service.flush_key_use().await.map(drop));
    }
}

fn log(result: service::Result<()>) {
    if let Err(error) = result {
        tracing::error!(error = &error as &dyn std::error::Error, "upkeep failed");
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
    tokio::time::sleep(Duration::from_secs(delay)).await;
    tokio::spawn(end_at_last());
    stop.cancel();
}

/// Ends the process when stopping takes too long.
pub(crate) async fn end_at_last() {
    tokio::time::sleep(STOP_LIMIT).await;
    tracing::error!("something did not end in time; the process ends without it");
    std::process::exit(1);
}

async fn accept(listener: TcpListener, app: Router, stop: CancellationToken) {
    let open = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    let graceful = GracefulShutdown::new();
    let builder = protocol();
    loop {
        let next = async { (open.clone().acquire_owned().await, listener.accept().await) };
        let (permit, accepted) = tokio::select! {
            () = stop.cancelled() => break,
            next = next => next,
        };
        match accepted {
            Ok((stream, peer)) => {
                let spoke = Arc::new(AtomicBool::new(false));
                let answer = service_fn(answer(app.clone(), peer.ip(), spoke.clone()));
                let connection = graceful.watch(builder.serve_connection(io(stream), answer).into_owned());
                tokio::spawn(async move {
                    converse(connection, &spoke).await;
                    drop(permit);
                });
            }
            Err(error) => {
                // Out of file descriptors, most likely: others will close theirs.
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "could not accept a connection"
                );
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
    drop(listener);
    if tokio::time::timeout(DRAIN_LIMIT, graceful.shutdown()).await.is_err() {
        tracing::warn!("some connections were still busy and are cut");
    }
}

/// Serves a connection to its end, unless the client connects and then says nothing.
async fn converse(connection: impl Future, spoke: &AtomicBool) {
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        _ = &mut connection => return,
        () = tokio::time::sleep(HEADER_LIMIT) => {}
    }
    if spoke.load(Ordering::Relaxed) {
        connection.await;
    }
}

fn protocol() -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    // Whoever takes for ever to send a header is not waited for.
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_LIMIT);
    builder.http2().timer(TokioTimer::new());
    builder
}

fn io(stream: TcpStream) -> TokioIo<TcpStream> {
    // Answers are written whole, so there is nothing to gather.
    let _ = stream.set_nodelay(true);
    TokioIo::new(stream)
}

/// Hands each request of a connection to the app, with the address it came from.
fn answer(
    app: Router,
    peer: IpAddr,
    spoke: Arc<AtomicBool>,
) -> impl Fn(Request<Incoming>) -> axum::routing::future::RouteFuture<Infallible> + Clone {
    move |request| {
        spoke.store(true, Ordering::Relaxed);
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(api::Peer(peer));
        api::end_path_with_slash(&mut request);
        tower::Service::call(&mut app.clone(), request)
    }
}
