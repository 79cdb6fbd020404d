//! Logs, metrics and traces.

mod json_lines;

use std::io::IsTerminal;
use std::time::Duration;

use anyhow::Context;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::WithExportConfig;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::fmt::format::JsonFields;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

use self::json_lines::JsonLines;
use crate::settings::Settings;

/// From half a millisecond to ten seconds: the target is five milliseconds.
const LATENCY_BUCKETS: [f64; 12] = [0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0];
const EXPORT_TIMEOUT: Duration = Duration::from_secs(5);

/// Sends what is left when it is dropped.
pub(crate) struct Traces(Option<SdkTracerProvider>);

impl Drop for Traces {
    fn drop(&mut self) {
        if let Some(provider) = self.0.take() {
            // There is nobody left to tell about a failure.
            let _ = provider.shutdown();
        }
    }
}

/// People get lines they can read, programs get JSON. Both go to standard error.
pub(crate) fn start(settings: &Settings) -> anyhow::Result<Traces> {
    // PostgreSQL comments on what is normal here, such as tables that are there already.
    let filter = EnvFilter::try_new(format!("sqlx::postgres::notice=error,{}", settings.log))
        .with_context(|| format!("{} is not a valid log filter", settings.log))?;
    let format = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let format = if std::io::stderr().is_terminal() {
        format.with_target(false).boxed()
    } else {
        format.fmt_fields(JsonFields::new()).event_format(JsonLines).boxed()
    };
    let provider = settings.otlp_endpoint.as_ref().map(exporter).transpose()?;
    let traces = provider.as_ref().map(|provider| {
        tracing_opentelemetry::layer()
            .with_tracer(provider.tracer("hedgerow"))
            // Libraries have spans of their own, which tell an operator nothing.
            .with_filter(filter_fn(|metadata| metadata.target().starts_with("api::")))
    });
    tracing_subscriber::registry()
        .with(filter)
        .with(format)
        .with(traces)
        .init();
    Ok(Traces(provider))
}

fn exporter(endpoint: &url::Url) -> anyhow::Result<SdkTracerProvider> {
    outbound::tls::set_default_provider();
    let exporter = opentelemetry_otlp::SpanExporter::builder()
        .with_http()
        .with_endpoint(format!("{}/v1/traces", endpoint.as_str().trim_end_matches('/')))
        .with_timeout(EXPORT_TIMEOUT)
        .build()
        .context("cannot export traces")?;
    let resource = opentelemetry_sdk::Resource::builder()
        .with_service_name("hedgerow")
        .build();
    Ok(SdkTracerProvider::builder()
        .with_batch_exporter(exporter)
        .with_resource(resource)
        .build())
}

/// Starts to count. What was counted is read at `/metrics`.
pub(crate) fn count(database: &'static str) -> anyhow::Result<PrometheusHandle> {
    let duration = Matcher::Suffix("_duration_seconds".to_owned());
    let handle = PrometheusBuilder::new()
        .set_buckets_for_metric(duration, &LATENCY_BUCKETS)?
        .install_recorder()?;
    metrics::describe_counter!(
        "hedgerow_http_requests_total",
        "HTTP requests by method, route and status."
    );
    metrics::describe_histogram!(
        "hedgerow_http_request_duration_seconds",
        "Duration of HTTP requests in seconds."
    );
    metrics::describe_gauge!("hedgerow_disk_free_bytes", "Free space on the disk of the data folder.");
    metrics::describe_gauge!("hedgerow_database_connections", "Open and idle database connections.");
    metrics::describe_counter!("hedgerow_captured_events_total", "Events captured and stored.");
    metrics::describe_counter!(
        "hedgerow_capture_requests_refused_total",
        "Capture requests that were rejected or failed."
    );
    metrics::describe_counter!(
        "hedgerow_export_attempts_total",
        "Finished run attempts by export and outcome."
    );
    metrics::describe_counter!(
        "hedgerow_export_rows_total",
        "Rows acknowledged by the export's destination."
    );
    metrics::describe_counter!(
        "hedgerow_export_bytes_total",
        "Bytes acknowledged by the export's destination."
    );
    metrics::describe_gauge!(
        "hedgerow_export_delivered_until_seconds",
        "End of the latest interval delivered on schedule, as a Unix timestamp."
    );
    metrics::describe_gauge!(
        "hedgerow_export_interval_seconds",
        "Length of the latest interval delivered on schedule."
    );
    metrics::describe_counter!(
        "hedgerow_app_events_total",
        "Events passed to an app, by configuration and outcome."
    );
    metrics::describe_gauge!(
        "hedgerow_sandbox_layer",
        "1 if the sandbox layer is available on this system, otherwise 0."
    );
    metrics::describe_gauge!("hedgerow_build_info", "Build information in labels. Always 1.");
    let (version, commit) = (env!("CARGO_PKG_VERSION"), env!("BUILD_COMMIT"));
    metrics::gauge!("hedgerow_build_info", "version" => version, "commit" => commit, "database" => database).set(1.0);
    Ok(handle)
}
