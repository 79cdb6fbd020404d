use axum::body::Body;
use axum::http::Request;
use chrono::TimeDelta;
use identity::cookies;
use tower::ServiceExt;

use crate::kit::{Browser, Kit, PASSWORD, between};

#[tokio::test]
async fn an_account_is_for_whoever_is_signed_in() {
    let kit = Kit::new().await;
    let asked = kit.browser().get("/account/keys/?x=1").await;
    assert_eq!(asked.place(), (303, "/login/?next=%2Faccount%2Fkeys%2F%3Fx%3D1"));
    let sent = kit.browser().post("/account/password/", &[("password", "x")]).await;
    assert_eq!(sent.place(), (303, "/login/?next=%2Faccount%2F"));
}

#[tokio::test]
async fn an_account_shows_its_organizations_and_takes_another_name() {
    let kit = Kit::new().await;
    let mut browser = kit.signed_in("olga@example.com").await;
    let shown = browser.get("/account/").await;
    assert!(shown.says("olga@example.com") && shown.says("Acme") && shown.says("<span class=\"tag\">Owner</span>"));
    let saved = browser
        .post("/account/", &[("first_name", "Ol<ga"), ("last_name", "")])
        .await;
    assert_eq!(saved.place(), (303, "/account/?done=saved"));
    assert!(browser.get("/account/").await.says("value=\"Ol&#60;ga\""));
    let blank = browser
        .post("/account/", &[("first_name", " "), ("last_name", "Lee")])
        .await;
    assert_eq!(blank.status, 400);
    assert!(blank.says("id=\"first_name-problem\">This must not be blank.") && blank.says("value=\"Lee\""));
}

#[tokio::test]
async fn another_password_takes_the_present_one() {
    let kit = Kit::new().await;
    let mut browser = kit.signed_in("olga@example.com").await;
    let mut other = kit.signed_in("olga@example.com").await;
    let form = [
        ("current_password", "wrong horse"),
        ("password", "another horse battery"),
    ];
    let wrong = browser.post("/account/password/", &form).await;
    assert!(wrong.says("id=\"current_password-problem\">This is not the password you have now."));
    let form = [("current_password", PASSWORD), ("password", "another horse battery")];
    let changed = browser.post("/account/password/", &form).await;
    assert_eq!(changed.place(), (303, "/account/password/?done=password-changed"));
    assert_eq!(browser.get("/account/").await.status, 200);
    assert_eq!(other.get("/account/").await.status, 303);
}

/// Sets up an authenticator and returns its secret and the backup codes.
async fn set_up(kit: &Kit, browser: &mut Browser<'_>) -> (String, Vec<String>) {
    let begun = browser.post("/account/two-factor/set-up/", &[]).await;
    assert!(begun.says("<svg "), "{begun:?}");
    let secret = between(&begun.html, "<code class=\"secret\">", "</code>")
        .expect("a secret")
        .replace(' ', "");
    let wrong = browser
        .post("/account/two-factor/confirm/", &[("token", "000000")])
        .await;
    assert!(wrong.says("id=\"token-problem\">This code is not right"));
    let confirmed = browser
        .post("/account/two-factor/confirm/", &[("token", &code(kit, &secret))])
        .await;
    assert_eq!(confirmed.h1(), "Backup codes", "{confirmed:?}");
    assert!(confirmed.says("href=\"data:text/plain;charset=utf-8,Backup%20codes%20for%20olga%40example.com"));
    let list = between(&confirmed.html, "<ol class=\"codes mono\">", "</ol>").expect("codes");
    let codes = list
        .split("<li>")
        .skip(1)
        .map(|item| item.split('<').next().expect("a code").to_owned());
    (secret, codes.collect())
}

/// What an authenticator would show.
fn code(kit: &Kit, secret: &str) -> String {
    let secret = totp_rs::Secret::try_from_base32(secret).expect("a secret");
    let codes = totp_rs::Builder::new().with_secret(secret).build_noncompliant();
    let now = kit.service.clock().now().timestamp();
    codes.generate(now.unsigned_abs()).to_string()
}

#[tokio::test]
async fn a_second_factor_is_set_up_asked_for_and_removed() {
    let kit = Kit::new().await;
    let mut browser = kit.signed_in("olga@example.com").await;
    let old = browser.cookies[cookies::SESSION].clone();
    let (secret, backup) = set_up(&kit, &mut browser).await;
    assert_eq!(backup.len(), 10);
    assert_ne!(browser.cookies[cookies::SESSION], old);
    assert!(browser.get("/account/two-factor/").await.says("10 left"));

    let mut other = kit.browser();
    let form = [
        ("email", "olga@example.com"),
        ("password", PASSWORD),
        ("next", "/account/keys/"),
    ];
    let asked = other.post("/login/", &form).await;
    assert_eq!(asked.place(), (303, "/login/second-factor/?next=%2Faccount%2Fkeys%2F"));
    assert!(!other.cookies.contains_key(cookies::SESSION));
    let shown = other.get(asked.header("location")).await;
    assert!(shown.says("autocomplete=\"one-time-code\"") && shown.says("value=\"/account/keys/\""));
    let wrong = other
        .post(
            "/login/second-factor/",
            &[("token", "000000"), ("next", "/account/keys/")],
        )
        .await;
    assert!(wrong.says("id=\"token-problem\"") && wrong.says("value=\"/account/keys/\""));
    let entered = other
        .post(
            "/login/second-factor/",
            &[("token", &backup[0]), ("next", "/account/keys/")],
        )
        .await;
    assert_eq!(entered.place(), (303, "/account/keys/"));
    assert!(!other.cookies.contains_key(cookies::CHALLENGE));
    assert!(other.get("/account/two-factor/").await.says("9 left"));

    kit.service.clock().advance(TimeDelta::minutes(1));
    let renewed = other
        .post("/account/two-factor/backup-codes/", &[("token", &code(&kit, &secret))])
        .await;
    assert_eq!(renewed.h1(), "Backup codes");
    kit.service.clock().advance(TimeDelta::minutes(1));
    let removed = other
        .post("/account/two-factor/remove/", &[("token", &code(&kit, &secret))])
        .await;
    assert_eq!(removed.place(), (303, "/account/two-factor/?done=removed"));
}

