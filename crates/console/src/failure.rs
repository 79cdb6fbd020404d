//! The one place where what the service refuses becomes a page, or words beside a form.

use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use service::{Error, Invalid, Undone};

use crate::page::{go_to, page_with, with_next};
use crate::show;

/// Why there is no page to show but one that says so.
#[derive(Debug, Clone)]
pub(crate) enum Failure {
    NoSuchPage,
    NoSuchMethod,
    /// What was sent is no form of ours.
    Unreadable,
    /// A form hardly arrived.
    TooSlow,
    /// An identity provider's word was not taken. Why is for administrators to see.
    NotVouchedFor,
    Service(Arc<Error>),
    Template(Arc<askama::Error>),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Service(Arc::new(error))
    }
}

impl From<askama::Error> for Failure {
    fn from(error: askama::Error) -> Self {
        Self::Template(Arc::new(error))
    }
}

/// Leaves the page to [`crate::page::layer`], which knows the request's id.
impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let mut response = StatusCode::INTERNAL_SERVER_ERROR.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

#[derive(Template)]
#[template(path = "failure.html")]
struct FailurePage<'a> {
    heading: &'static str,
    text: String,
    /// Named where somebody may have to ask for help.
    request_id: Option<&'a str>,
}

impl Failure {
    /// `path` is where the browser wanted to be.
    pub(crate) fn page(&self, request_id: &str, path: &str) -> Response {
        match self.error() {
            // A form cannot be sent again afterwards, so its page is shown instead.
            Some(Error::ReauthenticationNeeded) => return go_to(&with_next("/login/confirm/", path)),
            Some(Error::SecondFactorNeeded) => return go_to("/account/two-factor/?done=needed"),
            Some(Error::BadCredential) => return go_to("/login/"),
            _ => {}
        }
        let (status, heading, text) = self.words();
        if status.is_server_error() {
            tracing::error!(request_id, error = self.cause(), "page failed");
        }
        let needs_help = status.is_server_error() || matches!(self, Self::NotVouchedFor);
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
        if let Some(wait) = self.wait() {
            let wait = HeaderValue::from(show::whole_seconds(wait));
            response.headers_mut().insert(header::RETRY_AFTER, wait);
        }
        if self.error().is_some_and(Error::is_undone) {
            response.extensions_mut().insert(Undone);
        }
        response
    }

    fn wait(&self) -> Option<Duration> {
        match self.error()? {
            Error::Throttled(wait) | Error::LimitReached { wait, .. } | Error::Unavailable { wait, .. } => Some(*wait),
            Error::Outage(_) => Some(Error::OUTAGE_WAIT),
            _ => None,
        }
    }

    fn words(&self) -> (StatusCode, &'static str, String) {
        let refused = "Your sign-in was not accepted. An admin can see the reason under the domain's recent \
                       sign-ins.";
        match self {
            Self::NoSuchPage => missing(),
            Self::NoSuchMethod => (StatusCode::METHOD_NOT_ALLOWED, "Method not allowed", again()),
            Self::Unreadable => (StatusCode::BAD_REQUEST, "Invalid form", again()),
            Self::TooSlow => (StatusCode::REQUEST_TIMEOUT, "Request timed out", again()),
            Self::NotVouchedFor => (StatusCode::FORBIDDEN, "Sign-in failed", refused.to_owned()),
            Self::Template(_) => ours(),
            Self::Service(error) => match &**error {
                Error::NotFound(_) => missing(),
                Error::Forbidden(why) => (StatusCode::FORBIDDEN, "Permission denied", show::sentence(why)),
                Error::Invalid(_) => (
                    StatusCode::BAD_REQUEST,
                    "Request failed",
                    show::sentence(&first_detail(error)),
                ),
                Error::Throttled(wait) => (StatusCode::TOO_MANY_REQUESTS, "Too many attempts", patience(*wait)),
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

    fn error(&self) -> Option<&Error> {
        match self {
            Self::Service(error) => Some(error),
            _ => None,
        }
    }

    fn cause(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Service(error) => Some(&**error),
            Self::Template(error) => Some(&**error),
            _ => None,
        }
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

fn limited(detail: &str, wait: Duration) -> String {
    show::sentence(&format!("{detail}. Try again in {}", show::duration(wait)))
}

fn patience(wait: Duration) -> String {
    format!("Too many attempts. Try again in {}.", show::duration(wait))
}

/// What is wrong with a form, to be said beside it. None: nothing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Problems {
    status: StatusCode,
    found: Vec<Invalid>,
    wait: Option<Duration>,
}

/// What can be said beside a form is; everything else has a page of its own.
impl TryFrom<Error> for Problems {
    type Error = Failure;

    fn try_from(error: Error) -> Result<Self, Failure> {
        let said = |status, detail| Self {
            status,
            found: vec![Invalid {
                field: None,
                code: "refused",
                detail,
            }],
            wait: None,
        };
        match error {
            Error::Invalid(found) => Ok(Self {
                status: StatusCode::BAD_REQUEST,
                found,
                wait: None,
            }),
            Error::Throttled(wait) => Ok(Self {
                wait: Some(wait),
                ..said(StatusCode::TOO_MANY_REQUESTS, patience(wait))
            }),
            Error::LimitReached { detail, wait } => Ok(Self {
                wait: Some(wait),
                ..said(StatusCode::TOO_MANY_REQUESTS, limited(&detail, wait))
            }),
            Error::Unavailable { detail, wait } => Ok(Self {
                wait: Some(wait),
                ..said(StatusCode::SERVICE_UNAVAILABLE, limited(&detail, wait))
            }),
            Error::Forbidden(why) => Ok(said(StatusCode::FORBIDDEN, why)),
            Error::Conflict { detail, .. } => Ok(said(StatusCode::CONFLICT, detail)),
            Error::Stale(_) => {
                let detail = "someone else changed this in the meantime. Reload to see the latest version";
                Ok(said(StatusCode::CONFLICT, detail.to_owned()))
            }
            other => Err(other.into()),
        }
    }
}

impl Problems {
    /// Of a form with one field: whatever is refused is refused because of it.
    #[must_use]
    pub(crate) fn about(mut self, field: &'static str) -> Self {
        for problem in &mut self.found {
            problem.field = Some(field.into());
        }
        self
    }

    /// All that is wrong, in order, with the field and in the words of the service.
    pub(crate) fn each(&self) -> impl Iterator<Item = (Option<&str>, &str)> {
        let found = self.found.iter();
        found.map(|problem| (problem.field.as_deref(), problem.detail.as_str()))
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    pub(crate) fn seconds_to_wait(&self) -> Option<u64> {
        self.wait.map(show::whole_seconds)
    }

    /// What is wrong with a field.
    pub(crate) fn of(&self, field: &str) -> Option<String> {
        let problem = self
            .found
            .iter()
            .find(|problem| problem.field.as_deref() == Some(field));
        problem.map(|problem| show::sentence(&problem.detail))
    }

    /// What is wrong with none of the fields that the form has.
    pub(crate) fn besides(&self, fields: &[&str]) -> Vec<String> {
        let others = self.found.iter().filter(|problem| {
            let field = problem.field.as_deref();
            field.is_none_or(|field| !fields.contains(&field))
        });
        others.map(|problem| show::sentence(&problem.detail)).collect()
    }

    /// Where to look first.
    pub(crate) fn first_field(&self) -> Option<&str> {
        self.found.iter().find_map(|problem| problem.field.as_deref())
    }

    pub(crate) fn has(&self, code: &str) -> bool {
        self.found.iter().any(|problem| problem.code == code)
    }
}
