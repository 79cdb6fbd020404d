use service::Level;

use crate::kit::{Kit, between};

#[tokio::test]
async fn activities_are_told_with_who_what_before_and_after() {
    let kit = Kit::new().await;
    let mut owner = kit.signed_in("olga@example.com").await;
    owner
        .post(&kit.at("teams/new/"), &[("name", "Web"), ("timezone", "UTC")])
        .await;
    let shown = owner.get(&kit.at("activity/?scope=Team")).await;
    assert!(shown.says("Olga Owner</a> created the team <a "), "{shown:?}");
    assert!(shown.says("<ins>Web</ins>") && shown.says("[redacted]") && !shown.says("hgp_"));
    assert!(
        shown.says("System created the team"),
        "what the command line did is there, too"
    );
}

#[tokio::test]
async fn filters_take_people_things_and_days() {
    let kit = Kit::new().await;
    let ann = kit.member("ann@example.org", Level::Admin).await;
    let mut browser = kit.signed_in("ann@example.org").await;
    let form = [("name", "Web"), ("timezone", "UTC")];
    let made = browser.post(&kit.at("teams/new/"), &form).await;
    assert_eq!(made.status, 303);
    for user in ["ANN@example.org".to_owned(), ann.uuid.to_string()] {
        let query = format!("activity/?user={}", user.replace('@', "%40"));
        let shown = browser.get(&kit.at(&query)).await;
        assert!(shown.says(">Web</a>") && !shown.says("Default project"), "{user}");
        assert!(
            shown.says("value=\"ann@example.org\""),
            "people are shown by their address"
        );
    }
    let team = made.header("location").split('/').nth(4).expect("an id").to_owned();
    let one = browser.get(&kit.at(&format!("activity/?scope=Team&item={team}"))).await;
    assert_eq!(one.html.matches("<p class=\"entry-text\">").count(), 1);
    let today = browser
        .get(&kit.at("activity/?after=2026-11-15&before=2026-11-15"))
        .await;
    assert!(today.says(">Web</a>"));
    let earlier = browser.get(&kit.at("activity/?before=2026-11-14")).await;
    assert!(earlier.says("No matching activity"));
}

#[tokio::test]
async fn only_what_can_be_found_is_offered_as_a_filter() {
    let kit = Kit::new().await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let form = [("label", "Nightly"), ("purpose", "read"), ("expires_at", "7")];
    assert!(owner.post("/account/keys/new/", &form).await.says("Your new API key"));
    let shown = owner.get(&kit.at("activity/")).await;
    assert!(shown.says("<option value=\"Team\">") && !shown.says("API keys</option>"));
    assert!(!shown.says("Nightly"), "a key is its owner's, and no organization's");
}

#[tokio::test]
async fn what_opens_says_what_it_is_about() {
    let kit = Kit::new().await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let shown = owner.get(&kit.at("activity/?scope=Team")).await;
    let summary = between(&shown.html, "<summary>Before and after: ", "</summary>").expect("changes");
    assert!(
        summary.ends_with("<span class=\"unseen\"> of the team Default project</span>"),
        "{summary}"
    );
}

#[tokio::test]
async fn a_filter_that_cannot_be_is_said_beside_it() {
    let kit = Kit::new().await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let unknown = owner.get(&kit.at("activity/?user=nobody%40example.org")).await;
    assert_eq!(unknown.status, 400);
    assert!(unknown.says("id=\"user-problem\">No member has this email"));
    let date = owner.get(&kit.at("activity/?after=yesterday")).await;
    assert!(date.says("id=\"after-problem\">Enter a valid date"));
    let long = owner.get(&kit.at(&format!("activity/?item={}", "x".repeat(101)))).await;
    assert!(long.says("id=\"item-problem\">Must have at most 100 characters"));
}

#[tokio::test]
async fn other_organizations_activities_are_not_there() {
    let kit = Kit::new().await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let made = owner.post("/organizations/new/", &[("name", "Bay")]).await;
    let bay = made.header("location").replace("?done=created", "");
    assert!(!owner.get(&kit.at("activity/")).await.says(">Bay</a>"));
    let shown = owner.get(&format!("{bay}activity/")).await;
    assert!(shown.says(">Bay</a>") && !shown.says(">Acme</a>"));
}
