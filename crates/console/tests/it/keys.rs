//! API keys: created, tried, with unused scopes removed, rolled and deleted.

use axum::body::Body;
use axum::http::Request;
use tower::ServiceExt;

use crate::as_curl::run;
use crate::kit::{Answer, Browser, Kit, between, unescaped};

#[tokio::test]
async fn a_key_is_made_shown_once_rolled_and_deleted() {
    let kit = Kit::new().await;
    let mut browser = kit.signed_in("olga@example.com").await;
    assert!(browser.get("/account/keys/").await.says("No API keys yet."));
    let refused = browser
        .post("/account/keys/new/", &[("label", ""), ("expires_at", "7")])
        .await;
    assert_eq!(refused.status, 400);
    assert!(refused.says("id=\"label-problem\"") && refused.says("id=\"scopes-problem\">Choose at least one"));
    assert!(refused.says("value=\"7\" selected"));
    let acme = kit.organization.to_string();
    let form = [
        ("label", "CI"),
        ("organization", "read"),
        ("batch_export", "write"),
        ("plugin", ""),
        ("scoped_organizations", acme.as_str()),
        ("expires_at", "30"),
    ];
    let made = browser.post("/account/keys/new/", &form).await;
    let secret = between(&made.html, "<code class=\"secret\">", "</code>")
        .expect("the key")
        .to_owned();
    assert!(secret.starts_with("hgr_"));
    let listed = browser.get("/account/keys/").await;
    assert!(!listed.says(&secret) && listed.says("Expires 15 Dec 2026") && listed.says("<span>Acme</span>"));
    assert!(listed.says("<code>organization:read</code> <code>batch_export:write</code>"));
    let id = between(&listed.html, "/account/keys/", "/roll/").expect("an id");
    let id = &id[id.len() - 36..];
    assert!(
        browser
            .get(&format!("/account/keys/{id}/roll/"))
            .await
            .says("stops working immediately")
    );
    let rolled = browser.post(&format!("/account/keys/{id}/roll/"), &[]).await;
    assert!(rolled.says("hgr_") && !rolled.says(&secret));
    assert!(
        browser
            .get(&format!("/account/keys/{id}/delete/"))
            .await
            .says("cannot be undone")
    );
    let deleted = browser.post(&format!("/account/keys/{id}/delete/"), &[]).await;
    assert_eq!(deleted.place(), (303, "/account/keys/?done=key-deleted"));
    assert_eq!(browser.get(&format!("/account/keys/{id}/delete/")).await.status, 404);
}

#[tokio::test]
async fn an_old_session_is_asked_to_confirm_and_goes_on_to_what_was_wanted() {
    let kit = Kit::new().await;
    let mut browser = kit.signed_in("olga@example.com").await;
    kit.service.clock().advance(chrono::TimeDelta::minutes(16));
    let asked = browser.get("/account/keys/new/").await;
    assert_eq!(asked.place(), (303, "/login/confirm/?next=%2Faccount%2Fkeys%2Fnew%2F"));
    // A form that was left open leads there, too, and so do the other pages.
    let left_open = browser
        .post("/account/keys/new/", &[("label", "CI"), ("purpose", "everything")])
        .await;
    assert_eq!(
        left_open.place(),
        (303, "/login/confirm/?next=%2Faccount%2Fkeys%2Fnew%2F")
    );
    let second_factor = browser.post("/account/two-factor/set-up/", &[]).await;
    assert_eq!(second_factor.place().0, 303);
    assert!(second_factor.place().1.starts_with("/login/confirm/"));
    let page = browser.get(asked.place().1).await;
    assert!(
        page.says("Confirm it&#39;s you") || page.says("Confirm it's you"),
        "{}",
        page.html
    );
    assert!(page.says("name=\"password\"") && page.says("value=\"/account/keys/new/\""));
    let next = ("next", "/account/keys/new/");
    let wrong = browser
        .post("/login/confirm/", &[("password", "incorrect horse"), next])
        .await;
    assert_eq!(wrong.status, 400);
    assert!(wrong.says("Incorrect password"));
    let confirmed = browser
        .post("/login/confirm/", &[("password", crate::kit::PASSWORD), next])
        .await;
    assert_eq!(confirmed.place(), (303, "/account/keys/new/"));
    assert_eq!(browser.get("/account/keys/new/").await.status, 200);
    let elsewhere = browser
        .post(
            "/login/confirm/",
            &[("password", crate::kit::PASSWORD), ("next", "https://evil.example/")],
        )
        .await;
    assert_eq!(elsewhere.place(), (303, "/"));
}

/// A new key for a purpose.
async fn made_for(browser: &mut Browser<'_>, purpose: &str) -> String {
    let form = [
        ("label", "CI"),
        ("purpose", purpose),
        ("organization", "write"),
        ("expires_at", "30"),
    ];
    let made = browser.post("/account/keys/new/", &form).await;
    let secret = between(&made.html, "<code class=\"secret\">", "</code>").unwrap_or_else(|| panic!("{made:?}"));
    secret.to_owned()
}

