//! What the pages say to type does what the pages do.

use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt;
use tower::ServiceExt;

use crate::export_runs::Scene;
use crate::kit::{Browser, Kit, PASSWORD, between};

/// A key that may do all that the owner may.
async fn key(owner: &mut Browser<'_>) -> String {
    let form = [("label", "curl"), ("purpose", "everything"), ("expires_at", "7")];
    let made = owner.post("/account/keys/new/", &form).await;
    let secret = between(&made.html, "<code class=\"secret\">", "</code>");
    secret.expect("a key").to_owned()
}

/// Does what curl would do.
pub(crate) async fn run(kit: &Kit, command: &str, key: &str) -> (u16, String) {
    let method = between(command, "curl -X ", " ").unwrap_or("GET");
    let url = between(command, "'", "'").expect("an address");
    let path = url
        .strip_prefix("http://127.0.0.1:8000")
        .expect("the site's own address");
    assert!(
        command.contains("-H \"Authorization: Bearer $HEDGEROW_API_KEY\""),
        "{command}"
    );
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "hedgerow.test")
        .header("authorization", format!("Bearer {key}"));
    let body = command.split_once("-d '").map(|(_, body)| {
        let quoted = body.strip_suffix('\'').expect("the body ends the command");
        quoted.replace(r"'\''", "'")
    });
    if body.is_some() {
        assert!(command.contains("-H 'Content-Type: application/json'"), "{command}");
        request = request.header("content-type", "application/json");
    }
    let request = request.body(Body::from(body.unwrap_or_default())).expect("a request");
    let answer = kit.app.clone().oneshot(request).await.expect("the app always answers");
    let status = answer.status().as_u16();
    let bytes = answer.into_body().collect().await.expect("a whole answer").to_bytes();
    (status, String::from_utf8_lossy(&bytes).into_owned())
}

#[tokio::test]
async fn every_command_of_every_page_works() {
    let kit = Kit::new().await;
    kit.invite("first@example.org").await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let key = key(&mut owner).await;
    let team = kit.first_team().await;
    let email = service::Email::new("olga@example.com").unwrap();
    let olga = kit.service.user_by_email(&email).await.unwrap().uuid;
    let domain = kit.domain_at("https://127.0.0.1:9/sso", "sso.example.net", "").await;
    let export = format!("exports/{}/", crate::exports::make(&kit, "Hourly", true).await);
    let app = crate::apps::written(&kit, &mut owner).await;
    let config = crate::apps::set_up(&kit, &mut owner, &app).await;
    let paths = [
        "/organizations/".to_owned(),
        "/organizations/new/".to_owned(),
        kit.at(""),
        kit.at("settings/"),
        kit.at("members/?search=olga"),
        kit.at(&format!("members/{olga}/")),
        kit.at("teams/"),
        kit.at("teams/new/"),
        kit.at(&format!("teams/{team}/")),
        kit.at("activity/?scope=Team&user=olga%40example.com&after=2026-11-15&before=2026-11-15"),
        kit.at("invites/new/"),
        kit.at("invites/"),
        kit.at("domains/"),
        kit.at("domains/new/"),
        kit.at(&format!("domains/{domain}/")),
        kit.at(&format!("domains/{domain}/checks/")),
        kit.at(&format!("domains/{domain}/enforcement/?sso_enforcement=saml")),
        kit.at(&format!("domains/{domain}/enforcement/?sso_enforcement=")),
        kit.at(&format!("domains/{domain}/oidc/")),
        kit.at(&format!("domains/{domain}/disconnect/?way=oidc")),
        kit.at(&format!("domains/{domain}/delete/")),
        kit.at("exports/"),
        kit.at("exports/new/"),
        kit.at("exports/new/noop/"),
        kit.at(&export),
        kit.at(&format!("{export}edit/")),
        kit.at(&format!("{export}test/")),
        kit.at(&format!("{export}preview/")),
        kit.at(&format!("{export}delete/")),
        kit.at("apps/"),
        kit.at("apps/frontend/new/code/"),
        app.clone(),
        format!("{app}edit/"),
        format!("{app}configurations/new/"),
        config.clone(),
        format!("{config}logs/?level=ERROR"),
        format!("{app}source/?file=index.ts"),
        // What belongs to the team goes with it.
        kit.at(&format!("teams/{team}/delete/")),
    ];
    for path in paths {
        let page = owner.get(&path).await;
        let commands = page.commands();
        assert!(!commands.is_empty(), "{path}");
        for command in commands {
            let (status, body) = run(&kit, &command, &key).await;
            assert!((200..300).contains(&status), "{path}\n{command}\n{status} {body}");
        }
    }
}

