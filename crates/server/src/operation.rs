//! What operators and their machines ask: is it alive, is it ready, how is it doing.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use apps::Apps;
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use chrono::TimeDelta;
use metrics_exporter_prometheus::PrometheusHandle;
use rustix::fs::statvfs;
use sandbox::Layer;
use service::Service;
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::settings::Settings;

const PING_LIMIT: Duration = Duration::from_secs(2);
/// With less, a database or a store of events stops taking anything soon.
const MIN_FREE_DISK: u64 = 16 * MEBIBYTE;
const MEBIBYTE: u64 = 1024 * 1024;
const WRITE_AGAIN_AFTER: Duration = Duration::from_secs(1);
const PING_AGAIN_AFTER: Duration = Duration::from_millis(500);

/// Whether new requests are welcome.
#[derive(Debug, Clone, Default)]
pub(crate) struct Readiness(Arc<AtomicBool>);

impl Readiness {
    pub(crate) fn set(&self, is_ready: bool) {
        self.0.store(is_ready, Ordering::SeqCst);
    }
}

#[derive(Clone)]
struct Health {
    service: Service,
    readiness: Readiness,
    apps: Apps,
    data_dir: PathBuf,
    /// When the database was asked, and whether it answered.
    last_ping: Arc<Mutex<Option<(Instant, bool)>>>,
}

/// Who may ask how it is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Audience {
    /// Whoever reaches the server: nothing is told of what belongs to an organization.
    Anybody,
    /// Whoever reaches the address for those who look after it.
    Operators,
}

#[derive(Clone)]
struct Measures {
    service: Service,
    metrics: PrometheusHandle,
    audience: Audience,
    data_dir: PathBuf,
    /// When the page was written last, and what it says: anybody can ask, and it may be long.
    last_page: Arc<Mutex<Option<(Instant, Bytes)>>>,
}

/// Whether it is alive and ready.
pub(crate) fn health(service: Service, readiness: Readiness, apps: Apps, settings: &Settings) -> Router {
    let router = Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(is_ready))
        .with_state(Health {
            service: service.clone(),
            readiness,
            apps,
            data_dir: settings.data_dir.clone(),
            last_ping: Arc::default(),
        });
    api::with_request_ids(router, service)
}

/// How it is doing.
pub(crate) fn metrics(service: Service, metrics: PrometheusHandle, audience: Audience, settings: &Settings) -> Router {
    let router = Router::new().route("/metrics", get(metrics_page)).with_state(Measures {
        service: service.clone(),
        metrics,
        audience,
        data_dir: settings.data_dir.clone(),
        last_page: Arc::default(),
    });
    api::with_request_ids(router, service)
}

async fn is_ready(State(operation): State<Health>) -> (StatusCode, String) {
    if !operation.readiness.0.load(Ordering::SeqCst) {
        return (StatusCode::SERVICE_UNAVAILABLE, "stopping\n".to_owned());
    }
    if operation.is_disk_full() {
        let why = format!("the disk of {} is full\n", operation.data_dir.display());
        return (StatusCode::SERVICE_UNAVAILABLE, why);
    }
    if operation.database_answers().await {
        let jump = operation.service.clock().jump();
        return (StatusCode::OK, ready(&operation.apps.missing_layers(), jump));
    }
    let why = "the database is unavailable\n";
    (StatusCode::SERVICE_UNAVAILABLE, why.to_owned())
}

impl Health {
    fn is_disk_full(&self) -> bool {
        free_disk(&self.data_dir).is_some_and(|free| free < MIN_FREE_DISK)
    }

    /// Asked once for all who want to know at the same time, as anybody can ask.
    async fn database_answers(&self) -> bool {
        let mut last = self.last_ping.lock().await;
        if let Some((asked, answers)) = *last
            && asked.elapsed() < PING_AGAIN_AFTER
        {
            return answers;
        }
        let answers = matches!(timeout(PING_LIMIT, self.service.store().ping()).await, Ok(Ok(())));
        *last = Some((Instant::now(), answers));
        answers
    }
}

/// How many bytes may still be written there.
fn free_disk(folder: &Path) -> Option<u64> {
    let disk = statvfs(folder).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// Problems that do not make the server unready.
fn ready(missing: &[Layer], jump: Option<TimeDelta>) -> String {
    let layers = (!missing.is_empty()).then(|| {
        let names: Vec<&str> = missing.iter().map(|layer| layer.name()).collect();
        format!("the app sandbox lacks: {}\n", names.join(", "))
    });
    let clock = jump.map(|jump| {
        format!(
            "the system clock has jumped by {} s and is not used\n",
            jump.num_seconds()
        )
    });
    format!("ready\n{}{}", layers.unwrap_or_default(), clock.unwrap_or_default())
}

async fn metrics_page(State(measures): State<Measures>) -> impl IntoResponse {
    let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    (kind, measures.page().await)
}

impl Measures {
    /// Written once for all who ask within a second, and in memory once for all of them.
    async fn page(&self) -> Bytes {
        let mut last = self.last_page.lock().await;
        if let Some((written, page)) = &*last
            && written.elapsed() < WRITE_AGAIN_AFTER
        {
            return page.clone();
        }
        let pool = self.service.store().pool_use();
        metrics::gauge!("hedgerow_database_connections", "state" => "open").set(f64::from(pool.open));
        let idle = u32::try_from(pool.idle).unwrap_or(u32::MAX);
        metrics::gauge!("hedgerow_database_connections", "state" => "idle").set(f64::from(idle));
        if let Some(free) = free_disk(&self.data_dir) {
            let mebibytes = u32::try_from(free / MEBIBYTE).unwrap_or(u32::MAX);
            metrics::gauge!("hedgerow_disk_free_bytes").set(f64::from(mebibytes) * 1_048_576.0);
        }
        let (audience, metrics) = (self.audience, self.metrics.clone());
        let written = tokio::task::spawn_blocking(move || shown_to(audience, metrics.render()));
        let page = Bytes::from(written.await.unwrap_or_default());
        *last = Some((Instant::now(), page.clone()));
        page
    }
}

/// Leaves out the figures of each export and app, unless an operator asks.
fn shown_to(audience: Audience, page: String) -> String {
    if audience == Audience::Operators {
        return page;
    }
    let of_one = |line: &&str| {
        let name = line.trim_start_matches("# HELP ").trim_start_matches("# TYPE ");
        name.starts_with("hedgerow_export_") || name.starts_with("hedgerow_app_")
    };
    let lines = page.split_inclusive('\n').filter(|line| !of_one(line));
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::{Audience, shown_to};

    #[test]
    fn figures_of_one_export_are_for_operators() {
        let page = "# HELP hedgerow_export_rows_total Rows.\n# TYPE hedgerow_export_rows_total counter\n\
                    hedgerow_export_rows_total{export=\"x\"} 3\n\nhedgerow_http_requests_total{} 1\n";
        assert_eq!(shown_to(Audience::Operators, page.to_owned()), page);
        let left = shown_to(Audience::Anybody, page.to_owned());
        assert_eq!(left, "\nhedgerow_http_requests_total{} 1\n");
    }
}
