//! Who sees what below an organization.

use std::time::Duration;

use service::{Level, PageSlot, UserId, caller};
use tokio::time::timeout;

use crate::apps::{set_up, written};
use crate::kit::{Browser, Kit};

/// Every page, and the lowest level that it is for.
async fn pages(kit: &Kit) -> Vec<(String, Level)> {
    let ann = kit.member("ann@example.org", Level::Member).await.uuid;
    let team = kit.first_team().await;
    let domain = kit.domain("pages.example.net", "").await;
    let pages = [
        (String::new(), Level::Member),
        ("members/".to_owned(), Level::Member),
        (format!("members/{ann}/"), Level::Member),
        (format!("members/{ann}/remove/"), Level::Member),
        ("invites/".to_owned(), Level::Member),
        ("invites/new/".to_owned(), Level::Member),
        ("teams/".to_owned(), Level::Member),
        (format!("teams/{team}/"), Level::Member),
        ("activity/".to_owned(), Level::Member),
        ("settings/".to_owned(), Level::Member),
        ("teams/new/".to_owned(), Level::Admin),
        (format!("teams/{team}/delete/"), Level::Admin),
        ("delete/".to_owned(), Level::Owner),
        ("domains/".to_owned(), Level::Member),
        (format!("domains/{domain}/"), Level::Member),
        ("domains/new/".to_owned(), Level::Admin),
        (format!("domains/{domain}/checks/"), Level::Admin),
        (format!("domains/{domain}/saml/"), Level::Admin),
        (format!("domains/{domain}/oidc/"), Level::Admin),
        (format!("domains/{domain}/disconnect/?way=saml"), Level::Admin),
        (
            format!("domains/{domain}/enforcement/?sso_enforcement=saml"),
            Level::Admin,
        ),
        (format!("domains/{domain}/delete/"), Level::Admin),
        ("domains/recovery-codes/".to_owned(), Level::Owner),
    ];
    pages.into()
}

/// Every form with what it takes, and the lowest level that it is for.
async fn forms(kit: &Kit) -> Vec<(String, Vec<(&'static str, &'static str)>, Level)> {
    let ben = kit.member("ben@example.org", Level::Member).await.uuid;
    let team = kit.first_team().await;
    let domain = kit.domain("forms.example.net", "").await;
    vec![
        (
            "domains/new/".to_owned(),
            vec![("domain", "x.example.net")],
            Level::Admin,
        ),
        (format!("domains/{domain}/verify/"), vec![], Level::Admin),
        (format!("domains/{domain}/checks/"), vec![], Level::Admin),
        (
            format!("domains/{domain}/provisioning/"),
            vec![("jit_provisioning_enabled", "yes")],
            Level::Admin,
        ),
        (
            format!("domains/{domain}/saml/import/"),
            vec![("xml", "<x/>")],
            Level::Admin,
        ),
        (format!("domains/{domain}/disconnect/?way=saml"), vec![], Level::Admin),
        (
            format!("domains/{domain}/enforcement/"),
            vec![("sso_enforcement", "saml")],
            Level::Admin,
        ),
        (
            format!("domains/{domain}/delete/"),
            vec![("confirmation", "forms.example.net")],
            Level::Admin,
        ),
        ("domains/recovery-codes/".to_owned(), vec![], Level::Owner),
        ("settings/".to_owned(), vec![("name", "Other")], Level::Admin),
        (format!("members/{ben}/"), vec![("level", "8")], Level::Admin),
        (
            "teams/new/".to_owned(),
            vec![("name", "T"), ("timezone", "UTC")],
            Level::Admin,
        ),
        (
            format!("teams/{team}/"),
            vec![("name", "T"), ("timezone", "UTC")],
            Level::Admin,
        ),
        (
            format!("teams/{team}/delete/"),
            vec![("confirmation", "Default project")],
            Level::Admin,
        ),
        ("delete/".to_owned(), vec![("confirmation", "Acme")], Level::Owner),
    ]
}

async fn browser_of(kit: &Kit, level: Level) -> Browser<'_> {
    let email = format!("{level}@example.org");
    kit.member(&email, level).await;
    kit.signed_in(&email).await
}

#[tokio::test]
async fn each_page_is_for_its_levels_and_no_lower() {
    let kit = Kit::new().await;
    let pages = pages(&kit).await;
    for level in Level::ALL {
        let mut browser = browser_of(&kit, level).await;
        for (below, lowest) in &pages {
            let expected = if level >= *lowest { 200 } else { 403 };
            let answer = browser.get(&kit.at(below)).await;
            assert_eq!(answer.status, expected, "{level} {below}: {answer:?}");
        }
    }
}

