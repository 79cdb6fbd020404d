use crate::kit::{Kit, between};

#[tokio::test]
async fn a_team_is_made_renamed_and_deleted() {
    let kit = Kit::new().await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let form = [("name", "Web"), ("timezone", "Europe/Berlin")];
    let made = owner.post(&kit.at("teams/new/"), &form).await;
    let place = made.header("location").to_owned();
    let path = place.replace("?done=team-created", "");
    let shown = owner.get(&place).await;
    assert_eq!(shown.h1(), "Web");
    assert!(shown.says("Team created."));
    let token = between(&shown.html, "<code class=\"secret\" id=\"token\">", "</code>").expect("a token");
    assert!(token.starts_with("hgp_") && shown.says("data-copies=\"token\""));
    assert!(owner.get(&kit.at("teams/")).await.says(token));

    let renamed = owner.post(&path, &[("name", "Site"), ("timezone", "UTC")]).await;
    assert_eq!(renamed.place(), (303, format!("{path}?done=saved").as_str()));
    assert_eq!(owner.get(&path).await.h1(), "Site");

    let asked = owner.get(&format!("{path}delete/")).await;
    assert_eq!(asked.h1(), "Delete the team Site?");
    let refused = owner.post(&format!("{path}delete/"), &[("confirmation", "Web")]).await;
    assert_eq!(refused.status, 400);
    let deleted = owner
        .post(&format!("{path}delete/"), &[("confirmation", " Site ")])
        .await;
    assert_eq!(deleted.place(), (303, kit.at("teams/?done=team-deleted").as_str()));
    assert_eq!(owner.get(&path).await.status, 404);
}

#[tokio::test]
async fn what_the_service_refuses_is_said_beside_the_field() {
    let kit = Kit::new().await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let form = [("name", "Web"), ("timezone", "Middle/Earth")];
    let refused = owner.post(&kit.at("teams/new/"), &form).await;
    assert_eq!(refused.status, 400);
    assert!(refused.says("id=\"timezone-problem\">Invalid time zone. Use a name such as Europe/Berlin."));
    assert!(refused.says("value=\"Web\"") && refused.says("value=\"Middle/Earth\""));
}

#[tokio::test]
async fn the_last_team_stays_and_the_page_says_why() {
    let kit = Kit::new().await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let path = kit.at(&format!("teams/{}/delete/", kit.first_team().await));
    let refused = owner.post(&path, &[("confirmation", "Default project")]).await;
    assert_eq!(refused.status, 400);
    assert!(refused.says("role=\"alert\">An organization must have at least one team"));
}
