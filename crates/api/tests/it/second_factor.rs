use chrono::TimeDelta;
use serde_json::{Value, json};
use service::Level;
use service::access::Actor;
use service::mail::EmailMessage;
use testkit::browser::{PASSWORD, code};
use testkit::kit::Person;
use testkit::{Browser, Kit, Reply, on_both};

const TWO_FACTOR: &str = "/api/users/@me/two_factor/";
const CHALLENGE: &str = "__Host-hedgerow_challenge=";

/// Sets an authenticator up and gives its secret and the backup codes.
pub(crate) async fn set_up(kit: &Kit, browser: &Browser<'_>) -> (String, Vec<String>) {
    let begun = browser.post(TWO_FACTOR, json!({})).await;
    assert_eq!(begun.status, 200, "{begun:?}");
    let secret = begun.text("/secret").to_owned();
    let now = code(&secret, kit.service.clock().now());
    let confirmed = browser
        .post(&format!("{TWO_FACTOR}confirm/"), json!({ "token": now }))
        .await;
    assert_eq!(confirmed.status, 200, "{confirmed:?}");
    (secret, codes(&confirmed))
}

fn codes(reply: &Reply) -> Vec<String> {
    let codes = reply.body["codes"].as_array().unwrap();
    codes.iter().map(|code| code.as_str().unwrap().to_owned()).collect()
}

/// What the authenticator shows half a minute later: each code is good once.
fn next_code(kit: &Kit, secret: &str) -> String {
    kit.service.clock().advance(TimeDelta::seconds(30));
    code(secret, kit.service.clock().now())
}

/// A browser that has given the password and is asked for a code.
async fn challenged<'a>(kit: &'a Kit, person: &Person) -> Browser<'a> {
    let browser = kit.browser();
    let reply = browser.log_in(&person.user.email, PASSWORD).await;
    assert_eq!(reply.code(), (401, "2fa_required"), "{reply:?}");
    assert!(reply.header("set-cookie").starts_with(CHALLENGE));
    assert!(
        reply
            .header("set-cookie")
            .ends_with("; Path=/; Secure; HttpOnly; SameSite=Lax")
    );
    browser
}

async fn give(browser: &Browser<'_>, token: &str) -> Reply {
    browser.post("/api/login/token/", json!({ "token": token })).await
}

/// A code that is not the one, now or around now.
fn wrong(kit: &Kit, secret: &str) -> String {
    let now = kit.service.clock().now();
    let right: Vec<String> = (-2..=2)
        .map(|step| code(secret, now + TimeDelta::seconds(30 * step)))
        .collect();
    let mut guesses = (0..).map(|number| format!("{number:06}"));
    guesses.find(|guess| !right.contains(guess)).unwrap()
}

async fn recovery_codes(kit: &Kit, browser: &Browser<'_>) -> Vec<String> {
    let made = browser.post(&kit.at("recovery_codes/"), json!({})).await;
    assert_eq!(made.status, 201, "{made:?}");
    codes(&made)
}

async fn recover(browser: &Browser<'_>, email: &str, code: &str) -> Reply {
    browser
        .post("/api/login/recovery/", json!({ "email": email, "code": code }))
        .await
}

