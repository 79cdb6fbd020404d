//! What belongs to one request: its id, its time, and what is learned about it along the way.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName};
use service::idempotency::Claim;
use service::{Service, UserId};

use super::body_memory::Reservation;

/// After this long a request is given up.
pub(crate) const TIME_LIMIT: Duration = Duration::from_secs(30);

pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// What is learned on a request's way in and needed on its way out.
#[derive(Debug)]
pub(crate) struct RequestContext {
    pub(crate) request_id: Arc<str>,
    pub(crate) dry_run: AtomicBool,
    pub(super) rate: OnceLock<Rate>,
    claim: Mutex<Option<Claim>>,
    /// Who is asking, once that is known.
    pub(super) user: OnceLock<UserId>,
    /// The memory of the request's body, if it has one, for as long as somebody works on it.
    pub(super) body: OnceLock<Arc<Reservation>>,
}

#[derive(Debug)]
pub(super) struct Rate {
    pub(super) policy: String,
    pub(super) remaining: u32,
    pub(super) reset: Duration,
}

impl RequestContext {
    pub(super) fn new(request_id: Arc<str>) -> Self {
        Self {
            request_id,
            dry_run: AtomicBool::new(false),
            rate: OnceLock::new(),
            claim: Mutex::default(),
            user: OnceLock::new(),
            body: OnceLock::new(),
        }
    }

    #[cfg(test)]
    pub(crate) fn with_body(reservation: Reservation) -> Self {
        let context = Self::new("".into());
        context.body.get_or_init(|| Arc::new(reservation));
        context
    }

    pub(crate) fn of(parts: &Parts) -> Arc<Self> {
        parts
            .extensions
            .get::<Arc<Self>>()
            .cloned()
            .expect("the middleware puts it into every request")
    }

    /// Somebody known is asking.
    pub(crate) fn authenticate(&self, user: UserId) {
        let _ = self.user.set(user);
        if let Some(reservation) = self.body.get() {
            reservation.authenticate(user);
        }
    }

    /// The memory of the body.
    pub(crate) fn body(&self) -> Option<&Reservation> {
        self.body.get().map(|reservation| &**reservation)
    }

    pub(crate) fn put_claim(&self, claim: Claim) {
        *self.claim.lock().unwrap_or_else(PoisonError::into_inner) = Some(claim);
    }

    pub(crate) fn take_claim(&self) -> Option<Claim> {
        self.claim.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(crate) fn put_rate(&self, policy: String, remaining: u32, reset: Duration) {
        // A request is counted once; if ever twice, the first count stands.
        let _ = self.rate.set(Rate {
            policy,
            remaining,
            reset,
        });
    }
}

/// The client's own id if it is harmless, else a new one.
pub(crate) fn request_id(service: &Service, headers: &HeaderMap) -> Arc<str> {
    let is_harmless = |text: &&str| {
        (1..=128).contains(&text.len())
            && text
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    };
    match headers
        .get(REQUEST_ID)
        .and_then(|value| value.to_str().ok())
        .filter(is_harmless)
    {
        Some(text) => text.into(),
        None => format!("{:032x}", u128::from_be_bytes(service.random().bytes())).into(),
    }
}
