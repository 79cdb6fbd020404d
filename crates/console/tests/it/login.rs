use identity::cookies;
use service::access::Request;

use crate::kit::{Kit, PASSWORD, between};

#[tokio::test]
async fn the_address_comes_first_then_the_password() {
    let kit = Kit::new().await;
    let mut browser = kit.browser();
    assert_eq!(browser.get("/").await.place(), (303, "/login/"));
    let first = browser.get("/login/?next=/account/keys/").await;
    assert!(first.says("name=\"email\"") && !first.says("name=\"password\""));
    assert!(first.says("value=\"/account/keys/\""));
    assert!(first.says("href=\"/sso/github/login/?next=%2Faccount%2Fkeys%2F\""));
    let second = browser
        .post("/login/", &[("email", "olga@example.com"), ("next", "/account/keys/")])
        .await;
    assert_eq!(second.status, 200);
    assert!(second.says("name=\"password\"") && second.says("value=\"/account/keys/\""));
    let form = [
        ("email", "olga@example.com"),
        ("password", PASSWORD),
        ("next", "/account/keys/"),
    ];
    assert_eq!(browser.post("/login/", &form).await.place(), (303, "/account/keys/"));
    assert!(browser.cookies.contains_key(cookies::SESSION));
    assert_eq!(browser.get("/").await.place(), (303, kit.at("").as_str()));
    assert_eq!(browser.get("/login/").await.place(), (303, "/"));
}

#[tokio::test]
async fn a_wrong_password_and_an_unknown_address_look_the_same() {
    let kit = Kit::new().await;
    let mut browser = kit.browser();
    let wrong = browser
        .post("/login/", &[("email", "olga@example.com"), ("password", "wrong horse")])
        .await;
    assert_eq!(wrong.status, 400);
    assert!(wrong.says("role=\"alert\"") && wrong.says("Incorrect email or password."));
    assert!(!wrong.says("wrong horse") && browser.cookies.is_empty());
    let unknown = browser
        .post("/login/", &[("email", "nina@example.com"), ("password", "wrong horse")])
        .await;
    assert_eq!(unknown.status, 400);
    assert_eq!(unknown.html.replace("nina@", "olga@"), wrong.html);
}

#[tokio::test]
async fn what_is_no_address_is_said_beside_the_field() {
    let kit = Kit::new().await;
    let answer = kit.browser().post("/login/", &[("email", "<olga>")]).await;
    assert_eq!(answer.status, 400);
    assert!(answer.says("aria-invalid=\"true\" aria-describedby=\"email-problem\" autofocus"));
    assert!(answer.says("id=\"email-problem\">Enter a valid email address"));
    assert!(!answer.says("<olga>"));
}

#[tokio::test]
async fn nobody_is_sent_to_another_site() {
    let kit = Kit::new().await;
    for next in ["//evil.example", "https://evil.example/", "/\\evil.example"] {
        let mut browser = kit.browser();
        let form = [("email", "olga@example.com"), ("password", PASSWORD), ("next", next)];
        assert_eq!(browser.post("/login/", &form).await.place(), (303, "/"));
        assert_eq!(
            browser.post("/logout/", &[("next", next)]).await.place(),
            (303, "/login/?done=signed-out")
        );
        assert!(!browser.get(&format!("/login/?next={next}")).await.says("evil"));
    }
}

#[tokio::test]
async fn after_too_many_attempts_one_has_to_wait() {
    let kit = Kit::new().await;
    let mut browser = kit.browser();
    let form = [("email", "olga@example.com"), ("password", "wrong horse")];
    for _ in 0..20 {
        browser.post("/login/", &form).await;
    }
    let refused = browser.post("/login/", &form).await;
    assert_eq!(refused.status, 429);
    assert!(refused.says("Try again in") && !refused.header("retry-after").is_empty());
}

#[tokio::test]
async fn signing_in_anew_ends_the_session_before() {
    let kit = Kit::new().await;
    let mut browser = kit.signed_in("olga@example.com").await;
    let old = browser.cookies[cookies::SESSION].clone();
    browser
        .post("/login/", &[("email", "olga@example.com"), ("password", PASSWORD)])
        .await;
    assert_ne!(browser.cookies[cookies::SESSION], old);
    assert!(kit.service.signed_in(&old, Request::default()).await.is_err());
}

