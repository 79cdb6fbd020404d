//! Extractors stop a request with this.

use axum::response::{IntoResponse, Response};

use super::error::Problem;

/// Why a request goes no further: a problem, or an answer that was given before.
pub(crate) enum EarlyResponse {
    Problem(Problem),
    Replay(Response),
}

impl<E: Into<Problem>> From<E> for EarlyResponse {
    fn from(problem: E) -> Self {
        Self::Problem(problem.into())
    }
}

impl IntoResponse for EarlyResponse {
    fn into_response(self) -> Response {
        match self {
            Self::Problem(problem) => problem.into_response(),
            Self::Replay(response) => response,
        }
    }
}
