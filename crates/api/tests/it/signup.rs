use chrono::TimeDelta;
use futures_util::future::join_all;
use serde_json::{Value, json};
use service::Level;
use service::access::Actor;
use service::mail::EmailMessage;
use service::sessions::SignedIn;
use testkit::browser::PASSWORD;
use testkit::{Browser, Kit, Reply, on_both};

use crate::{activities, column, domain, enforce_saml, prove};

/// Invites somebody and gives the address at which they accept.
async fn invited(kit: &Kit, body: Value) -> String {
    let made = kit.post(&kit.owner.key, &kit.at("invites/"), body).await;
    at(&made)
}

fn at(made: &Reply) -> String {
    let link = made.text("/invite_link");
    let token = link.trim_end_matches('/').rsplit('/').next().unwrap();
    format!("/api/signup/{token}/")
}

/// The address at which whoever reads the mailbox accepts.
async fn mailed(kit: &Kit) -> String {
    let emails = kit.emails().await;
    let Some((_, EmailMessage::Invite { link, .. })) = emails.last() else {
        panic!("{emails:?}")
    };
    let token = link.trim_end_matches('/').rsplit('/').next().unwrap();
    format!("/api/signup/{token}/")
}

fn account() -> Value {
    json!({ "first_name": "Ann", "last_name": "Lee", "password": PASSWORD })
}

async fn members(kit: &Kit) -> Value {
    kit.get(&kit.owner.key, &kit.at("members/")).await.body["count"].clone()
}

async fn is_refused(browser: &Browser<'_>, path: &str, code: &str) {
    let (read, accepted) = (browser.get(path).await, browser.post(path, account()).await);
    assert_eq!(read.code(), (400, code), "{read:?}");
    assert_eq!(accepted.code(), (400, code), "{accepted:?}");
    assert_eq!(read.text("/type"), "validation_error");
    assert!(accepted.headers.get("set-cookie").is_none());
}

