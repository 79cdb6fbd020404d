//! Counting requests. The series of a route are looked up once and kept, for naming them again costs time.

use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use axum::http::{Method, StatusCode};
use hashbrown::HashMap;
use metrics::{Counter, Histogram};

#[derive(Default)]
pub(crate) struct Meters(RwLock<HashMap<String, HashMap<Series, Meter>>>);

/// A method and a status.
type Series = (&'static str, u16);

#[derive(Clone)]
struct Meter {
    requests: Counter,
    duration: Histogram,
}

impl std::fmt::Debug for Meters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Meters").finish_non_exhaustive()
    }
}

impl Meters {
    pub(crate) fn count(&self, method: &Method, route: &str, status: StatusCode, took: Duration) {
        // Or anybody could make a series of every route with every method.
        let route = if status == StatusCode::METHOD_NOT_ALLOWED {
            "unmatched"
        } else {
            route
        };
        let series = (name(method), status.as_u16());
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(meter) = known.get(route).and_then(|route| route.get(&series)) {
            return meter.count(took);
        }
        drop(known);
        let meter = Meter::new(route, series);
        meter.count(took);
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        known.entry(route.to_owned()).or_default().insert(series, meter);
    }
}

impl Meter {
    fn new(route: &str, (method, status): Series) -> Self {
        let labels = [
            ("method", method.to_owned()),
            ("route", route.to_owned()),
            ("status", status.to_string()),
        ];
        Self {
            requests: metrics::counter!("hedgerow_http_requests_total", &labels),
            duration: metrics::histogram!("hedgerow_http_request_duration_seconds", &labels),
        }
    }

    fn count(&self, took: Duration) {
        self.requests.increment(1);
        self.duration.record(took.as_secs_f64());
    }
}

/// Clients may make up methods, and each would be another series.
fn name(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PATCH" => "PATCH",
        "PUT" => "PUT",
        "DELETE" => "DELETE",
        "OPTIONS" => "OPTIONS",
        _ => "other",
    }
}
