//! What happens to every answer on its way out.

use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, header};
use axum::middleware::Next;
use axum::response::Response;
use service::access;

use crate::failure::Failure;
use crate::failure_page::failure_page;

/// Nothing from outside, no script and no style but ours, and none inside pages; no form that leads away.
const POLICY: &str = "default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'self'; img-src 'self' data:; \
                      form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// Gives failures their page, and every page its headers.
pub(crate) async fn layer(request: Request, next: Next) -> Response {
    let id = request
        .extensions()
        .get::<access::Request>()
        .map(|request| request.id.clone());
    let path = request.uri().path().to_owned();
    let mut response = next.run(request).await;
    if let Some(failure) = response.extensions_mut().remove::<Failure>() {
        response = failure_page(&failure, id.as_deref().unwrap_or_default(), &path);
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
