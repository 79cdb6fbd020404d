//! Two people with the same form open: whoever saves last does not put back what the other has just replaced.

use chrono::TimeDelta;
use service::Level;

use crate::kit::{Answer, Browser, CERTIFICATE, Kit, between, unescaped};

/// What the form on a page is typed over.
fn seen(page: &Answer) -> String {
    let text = between(&page.html, "name=\"seen\" value=\"", "\"");
    unescaped(text.unwrap_or_else(|| panic!("nothing was seen: {page:?}")))
}

/// Opens `page`, lets somebody else send `theirs` to `action` in the meantime, sends `mine`, and returns the answer. What is
/// sent from a page that is opened after that goes through.
async fn typed_meanwhile(
    kit: &Kit,
    browser: &mut Browser<'_>,
    (page, action): (&str, &str),
    theirs: &[(&str, &str)],
    mine: &[(&str, &str)],
) -> Answer {
    let before = seen(&browser.get(page).await);
    kit.service.clock().advance(TimeDelta::minutes(1));
    let over_before = |form: &[(&str, &str)]| -> Vec<(String, String)> {
        let typed = form.iter().map(|&(name, text)| (name.to_owned(), text.to_owned()));
        typed.chain([("seen".to_owned(), before.clone())]).collect()
    };
    let saved = send(browser, action, &over_before(theirs)).await;
    assert_eq!(saved.status, 303, "{saved:?}");
    kit.service.clock().advance(TimeDelta::minutes(1));
    let refused = send(browser, action, &over_before(mine)).await;
    assert_eq!(refused.status, 409, "{refused:?}");
    assert!(refused.says("Someone else changed this in the meantime"), "{refused:?}");
    assert_eq!(seen(&refused), before, "saving again does not go through either");
    refused
}

async fn send(browser: &mut Browser<'_>, action: &str, form: &[(String, String)]) -> Answer {
    let form: Vec<(&str, &str)> = form.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    browser.post(action, &form).await
}

#[tokio::test]
async fn the_settings_of_an_organization() {
    let kit = Kit::new().await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let path = kit.at("settings/");
    let refused = typed_meanwhile(
        &kit,
        &mut owner,
        (&path, &path),
        &[("name", "Theirs")],
        &[("name", "Mine"), ("is_member_join_email_enabled", "yes")],
    )
    .await;
    assert!(
        refused.says("value=\"Mine\"") && refused.says("name=\"is_member_join_email_enabled\" value=\"yes\" checked")
    );
    let fresh = owner.get(&path).await;
    assert!(fresh.says("value=\"Theirs\""));
    let seen = seen(&fresh);
    let saved = owner.post(&path, &[("name", "Mine"), ("seen", &seen)]).await;
    assert_eq!(saved.status, 303, "who has seen it may replace it");
}

#[tokio::test]
async fn the_settings_of_a_team() {
    let kit = Kit::new().await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let path = kit.at(&format!("teams/{}/", kit.first_team().await));
    let theirs = [("name", "Theirs"), ("timezone", "UTC")];
    let mine = [("name", "Mine"), ("timezone", "Europe/Berlin")];
    let refused = typed_meanwhile(&kit, &mut owner, (&path, &path), &theirs, &mine).await;
    assert_eq!(refused.h1(), "Theirs");
    assert!(refused.says("value=\"Mine\"") && refused.says("value=\"Europe/Berlin\""));
    assert_eq!(owner.get(&path).await.h1(), "Theirs");
}

#[tokio::test]
async fn the_level_of_a_member() {
    let kit = Kit::new().await;
    let ann = kit.member("ann@example.org", Level::Member).await.uuid;
    let mut owner = kit.signed_in("olga@example.com").await;
    let path = kit.at(&format!("members/{ann}/"));
    let refused = typed_meanwhile(&kit, &mut owner, (&path, &path), &[("level", "8")], &[("level", "15")]).await;
    assert!(refused.says("id=\"level-problem\">Someone else changed this in the meantime"));
    assert!(
        refused.says("value=\"15\" selected"),
        "what was chosen stays: {refused:?}"
    );
    assert!(owner.get(&path).await.says("value=\"8\" selected"));
}