/// What a program gets that asks with a key.
async fn ask(kit: &Kit, method: &str, below: &str, key: &str) -> u16 {
    let request = Request::builder()
        .method(method)
        .uri(format!("/api/organizations/{}/{below}", kit.organization))
        .header("host", "hedgerow.test")
        .header("authorization", format!("Bearer {key}"));
    let request = request.body(Body::empty()).expect("a request");
    let answer = kit.app.clone().oneshot(request).await.expect("the app always answers");
    answer.status().as_u16()
}

#[tokio::test]
async fn a_key_is_made_by_picking_what_it_should_do() {
    let kit = Kit::new().await;
    let mut browser = kit.signed_in("olga@example.com").await;
    let form = browser.get("/account/keys/new/").await;
    assert!(
        form.says("value=\"read\" aria-describedby=\"purpose-read\" checked"),
        "{form:?}"
    );
    let key = made_for(&mut browser, "read").await;
    for below in ["", "members/", "batch_exports/", "pipeline_destinations/"] {
        assert_eq!(ask(&kit, "GET", below, &key).await, 200, "{below}");
    }
    assert_eq!(
        ask(&kit, "DELETE", "", &key).await,
        403,
        "what is chosen besides does not count"
    );
    let listed = browser.get("/account/keys/").await;
    assert!(listed.says("Can read organizations, teams and domains; read members and invites"));
    let key = made_for(&mut browser, "members").await;
    assert_eq!(ask(&kit, "GET", "members/", &key).await, 200);
    assert_eq!(ask(&kit, "GET", "batch_exports/", &key).await, 403);
    let form = [("label", "CI"), ("purpose", "own"), ("expires_at", "30")];
    let refused = browser.post("/account/keys/new/", &form).await;
    assert_eq!(refused.status, 400);
    assert!(
        refused.says("id=\"scopes-problem\">Choose at least one") && refused.says("purpose-own\" checked autofocus")
    );
}

#[tokio::test]
async fn what_a_key_never_needed_is_named_and_taken_away() {
    let kit = Kit::new().await;
    let mut browser = kit.signed_in("olga@example.com").await;
    let key = made_for(&mut browser, "everything").await;
    let listed = browser.get("/account/keys/").await;
    assert!(listed.says("Never used") && !listed.says("/remove-unused-scopes/"));
    assert_eq!(ask(&kit, "GET", "members/", &key).await, 200);
    kit.service.flush_key_use().await.unwrap();
    let listed = browser.get("/account/keys/").await;
    assert!(
        listed.says("Last used just now") && listed.says("/remove-unused-scopes/"),
        "{listed:?}"
    );
    let id = between(&listed.html, "/account/keys/", "/remove-unused-scopes/").expect("an id");
    let path = format!("/account/keys/{}/remove-unused-scopes/", &id[id.len() - 36..]);
    assert!(browser.get(&path).await.says("<li>read members and invites</li>"));
    let removed = browser.post(&path, &[]).await;
    assert_eq!(removed.place(), (303, "/account/keys/?done=unused-scopes-removed"));
    assert_eq!(ask(&kit, "GET", "members/", &key).await, 200);
    assert_eq!(ask(&kit, "GET", "", &key).await, 403);
    let listed = browser.get(removed.header("location")).await;
    assert!(listed.says("<code>organization_member:read</code>") && !listed.says("/remove-unused-scopes/"));
    assert_eq!(
        browser.post(&path, &[]).await.place(),
        (303, "/account/keys/"),
        "there is nothing left to take"
    );
}

#[tokio::test]
async fn a_scope_that_was_never_needed_stands_beside_the_key() {
    let kit = Kit::new().await;
    let mut browser = kit.signed_in("olga@example.com").await;
    let key = made_for(&mut browser, "exports").await;
    assert_eq!(ask(&kit, "GET", "batch_exports/", &key).await, 200);
    kit.service.flush_key_use().await.unwrap();
    let listed = browser.get("/account/keys/").await;
    assert!(
        listed.says("<span>Unused scopes:</span> <code>batch_export:write</code>"),
        "{listed:?}"
    );
}

#[tokio::test]
async fn nobody_removes_scopes_from_the_key_of_another() {
    let kit = Kit::new().await;
    let mut browser = kit.signed_in("olga@example.com").await;
    made_for(&mut browser, "read").await;
    let listed = browser.get("/account/keys/").await;
    let id = between(&listed.html, "/account/keys/", "/roll/").expect("an id");
    let id = &id[id.len() - 36..];
    kit.member("ben@example.org", service::Level::Owner).await;
    let mut other = kit.signed_in("ben@example.org").await;
    for action in ["roll", "remove-unused-scopes", "delete"] {
        let path = format!("/account/keys/{id}/{action}/");
        assert_eq!(
            (other.get(&path).await.status, other.post(&path, &[]).await.status),
            (404, 404),
            "{action}"
        );
    }
}

