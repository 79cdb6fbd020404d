//! What would outlast an open browser that somebody found needs a recent proof.

use chrono::TimeDelta;
use serde_json::json;
use testkit::browser::{PASSWORD, code};
use testkit::{Kit, on_both};

const KEYS: &str = "/api/personal_api_keys/";
const CONFIRM: &str = "/api/login/confirm/";
const TWO_FACTOR: &str = "/api/users/@me/two_factor/";
const NEEDED: (u16, &str) = (403, "reauthentication_required");

on_both! {
    async fn an_old_session_creates_no_key_until_the_person_confirms(kit: Kit) {
        let browser = kit.signed_in(&kit.owner).await;
        let new = json!({ "label": "mine", "scopes": ["organization:read"] });
        let made = browser.post(KEYS, new.clone()).await;
        assert_eq!(made.status, 201, "who has just signed in is not asked again");
        let key = format!("{KEYS}{}/", made.text("/id"));
        kit.service.clock().advance(TimeDelta::minutes(15));
        assert_eq!(browser.post(KEYS, new.clone()).await.status, 201);
        kit.service.clock().advance(TimeDelta::seconds(1));
        let refused = browser.post(KEYS, new.clone()).await;
        assert_eq!((refused.code(), refused.text("/type")), (NEEDED, "authentication_error"));
        assert!(refused.text("/detail").contains(CONFIRM), "{refused:?}");
        for (path, body) in [
            (format!("{key}roll/"), json!({})),
            (TWO_FACTOR.to_owned(), json!({})),
            (kit.at("recovery_codes/"), json!({})),
        ] {
            assert_eq!(browser.post(&path, body).await.code(), NEEDED, "{path}");
        }
        for wider in [
            json!({ "scopes": ["organization:write"] }), json!({ "scopes": ["organization:read", "plugin:read"] }),
            json!({ "scopes": ["*"] }),
        ] {
            assert_eq!(browser.patch(&key, wider.clone()).await.code(), NEEDED, "{wider}");
        }
        // What takes away, or changes a name, goes on.
        assert_eq!(browser.patch(&key, json!({ "label": "other" })).await.status, 200);
        let narrower = json!({ "scoped_organizations": [kit.organization], "expires_at": "2027-01-01T00:00:00Z" });
        assert_eq!(browser.patch(&key, narrower).await.status, 200);
        for wider in [json!({ "scoped_organizations": [] }), json!({ "expires_at": null }), json!({ "expires_at": "2028-01-01T00:00:00Z" })] {
            assert_eq!(browser.patch(&key, wider.clone()).await.code(), NEEDED, "{wider}");
        }
        assert_eq!(browser.get("/api/users/@me/").await.status, 200);

        // Whoever copied the session before is left behind.
        let thief = browser.copy();
        let wrong = thief.post(CONFIRM, json!({ "password": "incorrect horse" })).await;
        assert_eq!((wrong.code(), wrong.text("/attr")), ((400, "invalid_credentials"), "password"));
        assert_eq!(thief.post(CONFIRM, json!({})).await.code(), (400, "required"));
        assert_eq!(thief.post(CONFIRM, json!({ "token": "000000" })).await.code(), (400, "2fa_invalid"));
        let dry = browser.post(&format!("{CONFIRM}?dry_run=true"), json!({ "password": PASSWORD })).await;
        assert_eq!((dry.status, dry.headers.contains_key("set-cookie")), (204, false));
        assert_eq!(browser.post(KEYS, new.clone()).await.code(), NEEDED, "a dry run proves nothing");
        let before = browser.cookies();
        let confirmed = browser.post(CONFIRM, json!({ "password": PASSWORD })).await;
        assert_eq!(confirmed.status, 204, "{confirmed:?}");
        assert_ne!(browser.cookies(), before, "the session has another secret");
        assert_eq!(thief.get("/api/users/@me/").await.status, 401);
        assert_eq!(browser.post(KEYS, new).await.status, 201);
        assert_eq!(browser.post(&kit.at("recovery_codes/"), json!({})).await.status, 201);
    }

    async fn an_old_session_makes_nobody_an_owner_and_publishes_nothing(kit: Kit) {
        kit.make_operator(&kit.owner).await;
        let browser = kit.signed_in(&kit.owner).await;
        let member = kit.at(&format!("members/{}/", kit.member.user.uuid));
        let apps = kit.at("pipeline_destinations/");
        let for_all = json!({ "plugin_type": "source", "is_global": true });
        let app = browser.post(&apps, for_all.clone()).await;
        assert_eq!(app.status, 201, "who has just signed in is not asked again: {app:?}");
        let app = format!("{apps}{}/", app.body["id"]);
        let invite = browser.post(&kit.at("invites/"), json!({ "target_email": "new@example.com", "level": 15 })).await;
        assert_eq!(invite.status, 201, "{invite:?}");
        let resend = kit.at(&format!("invites/{}/resend/", invite.text("/id")));
        kit.service.clock().advance(TimeDelta::minutes(16));
        let owner = json!({ "level": 15 });
        assert_eq!(browser.patch(&member, owner.clone()).await.code(), NEEDED);
        assert_eq!(browser.post(&resend, json!({})).await.code(), NEEDED);
        let invited = json!({ "target_email": "other@example.com", "level": 15 });
        assert_eq!(browser.post(&kit.at("invites/"), invited.clone()).await.code(), NEEDED);
        assert_eq!(browser.post(&kit.at("invites/bulk/"), json!([invited])).await.code(), NEEDED);
        assert_eq!(browser.post(&apps, for_all).await.code(), NEEDED);
        let code = |body: &str| json!({ "is_global": true, "source": { "index.ts": format!("export function onEvent() {{ {body} }}") } });
        let update = format!("{app}update_source/");
        assert_eq!(browser.patch(&update, code("")).await.status, 200, "a new version waits for consent");
        assert_eq!(browser.patch(&app, json!({ "is_global": false })).await.status, 200);
        assert_eq!(browser.patch(&app, json!({ "is_global": true })).await.code(), NEEDED);
        assert_eq!(browser.patch(&update, code("more()")).await.code(), NEEDED);
        // Lower levels, and what concerns one's own organization, go on; a key is its own proof.
        assert_eq!(browser.patch(&member, json!({ "level": 8 })).await.status, 200);
        assert_eq!(browser.post(&kit.at("invites/"), json!({ "target_email": "other@example.com" })).await.status, 201);
        assert_eq!(kit.patch(&kit.owner.key, &member, owner.clone()).await.status, 200);
        assert_eq!(kit.patch(&kit.owner.key, &member, json!({ "level": 1 })).await.status, 200);
        assert_eq!(browser.post(CONFIRM, json!({ "password": PASSWORD })).await.status, 204);
        assert_eq!(browser.patch(&member, owner).await.status, 200);
    }

    async fn a_code_of_the_authenticator_confirms_as_well(kit: Kit) {
        let browser = kit.signed_in(&kit.owner).await;
        let begun = browser.post(TWO_FACTOR, json!({})).await;
        let secret = begun.text("/secret").to_owned();
        // One that was only begun proves nothing: whoever began it has its secret.
        kit.service.clock().advance(TimeDelta::minutes(16));
        let now = code(&secret, kit.service.clock().now());
        assert_eq!(browser.post(CONFIRM, json!({ "token": now })).await.code(), (400, "2fa_invalid"));
        let confirmed = browser.post(&format!("{TWO_FACTOR}confirm/"), json!({ "token": now })).await;
        assert_eq!(confirmed.status, 200, "{confirmed:?}");
        let new = json!({ "label": "mine", "scopes": ["organization:read"] });
        assert_eq!(browser.post(KEYS, new.clone()).await.code(), NEEDED);
        kit.service.clock().advance(TimeDelta::minutes(1));
        let now = code(&secret, kit.service.clock().now());
        assert_eq!(browser.post(CONFIRM, json!({ "token": now })).await.status, 204);
        assert_eq!(browser.post(CONFIRM, json!({ "token": now })).await.code(), (400, "2fa_invalid"), "each is good once");
        assert_eq!(browser.post(KEYS, new).await.status, 201);
    }

    async fn whoever_has_no_password_signs_in_again(kit: Kit) {
        let browser = kit.signed_in(&kit.owner).await;
        kit.database.run("UPDATE app_user SET password_hash = NULL WHERE email_key = 'olga@example.com'").await;
        kit.service.clock().advance(TimeDelta::minutes(16));
        // A password would be a second way in, for whoever found the browser.
        let set = browser.post("/api/users/@me/password/", json!({ "password": "several quite random words" })).await;
        assert_eq!(set.code(), NEEDED);
        let confirm = browser.post(CONFIRM, json!({ "password": PASSWORD })).await;
        assert_eq!(confirm.code(), (400, "no_password"), "{confirm:?}");
    }

    async fn keys_cannot_confirm_anything(kit: Kit) {
        let reply = kit.post(&kit.owner.key, CONFIRM, json!({ "password": PASSWORD })).await;
        assert_eq!(reply.code(), (403, "permission_denied"));
        assert_eq!(kit.browser().post(CONFIRM, json!({ "password": PASSWORD })).await.code(), (401, "not_authenticated"));
    }

    async fn removing_a_member_ends_every_session_they_have(kit: Kit) {
        let first = kit.signed_in(&kit.member).await;
        let second = kit.browser();
        assert_eq!(second.log_in("mia@example.com", PASSWORD).await.status, 200);
        let replica = service::Service::new(
            kit.database.open().await, kit.service.clock().clone(), service::RandomSource::System, testkit::kit::instance(),
        );
        let path = kit.at(&format!("members/{}/", kit.member.user.uuid));
        assert_eq!(kit.delete(&kit.admin.key, &path).await.status, 204);
        for browser in [&first, &second] {
            assert_eq!(browser.get("/api/users/@me/").await.code(), (401, "not_authenticated"));
            assert_eq!(browser.get(&kit.at("")).await.status, 401);
            let cookies = browser.cookies();
            let token = cookies.split_once('=').unwrap().1;
            let there = replica.signed_in(token, service::access::Request::default()).await;
            assert!(matches!(there, Err(service::Error::BadCredential)), "on every replica");
        }
        let left: Vec<i64> = kit.database.column("SELECT count(*) FROM session").await;
        assert_eq!(left, [0]);
    }
}
