use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use chrono::TimeDelta;
use futures_util::future::join_all;
use serde_json::{Value, json};
use service::Email;
use service::access::Actor;
use testkit::kit::{everything, with_json};
use testkit::{Kit, Reply, on_both};

/// Signs the owner in and hands back the cookie.
async fn sign_in(kit: &Kit) -> String {
    let email = Email::new("olga@example.com").unwrap();
    kit.service
        .set_password(&Actor::system(), &email, "correct horse battery")
        .await
        .unwrap();
    let reply = log_in(kit, "Olga@Example.com", "correct horse battery").await;
    assert_eq!((reply.status, &reply.body["success"]), (200, &json!(true)));
    let cookie = reply.header("set-cookie");
    for part in ["__Host-", "; Path=/", "; Secure", "; HttpOnly", "; SameSite=Lax"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    cookie.split(';').next().unwrap().to_owned()
}

async fn log_in(kit: &Kit, email: &str, password: &str) -> Reply {
    let body = json!({ "email": email, "password": password });
    kit.send(with_json(Request::builder().method("POST").uri("/api/login"), &body))
        .await
}

async fn as_person(kit: &Kit, cookie: &str, method: &str, path: &str, body: Value) -> Reply {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("cookie", cookie)
        .header("host", "hedgerow.test");
    let request = if body.is_null() {
        request.body(Body::empty()).unwrap()
    } else {
        with_json(request, &body)
    };
    kit.send(request).await
}

const KEYS: &str = "/api/personal_api_keys/";

on_both! {
    async fn a_person_manages_their_keys(kit: Kit) {
        let cookie = sign_in(&kit).await;
        let new = json!({ "label": "CI", "scopes": ["organization:read"], "scoped_organizations": [kit.organization] });
        let made = as_person(&kit, &cookie, "POST", KEYS, new).await;
        assert_eq!(made.status, 201, "{made:?}");
        let (secret, at) = (made.text("/value").to_owned(), made.header("location").to_owned());
        assert_eq!(made.text("/mask_value"), format!("hgr_...{}", &secret[secret.len() - 4..]));
        assert!(!kit.database.holds(&secret).await, "only its hash is kept");
        assert_eq!(kit.get(&secret, &kit.at("")).await.status, 200);
        assert_eq!(kit.get(&secret, &kit.at("members/")).await.status, 403);

        let list = as_person(&kit, &cookie, "GET", KEYS, json!(null)).await;
        assert_eq!((&list.body["count"], &list.body["results"][0]["value"]), (&json!(2), &json!(null)));
        let changed = as_person(&kit, &cookie, "PATCH", &at, json!({ "scopes": ["organization_member:read"] })).await;
        assert_eq!((changed.status, &changed.body["value"]), (200, &json!(null)));
        assert_eq!(kit.get(&secret, &kit.at("members/")).await.status, 200);
        assert_eq!(kit.get(&secret, &kit.at("")).await.status, 403);

        let rolled = as_person(&kit, &cookie, "POST", &format!("{at}roll/"), json!(null)).await;
        let fresh = rolled.text("/value").to_owned();
        assert_eq!(kit.get(&secret, &kit.at("members/")).await.status, 401);
        assert_eq!(kit.get(&fresh, &kit.at("members/")).await.status, 200);
        assert_eq!(as_person(&kit, &cookie, "DELETE", &at, json!(null)).await.status, 204);
        assert_eq!(kit.get(&fresh, &kit.at("members/")).await.status, 401);
        assert_eq!(as_person(&kit, &cookie, "GET", &at, json!(null)).await.status, 404);
    }

    async fn a_key_may_read_itself_and_make_no_other(kit: Kit) {
        let own = kit.get(&kit.owner.key, "/api/personal_api_keys/@current/").await;
        assert_eq!((own.status, &own.body["value"]), (200, &json!(null)));
        let itself = format!("{KEYS}{}/", own.text("/id"));
        let by_id = kit.get(&kit.owner.key, &itself).await;
        assert_eq!(by_id.body, own.body);
        let others = kit.get(&kit.admin.key, "/api/personal_api_keys/@current").await;
        let foreign = format!("{KEYS}{}/", others.text("/id"));
        let new = json!({ "label": "More", "scopes": ["*"], "user": kit.owner.user.id });
        for reply in [
            kit.get(&kit.owner.key, KEYS).await,
            kit.get(&kit.owner.key, &foreign).await,
            kit.post(&kit.owner.key, KEYS, new.clone()).await,
            kit.patch(&kit.owner.key, &foreign, json!({ "label": "Mine" })).await,
            kit.patch(&kit.owner.key, &itself, json!({ "label": "Mine" })).await,
            kit.post(&kit.owner.key, &format!("{itself}roll/"), json!({})).await,
            kit.delete(&kit.owner.key, &itself).await,
            kit.delete(&kit.owner.key, &foreign).await,
        ] {
            assert_eq!(reply.code(), (403, "permission_denied"));
        }
        let nobody = kit.send(with_json(Request::builder().method("POST").uri(KEYS), &new)).await;
        assert_eq!(nobody.code(), (401, "not_authenticated"));
    }

    async fn a_key_reaches_no_further_than_its_user(kit: Kit) {
        let cookie = sign_in(&kit).await;
        let make = async |extra: Value| {
            let mut body = json!({ "label": "CI", "scopes": ["*"] });
            body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            as_person(&kit, &cookie, "POST", KEYS, body).await
        };
        let cases = [
            (json!({ "scoped_organizations": [kit.other] }), "does_not_exist", "scoped_organizations"),
            (json!({ "scoped_teams": [kit.other_team] }), "does_not_exist", "scoped_teams"),
            (json!({ "scopes": ["organization:delete"] }), "invalid_choice", "scopes__0"),
            (json!({ "scopes": [] }), "min_length", "scopes"),
            (json!({ "label": "x".repeat(41) }), "max_length", "label"),
            (json!({ "expires_at": "2026-11-15T09:30:00Z" }), "invalid_input", "expires_at"),
            (json!({ "expires_at": "tomorrow" }), "invalid_input", "expires_at"),
        ];
        for (extra, code, attr) in cases {
            let reply = make(extra.clone()).await;
            assert_eq!((reply.code(), reply.text("/attr")), ((400, code), attr), "{extra}");
        }
    }

    async fn a_key_that_was_read_can_be_sent_back(kit: Kit) {
        let cookie = sign_in(&kit).await;
        let new = json!({ "label": "CI", "scopes": ["*"], "expires_at": "2026-12-01T00:00:00Z" });
        let made = as_person(&kit, &cookie, "POST", KEYS, new).await;
        let at = made.header("location").to_owned();
        let read = as_person(&kit, &cookie, "GET", &at, json!(null)).await;
        let same = as_person(&kit, &cookie, "PATCH", &at, read.body.clone()).await;
        assert_eq!((same.status, &same.body), (200, &read.body));
        let mut never = read.body.clone();
        never["expires_at"] = json!(null);
        let never = as_person(&kit, &cookie, "PATCH", &at, never).await;
        assert_eq!((never.status, &never.body["expires_at"]), (200, &json!(null)));
        let stale = Request::builder().method("DELETE").uri(&at).header("cookie", &cookie).header("if-match", read.header("etag"));
        assert_eq!(kit.send(stale.body(Body::empty()).unwrap()).await.status, 412);
        let label = async |label: &str| as_person(&kit, &cookie, "PATCH", &at, json!({ "label": label })).await.status;
        as_person(&kit, &cookie, "PATCH", &at, json!({ "expires_at": "2026-11-15T10:00:00Z" })).await;
        kit.service.clock().advance(TimeDelta::hours(2));
        assert_eq!(label("Old").await, 200);
    }

    async fn a_repeated_creation_does_not_show_the_secret_again(kit: Kit) {
        let cookie = sign_in(&kit).await;
        let create = async || {
            let request = Request::builder().method("POST").uri(KEYS).header("cookie", &cookie);
            kit.send(with_json(request.header("idempotency-key", "once"), &json!({ "label": "CI", "scopes": ["*"] }))).await
        };
        let (first, again) = (create().await, create().await);
        assert!(first.text("/value").starts_with("hgr_"));
        assert_eq!((again.status, &again.body["value"], &again.body["id"]), (201, &json!(null), &first.body["id"]));
    }

    /// Somebody else has found it, and has as much in progress with it as they can.
    async fn a_leaked_key_does_not_keep_its_owner_from_deleting_it(kit: Kit) {
        // Somewhere else than whoever has the key.
        let browser = kit.signed_in(&kit.owner).await;
        let new = json!({ "label": "leaked", "scopes": ["organization_member:write"] });
        let made = browser.post(KEYS, new).await;
        let (secret, at) = (made.text("/value").to_owned(), made.header("location").to_owned());
        let dry_run = kit.at("invites/bulk/?dry_run=true");
        let invites = json!([{ "target_email": "one@elsewhere.example" }, { "target_email": "two@elsewhere.example" }]);
        let is_deleted = AtomicBool::new(false);
        let attack = (0..400).map(async |_| {
            while !is_deleted.load(Ordering::Relaxed) {
                kit.post(&secret, &dry_run, invites.clone()).await;
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        });
        let owner = async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            // A busy machine may refuse a request now and then, but not all of them.
            let mut statuses = Vec::new();
            while statuses.len() < 5 && statuses.last() != Some(&204) {
                statuses.push(browser.delete(&at).await.status);
            }
            is_deleted.store(true, Ordering::Relaxed);
            statuses
        };
        let (_, statuses) = tokio::join!(join_all(attack), owner);
        assert_eq!(statuses.last(), Some(&204), "{statuses:?}");
    }

    async fn a_key_stops_when_it_expires(kit: Kit) {
        let mut new = everything();
        new.expires_at = Some(kit.service.clock().now() + TimeDelta::hours(1));
        let key = kit.key_like(&kit.owner, new).await;
        assert_eq!(kit.get(&key, &kit.at("")).await.status, 200);
        kit.service.clock().advance(TimeDelta::hours(1));
        assert_eq!(kit.get(&key, &kit.at("")).await.code(), (401, "authentication_failed"));
        assert_eq!(kit.get(&key, "/api/personal_api_keys/@current/").await.status, 401);
    }

    async fn the_last_use_of_a_key_is_noted_now_and_then(kit: Kit) {
        let used = async || {
            kit.service.flush_key_use().await.unwrap();
            kit.get(&kit.owner.key, "/api/personal_api_keys/@current/").await.body["last_used_at"].clone()
        };
        assert_eq!(used().await, json!(null));
        kit.get(&kit.owner.key, &kit.at("")).await;
        assert_eq!(used().await, json!("2026-11-15T09:30:00.000000Z"));
        kit.service.clock().advance(TimeDelta::minutes(5));
        kit.get(&kit.owner.key, &kit.at("")).await;
        assert_eq!(used().await, json!("2026-11-15T09:30:00.000000Z"));
        kit.service.clock().advance(TimeDelta::minutes(6));
        kit.get(&kit.owner.key, &kit.at("")).await;
        assert_eq!(used().await, json!("2026-11-15T09:41:00.000000Z"));
    }

    async fn scopes_that_a_key_never_needed_are_named(kit: Kit) {
        let scopes = ["organization:write", "organization_member:read", "plugin:read"]
            .map(|scope| scope.parse::<service::Scope>().unwrap());
        let key = kit.key(&kit.owner, &scopes).await;
        let unused = async || {
            kit.service.flush_key_use().await.unwrap();
            kit.get(&key, "/api/personal_api_keys/@current/").await.body["unused_scopes"].clone()
        };
        assert_eq!(unused().await, json!(["organization:write", "organization_member:read", "plugin:read"]));
        kit.get(&key, &kit.at("members/")).await;
        assert_eq!(unused().await, json!(["organization:write", "plugin:read"]));
        assert_eq!(kit.get(&key, &kit.at("")).await.status, 200);
        assert_eq!(unused().await, json!(["organization:write", "plugin:read"]), "reading takes less");
        assert_eq!(kit.get(&key, &kit.at("batch_exports/")).await.status, 403);
        let renamed = kit.patch(&key, &kit.at(""), json!({ "name": "Acme & Co" })).await;
        assert_eq!(renamed.status, 200, "{renamed:?}");
        assert_eq!(unused().await, json!(["plugin:read"]));
    }

    async fn a_key_for_everything_is_unused_until_it_is_used(kit: Kit) {
        let unused = async || {
            kit.service.flush_key_use().await.unwrap();
            kit.get(&kit.owner.key, "/api/personal_api_keys/@current/").await.body["unused_scopes"].clone()
        };
        assert_eq!(unused().await, json!(["*"]));
        kit.get(&kit.owner.key, &kit.at("")).await;
        assert_eq!(unused().await, json!([]));
    }

    async fn a_session_ends_in_time_and_when_told(kit: Kit) {
        let read = async |cookie: &str| as_person(&kit, cookie, "GET", KEYS, json!(null)).await.status;
        let cookie = sign_in(&kit).await;
        assert_eq!(read(&cookie).await, 200);
        assert_eq!(as_person(&kit, &cookie, "GET", &kit.at(""), json!(null)).await.status, 200);
        assert_eq!(as_person(&kit, &cookie, "POST", "/api/logout", json!(null)).await.status, 204);
        assert_eq!(read(&cookie).await, 401);

        let cookie = sign_in(&kit).await;
        for _ in 0..6 {
            kit.service.clock().advance(TimeDelta::days(2));
            assert_eq!(read(&cookie).await, 200);
        }
        kit.service.clock().advance(TimeDelta::days(2));
        assert_eq!(read(&cookie).await, 401, "two weeks are the most");

        let cookie = sign_in(&kit).await;
        kit.service.clock().advance(TimeDelta::days(4));
        assert_eq!(read(&cookie).await, 401, "nobody was there for three days");

        let cookie = sign_in(&kit).await;
        kit.join("second@example.com", service::Level::Owner).await;
        kit.delete(&kit.owner.key, &kit.at("members/@me/")).await;
        assert_eq!(read(&cookie).await, 401, "removal ends sessions");
    }

    async fn a_wrong_password_tells_nothing(kit: Kit) {
        sign_in(&kit).await;
        let wrong = log_in(&kit, "olga@example.com", "incorrect horse").await;
        let unknown = log_in(&kit, "nobody@example.com", "incorrect horse").await;
        let none = log_in(&kit, "adam@example.com", "incorrect horse").await;
        assert_eq!(wrong.code(), (400, "invalid_credentials"));
        for reply in [unknown, none] {
            assert_eq!((reply.code(), reply.text("/detail")), (wrong.code(), wrong.text("/detail")));
        }
        let mut last = 0;
        for _ in 0..20 {
            last = log_in(&kit, "olga@example.com", "incorrect horse").await.status;
        }
        assert_eq!(last, 429);
    }

    async fn another_site_cannot_use_a_session(kit: Kit) {
        let cookie = sign_in(&kit).await;
        let post = |name: &str, value: &str| {
            let request = Request::builder().method("POST").uri(KEYS).header("cookie", &cookie);
            with_json(request.header("host", "hedgerow.test").header(name, value), &json!({ "label": "X", "scopes": ["*"] }))
        };
        assert_eq!(kit.send(post("sec-fetch-site", "cross-site")).await.code(), (403, "permission_denied"));
        assert_eq!(kit.send(post("origin", "https://evil.example")).await.code(), (403, "permission_denied"));
        assert_eq!(kit.send(post("origin", "null")).await.code(), (403, "permission_denied"));
        assert_eq!(kit.send(post("sec-fetch-site", "same-origin")).await.status, 201);
        assert_eq!(kit.send(post("origin", "https://hedgerow.test")).await.status, 201);
    }
}
