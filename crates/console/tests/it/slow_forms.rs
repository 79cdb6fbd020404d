//! Forms that begin and do not end.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use axum::body::Body;
use axum::http::{Request, Response};
use futures_util::{StreamExt, stream};
use tower::ServiceExt;
use uuid::Uuid;

use crate::kit::Kit;

/// Sends the beginning of a form, and counts how often more of it is asked for.
async fn begin(kit: &Kit, path: &str, first: &'static str, asked: &Arc<AtomicUsize>) -> Response<Body> {
    let asked = asked.clone();
    let silence = stream::poll_fn(move |_| {
        asked.fetch_add(1, Ordering::Relaxed);
        Poll::Pending
    });
    let body = stream::iter([Ok::<_, std::io::Error>(first)]).chain(silence);
    let request = Request::post(path)
        .header("host", "hedgerow.test")
        .header("sec-fetch-site", "same-origin")
        .header("content-type", "application/x-www-form-urlencoded")
        .body(Body::from_stream(body));
    kit.app
        .clone()
        .oneshot(request.expect("a request"))
        .await
        .expect("an answer")
}

#[tokio::test]
async fn what_hardly_arrives_is_not_waited_for() {
    let kit = Kit::new().await;
    let domain = kit.domain("sso.example.net", "").await;
    let (asked, path) = (Arc::default(), format!("/saml/{domain}/acs/"));
    let (form, assertion) = tokio::join!(
        begin(&kit, "/login/", "email=ann%40", &asked),
        begin(&kit, &path, "SAMLResponse=PHg", &asked)
    );
    for answer in [form, assertion] {
        assert_eq!(answer.status(), 408);
        assert_eq!(answer.headers()["connection"], "close");
    }
}

#[tokio::test]
async fn nothing_is_read_for_a_domain_that_is_not_there() {
    let kit = Kit::new().await;
    let asked = Arc::default();
    let path = format!("/saml/{}/acs/", Uuid::nil());
    let answer = begin(&kit, &path, "SAMLResponse=PHg", &asked).await;
    assert_eq!((answer.status().as_u16(), asked.load(Ordering::Relaxed)), (404, 0));
}