#[tokio::test]
async fn signing_out_ends_the_session() {
    let kit = Kit::new().await;
    let mut browser = kit.signed_in("olga@example.com").await;
    let old = browser.cookies[cookies::SESSION].clone();
    assert_eq!(
        browser.post("/logout/", &[]).await.place(),
        (303, "/login/?done=signed-out")
    );
    assert!(browser.cookies.is_empty());
    assert!(kit.service.signed_in(&old, Request::default()).await.is_err());
    assert!(browser.get("/login/?done=signed-out").await.says("You are signed out."));
}

#[tokio::test]
async fn without_a_password_there_is_nothing_to_add_a_code_to() {
    let kit = Kit::new().await;
    assert_eq!(
        kit.browser().get("/login/second-factor/").await.place(),
        (303, "/login/")
    );
    let mut browser = kit.browser();
    let late = browser.post("/login/second-factor/", &[("token", "123456")]).await;
    assert_eq!(late.place(), (303, "/login/?done=too-late"));
}

#[tokio::test]
async fn a_recovery_code_that_is_none_is_refused() {
    let kit = Kit::new().await;
    let form = [("email", "olga@example.com"), ("code", "k7mw-3q9d-x2hf-8vbn-2c4m-p0rt")];
    let refused = kit.browser().post("/login/recovery/", &form).await;
    assert_eq!(refused.status, 400);
    assert!(refused.says("Incorrect email or recovery code"));
}

#[tokio::test]
async fn a_reset_link_that_is_unknown_leads_to_another() {
    let kit = Kit::new().await;
    let mut browser = kit.browser();
    let unknown = browser.get("/reset/hgp_unknown/").await;
    assert_eq!((unknown.status, unknown.h1()), (400, "This link has expired"));
    let refused = browser.post("/reset/hgp_unknown/", &[("password", PASSWORD)]).await;
    assert_eq!((refused.status, refused.h1()), (400, "This link has expired"));
    // This server sends no mail, and says so.
    let asked = browser.post("/reset/", &[("email", "olga@example.com")]).await;
    assert!(asked.says("This server does not send email"));
}

/// A page with this address typed in, without the address itself.
async fn page_for(kit: &Kit, path: &str, email: &str) -> (u16, String) {
    let answer = kit.browser().post(path, &[("email", email)]).await;
    (answer.status, answer.html.replace(email, "ADDRESS"))
}

#[tokio::test]
async fn pages_for_strangers_tell_nothing_about_accounts_members_or_customers() {
    let kit = Kit::new().await;
    kit.member("ann@example.com", service::Level::Member).await;
    for path in ["/login/", "/reset/"] {
        let stranger = page_for(&kit, path, "nobody@nowhere.example").await;
        for email in ["ann@example.com", "olga@example.com", "nobody@example.com"] {
            assert_eq!(page_for(&kit, path, email).await, stranger, "{path} {email}");
        }
        assert!(!stranger.1.contains("Acme"), "{}", stranger.1);
    }
    // A domain that is not verified has no effect, and shows none.
    let mut owner = kit.signed_in("olga@example.com").await;
    let added = owner
        .post(&kit.at("domains/new/"), &[("domain", "new.example.net")])
        .await;
    let place = added.header("location").to_owned();
    let id = between(&place, "/domains/", "/").expect("an id");
    let before = page_for(&kit, "/login/", "nobody@nowhere.example").await;
    assert_eq!(page_for(&kit, "/login/", "ann@new.example.net").await, before);
    let nowhere = "01a1dd53-efb7-7ca7-9d85-3211db872bca";
    for path in ["/saml/ID/login/", "/oidc/ID/login/"] {
        let mut stranger = kit.browser();
        let real = stranger.get(&path.replace("ID", id)).await;
        let made_up = stranger.get(&path.replace("ID", nowhere)).await;
        assert_eq!((real.status, real.h1()), (made_up.status, made_up.h1()), "{path}");
        assert!(!real.says("Acme") && !real.says("new.example.net"), "{path}");
    }
}
