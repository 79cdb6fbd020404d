//! What holds for every page, whatever it is about.

use service::batch_exports::destination::Kind;
use service::{DomainId, Level};

use crate::export_runs::Scene;
use crate::kit::{Answer, Browser, Kit, PASSWORD, between};

const POLICY: &str = "default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'self'; img-src 'self' data:; \
                      form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// Every page that a visitor and that an owner can see.
async fn pages(kit: &Kit) -> Vec<(String, Answer)> {
    let signup = format!("/signup/{}/", kit.invite("new@example.org").await);
    let domain = kit.domain("sso.example.net", "saml").await;
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
    kit.make_operator("olga@example.com").await;
    for path in [
        "/account/",
        "/account/?done=saved",
        "/account/operators/",
        "/account/password/",
        "/account/two-factor/",
        "/account/two-factor/remove/",
        "/account/two-factor/backup-codes/",
        "/account/sessions/",
        "/account/keys/",
        "/account/keys/new/",
        "/login/confirm/?next=/account/keys/",
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
        ("/login/confirm/", vec![("password", "x"), ("next", "/account/keys/")]),
        ("/account/two-factor/set-up/", vec![]),
        ("/account/two-factor/confirm/", vec![("token", "1")]),
        ("/account/keys/new/", vec![("label", "")]),
        ("/account/keys/new/", vec![("label", "CI"), ("purpose", "everything")]),
        ("/organizations/new/", vec![("name", " ")]),
    ] {
        seen.push((format!("POST {path} {form:?}"), owner.post(path, &form).await));
    }
    let keys = owner.get("/account/keys/").await;
    let key = between(&keys.html, "/account/keys/", "/roll/").expect("a key");
    for action in ["roll", "remove-unused-scopes", "delete"] {
        let path = format!("/account/keys/{}/{action}/", &key[key.len() - 36..]);
        seen.push((path.clone(), owner.get(&path).await));
    }
    seen.extend(organization_pages(kit, &mut owner).await);
    // In the meantime the sign-in is no longer recent.
    owner.post("/login/confirm/", &[("password", PASSWORD)]).await;
    seen.extend(domains(kit, &mut owner, domain).await);
    seen
}

/// Every page about domains: a verified one, and one that is not.
async fn domains(kit: &Kit, owner: &mut Browser<'_>, verified: DomainId) -> Vec<(String, Answer)> {
    let added = owner
        .post(&kit.at("domains/new/"), &[("domain", "new.example.net")])
        .await;
    let unverified = added.header("location").replace("?done=domain-added", "");
    let mut paths = vec![
        kit.at("domains/"),
        kit.at("domains/new/"),
        kit.at("domains/recovery-codes/"),
        unverified.clone(),
    ];
    let pages = [
        "",
        "checks/",
        "saml/",
        "oidc/",
        "disconnect/?way=saml",
        "enforcement/?sso_enforcement=",
        "enforcement/?sso_enforcement=saml",
        "enforcement/?sso_enforcement=oidc",
        "delete/",
    ];
    paths.extend(pages.map(|page| kit.at(&format!("domains/{verified}/{page}"))));
    let mut seen = Vec::new();
    for path in paths {
        let answer = owner.get(&path).await;
        assert_eq!(answer.status, 200, "{path}");
        seen.push((path, answer));
    }
    let at = |page: &str| kit.at(&format!("domains/{verified}/{page}"));
    for (path, form) in [
        (kit.at("domains/new/"), vec![("domain", "gmail.com")]),
        (kit.at("domains/recovery-codes/"), vec![]),
        (format!("{unverified}checks/"), vec![]),
        (
            at("saml/"),
            vec![("saml_entity_id", "x"), ("saml_acs_url", "x"), ("saml_x509_cert", "x")],
        ),
        (at("saml/import/"), vec![("xml", "<x/>")]),
        (at("saml/import/"), vec![("url", "nowhere")]),
        (at("oidc/"), vec![("oidc_issuer", "x"), ("oidc_client_id", "x")]),
        (at("disconnect/?way=saml"), vec![]),
        (at("enforcement/"), vec![("sso_enforcement", "oidc")]),
        (at("delete/"), vec![("confirmation", "no")]),
    ] {
        let answer = owner.post(&path, &form).await;
        seen.push((format!("POST {path} {form:?}"), answer));
    }
    seen
}

