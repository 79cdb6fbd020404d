//! What holds for every page, whatever it is about.

use crate::kit::{Answer, Kit, PASSWORD, between};

const POLICY: &str = "default-src 'none'; style-src 'self'; img-src 'self' data:; form-action 'self'; \
                      frame-ancestors 'none'; base-uri 'none'";

/// Every page that a visitor and that an owner can see.
async fn pages(kit: &Kit) -> Vec<(String, Answer)> {
    let signup = format!("/signup/{}/", kit.invite("new@example.org").await);
    kit.domain("sso.example.net", "saml").await;
    let mut seen = Vec::new();
    let mut stranger = kit.browser();
    for path in [
        "/login/",
        "/login/recovery/",
        "/reset/",
        "/reset/hgp_x/",
        "/nothing/here/",
        &signup,
        "/signup/x/",
    ] {
        seen.push((path.to_owned(), stranger.get(path).await));
    }
    for (path, form) in [
        ("/login/", vec![("email", "")]),
        ("/login/", vec![("email", "olga@example.com")]),
        ("/login/", vec![("email", "olga@example.com"), ("password", "no")]),
        ("/login/", vec![("email", "ann@sso.example.net")]),
        ("/login/recovery/", vec![("email", "a@b.c"), ("code", "x")]),
        ("/reset/", vec![("email", "nobody")]),
        (signup.as_str(), vec![("first_name", ""), ("password", "x")]),
    ] {
        seen.push((format!("POST {path} {form:?}"), stranger.post(path, &form).await));
    }
    stranger
        .cookies
        .insert(identity::cookies::CHALLENGE.to_owned(), "hgc_x".to_owned());
    seen.push(("second factor".to_owned(), stranger.get("/login/second-factor/").await));
    let mut owner = kit.signed_in("olga@example.com").await;
    for path in [
        "/account/",
        "/account/?done=saved",
        "/account/password/",
        "/account/two-factor/",
        "/account/two-factor/remove/",
        "/account/two-factor/backup-codes/",
        "/account/sessions/",
        "/account/keys/",
        "/account/keys/new/",
        &signup,
    ] {
        seen.push((path.to_owned(), owner.get(path).await));
    }
    for (path, form) in [
        ("/account/", vec![("first_name", ""), ("last_name", "")]),
        (
            "/account/password/",
            vec![("current_password", "x"), ("password", PASSWORD)],
        ),
        ("/account/two-factor/set-up/", vec![]),
        ("/account/two-factor/confirm/", vec![("token", "1")]),
        ("/account/keys/new/", vec![("label", "")]),
        ("/account/keys/new/", vec![("label", "CI"), ("everything", "yes")]),
    ] {
        seen.push((format!("POST {path} {form:?}"), owner.post(path, &form).await));
    }
    seen
}

#[tokio::test]
async fn every_page_is_well_formed_and_loads_nothing_from_outside() {
    let kit = Kit::new().await;
    for (path, answer) in pages(&kit).await {
        let html = &answer.html;
        assert!(
            answer.header("content-type").starts_with("text/html"),
            "{path}: {answer:?}"
        );
        assert_eq!(answer.header("content-security-policy"), POLICY, "{path}");
        assert_eq!(answer.header("cache-control"), "no-store", "{path}");
        assert!(
            between(html, "<title>", " · Hedgerow</title>").is_some_and(|title| !title.is_empty()),
            "{path}"
        );
        assert_eq!(html.matches("<h1>").count(), 1, "{path}");
        assert_eq!(html.matches("<main").count(), 1, "{path}");
        assert!(html.contains("<html lang=\"en\">"), "{path}");
        for forbidden in [
            "<script",
            " style=",
            "<style",
            " onclick=",
            "javascript:",
            "src=\"http",
            "href=\"http",
        ] {
            assert!(!html.contains(forbidden), "{path}: {forbidden}");
        }
        assert!(html.matches(" autofocus").count() <= 1, "{path}");
        labels(&path, html);
    }
}

/// Every field has a label, and what describes it is there.
fn labels(path: &str, html: &str) {
    for field in html.split("<input ").skip(1).chain(html.split("<select ").skip(1)) {
        let field = field.split('>').next().expect("a tag ends");
        if field.contains("type=\"hidden\"") {
            continue;
        }
        let is_wrapped = field.contains("type=\"radio\"") || field.contains("type=\"checkbox\"");
        if is_wrapped {
            assert!(
                html.contains(&format!("<label class=\"check\"><input {field}>")),
                "{path}: {field}"
            );
            continue;
        }
        let id = between(field, "id=\"", "\"").expect("a field has an id");
        assert_eq!(
            html.matches(&format!("<label for=\"{id}\">")).count(),
            1,
            "{path}: {field}"
        );
        for described in between(field, "aria-describedby=\"", "\"")
            .unwrap_or_default()
            .split_whitespace()
        {
            assert_eq!(
                html.matches(&format!(" id=\"{described}\"")).count(),
                1,
                "{path}: {described}"
            );
        }
    }
}

#[tokio::test]
async fn what_is_not_there_is_a_page_too() {
    let kit = Kit::new().await;
    let missing = kit.browser().get("/no/such/page/").await;
    assert_eq!((missing.status, missing.h1()), (404, "There is nothing here"));
    let wrong = kit.browser().get("/logout/").await;
    assert_eq!((wrong.status, wrong.h1()), (405, "That does not work here"));
    assert_eq!(wrong.header("allow"), "POST");
    let api = kit.browser().get("/api/no-such-thing/").await;
    assert!(api.header("content-type").contains("json"));
    let unreadable = kit.browser().post("/login/", &[("nothing", "x")]).await;
    assert_eq!(
        (unreadable.status, unreadable.h1()),
        (400, "We could not read that form")
    );
    let huge = "x".repeat(100 * 1024);
    assert_eq!(kit.browser().post("/login/", &[("email", &huge)]).await.status, 400);
}

#[tokio::test]
async fn the_style_sheet_may_be_kept_for_good() {
    let kit = Kit::new().await;
    let page = kit.browser().get("/login/").await;
    let path = between(&page.html, "<link rel=\"stylesheet\" href=\"", "\"").expect("a style sheet");
    let style = kit.browser().get(path).await;
    assert_eq!(
        (style.status, style.header("content-type")),
        (200, "text/css; charset=utf-8")
    );
    assert_eq!(style.header("cache-control"), "public, max-age=31536000, immutable");
    assert_eq!(kit.browser().get("/assets/hedgerow-0.css").await.status, 404);
}

#[tokio::test]
async fn a_failure_of_ours_names_the_request_and_nothing_else() {
    let kit = Kit::new().await;
    let mut browser = kit.signed_in("olga@example.com").await;
    kit.service.store().close().await;
    let failed = browser.get("/account/").await;
    assert_eq!((failed.status, failed.h1()), (500, "This did not work"));
    assert!(failed.says(failed.header("x-request-id")));
    assert!(!failed.says("database") && !failed.says("pool"));
}
