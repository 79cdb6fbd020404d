//! How answers are made: a page, or the way to another.

use askama::Template;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use url::form_urlencoded::byte_serialize;

use crate::failure::{Failure, Problems};

pub(crate) fn page(template: &impl Template) -> Response {
    page_with(StatusCode::OK, template)
}

/// The same page again, with what was wrong with its form.
pub(crate) fn page_again(problems: &Problems, template: &impl Template) -> Response {
    let mut response = page_with(problems.status(), template);
    if let Some(seconds) = problems.seconds_to_wait() {
        response
            .headers_mut()
            .insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

pub(crate) fn page_with(status: StatusCode, template: &impl Template) -> Response {
    match template.render() {
        Ok(html) => (status, Html(html)).into_response(),
        Err(error) => Failure::from(error).into_response(),
    }
}

pub(crate) fn go_to(place: &str) -> Response {
    let place = HeaderValue::from_str(place).unwrap_or(HeaderValue::from_static("/"));
    (StatusCode::SEE_OTHER, [(header::LOCATION, place)]).into_response()
}

/// An extractor's refusal.
pub(crate) fn refuse(error: impl Into<Failure>) -> Response {
    error.into().into_response()
}

/// A path that knows where to go afterwards.
pub(crate) fn with_next(path: &str, next: &str) -> String {
    match identity::own_path(next) {
        "/" => path.to_owned(),
        next => format!("{path}?next={}", encoded(next)),
    }
}

pub(crate) fn encoded(text: &str) -> String {
    byte_serialize(text.as_bytes()).collect()
}

/// The same for a `data:` address, where a plus is a plus.
pub(crate) fn encoded_text(text: &str) -> String {
    encoded(text).replace('+', "%20")
}

pub(crate) fn with_cookie(mut response: Response, cookie: &str) -> Response {
    if let Ok(cookie) = HeaderValue::from_str(cookie) {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
    response
}