on_both! {
    async fn a_second_factor_is_set_up_with_a_first_code(kit: Kit) {
        let browser = kit.signed_in(&kit.owner).await;
        let other = kit.browser();
        other.log_in("olga@example.com", PASSWORD).await;
        let begun = browser.post(TWO_FACTOR, json!({})).await;
        let secret = begun.text("/secret").to_owned();
        assert!(begun.text("/uri").starts_with("otpauth://totp/Hedgerow:olga%40example.com?secret="));
        assert!(begun.text("/qr_svg").starts_with("<svg"));
        assert!(!kit.database.holds(&secret).await);
        assert_eq!(kit.browser().log_in("olga@example.com", PASSWORD).await.status, 200, "it counts for nothing yet");

        let wrong = browser.post(&format!("{TWO_FACTOR}confirm/"), json!({ "token": wrong(&kit, &secret) })).await;
        assert_eq!((wrong.code(), wrong.text("/attr")), ((400, "2fa_invalid"), "token"));
        let right = code(&secret, kit.service.clock().now());
        let dry = browser.post(&format!("{TWO_FACTOR}confirm/?dry_run=true"), json!({ "token": right })).await;
        assert_eq!((dry.status, dry.headers.contains_key("set-cookie")), (200, false));
        let thief = browser.copy();
        let confirmed = browser.post(&format!("{TWO_FACTOR}confirm/"), json!({ "token": right })).await;
        assert_eq!((confirmed.status, codes(&confirmed).len()), (200, 10), "{confirmed:?}");
        assert_ne!(browser.cookies(), thief.cookies(), "the session means more now, and has another secret");
        assert_eq!(thief.get("/api/users/@me/").await.status, 401);
        assert_eq!(other.get("/api/users/@me/").await.status, 401, "other sessions end");
        let me = browser.get("/api/users/@me/").await;
        assert_eq!((&me.body["is_2fa_enabled"], &me.body["backup_codes"]), (&json!(true), &json!(10)));
        let member = kit.get(&kit.owner.key, &kit.at("members/?email=olga@example.com")).await;
        assert_eq!(member.body["results"][0]["is_2fa_enabled"], true);
        assert_eq!(browser.post(TWO_FACTOR, json!({})).await.code(), (400, "already_set_up"));
        let again = browser.post(&format!("{TWO_FACTOR}confirm/"), json!({ "token": next_code(&kit, &secret) })).await;
        assert_eq!(again.code(), (400, "already_set_up"));
        for code in codes(&confirmed) {
            assert!(!kit.database.holds(&code).await);
        }
    }

    async fn a_sign_in_takes_password_and_code(kit: Kit) {
        let (secret, _) = set_up(&kit, &kit.signed_in(&kit.owner).await).await;
        let browser = challenged(&kit, &kit.owner).await;
        let before = browser.cookies();
        let reply = give(&browser, &next_code(&kit, &secret)).await;
        assert_eq!((reply.status, reply.text("/user/email")), (200, "olga@example.com"), "{reply:?}");
        assert!(!browser.cookies().contains(CHALLENGE), "the challenge is over");
        assert_ne!(browser.cookies(), before);
        let sessions = browser.get("/api/users/@me/sessions/").await;
        assert_eq!(sessions.body["results"][0]["has_second_factor"], true);
        assert_eq!(
            kit.browser().log_in("olga@example.com", "incorrect horse").await.code(), (400, "invalid_credentials"),
        );
    }

    async fn a_code_is_good_once(kit: Kit) {
        let (secret, _) = set_up(&kit, &kit.signed_in(&kit.owner).await).await;
        let used = code(&secret, kit.service.clock().now());
        let browser = challenged(&kit, &kit.owner).await;
        assert_eq!(give(&browser, &used).await.code(), (400, "2fa_invalid"), "it confirmed the set-up");
        let fresh = next_code(&kit, &secret);
        let copy = browser.copy();
        assert_eq!(give(&browser, &fresh).await.status, 200);
        assert_eq!(give(&copy, &fresh).await.code(), (400, "2fa_expired"), "the challenge was used");
        let second = challenged(&kit, &kit.owner).await;
        assert_eq!(give(&second, &fresh).await.code(), (400, "2fa_invalid"));
        assert_eq!(give(&second, &format!(" {} ", next_code(&kit, &secret))).await.status, 200);
    }

    async fn of_many_who_use_one_code_at_once_one_gets_in(kit: Kit) {
        let (secret, backup) = set_up(&kit, &kit.signed_in(&kit.owner).await).await;
        for token in [next_code(&kit, &secret), backup[0].clone()] {
            let mut browsers = Vec::new();
            for _ in 0..8 {
                browsers.push(challenged(&kit, &kit.owner).await);
            }
            let replies = futures_util::future::join_all(browsers.iter().map(|browser| give(browser, &token))).await;
            assert_eq!(replies.iter().filter(|reply| reply.status == 200).count(), 1, "{replies:?}");
        }
    }

    async fn a_backup_code_gets_in_once(kit: Kit) {
        let browser = kit.signed_in(&kit.owner).await;
        let (secret, backup) = set_up(&kit, &browser).await;
        let first = challenged(&kit, &kit.owner).await;
        assert_eq!(give(&first, &backup[0].to_uppercase().replace('-', " ")).await.status, 200, "as people type it");
        let second = challenged(&kit, &kit.owner).await;
        assert_eq!(give(&second, &backup[0]).await.code(), (400, "2fa_invalid"));
        assert_eq!(browser.get("/api/users/@me/").await.body["backup_codes"], 9);

        let path = format!("{TWO_FACTOR}backup_codes/");
        assert_eq!(browser.post(&path, json!({ "token": wrong(&kit, &secret) })).await.code(), (400, "2fa_invalid"));
        let replaced = browser.post(&path, json!({ "token": next_code(&kit, &secret) })).await;
        assert_eq!((replaced.status, codes(&replaced).len()), (200, 10));
        assert_eq!(give(&second, &backup[1]).await.code(), (400, "2fa_invalid"), "the old ones stop");
        assert_eq!(give(&second, &codes(&replaced)[1]).await.status, 200);
    }

    async fn five_wrong_codes_end_the_challenge(kit: Kit) {
        let (secret, _) = set_up(&kit, &kit.signed_in(&kit.owner).await).await;
        let browser = challenged(&kit, &kit.owner).await;
        for _ in 0..5 {
            assert_eq!(give(&browser, &wrong(&kit, &secret)).await.code(), (400, "2fa_invalid"));
        }
        assert_eq!(give(&browser, &next_code(&kit, &secret)).await.code(), (400, "2fa_expired"));
        let late = challenged(&kit, &kit.owner).await;
        kit.service.clock().advance(TimeDelta::minutes(10));
        assert_eq!(give(&late, &next_code(&kit, &secret)).await.code(), (400, "2fa_expired"));
        assert_eq!(
            give(&kit.browser(), &next_code(&kit, &secret)).await.code(), (400, "2fa_expired"), "no challenge at all",
        );
    }

    async fn wrong_codes_lock_the_address_whatever_challenges_wait(kit: Kit) {
        let (secret, _) = set_up(&kit, &kit.signed_in(&kit.owner).await).await;
        let first = challenged(&kit, &kit.owner).await;
        for _ in 0..4 {
            let browser = challenged(&kit, &kit.owner).await;
            assert_eq!(give(&first, &wrong(&kit, &secret)).await.code(), (400, "2fa_expired"), "one at a time");
            for _ in 0..5 {
                assert_eq!(give(&browser, &wrong(&kit, &secret)).await.code(), (400, "2fa_invalid"));
            }
        }
        assert_eq!(kit.browser().log_in("olga@example.com", PASSWORD).await.status, 429);
    }

    async fn guessing_codes_in_an_open_browser_locks_the_account(kit: Kit) {
        let browser = kit.signed_in(&kit.owner).await;
        let (secret, _) = set_up(&kit, &browser).await;
        for number in 0..20 {
            let action = if number % 2 == 0 { "remove/" } else { "backup_codes/" };
            let reply = browser.post(&format!("{TWO_FACTOR}{action}"), json!({ "token": wrong(&kit, &secret) })).await;
            assert_eq!(reply.code(), (400, "2fa_invalid"));
        }
        for action in ["remove/", "backup_codes/"] {
            let reply =
                browser.post(&format!("{TWO_FACTOR}{action}"), json!({ "token": next_code(&kit, &secret) })).await;
            assert_eq!(reply.code(), (429, "throttled"), "{action}");
        }
    }

    /// Whoever confirms it gets backup codes, which prove who they are.
    async fn guessing_codes_of_a_setup_that_was_only_begun_locks_the_account(kit: Kit) {
        let browser = kit.signed_in(&kit.owner).await;
        let begun = browser.post(TWO_FACTOR, json!({})).await;
        let secret = begun.text("/secret").to_owned();
        let confirm = format!("{TWO_FACTOR}confirm/");
        for _ in 0..20 {
            let reply = browser.post(&confirm, json!({ "token": wrong(&kit, &secret) })).await;
            assert_eq!(reply.code(), (400, "2fa_invalid"));
        }
        let reply = browser.post(&confirm, json!({ "token": next_code(&kit, &secret) })).await;
        assert_eq!(reply.code(), (429, "throttled"));
    }

    async fn a_challenge_opens_nothing(kit: Kit) {
        set_up(&kit, &kit.signed_in(&kit.owner).await).await;
        let browser = challenged(&kit, &kit.owner).await;
        let secret = browser.cookies().split_once('=').unwrap().1.to_owned();
        for path in [
            "/api/users/@me/", "/api/users/@me/sessions/", "/api/personal_api_keys/", "/api/organizations/",
            "/api/organizations/@current/", &*kit.at(""), &*kit.at("members/"),
        ] {
            assert_eq!(browser.get(path).await.code(), (401, "not_authenticated"), "{path}");
            let as_session = format!("__Host-hedgerow_session={secret}");
            let request = kit.browser().request("GET", path).header("cookie", as_session);
            assert_eq!(kit.send(request.body(axum::body::Body::empty()).unwrap()).await.status, 401, "{path}");
            assert_eq!(kit.get(&secret, path).await.status, 401, "{path}");
        }
        assert_eq!(browser.post("/api/personal_api_keys/", json!({ "label": "X", "scopes": ["*"] })).await.status, 401);
        assert_eq!(browser.post(TWO_FACTOR, json!({})).await.status, 401);
        assert_eq!(browser.post("/api/users/@me/password/", json!({ "password": PASSWORD })).await.status, 401);
        // A session is no challenge, either.
        let member = kit.signed_in(&kit.member).await;
        let session = member.cookies().split_once('=').unwrap().1.to_owned();
        let request =
            kit.browser().request("POST", "/api/login/token/").header("cookie", format!("{CHALLENGE}{session}"));
        let reply = kit.send(testkit::kit::with_json(request, &json!({ "token": "000000" }))).await;
        assert_eq!(reply.code(), (400, "2fa_expired"));
    }

    async fn an_organization_that_asks_for_more_is_closed_to_a_password_alone(kit: Kit) {
        let second = kit.post(&kit.member.key, "/api/organizations/", json!({ "name": "Open" })).await;
        let open = format!("/api/organizations/{}/", second.text("/id"));
        let browser = kit.signed_in(&kit.member).await;
        assert_eq!(browser.get("/api/organizations/").await.body["count"], 2);
        browser.patch("/api/users/@me/", json!({ "current_organization": kit.organization })).await;
        assert_eq!(browser.get("/api/organizations/@current/members/").await.status, 200);
        assert_eq!(kit.patch(&kit.owner.key, &kit.at(""), json!({ "enforce_2fa": true })).await.status, 200);
        for rest in ["", "members/", "invites/", "domains/", "teams/", "activity/"] {
            let reply = browser.get(&kit.at(rest)).await;
            assert_eq!(reply.code(), (403, "two_factor_setup_required"), "{rest}");
        }
        let invite = browser.post(&kit.at("invites/"), json!({ "target_email": "ann@example.com" })).await;
        assert_eq!(invite.code(), (403, "two_factor_setup_required"));
        let current = browser.get("/api/organizations/@current/members/").await;
        assert_eq!(current.code(), (403, "two_factor_setup_required"));
        let list = browser.get("/api/organizations/").await;
        assert_eq!((&list.body["count"], list.text("/results/0/name")), (&json!(1), "Open"));
        assert_eq!(browser.get(&open).await.status, 200);
        let keys = "/api/personal_api_keys/";
        for scoped in [json!(null), json!([kit.organization]), json!([second.body["id"]])] {
            let mut new = json!({ "label": "CI", "scopes": ["*"] });
            if !scoped.is_null() {
                new["scoped_organizations"] = scoped;
            }
            assert_eq!(browser.post(keys, new).await.code(), (403, "two_factor_setup_required"));
        }
        assert_eq!(kit.get(&kit.member.key, &kit.at("")).await.status, 200, "keys keep working");

        let before = browser.copy();
        set_up(&kit, &browser).await;
        assert_ne!(browser.cookies(), before.cookies());
        assert_eq!(before.get("/api/users/@me/").await.status, 401);
        assert_eq!(browser.get(&kit.at("")).await.status, 200);
        assert_eq!(browser.get("/api/organizations/").await.body["count"], 2);
        assert_eq!(browser.post(keys, json!({ "label": "CI", "scopes": ["*"] })).await.status, 201);
    }

    async fn a_second_factor_goes_with_a_code_unless_it_is_asked_for(kit: Kit) {
        let browser = kit.signed_in(&kit.member).await;
        let (secret, backup) = set_up(&kit, &browser).await;
        let remove = format!("{TWO_FACTOR}remove/");
        kit.patch(&kit.owner.key, &kit.at(""), json!({ "enforce_2fa": true })).await;
        let refused = browser.post(&remove, json!({ "token": next_code(&kit, &secret) })).await;
        assert_eq!(refused.code(), (400, "second_factor_enforced"));
        kit.patch(&kit.owner.key, &kit.at(""), json!({ "enforce_2fa": false })).await;
        assert_eq!(browser.post(&remove, json!({ "token": wrong(&kit, &secret) })).await.code(), (400, "2fa_invalid"));
        assert_eq!(browser.get("/api/users/@me/").await.body["is_2fa_enabled"], true);
        assert_eq!(browser.post(&remove, json!({ "token": backup[3] })).await.status, 204);
        let me = browser.get("/api/users/@me/").await;
        assert_eq!((&me.body["is_2fa_enabled"], &me.body["backup_codes"]), (&json!(false), &json!(0)));
        assert_eq!(kit.browser().log_in("mia@example.com", PASSWORD).await.status, 200);
    }

    async fn a_repetition_does_not_show_secrets_again(kit: Kit) {
        let browser = kit.signed_in(&kit.owner).await;
        let once = async |path: &str, body: Value| {
            let request = browser.request("POST", path).header("idempotency-key", "once");
            browser.send(testkit::kit::with_json(request, &body)).await
        };
        let (first, again) = (once(TWO_FACTOR, json!({})).await, once(TWO_FACTOR, json!({})).await);
        assert_eq!((again.header("idempotency-replayed"), again.text("/secret")), ("true", ""));
        let path = kit.at("recovery_codes/");
        let token = json!({ "token": code(first.text("/secret"), kit.service.clock().now()) });
        let confirmed = browser.post(&format!("{TWO_FACTOR}confirm/"), token).await;
        assert_eq!(confirmed.status, 200);
        let (first, again) = (once(&path, json!({})).await, once(&path, json!({})).await);
        assert_eq!((first.status, codes(&first).is_empty()), (201, false));
        assert_eq!((again.status, codes(&again).len()), (201, 0));
    }

    async fn recovery_codes_are_made_by_an_owner_who_is_there(kit: Kit) {
        let path = kit.at("recovery_codes/");
        assert_eq!(kit.post(&kit.owner.key, &path, json!({})).await.code(), (403, "permission_denied"));
        let admin = kit.signed_in(&kit.admin).await;
        assert_eq!(admin.post(&path, json!({})).await.code(), (403, "permission_denied"));
        let outsider = kit.signed_in(&kit.outsider).await;
        assert_eq!(outsider.post(&path, json!({})).await.code(), (404, "not_found"));
        let owner = kit.signed_in(&kit.owner).await;
        let dry = owner.post(&format!("{path}?dry_run=true"), json!({})).await;
        assert_eq!(recover(&kit.browser(), "olga@example.com", &codes(&dry)[0]).await.status, 400);
        let made = recovery_codes(&kit, &owner).await;
        assert!(made.len() >= 5 && made.iter().all(|code| code.len() >= 24), "{made:?}");
        assert!(!kit.database.holds(&made[0]).await);
        let newer = recovery_codes(&kit, &owner).await;
        assert_eq!(recover(&kit.browser(), "olga@example.com", &made[0]).await.code(), (400, "invalid_credentials"));
        assert_eq!(recover(&kit.browser(), "olga@example.com", &newer[0]).await.status, 200);
    }

    async fn a_recovery_code_lets_its_owner_in_once_and_all_owners_know(kit: Kit) {
        let kit = kit.with_mail().await;
        kit.join("second@example.com", Level::Owner).await;
        kit.database.run("UPDATE app_user SET is_email_verified = (1 = 1)").await;
        kit.join("unproven@example.com", Level::Owner).await;
        let elsewhere = kit.post(&kit.owner.key, "/api/organizations/", json!({ "name": "Elsewhere" })).await;
        let elsewhere = format!("/api/organizations/{}/", elsewhere.text("/id"));
        let owner = kit.signed_in(&kit.owner).await;
        let made = recovery_codes(&kit, &owner).await;
        kit.emails().await;
        for (email, code) in [
            ("adam@example.com", &*made[0]), ("nobody@example.com", &made[0]),
            ("olga@example.com", "aaaa-aaaa-aaaa-aaaa-aaaa-aaaa"), ("olga@example.com", "nonsense"),
        ] {
            assert_eq!(
                recover(&kit.browser(), email, code).await.code(), (400, "invalid_credentials"), "{email} {code}",
            );
        }
        let browser = kit.browser();
        let typed = made[0].to_uppercase().replace('-', " ");
        let reply = recover(&browser, "Olga@Example.com", &typed).await;
        assert_eq!((reply.status, reply.text("/user/email")), (200, "olga@example.com"), "{reply:?}");
        assert_eq!(recover(&kit.browser(), "olga@example.com", &made[0]).await.code(), (400, "invalid_credentials"));
        let mut told: Vec<String> = kit.emails().await.into_iter().map(|(to, email)| {
            assert!(matches!(email, EmailMessage::RecoveryCodeUsed { .. }), "{email:?}");
            to
        }).collect();
        told.sort();
        assert_eq!(told, ["olga@example.com", "second@example.com"]);

        assert_eq!(browser.get(&kit.at("domains/")).await.status, 200);
        assert_eq!(browser.get(&elsewhere).await.code(), (404, "not_found"), "it reaches that organization only");
        assert_eq!(browser.get("/api/organizations/").await.body["count"], 1);
        assert_eq!(browser.post("/api/personal_api_keys/", json!({ "label": "X", "scopes": ["*"] })).await.status, 403);
        assert_eq!(browser.post("/api/users/@me/password/", json!({ "password": "taken over now" })).await.status, 403);
        assert_eq!(owner.get(&elsewhere).await.status, 200);
        let log = kit.get(&kit.owner.key, &kit.at("activity/")).await;
        assert!(log.body.to_string().contains("recovery_code_used"), "{log:?}");
    }

    async fn a_recovery_code_opens_an_account_that_is_locked(kit: Kit) {
        let made = recovery_codes(&kit, &kit.signed_in(&kit.owner).await).await;
        let browser = kit.browser();
        for _ in 0..20 {
            browser.log_in("olga@example.com", "incorrect horse").await;
        }
        assert_eq!(browser.log_in("olga@example.com", PASSWORD).await.status, 429);
        assert_eq!(recover(&browser, "olga@example.com", &made[0]).await.status, 200);
    }

    async fn a_recovery_code_of_somebody_who_is_no_owner_any_more_is_worth_nothing(kit: Kit) {
        let second = kit.join("second@example.com", Level::Owner).await;
        let browser = kit.signed_in(&second).await;
        let made = recovery_codes(&kit, &browser).await;
        let member = kit.at(&format!("members/{}/", second.user.uuid));
        assert_eq!(kit.patch(&kit.owner.key, &member, json!({ "level": 8 })).await.status, 200);
        assert_eq!(recover(&kit.browser(), "second@example.com", &made[0]).await.code(), (400, "invalid_credentials"));
        assert_eq!(kit.delete(&kit.owner.key, &member).await.status, 204);
        assert_eq!(recover(&kit.browser(), "second@example.com", &made[0]).await.status, 400);
        // Whoever comes back makes new ones: who knows where the old ones lie.
        let added = kit.service.add_member(&Actor::system(), kit.organization, &second.user, Level::Owner).await;
        added.unwrap();
        assert_eq!(recover(&kit.browser(), "second@example.com", &made[0]).await.status, 400);
    }
}
