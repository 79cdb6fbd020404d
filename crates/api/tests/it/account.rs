use axum::body::Body;
use chrono::TimeDelta;
use serde_json::{Value, json};
use service::mail::EmailMessage;
use testkit::browser::PASSWORD;
use testkit::kit::with_json;
use testkit::{Browser, Kit, on_both};

use crate::column;

const ME: &str = "/api/users/@me/";
const SESSIONS: &str = "/api/users/@me/sessions/";
const CHANGE: &str = "/api/users/@me/password/";

on_both! {
    async fn people_read_their_own_account(kit: Kit) {
        let browser = kit.signed_in(&kit.owner).await;
        let me = browser.get(ME).await;
        assert_eq!(me.status, 200, "{me:?}");
        insta::allow_duplicates! {
            insta::assert_json_snapshot!(me.body, {
                ".id" => "[id]", ".uuid" => "[uuid]", ".distinct_id" => "[random]", ".current_organization" => "[uuid]",
            }, @r#"
            {
              "backup_codes": 0,
              "current_organization": "[uuid]",
              "distinct_id": "[random]",
              "email": "olga@example.com",
              "first_name": "Olga",
              "has_password": true,
              "has_social_auth": false,
              "hedgehog_config": {},
              "id": "[id]",
              "is_2fa_enabled": false,
              "is_email_verified": false,
              "is_operator": false,
              "last_name": "Owner",
              "uuid": "[uuid]"
            }
            "#);
        }
        assert_eq!(me.body["current_organization"], json!(kit.organization));
        let with_key = kit.get(&kit.owner.key, ME).await;
        assert_eq!(with_key.body, me.body);
        assert_eq!(kit.browser().get(ME).await.code(), (401, "not_authenticated"));
        for (path, body) in [(ME, json!({ "first_name": "X" }))] {
            assert_eq!(
                kit.patch(&kit.owner.key, path, body).await.code(), (403, "permission_denied"), "a key changes nobody",
            );
        }
        assert_eq!(kit.get(&kit.owner.key, SESSIONS).await.code(), (403, "permission_denied"));
    }

    async fn people_change_their_names_and_nothing_else(kit: Kit) {
        let browser = kit.signed_in(&kit.owner).await;
        let before = browser.get(ME).await;
        let same = browser.patch(ME, before.body.clone()).await;
        assert_eq!((same.status, &same.body), (200, &before.body), "what was read can be sent back");
        let changed = browser.patch(ME, json!({
            "first_name": " Ольга ", "last_name": "", "email": "evil@example.com", "is_email_verified": true,
            "is_2fa_enabled": true, "has_password": false, "id": 1, "uuid": kit.member.user.uuid, "is_staff": true,
        })).await;
        assert_eq!((changed.status, changed.text("/first_name"), changed.text("/last_name")), (200, "Ольга", ""));
        for field in ["email", "is_email_verified", "is_2fa_enabled", "has_password", "id", "uuid"] {
            assert_eq!(changed.body[field], before.body[field], "{field}");
        }
        let found = kit.get(&kit.owner.key, &kit.at("members/?search=ольга")).await;
        assert_eq!(found.body["count"], 1, "and is found by the new name");
        let cases = [
            (json!({ "first_name": " " }), "blank", "first_name"),
            (json!({ "first_name": "x".repeat(129) }), "max_length", "first_name"),
            (json!({ "last_name": "two\nlines" }), "invalid_input", "last_name"),
            (
                json!({ "first_name": "Fine", "current_organization": kit.other }), "does_not_exist",
                "current_organization",
            ),
        ];
        for (body, code, attr) in cases {
            let reply = browser.patch(ME, body.clone()).await;
            assert_eq!((reply.code(), reply.text("/attr")), ((400, code), attr), "{body}");
        }
        assert_eq!(browser.get(ME).await.body, changed.body, "a failed request changes nothing");
        let dry = browser.patch(&format!("{ME}?dry_run=true"), json!({ "first_name": "Dry" })).await;
        assert_eq!((dry.status, dry.text("/first_name"), dry.header("x-dry-run")), (200, "Dry", "true"));
        assert_eq!(browser.get(ME).await.text("/first_name"), "Ольга");
    }

    async fn a_change_of_the_account_honours_if_match(kit: Kit) {
        let browser = kit.signed_in(&kit.owner).await;
        let read = browser.get(ME).await;
        let patch = async |tag: &str, name: &str| {
            let request = browser.request("PATCH", ME).header("if-match", tag);
            browser.send(with_json(request, &json!({ "first_name": name }))).await
        };
        assert_eq!(patch("\"stale\"", "Stale").await.code(), (412, "precondition_failed"));
        let changed = patch(read.header("etag"), "Olya").await;
        assert_eq!((changed.status, changed.text("/first_name")), (200, "Olya"));
        assert_eq!(patch(read.header("etag"), "Again").await.status, 412);
        let unchanged = browser.request("GET", ME).header("if-none-match", changed.header("etag"));
        assert_eq!(browser.send(unchanged.body(Body::empty()).unwrap()).await.status, 304);
    }

    async fn the_current_organization_is_one_of_ones_own(kit: Kit) {
        let second = kit.post(&kit.owner.key, "/api/organizations/", json!({ "name": "Second" })).await;
        let browser = kit.signed_in(&kit.owner).await;
        for id in [json!(kit.organization), second.body["id"].clone()] {
            let set = browser.patch(ME, json!({ "current_organization": id })).await;
            assert_eq!((set.status, &set.body["current_organization"]), (200, &id));
            assert_eq!(browser.get("/api/organizations/@current/").await.body["id"], id);
        }
    }

    async fn people_see_where_they_are_signed_in(kit: Kit) {
        let first = kit.signed_in(&kit.owner).await;
        kit.service.clock().advance(TimeDelta::minutes(1));
        let second = kit.browser();
        let login = second.request("POST", "/api/login/").header("user-agent", "Test/1.0");
        second.send(with_json(login, &json!({ "email": "olga@example.com", "password": PASSWORD }))).await;
        kit.signed_in(&kit.member).await;
        let page = second.get(SESSIONS).await;
        assert_eq!((page.status, &page.body["count"]), (200, &json!(2)));
        assert_eq!(column(&page, "is_current"), [true, false]);
        assert_eq!(column(&page, "user_agent"), ["Test/1.0", ""]);
        let newest = &page.body["results"][0];
        assert_eq!((&newest["method"], &newest["has_second_factor"]), (&json!("password"), &json!(false)));
        assert!(newest["address"].as_str().unwrap().starts_with("10.0."), "{newest}");
        assert_eq!(newest["created_at"], "2026-11-15T09:31:00.000000Z");
        assert_eq!(newest["expires_at"], "2026-11-29T09:31:00.000000Z");
        assert!(!page.body.to_string().contains("hgs_"));
        assert_eq!(
            second.get(&format!("{SESSIONS}?limit=1&offset=1")).await.body["results"].as_array().unwrap().len(), 1,
        );
        assert_eq!(first.get(ME).await.status, 200);
    }

    async fn sessions_that_are_over_are_not_listed(kit: Kit) {
        let old = kit.signed_in(&kit.owner).await;
        for _ in 0..6 {
            kit.service.clock().advance(TimeDelta::days(2));
            assert_eq!(old.get(ME).await.status, 200);
        }
        let new = kit.browser();
        new.log_in("olga@example.com", PASSWORD).await;
        assert_eq!(new.get(SESSIONS).await.body["count"], 2);
        kit.service.clock().advance(TimeDelta::days(2));
        assert_eq!(old.get(ME).await.status, 401, "two weeks are over");
        assert_eq!(new.get(SESSIONS).await.body["count"], 1);
    }

    async fn people_end_their_own_sessions(kit: Kit) {
        let (mine, other) = (kit.signed_in(&kit.owner).await, kit.browser());
        other.log_in("olga@example.com", PASSWORD).await;
        let foreign = kit.signed_in(&kit.member).await;
        let id = |page: &testkit::Reply, is_current: bool| {
            let sessions = page.body["results"].as_array().unwrap();
            let found = sessions.iter().find(|session| session["is_current"] == is_current).unwrap();
            format!("{SESSIONS}{}/", found["id"].as_str().unwrap())
        };
        let theirs = id(&foreign.get(SESSIONS).await, true);
        assert_eq!(mine.delete(&theirs).await.code(), (404, "not_found"), "nobody ends another's");
        assert_eq!(foreign.get(ME).await.status, 200);
        let at = id(&mine.get(SESSIONS).await, false);
        assert_eq!(mine.delete(&format!("{at}?dry_run=true")).await.status, 204);
        assert_eq!(other.get(ME).await.status, 200);
        assert_eq!(mine.delete(&at).await.status, 204);
        assert_eq!(mine.delete(&at).await.code(), (404, "not_found"));
        assert_eq!((other.get(ME).await.status, mine.get(ME).await.status), (401, 200));
        other.log_in("olga@example.com", PASSWORD).await;
        assert_eq!(mine.delete(SESSIONS).await.status, 204);
        assert_eq!((other.get(ME).await.status, mine.get(ME).await.status), (401, 200));
        assert_eq!(foreign.get(ME).await.status, 200);
    }

    async fn the_newest_hundred_sessions_of_a_person_stay(kit: Kit) {
        kit.give_password(&kit.member).await;
        let browsers: Vec<Browser> = (0..102).map(|_| kit.browser()).collect();
        for browser in &browsers {
            kit.service.clock().advance(TimeDelta::milliseconds(2));
            assert_eq!(browser.log_in("mia@example.com", PASSWORD).await.status, 200);
        }
        for (n, browser) in browsers.iter().enumerate() {
            let status = if n < 2 { 401 } else { 200 };
            assert_eq!(browser.get("/api/users/@me/").await.status, status, "{n}");
        }
        let sessions = kit.database.column::<i64>("SELECT count(*) FROM session").await;
        assert_eq!(sessions, [100]);
    }

    async fn another_password_ends_the_other_sessions(kit: Kit) {
        let kit = kit.with_mail().await;
        let (mine, other) = (kit.signed_in(&kit.owner).await, kit.browser());
        other.log_in("olga@example.com", PASSWORD).await;
        let cases = [
            (json!({ "password": "another horse battery" }), "required", "current_password"),
            (
                json!({ "current_password": "wrong", "password": "another horse battery" }), "invalid_credentials",
                "current_password",
            ),
            (json!({ "current_password": PASSWORD, "password": "short" }), "password_too_short", "password"),
            (json!({ "current_password": PASSWORD }), "required", "password"),
        ];
        for (body, code, attr) in cases {
            let reply = mine.post(CHANGE, body.clone()).await;
            assert_eq!((reply.code(), &reply.body["attr"]), ((400, code), &json!(attr)), "{body}");
        }
        let good = json!({ "current_password": PASSWORD, "password": "another horse battery" });
        assert_eq!(mine.post(&format!("{CHANGE}?dry_run=true"), good.clone()).await.status, 204);
        assert_eq!((other.get(ME).await.status, kit.emails().await), (200, vec![]));
        let done = mine.post(CHANGE, good).await;
        assert_eq!((done.status, done.body), (204, Value::Null));
        assert_eq!((other.get(ME).await.status, mine.get(ME).await.status), (401, 200));
        let emails = kit.emails().await;
        assert!(
            matches!(emails.as_slice(), [(to, EmailMessage::PasswordChanged { .. })] if to == "olga@example.com"),
            "{emails:?}",
        );
        assert_eq!(kit.browser().log_in("olga@example.com", PASSWORD).await.status, 400);
        assert_eq!(kit.browser().log_in("olga@example.com", "another horse battery").await.status, 200);
        assert!(!kit.database.holds("another horse battery").await);
    }

    async fn guessing_the_present_password_locks_the_account(kit: Kit) {
        let browser = kit.signed_in(&kit.owner).await;
        for _ in 0..20 {
            let reply =
                browser.post(CHANGE, json!({ "current_password": "wrong", "password": "another horse battery" })).await;
            assert_eq!(reply.code(), (400, "invalid_credentials"));
        }
        let right = json!({ "current_password": PASSWORD, "password": "another horse battery" });
        assert_eq!(browser.post(CHANGE, right).await.code(), (429, "throttled"));
    }
}
