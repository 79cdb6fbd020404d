//! The page of a failure.

use askama::Template;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use service::{Error, Undone};

use crate::failure::{Failure, limited, too_many_attempts};
use crate::page::{go_to, page_with, with_next};
use crate::show;

#[derive(Template)]
#[template(path = "failure.html")]
struct FailurePage<'a> {
    heading: &'static str,
    text: String,
    /// Named where somebody may have to ask for help.
    request_id: Option<&'a str>,
}

/// `path` is where the browser wanted to be.
pub(crate) fn failure_page(failure: &Failure, request_id: &str, path: &str) -> Response {
    match failure.error() {
        // A form cannot be sent again afterwards, so its page is shown instead.
        Some(Error::ReauthenticationNeeded) => return go_to(&with_next("/login/confirm/", path)),
        Some(Error::SecondFactorNeeded) => return go_to("/account/two-factor/?done=required"),
        Some(Error::BadCredential) => return go_to("/login/"),
        _ => {}
    }
    let (status, heading, text) = words(failure);
    if status.is_server_error() {
        tracing::error!(request_id, error = failure.cause(), "page failed");
    }
    let needs_help = status.is_server_error() || matches!(failure, Failure::NotVouchedFor);
    let mut response = page_with(
        status,
        &FailurePage {
            heading,
            text,
            request_id: needs_help.then_some(request_id),
        },
    );
    if status == StatusCode::REQUEST_TIMEOUT {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(header::CONNECTION, close);
    }
    if let Some(wait) = failure.wait() {
        let wait = HeaderValue::from(show::whole_seconds(wait));
        response.headers_mut().insert(header::RETRY_AFTER, wait);
    }
    if failure.error().is_some_and(Error::is_undone) {
        response.extensions_mut().insert(Undone);
    }
    response
}

fn words(failure: &Failure) -> (StatusCode, &'static str, String) {
    let refused = "Your sign-in was not accepted. An administrator can see the reason under the domain's recent \
                   sign-ins.";
    match failure {
        Failure::NoSuchPage => missing(),
        Failure::NoSuchMethod => (StatusCode::METHOD_NOT_ALLOWED, "Method not allowed", again()),
        Failure::Unreadable => (StatusCode::BAD_REQUEST, "Invalid form", again()),
        Failure::TooSlow => (StatusCode::REQUEST_TIMEOUT, "Request timed out", again()),
        Failure::NotVouchedFor => (StatusCode::FORBIDDEN, "Sign-in failed", refused.to_owned()),
        Failure::Template(_) => ours(),
        Failure::Service(error) => match &**error {
            Error::NotFound(_) => missing(),
            Error::Forbidden(why) => (StatusCode::FORBIDDEN, "Permission denied", show::sentence(why)),
            Error::Invalid(_) => (
                StatusCode::BAD_REQUEST,
                "Request failed",
                show::sentence(&first_detail(error)),
            ),
            Error::Throttled(wait) => (
                StatusCode::TOO_MANY_REQUESTS,
                "Too many attempts",
                too_many_attempts(*wait),
            ),
            Error::LimitReached { detail, wait } => {
                (StatusCode::TOO_MANY_REQUESTS, "Limit reached", limited(detail, *wait))
            }
            Error::Unavailable { detail, wait } => {
                (StatusCode::SERVICE_UNAVAILABLE, "Server busy", limited(detail, *wait))
            }
            Error::Outage(_) => {
                let text = "A service this page depends on is not responding. Try again in a few seconds.";
                (StatusCode::SERVICE_UNAVAILABLE, "Server busy", text.to_owned())
            }
            Error::Conflict { .. } | Error::Stale(_) => {
                (StatusCode::CONFLICT, "Something changed in the meantime", reload())
            }
            _ => ours(),
        },
    }
}

fn first_detail(error: &Error) -> String {
    match error {
        Error::Invalid(problems) => problems
            .first()
            .map(|problem| problem.detail.clone())
            .unwrap_or_default(),
        _ => String::new(),
    }
}

fn missing() -> (StatusCode, &'static str, String) {
    let text = "Check the URL. The page may have been moved or deleted.";
    (StatusCode::NOT_FOUND, "Page not found", text.to_owned())
}

fn ours() -> (StatusCode, &'static str, String) {
    let text = "This is a problem on our side. Nothing was changed. Try again in a moment.";
    (
        StatusCode::INTERNAL_SERVER_ERROR,
        "Something went wrong",
        text.to_owned(),
    )
}

fn again() -> String {
    "Go back and try again.".to_owned()
}

fn reload() -> String {
    "Go back and reload to see the latest version.".to_owned()
}