#[tokio::test]
async fn a_key_that_may_do_everything_is_said_to_have_needed_little() {
    let kit = Kit::new().await;
    let mut browser = kit.signed_in("olga@example.com").await;
    let key = made_for(&mut browser, "everything").await;
    assert_eq!(ask(&kit, "GET", "members/", &key).await, 200);
    kit.service.flush_key_use().await.unwrap();
    let listed = browser.get("/account/keys/").await;
    let needed = "<span>Used scopes:</span> <code>organization_member:read</code>";
    assert!(listed.says(needed) && !listed.says("Unused scopes"), "{listed:?}");
    assert!(listed.says("Remove unused scopes<span class=\"unseen\">: CI</span></a>"));
}

#[tokio::test]
async fn lifetimes_are_offered_from_short_to_long() {
    let kit = Kit::new().await;
    let form = kit.signed_in("olga@example.com").await.get("/account/keys/new/").await;
    let list = between(&form.html, "<select id=\"expires_at\"", "</select>").expect("a list");
    let values: Vec<&str> = list
        .split("<option value=\"")
        .skip(1)
        .filter_map(|option| option.split('"').next())
        .collect();
    assert_eq!(values, ["7", "30", "90", "365", ""]);
    assert_eq!(list.matches(" selected").count(), 1);
    assert!(list.contains("value=\"90\" selected>90 days"), "{list}");
}

/// The lines to paste into a shell.
fn first_request(page: &Answer) -> (String, String) {
    let shown = between(&page.html, "<pre class=\"query\" id=\"first-request\">", "</pre>").expect("a request");
    let lines = unescaped(shown);
    let (export, command) = lines.split_once('\n').expect("the key comes first");
    let key = between(export, "export HEDGEROW_API_KEY='", "'").expect("a key");
    (key.to_owned(), command.to_owned())
}

#[tokio::test]
async fn a_new_key_comes_with_a_first_request_that_works() {
    let kit = Kit::new().await;
    let mut browser = kit.signed_in("olga@example.com").await;
    for (purpose, path) in [
        ("read", "/api/organizations/".to_owned()),
        ("everything", "/api/organizations/".to_owned()),
        ("members", format!("/api/organizations/{}/members/", kit.organization)),
        (
            "exports",
            format!("/api/organizations/{}/batch_exports/", kit.organization),
        ),
        (
            "apps",
            format!("/api/organizations/{}/pipeline_destinations/", kit.organization),
        ),
    ] {
        let form = [("label", "CI"), ("purpose", purpose), ("expires_at", "7")];
        let made = browser.post("/account/keys/new/", &form).await;
        let (key, command) = first_request(&made);
        assert!(made.says(&format!("<code class=\"secret\">{key}</code>")), "{made:?}");
        assert!(made.says("data-copies=\"first-request\""));
        assert!(command.contains(&format!("'http://127.0.0.1:8000{path}'")), "{command}");
        let (status, body) = run(&kit, &command, &key).await;
        assert_eq!(status, 200, "{purpose}: {body}");
        let listed = browser.get("/account/keys/").await;
        assert!(!listed.says(&key) && !listed.says("first-request"), "it is shown once");
    }
}

#[tokio::test]
async fn a_key_that_reaches_one_organization_is_tried_there() {
    let kit = Kit::new().await;
    let mut browser = kit.signed_in("olga@example.com").await;
    browser.post("/organizations/new/", &[("name", "Newer")]).await;
    let acme = kit.organization.to_string();
    let form = [
        ("label", "CI"),
        ("purpose", "members"),
        ("scoped_organizations", acme.as_str()),
        ("expires_at", "7"),
    ];
    let made = browser.post("/account/keys/new/", &form).await;
    let (key, command) = first_request(&made);
    assert!(
        command.contains(&format!("/api/organizations/{acme}/members/")),
        "{command}"
    );
    assert_eq!(run(&kit, &command, &key).await.0, 200);
}

#[tokio::test]
async fn who_belongs_nowhere_tries_a_key_on_itself() {
    let kit = Kit::new().await;
    kit.person("eve@example.org").await;
    let mut eve = kit.signed_in("eve@example.org").await;
    let form = [("label", "CI"), ("purpose", "exports"), ("expires_at", "7")];
    let made = eve.post("/account/keys/new/", &form).await;
    let (key, command) = first_request(&made);
    let (status, body) = run(&kit, &command, &key).await;
    assert_eq!(status, 200, "{command}: {body}");
    assert!(body.contains("batch_export:write"), "{body}");
}
