//! How answers are made: a page, or the way to another.

use askama::Template;
use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Response};
use identity::cookies;
use service::Service;
use service::access;
use url::form_urlencoded::byte_serialize;

use crate::failure::{Failure, Problems};
use crate::visitor::Visitor;

/// Nothing from outside, no script and no style but ours, and none inside pages; no form that leads away.
const POLICY: &str = "default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'self'; img-src 'self' data:; \
                      form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

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

/// Somebody has got in: the browser gets the new session, and the one it had before ends.
pub(crate) async fn opened(
    service: &Service,
    visitor: Visitor,
    session: &str,
    next: &str,
) -> Result<Response, Failure> {
    if let Some(old) = &visitor.session {
        service.sign_out(old, visitor.request.clone()).await?;
    }
    let response = with_cookie(
        go_to(identity::own_path(next)),
        &cookies::set(cookies::SESSION, session),
    );
    Ok(if visitor.challenge.is_some() {
        with_cookie(response, &cookies::end(cookies::CHALLENGE))
    } else {
        response
    })
}

/// Gives failures their page, and every page its headers.
pub(crate) async fn layer(request: Request, next: Next) -> Response {
    let id = request
        .extensions()
        .get::<access::Request>()
        .map(|request| request.id.clone());
    let path = request.uri().path().to_owned();
    let mut response = next.run(request).await;
    if let Some(failure) = response.extensions_mut().remove::<Failure>() {
        response = failure.page(id.as_deref().unwrap_or_default(), &path);
    }
    let headers = response.headers_mut();
    headers
        .entry(header::CONTENT_SECURITY_POLICY)
        .or_insert(HeaderValue::from_static(POLICY));
    // Secrets are on some pages and names on most: neither shall be found in a browser's store afterwards.
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    headers.insert(
        HeaderName::from_static("cross-origin-opener-policy"),
        HeaderValue::from_static("same-origin"),
    );
    response
}