/// Every page below an organization, as its owner sees it, also with a form that was refused.
async fn organization_pages(kit: &Kit, owner: &mut Browser<'_>) -> Vec<(String, Answer)> {
    let ann = kit.member("ann@example.org", Level::Member).await.uuid;
    let (member, team) = (format!("members/{ann}/"), format!("teams/{}/", kit.first_team().await));
    let (removal, deletion) = (format!("{member}remove/"), format!("{team}delete/"));
    let mut seen = apps(kit, owner).await;
    seen.extend(exports(kit, owner).await);
    seen.extend(export_runs(kit, owner).await);
    for path in ["/organizations/", "/organizations/new/"] {
        seen.push((path.to_owned(), owner.get(path).await));
    }
    for below in [
        "",
        "members/",
        "members/?search=ann",
        "members/?search=nobody",
        &member,
        &removal,
        "invites/",
        "invites/new/",
        "teams/",
        "teams/new/",
        &team,
        &deletion,
        "activity/",
        "activity/?scope=Team&after=2026-01-01",
        "activity/?user=nobody@example.org",
        "settings/",
        "settings/?done=saved",
        "delete/",
    ] {
        let path = kit.at(below);
        let answer = owner.get(&path).await;
        seen.push((path, answer));
    }
    for (below, form) in [
        ("invites/new/", vec![("addresses", "x, y@example.org"), ("level", "1")]),
        ("invites/new/", vec![("addresses", "z@example.org"), ("level", "1")]),
        ("teams/new/", vec![("name", ""), ("timezone", "Nowhere")]),
        (team.as_str(), vec![("name", ""), ("timezone", "UTC")]),
        (deletion.as_str(), vec![("confirmation", "no")]),
        (member.as_str(), vec![("level", "99")]),
        ("settings/", vec![("name", "")]),
        ("delete/", vec![("confirmation", "")]),
    ] {
        let path = kit.at(below);
        let answer = owner.post(&path, &form).await;
        seen.push((format!("POST {path} {form:?}"), answer));
    }
    seen
}

/// The same for pipeline apps.
async fn apps(kit: &Kit, owner: &mut Browser<'_>) -> Vec<(String, Answer)> {
    let mut seen = Vec::new();
    for below in [
        "apps/",
        "apps/destinations/catalog/",
        "apps/frontend/new/code/",
        "apps/imports/new/",
    ] {
        let path = kit.at(below);
        let answer = owner.get(&path).await;
        seen.push((path, answer));
    }
    let app = crate::apps::written(kit, owner).await;
    let config = crate::apps::set_up(kit, owner, &app).await;
    // Another version, to be compared with the first.
    let change = [("file", "new.ts"), ("text", "export const a = '<b>'\n")];
    assert_eq!(owner.post(&format!("{app}source/new/"), &change).await.status, 303);
    let collection = kit.at("apps/destinations/");
    for path in [
        collection.clone(),
        format!("{collection}new/folder/"),
        app.clone(),
        format!("{app}edit/"),
        format!("{app}delete/"),
        format!("{app}update/"),
        format!("{app}roll-back/1/"),
        format!("{app}source/"),
        format!("{app}source/?file=plugin.json"),
        format!("{app}source/?file=nothing.ts"),
        format!("{app}source/new/"),
        format!("{app}source/delete/?file=index.ts"),
        format!("{app}configurations/new/"),
        config.clone(),
        format!("{config}delete/"),
        format!("{config}logs/"),
    ] {
        let answer = owner.get(&path).await;
        assert_eq!(answer.status, 200, "{path}");
        seen.push((path, answer));
    }
    for (path, form) in [
        (format!("{collection}new/"), vec![("url", "nothing")]),
        (format!("{collection}new/folder/"), vec![("url", "nothing")]),
        (
            format!("{collection}new/code/"),
            vec![("name", ""), ("code", "export ("), ("manifest", "")],
        ),
        (format!("{app}edit/"), vec![("name", "a\u{7}b")]),
        (
            format!("{app}source/"),
            vec![("file", "index.ts"), ("version", "2"), ("text", "\nexport (")],
        ),
        (
            format!("{app}source/"),
            vec![("file", "plugin.json"), ("version", "2"), ("text", "{")],
        ),
        (format!("{app}source/new/"), vec![("file", "index.ts"), ("text", "")]),
        (format!("{app}configurations/new/"), vec![("enabled", "yes")]),
        (
            config.clone(),
            vec![("enabled", "yes"), ("config__mode", "none"), ("config__map", "{")],
        ),
    ] {
        let answer = owner.post(&path, &form).await;
        assert_eq!(answer.status, 400, "{path}");
        seen.push((format!("POST {path} {form:?}"), answer));
    }
    seen
}

