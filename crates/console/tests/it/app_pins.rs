//! An app of others: what runs is what was approved, and what is newer is shown before it is taken.

use service::Name;
use service::access::Actor;
use service::organizations::NewOrganization;

use crate::apps::written;
use crate::kit::{Kit, between};

#[tokio::test]
async fn a_newer_version_of_an_app_of_others_is_reviewed_and_taken() {
    let kit = Kit::new().await;
    let mut olga = kit.signed_in("olga@example.com").await;
    kit.make_operator("olga@example.com").await;
    let app = written(&kit, &mut olga).await;
    let form = [("name", "Hook"), ("description", ""), ("is_global", "yes")];
    assert_eq!(olga.post(&format!("{app}edit/"), &form).await.status, 303);
    let new = NewOrganization {
        name: Name::new("Bay").unwrap(),
        is_member_join_email_enabled: None,
        enforce_2fa: None,
    };
    let mia = kit.person("mia@example.net").await;
    let other = kit.service.create_organization_for(&Actor::system(), &new, &mia).await;
    let other = other.unwrap().organization.id.to_string();
    let there = app.replace(&kit.organization.to_string(), &other);
    let mut mia = kit.signed_in("mia@example.net").await;

    let asked = mia.get(&format!("{there}configurations/new/")).await;
    assert!(asked.says("<input type=\"hidden\" name=\"version\" value=\"1\">"));
    let team = between(&asked.html, "<option value=\"", "\"")
        .expect("a team")
        .to_owned();
    let form = [
        ("team_id", team.as_str()),
        ("version", "1"),
        ("enabled", "yes"),
        ("config__url", "https://example.com/hook"),
    ];
    let made = mia.post(&format!("{there}configurations/new/"), &form).await;
    assert_eq!(made.status, 303, "{}", made.html);
    let config = made.header("location").strip_suffix("?done=app-set-up");
    let config = config.expect("it says what happened").to_owned();
    assert!(!mia.get(&config).await.says("New version available"));
    assert!(
        mia.get(&format!("{config}update/"))
            .await
            .says("already runs the latest version")
    );

    let swapped = [
        ("file", "index.ts"),
        ("version", "1"),
        ("text", "export function onEvent() {}"),
    ];
    assert_eq!(olga.post(&format!("{app}source/"), &swapped).await.status, 303);
    let shown = mia.get(&config).await;
    assert!(shown.says("New version available.") && shown.says("runs version 1 until you update to version 2"));
    let late = mia.post(&format!("{there}configurations/new/"), &form).await;
    assert!(
        late.status == 409 && late.says("name=\"version\" value=\"2\""),
        "{late:?}"
    );
    let review = mia.get(&format!("{config}update/")).await;
    assert!(review.says("Acme has published version 2") && review.says("export function onEvent() {}"));
    assert!(review.says("<input type=\"hidden\" name=\"version\" value=\"2\">"));

    let again = [
        ("file", "index.ts"),
        ("version", "2"),
        ("text", "export function onEvent() { /* more */ }"),
    ];
    assert_eq!(olga.post(&format!("{app}source/"), &again).await.status, 303);
    let stale = mia.post(&format!("{config}update/"), &[("version", "2")]).await;
    assert!(
        stale.status == 409 && stale.says("name=\"version\" value=\"3\"") && stale.says("/* more */"),
        "{stale:?}"
    );
    let taken = mia.post(&format!("{config}update/"), &[("version", "3")]).await;
    assert_eq!(taken.place(), (303, format!("{config}?done=config-upgraded").as_str()));
    assert!(!mia.get(&config).await.says("New version available"));
}