#[tokio::test]
async fn an_export() {
    let kit = Kit::new().await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let export = kit.at(&format!(
        "exports/{}/",
        crate::exports::make(&kit, "Hourly", false).await
    ));
    let edit = format!("{export}edit/");
    let theirs = [("name", "Theirs"), ("model", "events"), ("interval", "hour")];
    let mine = [("name", "Mine"), ("model", "events"), ("interval", "day")];
    let refused = typed_meanwhile(&kit, &mut owner, (&edit, &edit), &theirs, &mine).await;
    assert!(refused.says("value=\"Mine\"") && refused.says("<option value=\"day\" selected>"));
    let shown = owner.get(&export).await;
    assert_eq!(shown.h1(), "Theirs");
    assert!(shown.says("Every hour"));
}

#[tokio::test]
async fn whether_new_users_join() {
    let kit = Kit::new().await;
    let domain = kit.at(&format!("domains/{}/", kit.domain("sso.example.net", "").await));
    let mut owner = kit.signed_in("olga@example.com").await;
    let on =
        "name=\"jit_provisioning_enabled\" value=\"yes\" aria-describedby=\"jit_provisioning_enabled-hint\" checked";
    let action = format!("{domain}provisioning/");
    let refused = typed_meanwhile(
        &kit,
        &mut owner,
        (&domain, &action),
        &[],
        &[("jit_provisioning_enabled", "yes")],
    )
    .await;
    assert!(refused.says(on), "what was typed stays: {refused:?}");
    assert!(!owner.get(&domain).await.says(on));
}

#[tokio::test]
async fn what_is_enforced() {
    let kit = Kit::new().await;
    let domain = kit.at(&format!("domains/{}/", kit.domain("sso.example.net", "").await));
    let mut owner = kit.signed_in("olga@example.com").await;
    let (page, action) = (
        format!("{domain}enforcement/?sso_enforcement=saml"),
        format!("{domain}enforcement/"),
    );
    let refused = typed_meanwhile(
        &kit,
        &mut owner,
        (&page, &action),
        &[("sso_enforcement", "saml")],
        &[("sso_enforcement", "")],
    )
    .await;
    assert_eq!(refused.h1(), "Allow any sign-in method for sso.example.net?");
    assert!(owner.get(&domain).await.says(">SAML required<"));
}

#[tokio::test]
async fn identity_providers() {
    let kit = Kit::new().await;
    let domain = kit.at(&format!("domains/{}/", kit.domain("sso.example.net", "").await));
    let mut owner = kit.signed_in("olga@example.com").await;
    let saml = format!("{domain}saml/");
    let settings = |entity_id| {
        [
            ("saml_entity_id", entity_id),
            ("saml_acs_url", "https://idp.example.net/"),
            ("saml_x509_cert", CERTIFICATE),
        ]
    };
    let (theirs, mine) = (settings("urn:theirs"), settings("urn:mine"));
    let refused = typed_meanwhile(&kit, &mut owner, (&saml, &saml), &theirs, &mine).await;
    assert!(refused.says("value=\"urn:mine\""));
    assert!(owner.get(&saml).await.says("value=\"urn:theirs\""));
    let oidc = format!("{domain}oidc/");
    let settings = |client_id| {
        [
            ("oidc_issuer", "https://login.test"),
            ("oidc_client_id", client_id),
            ("oidc_client_secret", "t0p-secret"),
        ]
    };
    let (theirs, mine) = (settings("theirs"), settings("mine"));
    let refused = typed_meanwhile(&kit, &mut owner, (&oidc, &oidc), &theirs, &mine).await;
    assert!(refused.says("value=\"mine\"") && !refused.says("t0p-secret"));
    assert!(owner.get(&oidc).await.says("value=\"theirs\""));
}
