//! Requests that are begun by somebody who may do what they ask for, and ended when they may not any more.

use std::time::Duration;

use axum::body::Body;
use axum::http::request::Builder;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use service::Level;
use testkit::kit::{Person, bearer};
use testkit::{Kit, Reply, on_both};
use tokio::sync::oneshot;

use crate::access::forget_all;
use crate::column;

/// For how long the last byte is held back.
const LATE: Duration = Duration::from_millis(200);

/// Sends a request but for its last byte, which comes late, after what happens in between.
async fn late(kit: &Kit, request: Builder, body: &Value, in_between: impl Future<Output = ()>) -> Reply {
    let (asked, is_asked) = oneshot::channel::<()>();
    let (go_on, told) = oneshot::channel::<()>();
    let mut text = body.to_string().into_bytes();
    let last = text.split_off(text.len() - 1);
    let first = stream::iter([Ok::<_, std::io::Error>(Bytes::from(text))]);
    let last = stream::once(async move {
        let _ = asked.send(());
        let _ = told.await;
        Ok(Bytes::from(last))
    });
    let request = request.header("content-type", "application/json");
    let request = request.body(Body::from_stream(first.chain(last))).unwrap();
    let rest = async move {
        is_asked.await.expect("the body is read");
        in_between.await;
        tokio::time::sleep(LATE).await;
        let _ = go_on.send(());
    };
    tokio::join!(kit.send(request), rest).0
}

fn invite(email: &str, level: i16, padding: usize) -> Value {
    json!({ "target_email": email, "level": level, "send_email": false, "padding": "x".repeat(padding) })
}

/// With an idempotency key and without, and with a long body.
const KINDS: [(Option<&str>, usize); 3] = [(None, 0), (Some("once"), 0), (None, 200_000)];

fn inviting(kit: &Kit, person: &Person, token: Option<&str>) -> Builder {
    let request = bearer("POST", &kit.at("invites/"), &person.key);
    match token {
        Some(token) => request.header("idempotency-key", token),
        None => request,
    }
}

async fn remove(kit: &Kit, person: &Person) {
    let path = kit.at(&format!("members/{}/", person.user.uuid));
    assert_eq!(kit.delete(&kit.owner.key, &path).await.status, 204);
}

async fn invites(kit: &Kit) -> usize {
    column(&kit.get(&kit.owner.key, &kit.at("invites/")).await, "target_email").len()
}

on_both! {
    async fn a_request_that_ends_after_a_removal_is_refused(kit: Kit) {
        for (number, (token, padding)) in KINDS.into_iter().enumerate() {
            let leaver = kit.join(&format!("leaver{number}@example.com"), Level::Owner).await;
            let new = invite("friend@example.net", 15, padding);
            let refused = late(&kit, inviting(&kit, &leaver, token), &new, remove(&kit, &leaver)).await;
            let next = kit.post(&leaver.key, &kit.at("invites/"), new).await;
            assert_eq!((refused.code(), refused.status), (next.code(), 404), "{number}: {refused:?}");
        }
        let path = kit.at(&format!("members/{}/", kit.member.user.uuid));
        let promoted = late(&kit, bearer("PATCH", &path, &kit.admin.key), &json!({ "level": 8 }), remove(&kit, &kit.admin)).await;
        assert_eq!(promoted.status, 404, "{promoted:?}");
        assert_eq!(invites(&kit).await, 0);
    }

    async fn a_request_that_ends_after_a_demotion_has_the_lower_role(kit: Kit) {
        let demote = async {
            let path = kit.at(&format!("members/{}/", kit.admin.user.uuid));
            assert_eq!(kit.patch(&kit.owner.key, &path, json!({ "level": 1 })).await.status, 200);
        };
        let request = inviting(&kit, &kit.admin, None);
        let refused = late(&kit, request, &invite("friend@example.net", 8, 0), demote).await;
        assert_eq!((refused.status, invites(&kit).await), (403, 0), "{refused:?}");
    }

    async fn a_request_that_ends_after_its_credential_is_refused(kit: Kit) {
        let browser = kit.signed_in(&kit.member).await;
        let new = json!({ "label": "mine", "scopes": ["*"] });
        let request = browser.request("POST", "/api/personal_api_keys/");
        let refused = late(&kit, request, &new, kit.give_password(&kit.member)).await;
        assert_eq!(refused.status, 401, "a session: {refused:?}");
        let request = inviting(&kit, &kit.admin, None);
        let refused = late(&kit, request, &invite("friend@example.net", 1, 0), forget_all(&kit, &kit.admin)).await;
        assert_eq!((refused.status, invites(&kit).await), (401, 0), "a key: {refused:?}");
    }

    async fn a_late_body_is_acted_upon_once(kit: Kit) {
        for (number, (token, padding)) in KINDS.into_iter().enumerate() {
            let new = invite(&format!("friend{number}@example.net"), 1, padding);
            let made = late(&kit, inviting(&kit, &kit.member, token), &new, async {}).await;
            assert_eq!((made.status, invites(&kit).await), (201, number + 1), "{made:?}");
        }
    }
}

/// A slow line does not cost two requests.
#[tokio::test]
async fn a_late_body_is_counted_once() {
    let settings = api::Settings {
        rate_limit: Some("2/hour".parse().unwrap()),
        ..api::Settings::default()
    };
    let kit = Kit::with(testkit::databases::Backend::Sqlite, settings).await;
    let request = inviting(&kit, &kit.member, None);
    let made = late(&kit, request, &invite("friend@example.net", 1, 0), async {}).await;
    assert_eq!(made.status, 201, "{made:?}");
    assert_eq!(kit.get(&kit.member.key, &kit.at("")).await.status, 200);
    assert_eq!(kit.get(&kit.member.key, &kit.at("")).await.status, 429);
}
