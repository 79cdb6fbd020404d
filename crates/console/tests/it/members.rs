use chrono::TimeDelta;
use service::access::Actor;
use service::users::NewUser;
use service::{Email, Level};

use crate::kit::{Kit, PASSWORD};

#[tokio::test]
async fn members_are_listed_and_found() {
    let kit = Kit::new().await;
    kit.member("ann@example.org", Level::Admin).await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let all = owner.get(&kit.at("members/")).await;
    assert!(all.says("ann@example.org") && all.says("<span class=\"tag\">Administrator</span>") && all.says(">You<"));
    assert!(all.says("2 members") && !all.says("rel=\"next\""));
    let found = owner.get(&kit.at("members/?search=OLGA")).await;
    assert!(found.says("olga@example.com") && !found.says("ann@example.org") && found.says("1 member found"));
    let nobody = owner.get(&kit.at("members/?search=%3Cb%3E")).await;
    assert!(nobody.says("No members match “&#60;b&#62;”"));
}

/// Without a password, which would take its time to make.
async fn sailor(kit: &Kit, number: usize) {
    let new = NewUser {
        email: Email::new(&format!("crew{number}@example.org")).expect("the service does it"),
        first_name: "Able".to_owned(),
        last_name: String::new(),
        password: None,
        is_email_verified: false,
    };
    let who = Actor::system();
    let user = kit.service.create_user(&who, &new).await.expect("the service does it");
    let added = kit.service.add_member(&who, kit.organization, &user, Level::Member);
    added.await.expect("the service does it");
}

#[tokio::test]
async fn long_lists_come_in_pages_and_keep_the_search() {
    let kit = Kit::new().await;
    for number in 0..52 {
        sailor(&kit, number).await;
    }
    let mut owner = kit.signed_in("olga@example.com").await;
    let first = owner.get(&kit.at("members/?search=crew")).await;
    assert!(first.says("1–50 of 52"));
    assert!(first.says("?search=crew&#38;page=2\"") && !first.says("rel=\"prev\""));
    let second = owner.get(&kit.at("members/?search=crew&page=2")).await;
    assert!(second.says("51–52 of 52") && second.says("?search=crew\"") && !second.says("rel=\"next\""));
    assert_eq!(
        owner.get(&kit.at("members/?page=9999999999999999999")).await.status,
        200
    );
}

#[tokio::test]
async fn a_level_is_changed_and_recorded() {
    let kit = Kit::new().await;
    let ann = kit.member("ann@example.org", Level::Member).await.uuid;
    let mut owner = kit.signed_in("olga@example.com").await;
    let path = kit.at(&format!("members/{ann}/"));
    let changed = owner.post(&path, &[("level", "8")]).await;
    assert_eq!(changed.place(), (303, format!("{path}?done=role-changed").as_str()));
    assert!(owner.get(&path).await.says("value=\"8\" selected"));
    let activity = owner.get(&kit.at("activity/?scope=OrganizationMembership")).await;
    assert!(activity.says("<del>Member</del>") && activity.says("<ins>Administrator</ins>"));
    let odd = owner.post(&path, &[("level", "7")]).await;
    assert_eq!(odd.status, 400);
    assert!(odd.says("id=\"level-problem\">Choose one of these roles."));
}

#[tokio::test]
async fn refusals_stand_beside_the_level() {
    let kit = Kit::new().await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let email = Email::new("olga@example.com").unwrap();
    let olga = kit.service.user_by_email(&email).await.unwrap().uuid;
    let path = kit.at(&format!("members/{olga}/"));
    let last = owner.post(&path, &[("level", "1")]).await;
    assert_eq!(last.status, 400);
    assert!(last.says("id=\"level-problem\">An organization must have at least one owner"));
    kit.member("ann@example.org", Level::Admin).await;
    let mut admin = kit.signed_in("ann@example.org").await;
    let above = admin.post(&path, &[("level", "1")]).await;
    assert_eq!(above.status, 403);
    assert!(above.says("role=\"alert\">Your role (administrator) does not allow"));
    assert!(
        !admin.get(&path).await.says("name=\"level\""),
        "no form for whom one may not change"
    );
}

#[tokio::test]
async fn a_member_is_removed_and_reaches_nothing_from_then_on() {
    let kit = Kit::new().await;
    let ann = kit.member("ann@example.org", Level::Member).await.uuid;
    let mut browser = kit.signed_in("ann@example.org").await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let path = kit.at(&format!("members/{ann}/remove/"));
    assert_eq!(owner.get(&path).await.h1(), "Remove Some One?");
    let removed = owner.post(&path, &[]).await;
    assert_eq!(removed.place(), (303, kit.at("members/?done=removed").as_str()));
    assert_eq!(browser.get(&kit.at("")).await.status, 303, "the session has ended");
    assert_eq!(owner.get(&path).await.status, 404);
}

#[tokio::test]
async fn one_can_leave_but_not_remove_those_above() {
    let kit = Kit::new().await;
    let ann = kit.member("ann@example.org", Level::Member).await.uuid;
    let ben = kit.member("ben@example.org", Level::Member).await.uuid;
    let mut browser = kit.signed_in("ann@example.org").await;
    let refused = browser.post(&kit.at(&format!("members/{ben}/remove/")), &[]).await;
    assert_eq!(refused.status, 403);
    assert!(refused.says("role=\"alert\">Your role (member) does not allow removing"));
    let path = kit.at(&format!("members/{ann}/remove/"));
    assert_eq!(browser.get(&path).await.h1(), "Leave Acme?");
    assert_eq!(browser.post(&path, &[]).await.place(), (303, "/organizations/"));
    assert_eq!(browser.get("/organizations/").await.status, 303);
}

#[tokio::test]
async fn an_old_session_confirms_before_it_makes_another_owner() {
    let kit = Kit::new().await;
    let ann = kit.member("ann@example.com", Level::Member).await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let path = kit.at(&format!("members/{}/", ann.uuid));
    kit.service.clock().advance(TimeDelta::minutes(16));
    let asked = owner.post(&path, &[("level", "15")]).await;
    let confirm = asked.header("location").to_owned();
    assert!(
        confirm.starts_with("/login/confirm/?next=%2Forganizations%2F"),
        "{asked:?}"
    );
    let back = owner
        .post("/login/confirm/", &[("password", PASSWORD), ("next", &path)])
        .await;
    assert_eq!(back.place(), (303, path.as_str()));
    let changed = owner.post(&path, &[("level", "15")]).await;
    assert_eq!(changed.place(), (303, format!("{path}?done=role-changed").as_str()));
}

#[tokio::test]
async fn pages_count_towards_the_rate_limit() {
    let kit = Kit::limited_to("4/hour").await;
    let mut owner = kit.signed_in("olga@example.com").await;
    for page in ["", "members/", "invites/", "apps/destinations/"] {
        assert_eq!(owner.get(&kit.at(page)).await.status, 200, "{page}");
    }
    let refused = owner.get(&kit.at("")).await;
    assert_eq!((refused.status, refused.h1()), (429, "Too many attempts"));
    assert!(refused.header("retry-after").parse::<u64>().is_ok_and(|wait| wait > 60));
    assert_eq!(
        owner.get("/api/organizations/").await.status,
        429,
        "pages and the API are counted together"
    );
}
