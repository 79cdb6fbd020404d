use service::Level;

use crate::kit::{Kit, between};

#[tokio::test]
async fn an_organization_is_made_and_found_in_the_switcher() {
    let kit = Kit::new().await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let refused = owner.post("/organizations/new/", &[("name", " ")]).await;
    assert_eq!(refused.status, 400);
    assert!(refused.says("id=\"name-problem\">This field must not be blank."));
    let made = owner.post("/organizations/new/", &[("name", "Bay <&> Co")]).await;
    assert_eq!(made.status, 303, "{made:?}");
    let shown = owner.get(made.header("location")).await;
    assert_eq!(shown.h1(), "Bay &#60;&#38;&#62; Co");
    assert!(shown.says("role=\"status\" tabindex=\"-1\" autofocus>Organization created."));
    let switcher = between(&shown.html, "action=\"/organizations/switch/\"", "</form>").expect("a switcher");
    assert!(switcher.contains(">Acme</button>") && switcher.contains(&kit.organization.to_string()));
}

#[tokio::test]
async fn switching_is_remembered() {
    let kit = Kit::new().await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let made = owner.post("/organizations/new/", &[("name", "Bay")]).await;
    let bay = made.header("location").replace("?done=created", "");
    assert_eq!(owner.get("/").await.place(), (303, kit.at("").as_str()));
    let id = between(&bay, "/organizations/", "/").expect("an id").to_owned();
    let switched = owner.post("/organizations/switch/", &[("organization", &id)]).await;
    assert_eq!(switched.place(), (303, bay.as_str()));
    assert_eq!(owner.get("/").await.place(), (303, bay.as_str()));
    let listed = owner.get("/organizations/").await;
    assert_eq!(listed.html.matches(">Default<").count(), 1);
    let elsewhere = uuid::Uuid::nil().to_string();
    for wrong in [elsewhere.as_str(), "x"] {
        let refused = owner.post("/organizations/switch/", &[("organization", wrong)]).await;
        assert_eq!(refused.status, 404, "{wrong}");
    }
}

#[tokio::test]
async fn whoever_belongs_nowhere_is_told_how_to_begin() {
    let kit = Kit::new().await;
    kit.person("eve@example.org").await;
    let mut eve = kit.signed_in("eve@example.org").await;
    assert_eq!(eve.get("/").await.place(), (303, "/organizations/"));
    assert!(
        eve.get("/organizations/")
            .await
            .says("You're not in an organization yet.")
    );
}

#[tokio::test]
async fn settings_are_saved_and_switches_go_off_again() {
    let kit = Kit::new().await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let path = kit.at("settings/");
    let shown = owner.get(&path).await;
    assert!(shown.says("name=\"is_member_join_email_enabled\" value=\"yes\" checked"));
    let saved = owner.post(&path, &[("name", "Acme 2")]).await;
    assert_eq!(saved.place(), (303, kit.at("settings/?done=saved").as_str()));
    let shown = owner.get(&path).await;
    assert!(shown.says("value=\"Acme 2\""));
    assert!(!shown.says("name=\"is_member_join_email_enabled\" value=\"yes\" checked"));
    let long = "x".repeat(65);
    let refused = owner.post(&path, &[("name", &long)]).await;
    assert_eq!(refused.status, 400);
    assert!(refused.says("id=\"name-problem\">Must have at most 64 characters."));
    assert!(refused.says(&long), "what was typed stays");
    let activity = owner.get(&kit.at("activity/?scope=Organization")).await;
    assert!(activity.says("<del>Acme</del>") && activity.says("<ins>Acme 2</ins>"));
}

#[tokio::test]
async fn members_see_the_settings_and_no_form() {
    let kit = Kit::new().await;
    kit.member("ann@example.org", Level::Member).await;
    let mut ann = kit.signed_in("ann@example.org").await;
    let shown = ann.get(&kit.at("settings/")).await;
    assert!(shown.says("Optional") && !shown.says("name=\"name\""));
    assert!(!shown.says(&kit.at("delete/")));
}

#[tokio::test]
async fn an_organization_goes_only_when_its_name_is_typed() {
    let kit = Kit::new().await;
    kit.member("ann@example.org", Level::Member).await;
    kit.invite("new@example.org").await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let path = kit.at("delete/");
    let asked = owner.get(&path).await;
    assert_eq!(asked.h1(), "Delete Acme?");
    for loss in ["<li>2 memberships</li>", "<li>1 team</li>", "<li>1 pending invite</li>"] {
        assert!(asked.says(loss), "{loss}");
    }
    assert!(!asked.says("pipeline app"), "what there is none of is not named");
    let refused = owner.post(&path, &[("confirmation", "acme")]).await;
    assert_eq!(refused.status, 400);
    assert!(refused.says("id=\"confirmation-problem\">This doesn&#39;t match"));
    assert_eq!(owner.get(&kit.at("")).await.status, 200);
    let deleted = owner.post(&path, &[("confirmation", "Acme")]).await;
    assert_eq!(deleted.place(), (303, "/organizations/"));
    assert_eq!(owner.get(&kit.at("")).await.status, 404);
}