/// All that the organization has, held by others.
async fn all_slots(kit: &Kit) -> Vec<PageSlot> {
    let slots = kit.service.page_slots();
    let mut held = Vec::new();
    for user in 1001..=1008 {
        let slot = caller::on_behalf_of_organization(kit.organization, slots.acquire(Some(UserId(user))));
        held.push(slot.await.expect("a slot"));
    }
    held
}

/// The same few that the API has: together they would be twice as many.
#[tokio::test]
async fn few_pages_of_an_organization_are_made_at_a_time() {
    let kit = Kit::new().await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let mut held = all_slots(&kit).await;
    let lists = [
        "",
        "activity/",
        "apps/",
        "domains/",
        "exports/",
        "invites/",
        "members/",
        "teams/",
    ];
    for below in lists {
        let page = timeout(Duration::from_millis(500), owner.get(&kit.at(below))).await;
        assert!(page.is_err(), "{below} does not wait");
    }
    let form = [("name", "T"), ("timezone", "UTC")];
    let made = owner.post(&kit.at("teams/new/"), &form).await;
    assert_eq!(made.status, 303, "what leads to another page makes none: {made:?}");
    held.clear();
    for below in lists {
        assert_eq!(owner.get(&kit.at(below)).await.status, 200, "{below}");
    }
}

/// An app and its configuration may be large: they are read when it is the page's turn.
#[tokio::test]
async fn forms_that_are_shown_again_wait_like_pages() {
    let kit = Kit::new().await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let app = written(&kit, &mut owner).await;
    let config = set_up(&kit, &mut owner, &app).await;
    let long = "x".repeat(2001);
    let forms = [
        (config, vec![("order", "x")]),
        (format!("{app}configurations/new/"), vec![("order", "x")]),
        (
            format!("{app}edit/"),
            vec![("name", ""), ("description", long.as_str())],
        ),
        (format!("{app}delete/"), vec![("confirmation", "another")]),
    ];
    let held = all_slots(&kit).await;
    for (path, form) in &forms {
        let again = timeout(Duration::from_millis(500), owner.post(path, form)).await;
        assert!(again.is_err(), "{path} does not wait");
    }
    drop(held);
    for (path, form) in &forms {
        assert_eq!(owner.post(path, form).await.status, 400, "{path}");
    }
}

#[tokio::test]
async fn no_form_is_taken_from_a_lower_level() {
    let kit = Kit::new().await;
    let forms = forms(&kit).await;
    for level in [Level::Member, Level::Admin] {
        let mut browser = browser_of(&kit, level).await;
        for (below, form, lowest) in &forms {
            if level < *lowest {
                let answer = browser.post(&kit.at(below), form).await;
                assert_eq!(answer.status, 403, "{level} {below}: {answer:?}");
                assert_eq!(answer.h1(), "Permission denied");
            }
        }
    }
    let mut owner = kit.signed_in("olga@example.com").await;
    let settings = owner.get(&kit.at("settings/")).await;
    assert!(settings.says("value=\"Acme\""));
}

#[tokio::test]
async fn strangers_find_nothing_and_cannot_tell_what_there_is() {
    let kit = Kit::new().await;
    kit.person("eve@example.org").await;
    let mut eve = kit.signed_in("eve@example.org").await;
    for (below, _) in pages(&kit).await {
        let theirs = eve.get(&kit.at(&below)).await;
        let nobodys = format!("/organizations/{}/{below}", uuid::Uuid::nil());
        let nobodys = eve.get(&nobodys).await;
        let garbled = eve.get(&format!("/organizations/no-id/{below}")).await;
        assert_eq!((theirs.status, theirs.h1()), (404, "Page not found"), "{below}");
        assert_eq!(theirs.html, nobodys.html, "{below}");
        assert_eq!((garbled.status, garbled.html), (404, theirs.html), "{below}");
    }
    for (below, form, _) in forms(&kit).await {
        assert_eq!(eve.post(&kit.at(&below), &form).await.status, 404, "{below}");
    }
}

