//! In which order mail leaves, and how much of it an organization can cause.

use chrono::TimeDelta;
use serde_json::{Value, json};
use service::Level;
use service::mail::{EmailMessage, InFlight, Undelivered};
use testkit::browser::PASSWORD;
use testkit::{Kit, on_both};

use crate::column;

/// Invites these people, as a member of Acme or as the owner of the other organization.
async fn invite(kit: &Kit, is_ours: bool, names: &[String]) {
    let (key, organization) = if is_ours {
        (&kit.member.key, kit.organization)
    } else {
        (&kit.outsider.key, kit.other)
    };
    // What is written at one moment has no order.
    kit.service.clock().advance(TimeDelta::seconds(1));
    let new: Value = names
        .iter()
        .map(|name| json!({ "target_email": format!("{name}@example.net") }))
        .collect();
    let reply = kit
        .post(key, &format!("/api/organizations/{organization}/invites/bulk/"), new)
        .await;
    assert_eq!(reply.status, 200, "{reply:?}");
}

fn names(first: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{first}{number:02}")).collect()
}

/// Somebody joins Acme with a new account.
async fn join(kit: &Kit, name: &str) {
    let body = json!({ "target_email": format!("{name}@example.net"), "send_email": false });
    let made = kit.post(&kit.owner.key, &kit.at("invites/"), body).await;
    let token = made
        .text("/invite_link")
        .trim_end_matches('/')
        .rsplit('/')
        .next()
        .unwrap();
    let account = json!({ "first_name": "A", "password": PASSWORD });
    let joined = kit.browser().post(&format!("/api/signup/{token}/"), account).await;
    assert_eq!(joined.status, 201, "{joined:?}");
}

async fn prove_all_addresses(kit: &Kit) {
    kit.database
        .run("UPDATE app_user SET is_email_verified = (1 = 1)")
        .await;
}

/// Who gets the mails that wait, without the domain, in the order they are sent in.
async fn recipients(kit: &Kit) -> Vec<String> {
    let emails = kit.emails().await;
    emails
        .into_iter()
        .map(|(to, _)| to.split('@').next().unwrap().to_owned())
        .collect()
}

/// Sends so many.
async fn send(kit: &Kit, count: usize) -> Vec<String> {
    let mut sent = Vec::new();
    for _ in 0..count {
        let mail = kit.service.next_mail().await.unwrap().unwrap();
        kit.service.mail_is_sent(&mail).await.unwrap();
        sent.push(mail.to.split('@').next().unwrap().to_owned());
    }
    sent
}

