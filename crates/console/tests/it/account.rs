use chrono::TimeDelta;
use identity::cookies;

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
    assert!(blank.says("id=\"first_name-problem\">This field must not be blank.") && blank.says("value=\"Lee\""));
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
    assert!(wrong.says("id=\"current_password-problem\">Incorrect password."));
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
    assert!(wrong.says("id=\"token-problem\">This code is incorrect"));
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
    assert_eq!(sent.place(), (303, "/account/two-factor/?done=required"));
    assert!(
        browser
            .get(sent.header("location"))
            .await
            .says("requires two-factor authentication")
    );
}

#[tokio::test]
async fn sessions_are_listed_and_revoked() {
    let kit = Kit::new().await;
    let mut browser = kit.signed_in("olga@example.com").await;
    let mut other = kit.signed_in("olga@example.com").await;
    let shown = browser.get("/account/sessions/").await;
    assert!(shown.says("Firefox on Linux") && shown.says(">Current<"));
    let id = between(&shown.html, "action=\"/account/sessions/", "/revoke/\"").filter(|id| id.len() == 36);
    let id = id.map_or_else(
        || shown.html.rsplit("action=\"/account/sessions/").next().expect("a form")[..36].to_owned(),
        ToOwned::to_owned,
    );
    let revoked = browser.post(&format!("/account/sessions/{id}/revoke/"), &[]).await;
    assert_eq!(revoked.place(), (303, "/account/sessions/?done=revoked"));
    assert_eq!(other.get("/account/").await.status, 303);
    assert_eq!(browser.post("/account/sessions/no-id/revoke/", &[]).await.status, 404);
    let mut third = kit.signed_in("olga@example.com").await;
    let revoked = browser.post("/account/sessions/revoke-others/", &[]).await;
    assert_eq!(revoked.place(), (303, "/account/sessions/?done=others-revoked"));
    assert_eq!(third.get("/account/").await.status, 303);
    assert_eq!(browser.get("/account/").await.status, 200);
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

#[tokio::test]
async fn operators_see_and_name_each_other() {
    let kit = Kit::new().await;
    let mut olga = kit.signed_in("olga@example.com").await;
    assert!(!olga.get("/account/").await.says("operator"));
    assert_eq!(olga.get("/account/operators/").await.status, 403);
    kit.make_operator("olga@example.com").await;
    assert!(olga.get("/account/").await.says("href=\"/account/operators/\""));
    let shown = olga.get("/account/operators/").await;
    assert!(shown.says("olga@example.com") && shown.says("<span class=\"tag tag-good\">You</span>"));

    let unknown = olga
        .post("/account/operators/", &[("email", "nobody@example.com")])
        .await;
    assert!(unknown.status == 400 && unknown.says("id=\"email-problem\"") && unknown.says("nobody@example.com"));
    kit.person("mia@example.net").await;
    let database = &kit.database;
    database.run("UPDATE app_user SET is_email_verified = TRUE").await;
    let added = olga.post("/account/operators/", &[("email", "mia@example.net")]).await;
    assert_eq!(added.place(), (303, "/account/operators/?done=operator-added"));
    let shown = olga.get("/account/operators/?done=operator-added").await;
    assert!(shown.says("Operator added.") && shown.says("mia@example.net"));

    let own = between(&shown.html, "action=\"/account/operators/", "/remove/").expect("a button");
    let removed = olga.post(&format!("/account/operators/{own}/remove/"), &[]).await;
    assert_eq!(removed.place(), (303, "/account/?done=operator-removed"));
    assert_eq!(olga.get("/account/operators/").await.status, 403);
    let mut mia = kit.signed_in("mia@example.net").await;
    let shown = mia.get("/account/operators/").await;
    let last = between(&shown.html, "action=\"/account/operators/", "/remove/").expect("a button");
    let refused = mia.post(&format!("/account/operators/{last}/remove/"), &[]).await;
    assert!(
        refused.status == 400 && refused.says("This is the last operator of the instance"),
        "{refused:?}"
    );
}