on_both! {
    async fn a_stranger_joins_with_a_new_account(kit: Kit) {
        let kit = kit.with_mail().await;
        let path = invited(&kit, json!({ "target_email": "Ann@Example.com", "first_name": "Annie", "level": 8 })).await;
        let browser = kit.browser();
        let said = browser.get(&path).await;
        assert_eq!(said.status, 200, "{said:?}");
        insta::allow_duplicates! {
            insta::assert_json_snapshot!(said.body, { ".id" => "[uuid]" }, @r#"
            {
              "first_name": "Annie",
              "id": "[uuid]",
              "level": 8,
              "organization_name": "Acme",
              "target_email": "ann@example.com"
            }
            "#);
        }
        kit.emails().await;
        kit.database.run("UPDATE app_user SET is_email_verified = (1 = 1) WHERE email <> 'mia@example.com'").await;
        let joined = browser.post(&path, account()).await;
        assert_eq!((joined.status, joined.text("/email"), joined.text("/redirect_url")), (201, "ann@example.com", "/"));
        assert_eq!((joined.text("/first_name"), joined.text("/last_name")), ("Ann", "Lee"));
        assert_eq!(joined.body["is_email_verified"], false, "whoever invited has the link, too");
        assert!(joined.header("set-cookie").starts_with("__Host-hedgerow_session="));
        assert_eq!(browser.get(&kit.at("")).await.body["membership_level"], 8);
        assert_eq!(browser.log_in("ann@example.com", PASSWORD).await.status, 200);
        assert_eq!(kit.get(&kit.owner.key, &kit.at("invites/")).await.body["count"], 0);
        is_refused(&kit.browser(), &path, "invalid_input").await;
        assert_eq!(activities(&kit, "OrganizationInvite").await, ["accepted", "created"]);

        let mut told: Vec<String> = kit.emails().await.into_iter().map(|(to, email)| {
            let new_member = "ann@example.com".to_owned();
            assert_eq!(email, EmailMessage::Joined { organization: "Acme".to_owned(), new_member });
            to
        }).collect();
        told.sort();
        assert_eq!(told, ["adam@example.com", "olga@example.com"], "Mia's address was never proven to be hers");
    }

    async fn nobody_is_told_of_new_members_where_that_is_not_wanted(kit: Kit) {
        let kit = kit.with_mail().await;
        kit.patch(&kit.owner.key, &kit.at(""), json!({ "is_member_join_email_enabled": false })).await;
        let path = invited(&kit, json!({ "target_email": "ann@example.com" })).await;
        assert_eq!(kit.emails().await.len(), 1);
        assert_eq!(kit.browser().post(&path, account()).await.status, 201);
        assert_eq!(kit.emails().await, []);
    }

    async fn a_new_account_needs_a_name_and_a_good_password(kit: Kit) {
        let path = invited(&kit, json!({ "target_email": "ann@example.com" })).await;
        let cases = [
            (json!({}), "required", "first_name"),
            (json!({ "first_name": "  ", "password": PASSWORD }), "blank", "first_name"),
            (json!({ "first_name": "x".repeat(129), "password": PASSWORD }), "max_length", "first_name"),
            (json!({ "first_name": "two\nlines", "password": PASSWORD }), "invalid_input", "first_name"),
            (
                json!({ "first_name": "Ann", "last_name": "two\r\nlines", "password": PASSWORD }), "invalid_input",
                "last_name",
            ),
            (json!({ "first_name": "Ann" }), "required", "password"),
            (json!({ "first_name": "Ann", "password": "seven77" }), "password_too_short", "password"),
            (json!({ "first_name": "Ann", "password": "x".repeat(257) }), "max_length", "password"),
        ];
        for (body, code, attr) in cases {
            let reply = kit.browser().post(&path, body.clone()).await;
            assert_eq!((reply.code(), &reply.body["attr"]), ((400, code), &json!(attr)), "{body}");
        }
        let with_more = json!({
            "first_name": "Ann", "password": PASSWORD, "email": "evil@example.com", "level": 15,
            "is_email_verified": true,
        });
        let joined = kit.browser().post(&path, with_more).await;
        assert_eq!((joined.status, joined.text("/email")), (201, "ann@example.com"));
        assert_eq!(joined.body["is_email_verified"], false);
        let page = kit.get(&kit.owner.key, &kit.at("members/?email=ann@example.com")).await;
        assert_eq!(page.body["results"][0]["level"], 1);
    }

    async fn somebody_with_an_account_joins_while_signed_in(kit: Kit) {
        let path = invited(&kit, json!({ "target_email": "Otto@Elsewhere.Example", "level": 8 })).await;
        let refused = kit.browser().post(&path, account()).await;
        assert_eq!(refused.code(), (400, "account_exists"), "{refused:?}");
        let browser = kit.signed_in(&kit.outsider).await;
        assert_eq!(browser.get(&path).await.text("/organization_name"), "Acme");
        let joined = browser.post(&path, json!({})).await;
        assert_eq!((joined.status, joined.text("/email")), (201, "otto@elsewhere.example"));
        assert!(joined.headers.get("set-cookie").is_none(), "they had a session");
        assert_eq!(browser.get(&kit.at("")).await.body["membership_level"], 8);
        is_refused(&browser, &path, "invalid_input").await;
    }

    async fn an_invite_is_for_its_address_alone(kit: Kit) {
        let path = invited(&kit, json!({ "target_email": "otto+more@elsewhere.example" })).await;
        let browser = kit.signed_in(&kit.outsider).await;
        is_refused(&browser, &path, "invalid_recipient").await;
        // Whoever has signed out is a stranger.
        assert_eq!(browser.post("/api/logout/", json!({})).await.status, 204);
        assert_eq!(browser.get(&path).await.status, 200);
    }

    async fn a_member_is_not_made_a_member_again(kit: Kit) {
        let path = invited(&kit, json!({ "target_email": "otto@elsewhere.example", "level": 15 })).await;
        kit.service.add_member(&Actor::system(), kit.organization, &kit.outsider.user, Level::Member).await.unwrap();
        let browser = kit.signed_in(&kit.outsider).await;
        is_refused(&browser, &path, "user_already_member").await;
        assert_eq!(browser.get(&kit.at("")).await.body["membership_level"], 1);
    }

    async fn an_expired_invite_lets_nobody_in(kit: Kit) {
        let path = invited(&kit, json!({ "target_email": "ann@example.com" })).await;
        let known = invited(&kit, json!({ "target_email": "otto@elsewhere.example" })).await;
        kit.service.clock().advance(TimeDelta::days(3));
        is_refused(&kit.browser(), &path, "expired").await;
        is_refused(&kit.signed_in(&kit.outsider).await, &known, "expired").await;
        assert_eq!(members(&kit).await, 3);
    }

    async fn an_altered_link_is_unknown(kit: Kit) {
        let path = invited(&kit, json!({ "target_email": "ann@example.com", "level": 1 })).await;
        let token = path.trim_start_matches("/api/signup/").trim_end_matches('/');
        let last = if token.ends_with('a') { "b" } else { "a" };
        let other = invited(&kit, json!({ "target_email": "bob@example.com" })).await;
        for wrong in [
            format!("{}{last}", &token[..token.len() - 1]), format!("{token}a"), token[..token.len() - 1].to_owned(),
            token[4..].to_owned(), token.to_uppercase(), format!("{token}%20"), format!("{token}%00"),
            "none".to_owned(), "null".to_owned(), "%27%20OR%201=1".to_owned(), "x".repeat(5000),
            format!("{}{}", &token[..20], &other[other.len() - 30..other.len() - 1]),
        ] {
            let reply = kit.browser().post(&format!("/api/signup/{wrong}/"), account()).await;
            assert!(matches!(reply.code(), (400, "invalid_input") | (404, "not_found")), "{wrong} {reply:?}");
            assert_eq!(kit.browser().get(&format!("/api/signup/{wrong}/")).await.status, reply.status, "{wrong}");
        }
        assert_eq!(members(&kit).await, 3);
        assert_eq!(kit.browser().get(&path).await.status, 200);
    }

    async fn an_invite_leads_into_its_own_organization_only(kit: Kit) {
        let elsewhere = format!("/api/organizations/{}/invites/", kit.other);
        let made =
            kit.post(&kit.outsider.key, &elsewhere, json!({ "target_email": "mia@example.com", "level": 15 })).await;
        let browser = kit.signed_in(&kit.member).await;
        let body = json!({ "organization_id": kit.organization, "organization": kit.organization });
        assert_eq!(browser.post(&at(&made), body).await.status, 201);
        let levels: Vec<Value> =
            column(&browser.get("/api/organizations/").await, "membership_level").into_iter().cloned().collect();
        assert_eq!(levels.iter().filter(|level| **level == json!(15)).count(), 1);
        assert_eq!(browser.get(&kit.at("")).await.body["membership_level"], 1);
    }

    async fn a_hundred_who_accept_at_once_are_one_member(kit: Kit) {
        let path = invited(&kit, json!({ "target_email": "otto@elsewhere.example", "level": 8 })).await;
        let browser = kit.signed_in(&kit.outsider).await;
        let sent = (0..100).map(|_| browser.post(&path, json!({})));
        let replies = join_all(sent).await;
        one_got_in(&kit, &replies, "otto@elsewhere.example").await;
    }

    async fn a_hundred_strangers_who_accept_at_once_are_one_member(kit: Kit) {
        let path = invited(&kit, json!({ "target_email": "ann@example.com", "level": 8 })).await;
        let browsers: Vec<Browser> = (0..100).map(|_| kit.browser()).collect();
        let sent = browsers.iter().map(|browser| browser.post(&path, account()));
        let replies = join_all(sent).await;
        one_got_in(&kit, &replies, "ann@example.com").await;
        let with_cookie = replies.iter().filter(|reply| reply.headers.contains_key("set-cookie"));
        assert_eq!(with_cookie.count(), 1);
    }

    async fn accepting_and_inviting_anew_do_not_get_in_each_others_way(kit: Kit) {
        let invites = kit.at("invites/");
        for round in 0..40 {
            let email = format!("ann{round}@example.com");
            let person = SignedIn::on_behalf_of(&kit.someone(&email).await.user);
            let path = invited(&kit, json!({ "target_email": email })).await;
            let token = path.trim_start_matches("/api/signup/").trim_end_matches('/');
            let again = (0..3).map(|_| kit.post(&kit.owner.key, &invites, json!({ "target_email": email })));
            let (accepted, again) =
                futures_util::future::join(kit.service.accept_invite(token, &person), join_all(again)).await;
            assert!(matches!(accepted, Ok(_) | Err(service::Error::Invalid(_))), "{accepted:?}");
            assert!(again.iter().all(|reply| reply.status < 500), "{again:?}");
        }
    }

    async fn an_enforced_domain_takes_no_passwords(kit: Kit) {
        let path = invited(&kit, json!({ "target_email": "ann@acme.example" })).await;
        let elsewhere = invited(&kit, json!({ "target_email": "ann@below.acme.example" })).await;
        enforce_saml(&kit).await;
        let reply = kit.browser().post(&path, account()).await;
        assert_eq!(reply.code(), (400, "sso_enforced"), "{reply:?}");
        assert!(reply.headers.get("set-cookie").is_none());
        assert_eq!(kit.browser().post(&elsewhere, account()).await.status, 201, "another domain is another domain");
    }

    async fn a_link_that_the_inviter_saw_creates_no_account_on_anothers_verified_domain(kit: Kit) {
        let kit = kit.with_mail().await;
        prove(&kit, &domain(&kit, json!({ "domain": "victim.example" })).await).await;
        // Another organization invites one of their people, and sees the link.
        let elsewhere = format!("/api/organizations/{}/invites/", kit.other);
        let ceo = json!({ "target_email": "ceo@victim.example", "send_email": false });
        let squat = at(&kit.post(&kit.outsider.key, &elsewhere, ceo.clone()).await);
        is_refused(&kit.browser(), &squat, "email_verification_required").await;
        let said = kit.browser().post(&squat, account()).await;
        assert!(!said.text("/detail").contains("Acme"), "whose domain it is, is nobody's business: {said:?}");
        let users: Vec<i64> = kit.database.column("SELECT count(*) FROM app_user WHERE email_key = 'ceo@victim.example'").await;
        assert_eq!(users[0], 0);
        // The mailbox proves the address, whoever invites.
        kit.post(&kit.outsider.key, &elsewhere, json!({ "target_email": "ceo@victim.example" })).await;
        let mailed = mailed(&kit).await;
        let joined = kit.browser().post(&mailed, account()).await;
        assert_eq!((joined.status, &joined.body["is_email_verified"]), (201, &json!(true)), "{joined:?}");
        // Their own organization passes links on as before, and so does everybody below a domain that nobody has proven.
        let own = invited(&kit, json!({ "target_email": "cfo@victim.example", "send_email": false })).await;
        assert_eq!(kit.browser().post(&own, account()).await.status, 201);
        let free = json!({ "target_email": "ceo@free.example", "send_email": false });
        let free = at(&kit.post(&kit.outsider.key, &elsewhere, free).await);
        assert_eq!(kit.browser().post(&free, account()).await.status, 201);
    }

    /// The inviter holds this link, and could find out who has an account with it: not unseen, and not often.
    async fn finding_out_who_has_an_account_leaves_a_trace_and_has_an_end(kit: Kit) {
        let kit = kit.with_mail().await;
        let elsewhere = format!("/api/organizations/{}/invites/", kit.other);
        let mia = json!({ "target_email": "mia@example.com", "send_email": false });
        let probe = at(&kit.post(&kit.outsider.key, &elsewhere, mia).await);
        for tries in 1..=3 {
            assert_eq!(kit.browser().post(&probe, account()).await.code(), (400, "account_exists"));
            let log = format!("/api/organizations/{}/activity/?scope=OrganizationInvite", kit.other);
            let log = kit.get(&kit.outsider.key, &log).await;
            let refused = column(&log, "activity").into_iter().filter(|activity| *activity == "sign_up_refused");
            assert_eq!(refused.count(), tries, "{log:?}");
        }
        kit.database.run("UPDATE hourly_count SET used = 40 WHERE action = 'known_address' AND subject LIKE 'organization %'").await;
        let nobody = json!({ "target_email": "nobody@example.net", "send_email": false });
        let other = at(&kit.post(&kit.outsider.key, &elsewhere, nobody.clone()).await);
        for path in [&probe, &other] {
            let late = kit.browser().post(path, account()).await;
            assert_eq!(late.code(), (429, "throttled"), "{late:?}");
            assert!(!late.header("retry-after").is_empty());
        }
        // Neither another organization of theirs nor another member of this one helps.
        kit.database.run("UPDATE hourly_count SET used = 0 WHERE action = 'known_address' AND subject LIKE 'organization %'").await;
        kit.database.run("UPDATE hourly_count SET used = 20 WHERE action = 'known_address' AND subject LIKE 'user %'").await;
        assert_eq!(kit.browser().post(&probe, account()).await.code(), (429, "throttled"));
        // The mailbox's owner may know, and gets in.
        kit.emails().await;
        kit.post(&kit.outsider.key, &elsewhere, json!({ "target_email": "nobody@example.net" })).await;
        let mailed = mailed(&kit).await;
        assert_eq!(kit.browser().post(&mailed, account()).await.status, 201);
        kit.service.clock().advance(TimeDelta::hours(1));
        let own = invited(&kit, nobody).await;
        assert_eq!(kit.browser().post(&own, account()).await.code(), (400, "account_exists"));
    }

    async fn what_one_inviter_found_out_keeps_nobody_elses_links_from_working(kit: Kit) {
        let invites = kit.at("invites/");
        let known = json!({ "target_email": kit.outsider.user.email, "send_email": false });
        let probe = at(&kit.post(&kit.member.key, &invites, known).await);
        assert_eq!(kit.browser().post(&probe, account()).await.code(), (400, "account_exists"));
        kit.database.run("UPDATE hourly_count SET used = 20 WHERE action = 'known_address'").await;
        assert_eq!(kit.browser().post(&probe, account()).await.code(), (429, "throttled"));
        let new = json!({ "target_email": "nobody@example.net", "send_email": false });
        let honest = at(&kit.post(&kit.admin.key, &invites, new).await);
        assert_eq!(kit.browser().post(&honest, account()).await.status, 201);
    }

    async fn whoever_was_squatted_gets_in_by_the_mailbox(kit: Kit) {
        let kit = kit.with_mail().await;
        let elsewhere = format!("/api/organizations/{}/invites/", kit.other);
        let ceo = json!({ "target_email": "ceo@company.example", "send_email": false });
        let squat = at(&kit.post(&kit.outsider.key, &elsewhere, ceo).await);
        let squatter = kit.browser();
        assert_eq!(squatter.post(&squat, account()).await.status, 201);
        kit.emails().await;
        kit.post(&kit.owner.key, &kit.at("invites/"), json!({ "target_email": "ceo@company.example", "level": 8 })).await;
        let mailed = mailed(&kit).await;
        let browser = kit.browser();
        is_refused(&browser, &mailed, "account_exists").await;
        assert_eq!(browser.post("/api/reset/", json!({ "email": "ceo@company.example" })).await.status, 204);
        let emails = kit.emails().await;
        let Some((_, EmailMessage::PasswordReset { link, .. })) = emails.first() else { panic!("{emails:?}") };
        let token = link.trim_end_matches('/').rsplit('/').next().unwrap();
        let reset = browser.post(&format!("/api/reset/{token}/"), json!({ "password": "my own horse battery" })).await;
        assert!(reset.status < 300, "{reset:?}");
        browser.log_in("ceo@company.example", "my own horse battery").await;
        assert_eq!(browser.post(&mailed, json!({})).await.status, 201);
        assert_eq!(browser.get(&kit.at("")).await.body["membership_level"], 8);
        assert_eq!(squatter.get("/api/users/@me/").await.status, 401);
        assert_eq!(kit.browser().log_in("ceo@company.example", PASSWORD).await.code(), (400, "invalid_credentials"));
    }

    async fn a_dry_run_joins_nobody(kit: Kit) {
        let kit = kit.with_mail().await;
        let path = invited(&kit, json!({ "target_email": "ann@example.com" })).await;
        kit.emails().await;
        let browser = kit.browser();
        let dry = browser.post(&format!("{path}?dry_run=true"), account()).await;
        assert_eq!((dry.status, dry.header("x-dry-run"), dry.text("/email")), (201, "true", "ann@example.com"));
        assert_eq!((browser.cookies(), members(&kit).await), (String::new(), json!(3)));
        assert_eq!(kit.emails().await, []);
        assert_eq!(browser.post(&path, account()).await.status, 201, "the invite is still there");
        let path = invited(&kit, json!({ "target_email": "otto@elsewhere.example" })).await;
        let otto = kit.signed_in(&kit.outsider).await;
        assert_eq!(otto.post(&format!("{path}?dry_run=true"), json!({})).await.status, 201);
        assert_eq!(otto.get(&kit.at("")).await.status, 404);
    }

    async fn guessing_links_is_slowed_down(kit: Kit) {
        let post = || {
            let request = axum::http::Request::builder().method("POST").uri("/api/signup/hgi_wrong/");
            kit.send(testkit::kit::with_json(request, &account()))
        };
        for _ in 0..60 {
            assert_eq!(post().await.code(), (400, "invalid_input"));
        }
        // One more is forgiven every second.
        let mut reply = post().await;
        while reply.status == 400 {
            reply = post().await;
        }
        assert_eq!(reply.code(), (429, "throttled"));
        assert!(reply.header("retry-after").parse::<u32>().unwrap() > 0);
    }

    async fn whoever_joined_can_be_removed_and_invited_again(kit: Kit) {
        let path = invited(&kit, json!({ "target_email": "ann@example.com" })).await;
        let browser = kit.browser();
        let joined = browser.post(&path, account()).await;
        let member = kit.at(&format!("members/{}/", joined.text("/uuid")));
        assert_eq!(kit.delete(&kit.owner.key, &member).await.status, 204);
        assert_eq!(browser.get("/api/users/@me/").await.status, 401, "the session has ended");
        let path = invited(&kit, json!({ "target_email": "ann@example.com", "level": 8 })).await;
        assert_eq!(browser.log_in("ann@example.com", PASSWORD).await.status, 200);
        assert_eq!(browser.post(&path, json!({})).await.status, 201);
        assert_eq!(browser.get(&kit.at("")).await.body["membership_level"], 8);
    }
}

/// One of them did; the others were told that the invite is used up.
async fn one_got_in(kit: &Kit, replies: &[Reply], email: &str) {
    let (joined, refused): (Vec<&Reply>, Vec<&Reply>) = replies.iter().partition(|reply| reply.status == 201);
    assert_eq!(joined.len(), 1, "{replies:?}");
    let known = ["invalid_input", "expired", "account_exists", "user_already_member"];
    for reply in refused {
        let (status, code) = reply.code();
        assert!(status == 400 && known.contains(&code), "{reply:?}");
    }
    let page = kit
        .get(&kit.owner.key, &kit.at(&format!("members/?email={email}")))
        .await;
    assert_eq!(
        (&page.body["count"], &page.body["results"][0]["level"]),
        (&json!(1), &json!(8))
    );
    assert_eq!(activities(kit, "OrganizationInvite").await, ["accepted", "created"]);
    let joined = activities(kit, "OrganizationMembership").await;
    assert_eq!(
        joined.iter().filter(|activity| *activity == "created").count(),
        4,
        "{joined:?}"
    );
}