on_both! {
    async fn resets_go_before_invites_and_these_before_notices(kit: Kit) {
        let kit = kit.with_mail().await;
        prove_all_addresses(&kit).await;
        join(&kit, "new").await;
        invite(&kit, true, &names("invited", 2)).await;
        let asked = kit.browser().post("/api/reset/", json!({ "email": "otto@elsewhere.example" })).await;
        assert_eq!(asked.status, 204);
        let sent = recipients(&kit).await;
        assert_eq!(sent[..3], ["otto", "invited00", "invited01"], "{sent:?}");
        assert_eq!(sent[3..], ["olga", "adam", "mia"], "those above others are told first");
    }

    /// However much one organization has waiting, another's mail comes after one of it.
    async fn organizations_take_turns(kit: Kit) {
        let kit = kit.with_mail().await;
        invite(&kit, true, &names("many", 50)).await;
        invite(&kit, false, &names("few", 2)).await;
        let sent = send(&kit, 20).await;
        assert_eq!(sent[..5], ["many00", "few00", "many01", "few01", "many02"], "{sent:?}");
        // Who comes later starts where the others are by now, neither before nor behind all that waits.
        invite(&kit, false, &names("late", 3)).await;
        let sent = send(&kit, 10).await;
        assert_eq!(sent[..6], ["many18", "late00", "many19", "late01", "many20", "late02"], "{sent:?}");
        invite(&kit, true, &names("more", 1)).await;
        invite(&kit, false, &names("last", 1)).await;
        let sent = recipients(&kit).await;
        assert_eq!(sent[1], "last00", "{sent:?}");
        assert_eq!(sent.last().unwrap(), "more00", "each organization's own mail keeps its order");
        assert_eq!(sent.len(), 27);
    }

    async fn what_is_tried_again_waits_behind_what_its_organization_has_waiting(kit: Kit) {
        let kit = kit.with_mail().await;
        invite(&kit, true, &names("failing", 3)).await;
        for _ in 0..3 {
            let mail = kit.service.next_mail().await.unwrap().unwrap();
            let problem = Undelivered { reason: "busy".to_owned(), is_permanent: false };
            kit.service.mail_is_undelivered(&mail, &problem).await.unwrap();
        }
        assert!(kit.service.next_mail().await.unwrap().is_none(), "it is too soon");
        invite(&kit, true, &names("fresh", 2)).await;
        kit.service.clock().advance(TimeDelta::seconds(10));
        invite(&kit, false, &names("other", 1)).await;
        let sent = recipients(&kit).await;
        assert_eq!(sent[..3], ["fresh00", "other00", "fresh01"], "{sent:?}");
        assert_eq!(sent.len(), 6);
    }

    async fn one_organization_has_two_of_the_connections(kit: Kit) {
        let kit = kit.with_mail().await;
        invite(&kit, true, &names("many", 50)).await;
        let mut in_flight = InFlight::default();
        let mut taken = Vec::new();
        while let Some(mail) = kit.service.next_mail_beside(&in_flight).await.unwrap() {
            in_flight.start(&mail);
            taken.push(mail);
        }
        assert_eq!(taken.len(), 2);
        invite(&kit, false, &names("other", 5)).await;
        let other = kit.service.next_mail_beside(&in_flight).await.unwrap().unwrap();
        assert_eq!(other.to, "other00@example.net");
        in_flight.start(&other);
        // The last one is for those who wait to sign in.
        assert!(kit.service.next_mail_beside(&in_flight).await.unwrap().is_none());
        kit.browser().post("/api/reset/", json!({ "email": "otto@elsewhere.example" })).await;
        let reset = kit.service.next_mail_beside(&in_flight).await.unwrap().unwrap();
        assert!(matches!(reset.email, EmailMessage::PasswordReset { .. }));
        in_flight.start(&reset);
        in_flight.end(&taken[0]);
        let next = kit.service.next_mail_beside(&in_flight).await.unwrap().unwrap();
        assert_eq!(next.to, "many02@example.net");
    }

    async fn notices_of_new_members_are_limited_by_hour(kit: Kit) {
        let kit = kit.with_mail().await;
        prove_all_addresses(&kit).await;
        join(&kit, "one").await;
        assert_eq!(recipients(&kit).await, ["olga", "adam", "mia"]);
        let used = "SELECT used FROM hourly_count WHERE action = 'join_notice'";
        assert_eq!(kit.database.column::<i64>(used).await, [3]);
        kit.database.run("UPDATE hourly_count SET used = 498 WHERE action = 'join_notice'").await;
        join(&kit, "two").await;
        assert_eq!(recipients(&kit).await, ["olga", "adam"]);
        join(&kit, "three").await;
        assert!(recipients(&kit).await.is_empty());
        let log = kit.get(&kit.owner.key, &kit.at("activity/?scope=OrganizationMembership")).await;
        let names = column(&log, "detail").into_iter().map(|detail| detail["name"].as_str().unwrap());
        assert!(names.into_iter().any(|name| name == "three@example.net"), "the log has them all: {log:?}");
        kit.service.clock().advance(TimeDelta::hours(1));
        join(&kit, "four").await;
        assert_eq!(recipients(&kit).await.len(), 3);
    }

    async fn a_hundred_members_are_told_and_no_more(kit: Kit) {
        let kit = kit.with_mail().await;
        for number in 0..105 {
            kit.join(&format!("m{number}@example.net"), Level::Member).await;
        }
        let late = kit.join("late@example.net", Level::Owner).await;
        prove_all_addresses(&kit).await;
        join(&kit, "new").await;
        let told = recipients(&kit).await;
        assert_eq!(told.len(), 100);
        let mut first = told[..3].to_vec();
        first.sort();
        assert_eq!((late.user.email.as_str(), first.as_slice()), ("late@example.net", &["adam", "late", "olga"].map(str::to_owned)[..]));
        assert_eq!(told[2], "adam");
    }

    /// Whatever keeps coming of one class, of eight mails one is an invite and one a notice.
    async fn no_class_keeps_another_waiting_for_ever(kit: Kit) {
        let kit = kit.with_mail().await;
        prove_all_addresses(&kit).await;
        join(&kit, "new").await;
        invite(&kit, true, &names("invited", 3)).await;
        for name in names("reset", 24) {
            let email = format!("{name}@example.net");
            kit.proven(&email).await;
            assert_eq!(kit.browser().post("/api/reset/", json!({ "email": email })).await.status, 204);
        }
        let (mut in_flight, mut sent) = (InFlight::default(), Vec::new());
        while let Some(mail) = kit.service.next_mail_beside(&in_flight).await.unwrap() {
            in_flight.start(&mail);
            kit.service.mail_is_sent(&mail).await.unwrap();
            in_flight.end(&mail);
            sent.push(match mail.email {
                EmailMessage::PasswordReset { .. } => "reset",
                EmailMessage::Invite { .. } => "invite",
                _ => "notice",
            });
        }
        let others = ["reset", "reset", "reset", "invite", "reset", "reset", "reset", "notice"];
        assert_eq!(sent[..24], others.repeat(3)[..], "{sent:?}");
        assert_eq!((sent.len(), sent[24..].iter().all(|kind| *kind == "reset")), (30, true), "{sent:?}");
    }

    /// An owner makes as many recovery codes as they like. What others are told of it is limited, as is to whom.
    async fn notices_of_recovery_codes_are_limited(kit: Kit) {
        let kit = kit.with_mail().await;
        kit.join("unproven@example.net", Level::Owner).await;
        let unproven = "UPDATE app_user SET is_email_verified = (email_key NOT LIKE 'unproven%')";
        for number in 0..25 {
            kit.join(&format!("owner{number:02}@example.net"), Level::Owner).await;
        }
        kit.database.run(unproven).await;
        let last = kit.join("last@example.net", Level::Owner).await;
        kit.database.run(unproven).await;
        let made = kit.signed_in(&last).await.post(&kit.at("recovery_codes/"), json!({})).await;
        let use_code = async |number: usize| {
            let body = json!({ "email": "last@example.net", "code": made.body["codes"][number] });
            let reply = kit.browser().post("/api/login/recovery/", body).await;
            assert_eq!(reply.status, 200, "{reply:?}");
            recipients(&kit).await
        };
        let told = use_code(0).await;
        assert_eq!((told.len(), told[0].as_str()), (20, "last"), "{told:?}");
        assert!(!told.contains(&"unproven".to_owned()), "{told:?}");
        kit.database.run("UPDATE hourly_count SET used = 98 WHERE action = 'recovery_notice'").await;
        assert_eq!(use_code(1).await.len(), 2);
        assert!(use_code(2).await.is_empty(), "they get in, and the log says so");
        kit.service.clock().advance(TimeDelta::hours(1));
        assert_eq!(use_code(3).await.len(), 20);
    }

    async fn notices_of_new_passwords_are_limited_for_each_account(kit: Kit) {
        let kit = kit.with_mail().await;
        let browser = kit.signed_in(&kit.owner).await;
        let change = async |from: &str, to: &str| {
            let body = json!({ "current_password": from, "password": to });
            let reply = browser.post("/api/users/@me/password/", body).await;
            assert!(reply.status < 300, "{reply:?}");
            recipients(&kit).await
        };
        let other = "several quite random words";
        assert_eq!(change(PASSWORD, other).await, ["olga"]);
        kit.database.run("UPDATE hourly_count SET used = 10 WHERE action = 'password_notice'").await;
        assert!(change(other, PASSWORD).await.is_empty());
        kit.service.clock().advance(TimeDelta::hours(1));
        assert_eq!(change(PASSWORD, other).await, ["olga"]);
    }
}
