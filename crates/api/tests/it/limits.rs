//! How much may be done in an hour, and how often one may ask.

use chrono::TimeDelta;
use serde_json::{Value, json};
use service::access::Request;
use service::{HourlyLimits, Instance, Level, RandomSource, Service};
use testkit::browser::PASSWORD;
use testkit::kit::instance;
use testkit::{Kit, Reply, on_both};

use crate::column;

/// So many invites, for people of these numbers.
fn invites(numbers: std::ops::Range<u32>) -> Value {
    numbers
        .map(|n| json!({ "target_email": format!("p{n}@example.net") }))
        .collect()
}

async fn invite(kit: &Kit, key: &str, numbers: std::ops::Range<u32>) -> Reply {
    kit.post(key, &kit.at("invites/bulk/"), invites(numbers)).await
}

/// Past a limit, and told when it is over.
fn expect_limited(reply: &Reply, seconds: u64) {
    assert_eq!(reply.code(), (429, "throttled"), "{reply:?}");
    assert_eq!(
        reply.header("retry-after").parse::<u64>().unwrap(),
        seconds,
        "{reply:?}"
    );
}

on_both! {
    async fn a_member_has_two_hundred_invites_an_hour(kit: Kit) {
        let kit = kit.with_mail().await;
        assert_eq!(invite(&kit, &kit.member.key, 0..100).await.status, 200);
        assert_eq!(invite(&kit, &kit.member.key, 100..190).await.status, 200);
        // What does not fit is refused whole, and uses nothing up.
        let refused = invite(&kit, &kit.member.key, 190..201).await;
        expect_limited(&refused, 1800);
        assert_eq!(kit.get(&kit.owner.key, &kit.at("invites/")).await.body["count"], 190);
        assert!(refused.text("/detail").contains("200 invites per hour"), "{refused:?}");
        let dry = format!("{}?dry_run=true", kit.at("invites/bulk/"));
        for _ in 0..3 {
            assert_eq!(kit.post(&kit.member.key, &dry, invites(190..200)).await.status, 200, "a dry run uses nothing up");
        }
        assert_eq!(invite(&kit, &kit.member.key, 190..200).await.status, 200);
        // Deleting an invite gives nothing back, and sending one again is sending one.
        let page = kit.get(&kit.member.key, &kit.at("invites/")).await;
        let ids: Vec<String> = column(&page, "id").into_iter().map(|id| id.as_str().unwrap().to_owned()).collect();
        assert_eq!(kit.delete(&kit.member.key, &kit.at(&format!("invites/{}/", ids[0]))).await.status, 204);
        let again = kit.at(&format!("invites/{}/resend/", ids[1]));
        expect_limited(&kit.post(&kit.member.key, &again, json!({})).await, 1800);
        expect_limited(&invite(&kit, &kit.member.key, 0..1).await, 1800);
        // Others go on, and so does the member in the next hour.
        assert_eq!(invite(&kit, &kit.admin.key, 300..301).await.status, 200);
        kit.service.clock().advance(TimeDelta::minutes(30));
        assert_eq!(kit.post(&kit.member.key, &again, json!({})).await.status, 200);
    }

    async fn limits_hold_in_parallel_and_on_several_replicas(kit: Kit) {
        let replica = Service::new(kit.database.open().await, kit.service.clock().clone(), RandomSource::System, instance());
        let caller = async |service: &Service| {
            let credential = service::credentials::Credential::Key(&kit.member.key);
            let organization = service::organizations::OrganizationRef::Id(kit.organization);
            service.allowed(credential, Some(organization), Request::default()).await.unwrap()
        };
        let (here, there) = (caller(&kit.service).await, caller(&replica).await);
        let new = |n: u32| -> Vec<service::invites::NewInvite> {
            serde_json::from_value(invites(n * 30..(n + 1) * 30)).unwrap()
        };
        let sent = (0..10).map(|n| {
            let (service, caller) = if n % 2 == 0 { (&kit.service, &here) } else { (&replica, &there) };
            async move { service.create_invites(caller, &new(n)).await }
        });
        let sent = futures_util::future::join_all(sent).await;
        assert_eq!(sent.iter().filter(|result| result.is_ok()).count(), 6, "6 x 30 fit into 200");
        assert_eq!(kit.get(&kit.owner.key, &kit.at("invites/")).await.body["count"], 180);
    }

    async fn an_organization_and_the_instance_have_limits_of_their_own(kit: Kit) {
        kit.service.clock().advance(TimeDelta::days(2));
        for (n, address) in (0_u32..).zip(["a", "b"]) {
            let person = kit.join(&format!("{address}@example.net"), Level::Member).await;
            for part in 0..2 {
                let first = 1000 * n + 100 * part;
                assert_eq!(invite(&kit, &person.key, first..first + 100).await.status, 200);
            }
        }
        assert_eq!(invite(&kit, &kit.member.key, 5000..5100).await.status, 200);
        let refused = invite(&kit, &kit.admin.key, 6000..6001).await;
        expect_limited(&refused, 1800);
        assert!(refused.text("/detail").contains("Each organization"), "{refused:?}");
        // Elsewhere it goes on, until the instance has had enough.
        let elsewhere = format!("/api/organizations/{}/invites/", kit.other);
        let one = json!({ "target_email": "x@example.net" });
        assert_eq!(kit.post(&kit.outsider.key, &elsewhere, one.clone()).await.status, 201);
        kit.database.run("UPDATE hourly_count SET used = 2000 WHERE subject = 'instance'").await;
        expect_limited(&kit.post(&kit.outsider.key, &elsewhere, one.clone()).await, 1800);
        // Whoever has proven who they are, and used little, is not kept out by those who used it all.
        kit.database.run("UPDATE app_user SET is_email_verified = TRUE WHERE email LIKE 'otto@%'").await;
        assert_eq!(kit.post(&kit.outsider.key, &elsewhere, one.clone()).await.status, 201);
        kit.database.run("UPDATE hourly_count SET used = 20 WHERE subject <> 'instance' AND subject NOT LIKE 'address %'").await;
        let refused = kit.post(&kit.outsider.key, &elsewhere, one).await;
        expect_limited(&refused, 1800);
        assert!(refused.text("/detail").contains("This server"), "{refused:?}");
    }

    /// Otherwise whoever creates accounts has as many shares.
    async fn only_established_people_have_a_share_of_their_own(kit: Kit) {
        let creator = kit.proven("creator@example.net").await;
        let new_user = kit.proven("new@example.net").await;
        let one = async |key: &str, organization: &str, n: u32| {
            let at = format!("/api/organizations/{organization}/invites/");
            kit.post(key, &at, json!({ "target_email": format!("x{n}@example.net") })).await
        };
        let create = async |key: &str, name: &str| {
            kit.post(key, "/api/organizations/", json!({ "name": name })).await.text("/id").to_owned()
        };
        let (first, theirs) = (create(&creator.key, "First").await, create(&new_user.key, "Theirs").await);
        assert_eq!(one(&creator.key, &first, 0).await.status, 201);
        let use_up = "UPDATE hourly_count SET used = 2000 WHERE subject = 'instance'";
        kit.database.run(use_up).await;
        expect_limited(&one(&new_user.key, &theirs, 1).await, 1800);
        kit.service.clock().advance(TimeDelta::days(1));
        kit.database.run("UPDATE hourly_count SET used = 0").await;
        let late = kit.proven("late@example.net").await;
        let latest = create(&late.key, "Latest").await;
        assert_eq!(one(&new_user.key, &theirs, 2).await.status, 201);
        kit.database.run(use_up).await;
        assert_eq!(one(&new_user.key, &theirs, 3).await.status, 201, "it is a day old");
        expect_limited(&one(&late.key, &latest, 4).await, 1800);
        // People whose address is not proven have the share of their organization.
        kit.database.run("UPDATE app_user SET is_email_verified = TRUE WHERE email LIKE 'olga@%'").await;
        assert_eq!(invite(&kit, &kit.member.key, 5..6).await.status, 200);
        expect_limited(&one(&kit.outsider.key, &kit.other.to_string(), 6).await, 1800);
    }

    async fn whoever_creates_many_organizations_has_one_share_for_all_of_them(kit: Kit) {
        let people = [kit.proven("a@example.net").await, kit.proven("b@example.net").await];
        let creator = kit.proven("creator@example.net").await;
        kit.service.clock().advance(TimeDelta::days(2));
        let mut organizations = Vec::new();
        for person in &people {
            let (organization, _) = testkit::kit::organization_of(&kit.service, &person.user.email, &creator).await;
            kit.service.add_member(&service::access::Actor::system(), organization, &person.user, Level::Member).await.unwrap();
            organizations.push(format!("/api/organizations/{organization}/invites/bulk/"));
        }
        assert_eq!(kit.post(&people[0].key, &organizations[0], invites(0..12)).await.status, 200);
        kit.database.run("UPDATE hourly_count SET used = 2000 WHERE subject = 'instance'").await;
        assert_eq!(kit.post(&people[1].key, &organizations[1], invites(0..8)).await.status, 200);
        expect_limited(&kit.post(&people[1].key, &organizations[1], invites(8..9)).await, 1800);
    }

    async fn accounts_are_counted_for_whoever_invited(kit: Kit) {
        let invited = kit.post(&kit.member.key, &kit.at("invites/"), json!({ "target_email": "a@example.net" })).await;
        let link = invited.text("/invite_link").trim_end_matches('/');
        let path = format!("/api/signup/{}/", link.rsplit('/').next().unwrap());
        let account = json!({ "first_name": "A", "password": PASSWORD });
        assert_eq!(kit.browser().post(&path, account).await.status, 201);
        let subjects = "SELECT subject FROM hourly_count WHERE action = 'sign_up' ORDER BY subject";
        let subjects = kit.database.column::<String>(subjects).await;
        assert!(subjects.contains(&format!("user {}", kit.member.user.id)), "{subjects:?}");
        assert!(subjects.contains(&format!("creator {}", kit.owner.user.id)), "{subjects:?}");
    }

    /// A dry run leaves the link as it is, and so it could be used forever.
    async fn a_link_has_so_many_attempts_an_hour(kit: Kit) {
        let kit = kit.with_mail().await;
        let invited = kit.post(&kit.owner.key, &kit.at("invites/"), json!({ "target_email": "a@example.net" })).await;
        let link = invited.text("/invite_link").trim_end_matches('/');
        let path = format!("/api/signup/{}/", link.rsplit('/').next().unwrap());
        let account = json!({ "first_name": "A", "password": PASSWORD });
        let dry = format!("{path}?dry_run=true");
        assert_eq!(kit.browser().post(&dry, account.clone()).await.status, 201);
        kit.database.run("UPDATE hourly_count SET used = 29 WHERE action = 'link_attempt'").await;
        assert_eq!(kit.browser().post(&dry, account.clone()).await.status, 201);
        let before = kit.service.hashes_computed();
        expect_limited(&kit.browser().post(&dry, account.clone()).await, 1800);
        expect_limited(&kit.browser().post(&path, account.clone()).await, 1800);

        assert_eq!(kit.browser().post("/api/reset/", json!({ "email": "olga@example.com" })).await.status, 204);
        let (_, email) = kit.emails().await.into_iter().find(|(to, _)| to == "olga@example.com").unwrap();
        let service::mail::EmailMessage::PasswordReset { link, .. } = email else { panic!("{email:?}") };
        let reset = format!("/api/reset/{}/?dry_run=true", link.trim_end_matches('/').rsplit('/').next().unwrap());
        let chosen = json!({ "password": "another horse battery" });
        assert_eq!(kit.service.hashes_computed(), before);
        let done = kit.browser().post(&reset, chosen.clone()).await;
        assert!(done.status < 300, "{done:?}");
        kit.database.run("UPDATE hourly_count SET used = 30 WHERE action = 'link_attempt'").await;
        expect_limited(&kit.browser().post(&reset, chosen).await, 1800);
        assert_eq!(kit.service.hashes_computed(), before + 1);
        kit.service.clock().advance(TimeDelta::hours(1));
        assert_eq!(kit.browser().post(&path, account).await.status, 201);
    }

    async fn keys_accounts_and_resets_are_limited_too(kit: Kit) {
        let kit = kit.with_mail().await;
        let browser = kit.signed_in(&kit.member).await;
        let keys = "/api/personal_api_keys/";
        let made = browser.post(keys, json!({ "label": "one", "scopes": ["*"] })).await;
        assert_eq!(made.status, 201);
        kit.database.run("UPDATE hourly_count SET used = 200 WHERE action = 'api_key' AND subject LIKE 'user %'").await;
        expect_limited(&browser.post(keys, json!({ "label": "two", "scopes": ["*"] })).await, 1800);
        let roll = format!("{keys}{}/roll/", made.text("/id"));
        expect_limited(&browser.post(&roll, json!({})).await, 1800);

        let invited = kit.post(&kit.owner.key, &kit.at("invites/"), json!({ "target_email": "a@example.net" })).await;
        let link = invited.text("/invite_link").trim_end_matches('/');
        let path = format!("/api/signup/{}/", link.rsplit('/').next().unwrap());
        kit.database.run("INSERT INTO hourly_count (action, subject, starts_at, used) \
            SELECT 'sign_up', subject, starts_at, 500 FROM hourly_count WHERE subject LIKE 'organization %'").await;
        let account = json!({ "first_name": "A", "password": PASSWORD });
        expect_limited(&kit.browser().post(&path, account.clone()).await, 1800);
        kit.service.clock().advance(TimeDelta::hours(1));
        assert_eq!(kit.browser().post(&path, account).await.status, 201);

        // Whether there is an account makes no difference, or the limit would tell.
        let asker = kit.browser();
        for email in ["mia@example.com", "nobody@example.net"] {
            assert_eq!(asker.post("/api/reset/", json!({ "email": email })).await.status, 204);
        }
        let used = "SELECT used FROM hourly_count WHERE action = 'password_reset' AND subject LIKE 'network %'";
        assert_eq!(kit.database.column::<i64>(used).await, [2]);
        kit.database.run("UPDATE hourly_count SET used = 200 WHERE subject LIKE 'network %'").await;
        for email in ["mia@example.com", "nobody@example.net"] {
            expect_limited(&asker.post("/api/reset/", json!({ "email": email })).await, 1800);
        }
        assert_eq!(kit.browser().post("/api/reset/", json!({ "email": "mia@example.com" })).await.status, 204);
    }

    async fn one_setting_lifts_the_limits(kit: Kit) {
        let off = Instance { hourly_limits: HourlyLimits::OFF, ..instance() };
        let kit = kit.restarted(api::Settings::default(), off).await;
        for part in 0..6 {
            assert_eq!(invite(&kit, &kit.member.key, part * 100..part * 100 + 100).await.status, 200);
        }
        let twice = Instance { hourly_limits: "2".parse().unwrap(), ..instance() };
        let kit = kit.restarted(api::Settings::default(), twice).await;
        for part in 0..4 {
            assert_eq!(invite(&kit, &kit.admin.key, part * 100..part * 100 + 100).await.status, 200);
        }
        expect_limited(&invite(&kit, &kit.admin.key, 0..1).await, 1800);
    }

    async fn a_replica_whose_clock_is_behind_gives_no_second_allowance(kit: Kit) {
        assert_eq!(invite(&kit, &kit.member.key, 0..100).await.status, 200);
        assert_eq!(invite(&kit, &kit.member.key, 100..200).await.status, 200);
        kit.service.clock().advance(-TimeDelta::hours(1));
        assert_eq!(invite(&kit, &kit.member.key, 200..201).await.code(), (429, "throttled"));
    }

    /// A clock that was ahead once does not keep people out until that time has come.
    async fn an_hour_far_ahead_is_a_mistake_and_counts_for_nothing(kit: Kit) {
        kit.service.clock().advance(TimeDelta::days(365));
        assert_eq!(invite(&kit, &kit.member.key, 0..100).await.status, 200);
        assert_eq!(invite(&kit, &kit.member.key, 100..200).await.status, 200);
        kit.service.clock().advance(-TimeDelta::days(365));
        assert_eq!(invite(&kit, &kit.member.key, 200..201).await.status, 200);
    }

    async fn nobody_is_sent_one_invite_after_the_other(kit: Kit) {
        let kit = kit.with_mail().await;
        let made = kit.post(&kit.member.key, &kit.at("invites/"), json!({ "target_email": "a@example.net" })).await;
        let again = kit.at(&format!("invites/{}/resend/", made.text("/id")));
        for _ in 0..9 {
            assert_eq!(kit.post(&kit.member.key, &again, json!({})).await.status, 200);
        }
        let refused = kit.post(&kit.admin.key, &again, json!({})).await;
        expect_limited(&refused, 1800);
        assert!(refused.text("/detail").contains("Each email address"), "{refused:?}");
        assert_eq!(invite(&kit, &kit.member.key, 0..50).await.status, 200, "others are invited");
    }

    async fn only_operators_create_any_number_of_organizations(kit: Kit) {
        kit.make_operator(&kit.owner).await;
        let create = async |key: &str, n: usize| kit.post(key, "/api/organizations/", json!({ "name": format!("O{n}") })).await;
        for n in 0..200 {
            let created = create(&kit.outsider.key, n).await;
            assert_eq!(created.status, 201);
            // Of those that exist there are fewer.
            let path = format!("/api/organizations/{}/", created.text("/id"));
            assert_eq!(kit.delete(&kit.outsider.key, &path).await.status, 204);
        }
        let refused = create(&kit.outsider.key, 200).await;
        assert_eq!(refused.code(), (429, "throttled"), "{refused:?}");
        assert_eq!(create(&kit.admin.key, 0).await.status, 201, "others do");
        for n in 0..201 {
            assert_eq!(create(&kit.owner.key, n).await.status, 201);
        }
    }

    async fn the_rate_limit_counts_sessions_as_well_as_keys(kit: Kit) {
        let settings = api::Settings { rate_limit: Some("5/hour".parse().unwrap()), ..api::Settings::default() };
        let kit = kit.restarted(settings, instance()).await;
        let browser = kit.signed_in(&kit.member).await;
        for path in ["/api/users/@me/", "/api/organizations/", "/api/personal_api_keys/", &kit.at(""), &kit.at("teams/")] {
            let reply = browser.get(path).await;
            assert_eq!(reply.status, 200, "{path} {reply:?}");
            assert_eq!(reply.header("ratelimit-policy"), r#""session";q=5;w=3600"#);
        }
        let refused = browser.get("/api/users/@me/").await;
        assert_eq!(refused.code(), (429, "throttled"));
        assert!(refused.header("retry-after").parse::<u64>().unwrap() > 60);
        // Another session of the same person is the same person; their key is counted on its own.
        let other = kit.browser();
        assert_eq!(other.log_in("mia@example.com", PASSWORD).await.status, 200);
        assert_eq!(other.get("/api/organizations/").await.code(), (429, "throttled"));
        assert_eq!(kit.get(&kit.member.key, "/api/organizations/").await.status, 200);
        let own = "/api/personal_api_keys/@current/";
        for _ in 0..4 {
            assert_eq!(kit.get(&kit.member.key, own).await.status, 200);
        }
        assert_eq!(kit.get(&kit.member.key, own).await.code(), (429, "throttled"), "reading itself is a request, too");
    }
}