/// An export's runs and backfills, also with a range that was refused.
async fn export_runs(kit: &Kit, owner: &mut Browser<'_>) -> Vec<(String, Answer)> {
    let scene = Scene::with_a_gap(kit).await;
    let backfill = scene.backfill().await;
    let mut pages = vec![
        "runs/".to_owned(),
        "runs/?status=Cancelled".to_owned(),
        format!("runs/?backfill={backfill}"),
        "backfills/".to_owned(),
        "backfills/new/".to_owned(),
        "backfills/new/?start=2026-11-15T10:00&end=2026-11-15T12:00&resend=yes".to_owned(),
        "backfills/new/?start=never".to_owned(),
        format!("backfills/{backfill}/"),
        format!("backfills/{backfill}/cancel/"),
    ];
    let runs = scene.runs().await;
    pages.extend(runs.iter().map(|run| format!("runs/{}/", run.id)));
    let mut seen = Vec::new();
    for below in pages {
        let path = scene.at(&below);
        let answer = owner.get(&path).await;
        seen.push((path, answer));
    }
    let path = scene.at("backfills/new/");
    let refused = owner.post(&path, &[("start_at", "2030-01-01T00:00")]).await;
    seen.push((format!("POST {path}"), refused));
    seen
}

/// Batch exports: the wizard of every kind, and the pages of one export.
async fn exports(kit: &Kit, owner: &mut Browser<'_>) -> Vec<(String, Answer)> {
    let mut belows = vec!["exports/".to_owned(), "exports/new/".to_owned()];
    belows.extend(Kind::ALL.map(|kind| format!("exports/new/{}/", kind.name().to_ascii_lowercase())));
    let mut seen = Vec::new();
    for below in &belows[2..] {
        for path in [kit.at(below), kit.at(&format!("{below}test/"))] {
            let form = [("name", ""), ("destination__config__mode", "COPY")];
            let answer = owner.post(&path, &form).await;
            seen.push((format!("POST {path}"), answer));
        }
    }
    let export = crate::exports::make(kit, "Hourly", false).await;
    for below in ["", "edit/", "test/", "preview/", "delete/"] {
        belows.push(format!("exports/{export}/{below}"));
    }
    belows.push("exports/".to_owned());
    for below in belows {
        let path = kit.at(&below);
        let answer = owner.get(&path).await;
        assert_eq!(answer.status, 200, "{path}");
        seen.push((path, answer));
    }
    for below in ["edit/", "test/"] {
        let path = kit.at(&format!("exports/{export}/{below}"));
        let answer = owner.post(&path, &[("name", ""), ("start_at", "soon")]).await;
        seen.push((format!("POST {path}"), answer));
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
        let html = &without_our_script(&path, html);
        for forbidden in [
            "<script",
            " style=",
            "<style",
            " onclick=",
            " onsubmit=",
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

/// The page without the scripts that it may name: our own, and the one of pages that keep themselves up to date.
fn without_our_script(path: &str, html: &str) -> String {
    let mut rest = html.to_owned();
    while let Some(source) = between(&rest, "<script src=\"", "\" defer></script>") {
        let is_ours = source.starts_with("/assets/hedgerow-");
        assert!(is_ours, "{path}: {source}");
        rest = rest.replacen(&format!("<script src=\"{source}\" defer></script>"), "", 1);
    }
    rest
}

/// Every field has a label, what describes it is there, and no id is there twice.
fn labels(path: &str, html: &str) {
    let ids = html.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next());
    for id in ids {
        assert_eq!(html.matches(&format!(" id=\"{id}\"")).count(), 1, "{path}: {id}");
    }
    let fields = ["<input ", "<select ", "<textarea "]
        .into_iter()
        .flat_map(|tag| html.split(tag).skip(1));
    for field in fields {
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
    assert_eq!((missing.status, missing.h1()), (404, "Page not found"));
    let wrong = kit.browser().get("/logout/").await;
    assert_eq!((wrong.status, wrong.h1()), (405, "Method not allowed"));
    assert_eq!(wrong.header("allow"), "POST");
    let api = kit.browser().get("/api/no-such-thing/").await;
    assert!(api.header("content-type").contains("json"));
    let unreadable = kit.browser().post("/login/", &[("nothing", "x")]).await;
    assert_eq!((unreadable.status, unreadable.h1()), (400, "Invalid form"));
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
    let page = kit.signed_in("olga@example.com").await.get(&kit.at("")).await;
    let path = between(&page.html, "<script src=\"", "\"").expect("a script");
    let script = kit.browser().get(path).await;
    assert_eq!(script.header("content-type"), "text/javascript; charset=utf-8");
    assert_eq!(script.header("cache-control"), "public, max-age=31536000, immutable");
}

#[tokio::test]
async fn a_failure_of_ours_names_the_request_and_nothing_else() {
    let kit = Kit::new().await;
    let mut browser = kit.signed_in("olga@example.com").await;
    kit.service.store().close().await;
    let failed = browser.get("/account/").await;
    assert_eq!((failed.status, failed.h1()), (503, "Server busy"));
    assert!(failed.says(failed.header("x-request-id")));
    assert!(!failed.says("atabase") && !failed.says("pool"));
}
