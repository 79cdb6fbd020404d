//! Forms that begin and do not end, or end late.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use axum::body::Body;
use axum::http::request::Builder;
use axum::http::{Request, Response};
use futures_util::{StreamExt, stream};
use service::access::Actor;
use service::{Email, Level};
use tokio::sync::oneshot;
use tower::ServiceExt;
use uuid::Uuid;

use crate::kit::{Browser, Kit};

fn form_to(path: &str) -> Builder {
    Request::post(path)
        .header("host", "hedgerow.test")
        .header("sec-fetch-site", "same-origin")
        .header("content-type", "application/x-www-form-urlencoded")
}

/// Sends the beginning of a form, and counts how often more of it is asked for.
async fn begin(kit: &Kit, path: &str, first: &'static str, asked: &Arc<AtomicUsize>) -> Response<Body> {
    let asked = asked.clone();
    let silence = stream::poll_fn(move |_| {
        asked.fetch_add(1, Ordering::Relaxed);
        Poll::Pending
    });
    let body = stream::iter([Ok::<_, std::io::Error>(first)]).chain(silence);
    send(kit, form_to(path), Body::from_stream(body)).await
}

async fn send(kit: &Kit, request: Builder, body: Body) -> Response<Body> {
    let request = request.body(body).expect("a request");
    kit.app.clone().oneshot(request).await.expect("an answer")
}

/// Sends a form but for its last byte, which comes late, after what happens in between.
async fn end_late(
    browser: &Browser<'_>,
    kit: &Kit,
    form: &'static str,
    in_between: impl Future<Output = ()>,
) -> Response<Body> {
    let (asked, is_asked) = oneshot::channel::<()>();
    let (go_on, told) = oneshot::channel::<()>();
    let (first, last) = form.split_at(form.len() - 1);
    let last = stream::once(async move {
        let _ = asked.send(());
        let _ = told.await;
        Ok(last)
    });
    let body = stream::iter([Ok::<_, std::io::Error>(first)]).chain(last);
    let cookies: Vec<String> = browser
        .cookies
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let request = form_to(&kit.at("invites/new/")).header("cookie", cookies.join("; "));
    let rest = async move {
        is_asked.await.expect("the form is read");
        in_between.await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        let _ = go_on.send(());
    };
    tokio::join!(send(kit, request, Body::from_stream(body)), rest).0
}

#[tokio::test]
async fn a_form_that_ends_after_its_session_is_not_acted_upon() {
    let kit = Kit::new().await;
    kit.member("mia@example.com", Level::Member).await;
    let (member, mut owner) = (
        kit.signed_in("mia@example.com").await,
        kit.signed_in("olga@example.com").await,
    );
    let form = "addresses=friend%40example.net&level=1";
    let end_session = async {
        let email = Email::new("mia@example.com").expect("an address");
        let system = Actor::system();
        let set = kit.service.set_password(&system, &email, "several quite random words");
        set.await.expect("a password is set");
    };
    let answer = end_late(&member, &kit, form, end_session).await;
    assert_eq!(answer.status(), 303);
    let place = answer.headers()["location"].to_str().expect("a place is text");
    assert!(place.starts_with("/login/"), "{place}");
    assert!(owner.get(&kit.at("invites/")).await.says("No pending invites"));
    let answer = end_late(&owner, &kit, form, async {}).await;
    assert_eq!(answer.status(), 200);
    let listed = owner.get(&kit.at("invites/")).await;
    assert_eq!(listed.html.matches("/revoke/\"").count(), 1, "once");
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