#[tokio::test]
async fn an_organization_that_asks_for_a_second_factor_leads_to_it() {
    let kit = Kit::new().await;
    let mut browser = kit.signed_in("olga@example.com").await;
    kit.ask_for_second_factor().await;
    let form = [("label", "CI"), ("organization", "read"), ("expires_at", "30")];
    let sent = browser.post("/account/keys/new/", &form).await;
    assert_eq!(sent.place(), (303, "/account/two-factor/?done=needed"));
    assert!(
        browser
            .get(sent.header("location"))
            .await
            .says("asks for two-factor sign-in")
    );
}

#[tokio::test]
async fn sessions_are_listed_and_ended() {
    let kit = Kit::new().await;
    let mut browser = kit.signed_in("olga@example.com").await;
    let mut other = kit.signed_in("olga@example.com").await;
    let shown = browser.get("/account/sessions/").await;
    assert!(shown.says("Firefox on Linux") && shown.says("This one"));
    let end = between(&shown.html, "action=\"/account/sessions/", "/end/\"").filter(|id| id.len() == 36);
    let end = end.map_or_else(
        || shown.html.rsplit("action=\"/account/sessions/").next().expect("a form")[..36].to_owned(),
        ToOwned::to_owned,
    );
    let ended = browser.post(&format!("/account/sessions/{end}/end/"), &[]).await;
    assert_eq!(ended.place(), (303, "/account/sessions/?done=ended"));
    assert_eq!(other.get("/account/").await.status, 303);
    assert_eq!(browser.post("/account/sessions/no-id/end/", &[]).await.status, 404);
    let mut third = kit.signed_in("olga@example.com").await;
    let ended = browser.post("/account/sessions/end-others/", &[]).await;
    assert_eq!(ended.place(), (303, "/account/sessions/?done=others-ended"));
    assert_eq!(third.get("/account/").await.status, 303);
    assert_eq!(browser.get("/account/").await.status, 200);
}

#[tokio::test]
async fn a_key_is_made_shown_once_rolled_and_deleted() {
    let kit = Kit::new().await;
    let mut browser = kit.signed_in("olga@example.com").await;
    assert!(browser.get("/account/keys/").await.says("You have no keys."));
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
            .says("stops working at once")
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
    assert!(listed.says("Never used") && !listed.says("/narrow/"));
    assert_eq!(ask(&kit, "GET", "members/", &key).await, 200);
    kit.service.flush_key_use().await.unwrap();
    let listed = browser.get("/account/keys/").await;
    assert!(listed.says("Used just now") && listed.says("/narrow/"), "{listed:?}");
    let id = between(&listed.html, "/account/keys/", "/narrow/").expect("an id");
    let path = format!("/account/keys/{}/narrow/", &id[id.len() - 36..]);
    assert!(browser.get(&path).await.says("<li>read members and invites</li>"));
    let narrowed = browser.post(&path, &[]).await;
    assert_eq!(narrowed.place(), (303, "/account/keys/?done=key-narrowed"));
    assert_eq!(ask(&kit, "GET", "members/", &key).await, 200);
    assert_eq!(ask(&kit, "GET", "", &key).await, 403);
    let listed = browser.get(narrowed.header("location")).await;
    assert!(listed.says("<code>organization_member:read</code>") && !listed.says("/narrow/"));
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
        listed.says("<span>Never needed:</span> <code>batch_export:write</code>"),
        "{listed:?}"
    );
}

#[tokio::test]
async fn nobody_narrows_the_key_of_another() {
    let kit = Kit::new().await;
    let mut browser = kit.signed_in("olga@example.com").await;
    made_for(&mut browser, "read").await;
    let listed = browser.get("/account/keys/").await;
    let id = between(&listed.html, "/account/keys/", "/roll/").expect("an id");
    let id = &id[id.len() - 36..];
    kit.member("ben@example.org", service::Level::Owner).await;
    let mut other = kit.signed_in("ben@example.org").await;
    for deed in ["roll", "narrow", "delete"] {
        let path = format!("/account/keys/{id}/{deed}/");
        assert_eq!(
            (other.get(&path).await.status, other.post(&path, &[]).await.status),
            (404, 404),
            "{deed}"
        );
    }
}

#[tokio::test]
async fn the_account_leads_back_to_the_organization() {
    let kit = Kit::new().await;
    let mut browser = kit.signed_in("olga@example.com").await;
    assert!(
        browser
            .get("/account/keys/")
            .await
            .says("<a href=\"/\">Your organization</a>")
    );
    let there = browser.get("/").await;
    assert_eq!(there.place(), (303, kit.at("").as_str()));
}