/// Does what curl would do with a session in its file: signs in with the first command, and does the rest.
async fn run_in_session(kit: &Kit, commands: &[String]) {
    let mut session = String::new();
    for command in commands {
        let method = between(command, "curl -X ", " ").unwrap_or("GET");
        let url = between(command, "'", "'").expect("an address");
        let path = url
            .strip_prefix("http://127.0.0.1:8000")
            .expect("the site's own address");
        let is_signing_in = command.contains(" -c hedgerow-session");
        assert_ne!(is_signing_in, command.contains(" -b hedgerow-session"), "{command}");
        let body = command
            .split_once("-d '")
            .map_or("", |(_, body)| body.trim_end_matches('\''));
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "hedgerow.test")
            .header("content-type", "application/json")
            .header("cookie", &session);
        let body = body.replace("YOUR PASSWORD", PASSWORD);
        let request = request.body(Body::from(body)).expect("a request");
        let answer = kit.app.clone().oneshot(request).await.expect("the app always answers");
        assert!(answer.status().is_success(), "{command}: {}", answer.status());
        if is_signing_in {
            let cookie = answer.headers()["set-cookie"].to_str().expect("a cookie is text");
            cookie.split(';').next().unwrap_or_default().clone_into(&mut session);
        }
    }
}

#[tokio::test]
async fn what_no_key_may_do_is_done_in_a_session() {
    let kit = Kit::new().await;
    let mut owner = kit.signed_in("olga@example.com").await;
    key(&mut owner).await;
    let listed = owner.get("/account/keys/").await;
    let id = between(&listed.html, "/account/keys/", "/roll/").expect("an id");
    let key = format!("/account/keys/{}", &id[id.len() - 36..]);
    let (roll, delete) = (format!("{key}/roll/"), format!("{key}/delete/"));
    for path in ["/account/", "/account/keys/", "/account/keys/new/", &roll, &delete] {
        let commands = owner.get(path).await.commands();
        assert!(commands.len() > 1, "{path}");
        run_in_session(&kit, &commands).await;
    }
}

#[tokio::test]
async fn every_command_about_runs_and_backfills_works() {
    let kit = Kit::new().await;
    let scene = Scene::with_a_gap(&kit).await;
    let backfill = scene.backfill().await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let key = key(&mut owner).await;
    let mut paths = vec![
        "runs/?status=Completed".to_owned(),
        "backfills/".to_owned(),
        "backfills/new/?start=2026-11-15T10:00&end=2026-11-15T12:00&resend=yes".to_owned(),
        format!("backfills/{backfill}/"),
    ];
    let runs = scene.runs().await;
    paths.extend(runs.iter().map(|run| format!("runs/{}/?level=INFO", run.id)));
    for path in paths {
        for command in owner.get(&scene.at(&path)).await.commands() {
            let (status, body) = run(&kit, &command, &key).await;
            assert!((200..300).contains(&status), "{path}\n{command}\n{status} {body}");
        }
    }
}

#[tokio::test]
async fn the_command_of_a_form_sends_what_was_typed() {
    let kit = Kit::new().await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let key = key(&mut owner).await;
    let form = [("name", "Ann's \"shop\" <3"), ("timezone", "Nowhere")];
    let refused = owner.post(&kit.at("teams/new/"), &form).await;
    let command = refused.commands().remove(0).replace("Nowhere", "UTC");
    let (status, body) = run(&kit, &command, &key).await;
    assert_eq!(status, 201, "{body}");
    assert!(body.contains(r#""name":"Ann's \"shop\" <3""#), "{body}");
}

#[tokio::test]
async fn each_command_names_the_scope_it_needs() {
    let kit = Kit::new().await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let settings = owner.get(&kit.at("settings/")).await;
    assert!(settings.says("<code>organization:read</code>") && settings.says("<code>organization:write</code>"));
    let members = owner.get(&kit.at("members/")).await;
    assert!(members.says("<code>organization_member:read</code>"));
}
