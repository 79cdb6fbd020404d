//! Answers that set cookies.

use aide::OperationOutput;
use aide::generate::GenContext;
use aide::openapi::{Operation, Response as ResponseDoc, StatusCode as StatusDoc};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use identity::cookies;

pub(crate) fn session_cookie(session: &str) -> String {
    cookies::set(cookies::SESSION, session)
}

pub(crate) struct WithCookies<R>(pub(crate) R, pub(crate) Vec<String>);

/// A dry run leaves the browser as it is: see [`crate::http::middleware`].
impl<R: IntoResponse> IntoResponse for WithCookies<R> {
    fn into_response(self) -> Response {
        let mut response = self.0.into_response();
        for cookie in self
            .1
            .into_iter()
            .filter_map(|cookie| HeaderValue::try_from(cookie).ok())
        {
            response.headers_mut().append(header::SET_COOKIE, cookie);
        }
        response
    }
}

impl<R: OperationOutput> OperationOutput for WithCookies<R> {
    type Inner = R::Inner;

    fn inferred_responses(
        context: &mut GenContext,
        operation: &mut Operation,
    ) -> Vec<(Option<StatusDoc>, ResponseDoc)> {
        R::inferred_responses(context, operation)
    }
}
