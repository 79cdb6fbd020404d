use chrono::TimeDelta;

use crate::kit::{Kit, PASSWORD};

#[tokio::test]
async fn a_stranger_makes_an_account_and_joins() {
    let kit = Kit::new().await;
    let path = format!("/signup/{}/", kit.invite("ann@example.org").await);
    let mut browser = kit.browser();
    let shown = browser.get(&path).await;
    assert_eq!((shown.status, shown.h1()), (200, "Join Acme"));
    assert!(
        shown.says("an <strong>Administrator</strong>") && shown.says("ann@example.org") && shown.says("value=\"Ann\"")
    );
    let refused = browser
        .post(
            &path,
            &[("first_name", "Ann"), ("last_name", "Lee"), ("password", "short")],
        )
        .await;
    assert_eq!(refused.status, 400);
    assert!(refused.says("id=\"password-problem\"") && refused.says("value=\"Lee\"") && !refused.says("short\""));
    let form = [("first_name", "Ann"), ("last_name", "Lee"), ("password", PASSWORD)];
    let there = kit.at("?done=joined");
    assert_eq!(browser.post(&path, &form).await.place(), (303, there.as_str()));
    assert!(browser.get(&there).await.says("You&#39;ve joined the organization"));
    let used = kit.browser().get(&path).await;
    assert_eq!((used.status, used.h1()), (400, "This invite is no longer valid"));
}

#[tokio::test]
async fn somebody_with_an_account_signs_in_first_and_then_joins() {
    let kit = Kit::new().await;
    kit.person("ann@example.org").await;
    let path = format!("/signup/{}/", kit.invite("ann@example.org").await);
    let mut browser = kit.browser();
    // The page does not tell whether there is an account: whoever invited could open it, too.
    let shown = browser.get(&path).await;
    assert_eq!((shown.status, shown.h1()), (200, "Join Acme"));
    let sign_in = format!("href=\"/login/?next={}\"", path.replace('/', "%2F"));
    assert!(shown.says("Already have an account?") && shown.says(&sign_in));
    let again = [("first_name", "Ann"), ("password", PASSWORD)];
    let refused = browser.post(&path, &again).await;
    assert_eq!((refused.status, refused.h1()), (400, "Sign in first"));
    assert!(refused.says(&sign_in));
    let form = [
        ("email", "ann@example.org"),
        ("password", PASSWORD),
        ("next", path.as_str()),
    ];
    assert_eq!(browser.post("/login/", &form).await.place(), (303, path.as_str()));
    let join = browser.get(&path).await;
    assert_eq!((join.status, join.h1()), (200, "Join Acme"));
    assert!(!join.says("name=\"password\""));
    assert_eq!(
        browser.post(&path, &[]).await.place(),
        (303, kit.at("?done=joined").as_str())
    );
}

#[tokio::test]
async fn an_invite_for_somebody_else_asks_to_sign_out() {
    let kit = Kit::new().await;
    let path = format!("/signup/{}/", kit.invite("ann@example.org").await);
    let mut browser = kit.signed_in("olga@example.com").await;
    let shown = browser.get(&path).await;
    assert_eq!(
        (shown.status, shown.h1()),
        (400, "This invite is for a different email")
    );
    assert!(shown.says("action=\"/logout/\""));
    assert_eq!(
        browser.post("/logout/", &[("next", &path)]).await.place(),
        (303, path.as_str())
    );
    assert_eq!(browser.get(&path).await.h1(), "Join Acme");
}

#[tokio::test]
async fn an_expired_invite_says_whom_to_ask() {
    let kit = Kit::new().await;
    let path = format!("/signup/{}/", kit.invite("ann@example.org").await);
    kit.service.clock().advance(TimeDelta::days(4));
    let shown = kit.browser().get(&path).await;
    assert_eq!((shown.status, shown.h1()), (400, "This invite has expired"));
    let form = [("first_name", "Ann"), ("password", PASSWORD)];
    assert_eq!(kit.browser().post(&path, &form).await.h1(), "This invite has expired");
}

#[tokio::test]
async fn a_member_has_nothing_left_to_do() {
    let kit = Kit::new().await;
    let ann = kit.person("ann@example.org").await;
    let path = format!("/signup/{}/", kit.invite("ann@example.org").await);
    let who = service::access::Actor::system();
    let added = kit
        .service
        .add_member(&who, kit.organization, &ann, service::Level::Member)
        .await;
    added.expect("a member is added");
    let shown = kit.signed_in("ann@example.org").await.get(&path).await;
    assert_eq!((shown.status, shown.h1()), (400, "You are already a member"));
    assert!(shown.says("href=\"/account/\""));
}

#[tokio::test]
async fn where_single_sign_on_is_enforced_the_invite_leads_there() {
    let kit = Kit::new().await;
    let path = format!("/signup/{}/", kit.invite("ann@sso.example.net").await);
    let domain = kit.domain("sso.example.net", "saml").await;
    let shown = kit.browser().get(&path).await;
    let next = path.replace('/', "%2F");
    assert!(
        shown.says(&format!(
            "href=\"/saml/{domain}/login/?next={next}%3Fdone%3Dsigned-in\""
        )),
        "{shown:?}"
    );
    assert!(!shown.says("name=\"password\""));
    // Coming back, the invite was accepted on the way.
    let back = kit
        .signed_in("olga@example.com")
        .await
        .get("/signup/hgi_gone/?done=signed-in")
        .await;
    assert_eq!(back.place(), (303, "/account/"));
}