#[tokio::test]
async fn another_organizations_things_are_not_found_below_this_one() {
    let kit = Kit::new().await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let made = owner.post("/organizations/new/", &[("name", "Other")]).await;
    let other = made.header("location").replace("?done=created", "");
    let stranger = kit.person("eve@example.org").await;
    let ann = kit.member("ann@example.org", Level::Member).await;
    let domain = kit.domain("sso.example.net", "").await;
    for below in [
        format!("teams/{}/", kit.first_team().await),
        format!("members/{}/", ann.uuid),
        format!("members/{}/", stranger.uuid),
        format!("domains/{domain}/"),
        format!("domains/{domain}/checks/"),
        format!("domains/{domain}/saml/"),
        format!("domains/{domain}/oidc/"),
        format!("domains/{domain}/disconnect/?way=saml"),
        format!("domains/{domain}/enforcement/?sso_enforcement=saml"),
        format!("domains/{domain}/delete/"),
        "domains/x/".to_owned(),
        "teams/x/".to_owned(),
        "members/x/".to_owned(),
    ] {
        assert_eq!(owner.get(&format!("{other}{below}")).await.status, 404, "{below}");
    }
    for (below, form) in [
        ("verify/", vec![]),
        ("checks/", vec![]),
        ("provisioning/", vec![]),
        ("saml/import/", vec![("xml", "<x/>")]),
        ("disconnect/?way=saml", vec![]),
        ("enforcement/", vec![("sso_enforcement", "saml")]),
        ("delete/", vec![("confirmation", "sso.example.net")]),
    ] {
        let path = format!("{other}domains/{domain}/{below}");
        assert_eq!(owner.post(&path, &form).await.status, 404, "{below}");
    }
}

#[tokio::test]
async fn whoever_is_not_signed_in_is_asked_to_and_comes_back() {
    let kit = Kit::new().await;
    let asked = kit.browser().get("/organizations/@current/members/?search=a").await;
    let expected = "/login/?next=%2Forganizations%2F%40current%2Fmembers%2F%3Fsearch%3Da";
    assert_eq!(asked.place(), (303, expected));
}

#[tokio::test]
async fn the_current_organization_has_an_address_of_its_own() {
    let kit = Kit::new().await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let shown = owner.get("/organizations/@current/").await;
    assert_eq!((shown.status, shown.h1()), (200, "Acme"));
    assert!(
        shown.says(&format!("href=\"{}\"", kit.at("members/"))),
        "links name the id"
    );
}

#[tokio::test]
async fn the_menu_leads_to_pages_that_are_there() {
    let kit = Kit::new().await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let shown = owner.get(&kit.at("teams/")).await;
    let here = format!("href=\"{}\" aria-current=\"page\"", kit.at("teams/"));
    assert!(shown.says(&here), "{shown:?}");
    assert_eq!(shown.html.matches(" aria-current=\"page\"").count(), 1);
    let links: Vec<String> = shown
        .html
        .split("href=\"/")
        .skip(1)
        .map(|rest| {
            format!(
                "/{}",
                rest.split('"').next().expect("a link ends").replace("&amp;", "&")
            )
        })
        .filter(|path| path.ends_with('/') || path.contains('?'))
        .collect();
    assert!(links.len() > 12, "{links:?}");
    for path in links {
        let answer = owner.get(&path).await;
        assert!([200, 303].contains(&answer.status), "{path}: {}", answer.status);
    }
}

#[tokio::test]
async fn below_a_section_the_menu_says_so_and_calls_no_page_this_one() {
    let kit = Kit::new().await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let team = format!("teams/{}/", kit.first_team().await);
    for (below, section) in [
        ("teams/new/", "teams/"),
        (team.as_str(), "teams/"),
        ("invites/new/", "invites/"),
        ("delete/", "settings/"),
    ] {
        let shown = owner.get(&kit.at(below)).await;
        let here = format!("href=\"{}\" aria-current=\"true\"", kit.at(section));
        assert!(shown.says(&here) && !shown.says("aria-current=\"page\""), "{below}");
    }
    for (path, current) in [("/account/keys/", "page"), ("/account/keys/new/", "true")] {
        let shown = owner.get(path).await;
        let here = format!("href=\"/account/keys/\" aria-current=\"{current}\"");
        assert!(shown.says(&here), "{path}");
        assert_eq!(shown.html.matches("aria-current").count(), 1, "{path}");
    }
}

#[tokio::test]
async fn an_organization_that_asks_for_a_second_factor_opens_with_one_only() {
    let kit = Kit::new().await;
    kit.member("ann@example.org", Level::Member).await;
    let mut ann = kit.signed_in("ann@example.org").await;
    kit.ask_for_second_factor().await;
    let asked = ann.get(&kit.at("members/")).await;
    assert_eq!(asked.place(), (303, "/account/two-factor/?done=required"));
    assert_eq!(ann.get("/").await.place(), (303, "/organizations/"));
    let listed = ann.get("/organizations/").await;
    assert!(!listed.says("Acme") && listed.says("two-factor authentication"));
}
