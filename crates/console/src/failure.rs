//! Why there is no page to show, and what is wrong with a form.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use service::{Error, Invalid};

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

/// Leaves the page to [`crate::layer::layer`], which knows the request's id.
impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let mut response = StatusCode::INTERNAL_SERVER_ERROR.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

impl Failure {
    pub(crate) fn wait(&self) -> Option<Duration> {
        match self.error()? {
            Error::Throttled(wait) | Error::LimitReached { wait, .. } | Error::Unavailable { wait, .. } => Some(*wait),
            Error::Outage(_) => Some(Error::OUTAGE_WAIT),
            _ => None,
        }
    }

    pub(crate) fn error(&self) -> Option<&Error> {
        match self {
            Self::Service(error) => Some(error),
            _ => None,
        }
    }

    pub(crate) fn cause(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Service(error) => Some(&**error),
            Self::Template(error) => Some(&**error),
            _ => None,
        }
    }
}

pub(crate) fn limited(detail: &str, wait: Duration) -> String {
    show::sentence(&format!("{detail}. Try again in {}", show::duration(wait)))
}

pub(crate) fn too_many_attempts(wait: Duration) -> String {
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
                ..said(StatusCode::TOO_MANY_REQUESTS, too_many_attempts(wait))
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
