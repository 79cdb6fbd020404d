use axum::body::Body;
use axum::http::Request;
use chrono::TimeDelta;
use serde_json::{Value, json};
use service::Level;
use service::mail::EmailMessage;
use testkit::browser::PASSWORD;
use testkit::kit::{bearer, with_json};
use testkit::{Browser, Kit, Reply, on_both};

use crate::enforce_saml;

const SESSION: &str = "__Host-hedgerow_session=";

async fn is_signed_in(browser: &Browser<'_>) -> bool {
    match browser.get("/api/users/@me/").await.code() {
        (200, _) => true,
        (401, "not_authenticated") => false,
        other => panic!("{other:?}"),
    }
}

/// What an answer tells, without what differs in every answer.
fn told(reply: &Reply) -> (u16, Value, bool) {
    let mut body = reply.body.clone();
    body["request_id"] = json!(null);
    (reply.status, body, reply.headers.contains_key("set-cookie"))
}

/// Asks for a reset and gives the address that the mail leads to.
async fn reset(kit: &Kit, email: &str) -> String {
    let asked = kit.browser().post("/api/reset/", json!({ "email": email })).await;
    assert_eq!((asked.status, asked.body), (204, Value::Null));
    let emails = kit.emails().await;
    let Some((_, EmailMessage::PasswordReset { link, .. })) = emails.last() else {
        panic!("{emails:?}")
    };
    format!("/api/reset/{}/", link.trim_end_matches('/').rsplit('/').next().unwrap())
}

on_both! {
    async fn a_password_opens_a_session(kit: Kit) {
        kit.give_password(&kit.owner).await;
        let browser = kit.browser();
        let reply = browser.log_in("  OLGA@example.com ", PASSWORD).await;
        assert_eq!((reply.status, &reply.body["success"]), (200, &json!(true)));
        assert_eq!(reply.text("/user/email"), "olga@example.com");
        assert!(!reply.body.to_string().contains("hgs_"), "the secret is in the cookie alone");
        let cookie = reply.header("set-cookie");
        let (pair, attributes) = cookie.split_once("; ").unwrap();
        assert!(pair.starts_with(SESSION) && pair.len() > SESSION.len() + 40, "{pair}");
        assert_eq!(attributes, "Path=/; Secure; HttpOnly; SameSite=Lax");
        assert_eq!(browser.get(&kit.at("members/")).await.status, 200);
        assert!(!kit.database.holds(pair.split('=').nth(1).unwrap()).await, "only its hash is kept");
    }

    async fn each_sign_in_has_a_session_of_its_own(kit: Kit) {
        let browser = kit.signed_in(&kit.owner).await;
        let (first, before) = (browser.copy(), browser.cookies());
        browser.log_in("olga@example.com", PASSWORD).await;
        assert_ne!(browser.cookies(), before);
        assert!(is_signed_in(&first).await && is_signed_in(&browser).await);
        // What a stranger brings along is never taken for the session.
        let fixed = kit.browser();
        let login = json!({ "email": "olga@example.com", "password": PASSWORD });
        let brought = format!("{SESSION}hgs_chosen_by_somebody_else");
        let reply =
            fixed.send(with_json(fixed.request("POST", "/api/login/").header("cookie", &brought), &login)).await;
        assert!(reply.status == 200 && !reply.header("set-cookie").starts_with(&brought));
    }

    async fn an_unknown_address_and_a_wrong_password_look_alike(kit: Kit) {
        kit.give_password(&kit.owner).await;
        let wrong = kit.browser().log_in("olga@example.com", "incorrect horse").await;
        assert_eq!(wrong.code(), (400, "invalid_credentials"));
        assert_eq!(wrong.body["attr"], json!(null));
        let long = format!("olga@{}example.com", "x.".repeat(50));
        for (email, password) in [
            ("nobody@example.com", "incorrect horse"), ("nobody@nowhere.example", PASSWORD),
            ("adam@example.com", "has none"), ("not an address", PASSWORD), (long.as_str(), PASSWORD),
            ("olga@example.com", " correct horse battery"), ("olga@example.com", "CORRECT HORSE BATTERY"),
        ] {
            let reply = kit.browser().log_in(email, password).await;
            assert_eq!(told(&reply), told(&wrong), "{email} {password}");
        }
        let missing = kit.browser().post("/api/login/", json!({ "email": "olga@example.com" })).await;
        assert_eq!((missing.code(), missing.text("/attr")), ((400, "required"), "password"));
    }

    async fn twenty_failures_lock_an_address_whether_it_has_an_account_or_not(kit: Kit) {
        kit.give_password(&kit.owner).await;
        let other = kit.join("second@example.com", Level::Owner).await;
        kit.give_password(&other).await;
        let there = kit.browser();
        for email in ["olga@example.com", "nobody@example.com"] {
            for attempt in 0..20 {
                let email = if attempt % 2 == 0 { email.to_owned() } else { email.to_uppercase() };
                assert_eq!(there.log_in(&email, "incorrect horse").await.code(), (400, "invalid_credentials"));
            }
            let locked = there.log_in(email, PASSWORD).await;
            assert_eq!(locked.code(), (429, "throttled"), "{email}");
            assert_eq!(locked.header("retry-after"), "600");
        }
        assert_eq!(there.log_in("second@example.com", PASSWORD).await.status, 200, "others are not locked");
        assert_eq!(kit.browser().log_in("olga@example.com", PASSWORD).await.status, 200, "nor is she elsewhere");
        kit.service.clock().advance(TimeDelta::minutes(10) - TimeDelta::seconds(1));
        assert_eq!(there.log_in("olga@example.com", PASSWORD).await.status, 429);
        kit.service.clock().advance(TimeDelta::seconds(1));
        assert_eq!(there.log_in("nobody@example.com", PASSWORD).await.status, 400);
        assert_eq!(there.log_in("olga@example.com", PASSWORD).await.status, 200);
        let elsewhere = kit.browser();
        for _ in 0..19 {
            elsewhere.log_in("olga@example.com", "incorrect horse").await;
        }
        assert_eq!(elsewhere.log_in("olga@example.com", PASSWORD).await.status, 200, "a success forgets failures");
        for _ in 0..19 {
            elsewhere.log_in("olga@example.com", "incorrect horse").await;
        }
        kit.service.clock().advance(TimeDelta::hours(2));
        elsewhere.log_in("olga@example.com", "incorrect horse").await;
        assert_eq!(elsewhere.log_in("olga@example.com", PASSWORD).await.status, 200, "old failures are forgotten");
        assert!(!kit.database.holds("nobody@example.com").await, "what people tried is not listed");
    }

    async fn one_address_of_the_network_has_sixty_attempts_a_minute(kit: Kit) {
        kit.give_password(&kit.owner).await;
        let browser = kit.browser();
        let log_in = async |peer: &str| {
            let body = json!({ "email": "olga@example.com", "password": PASSWORD });
            let request = Request::builder().method("POST").uri("/api/login/").header("x-forwarded-for", "203.0.113.9");
            kit.send(with_json(request.extension(api::Peer(peer.parse().unwrap())), &body)).await
        };
        for host in 0..60 {
            assert_eq!(log_in(&format!("2001:db8:1:2::{host}")).await.status, 200, "{host}");
        }
        // One more is forgiven every second.
        let mut throttled = log_in("2001:db8:1:2:ffff::1").await;
        while throttled.status == 200 {
            throttled = log_in("2001:db8:1:2:ffff::1").await;
        }
        assert_eq!((throttled.code(), throttled.text("/type")), ((429, "throttled"), "throttled_error"));
        assert!((1..=60).contains(&throttled.header("retry-after").parse::<u32>().unwrap()));
        assert_eq!(log_in("2001:db8:1:300::1").await.status, 200, "another network");
        assert_eq!(browser.log_in("olga@example.com", PASSWORD).await.status, 200, "the person is not locked out");
    }

    async fn another_site_can_do_nothing_with_a_session(kit: Kit) {
        let browser = kit.signed_in(&kit.owner).await;
        let login = json!({ "email": "olga@example.com", "password": PASSWORD });
        let posts = [
            ("/api/login/", login), ("/api/logout/", json!({})), ("/api/users/@me/two_factor/", json!({})),
            ("/api/users/@me/password/", json!({ "password": "taken over now" })),
            (&*kit.at("invites/"), json!({ "target_email": "evil@example.com" })),
        ];
        for (path, body) in posts {
            for (name, value) in [
                ("sec-fetch-site", "cross-site"), ("sec-fetch-site", "same-site"), ("origin", "https://evil.example"),
                ("origin", "null"),
            ] {
                let reply = browser.send(with_json(browser.request("POST", path).header(name, value), &body)).await;
                assert_eq!(reply.code(), (403, "permission_denied"), "{path} {name} {value}");
                assert!(!reply.headers.contains_key("set-cookie"));
            }
        }
        let delete = browser.request("DELETE", "/api/users/@me/sessions/").header("sec-fetch-site", "cross-site");
        assert_eq!(browser.send(delete.body(Body::empty()).unwrap()).await.status, 403);
        assert!(is_signed_in(&browser).await);
        let own = browser.request("POST", "/api/logout/").header("origin", "https://hedgerow.test");
        assert_eq!(browser.send(own.body(Body::empty()).unwrap()).await.status, 204);
    }

    /// K8: whatever else a request brings, a cookie counts only for our own pages.
    async fn another_site_gets_no_further_with_a_header_beside_the_cookie(kit: Kit) {
        let browser = kit.signed_in(&kit.owner).await;
        for authorization in ["Basic dXNlcjpwYXNz", "nonsense", "Bearer ", "Bearer hgr_wrong", "bearer x"] {
            for path in ["/api/logout/", "/api/login/", "/api/users/@me/password/"] {
                let request = browser.request("POST", path).header("sec-fetch-site", "cross-site");
                let request = request.header("authorization", authorization);
                let reply = browser.send(with_json(request, &json!({ "password": "taken over now" }))).await;
                assert_eq!(reply.code(), (403, "permission_denied"), "{path} {authorization}");
            }
        }
        assert!(is_signed_in(&browser).await);
        let basic = kit.browser();
        let request = basic.request("POST", "/api/login/").header("sec-fetch-site", "cross-site");
        let request = request.header("authorization", "Basic dXNlcjpwYXNz");
        let login = json!({ "email": "olga@example.com", "password": PASSWORD });
        assert_eq!(basic.send(with_json(request, &login)).await.code(), (403, "permission_denied"), "nobody is signed in from afar");
        let by_key = bearer("POST", &kit.at("teams/"), &kit.owner.key).header("sec-fetch-site", "cross-site");
        assert_eq!(kit.send(with_json(by_key, &json!({ "name": "Web" }))).await.status, 201, "a key is no cookie");
    }

    /// K8, from the published table of routes: none was forgotten.
    async fn another_site_can_use_no_route_that_writes(kit: Kit) {
        let browser = kit.signed_in(&kit.owner).await;
        let spec = serde_json::to_value(api::spec()).unwrap();
        let mut count = 0;
        for (path, operations) in spec["paths"].as_object().unwrap() {
            for method in ["post", "put", "patch", "delete"] {
                if operations.get(method).is_none() {
                    continue;
                }
                let path = path.replace(['{', '}'], "");
                let request = browser.request(&method.to_uppercase(), &path).header("sec-fetch-site", "cross-site");
                let reply = browser.send(with_json(request, &json!({}))).await;
                assert_eq!(reply.code(), (403, "permission_denied"), "{method} {path}");
                count += 1;
            }
        }
        assert!(count > 50, "{count}");
        assert!(is_signed_in(&browser).await);
    }

    async fn a_session_ends_when_nobody_is_there_and_after_two_weeks(kit: Kit) {
        let browser = kit.signed_in(&kit.owner).await;
        kit.service.clock().advance(TimeDelta::days(3) - TimeDelta::seconds(1));
        assert!(is_signed_in(&browser).await);
        kit.service.clock().advance(TimeDelta::days(3));
        assert!(!is_signed_in(&browser).await, "three days are too long");
        assert_eq!(browser.get(&kit.at("")).await.code(), (401, "not_authenticated"));

        browser.log_in("olga@example.com", PASSWORD).await;
        for day in 1..14 {
            kit.service.clock().advance(TimeDelta::days(1));
            assert!(is_signed_in(&browser).await, "{day}");
        }
        kit.service.clock().advance(TimeDelta::days(1));
        assert!(!is_signed_in(&browser).await, "two weeks are the most");
        assert_eq!(browser.get(&kit.at("")).await.status, 401);
    }

    async fn signing_out_ends_the_session_and_tells_the_browser(kit: Kit) {
        let browser = kit.signed_in(&kit.owner).await;
        let thief = browser.copy();
        let dry = browser.post("/api/logout/?dry_run=true", json!({})).await;
        assert_eq!((dry.status, dry.header("x-dry-run"), is_signed_in(&browser).await), (204, "true", true));
        let reply = browser.post("/api/logout/", json!({})).await;
        assert_eq!(reply.status, 204);
        assert!(reply.header("set-cookie").starts_with(&format!("{SESSION};")) && browser.cookies().is_empty());
        assert!(!is_signed_in(&thief).await);
        assert_eq!(thief.post("/api/logout/", json!({})).await.status, 204, "once more is no mistake");
    }

    async fn removal_from_an_organization_ends_all_sessions(kit: Kit) {
        let (one, admin) = (kit.signed_in(&kit.member).await, kit.signed_in(&kit.admin).await);
        let two = kit.browser();
        two.log_in("mia@example.com", PASSWORD).await;
        let member = kit.at(&format!("members/{}/", kit.member.user.uuid));
        assert_eq!(kit.delete(&kit.owner.key, &member).await.status, 204);
        assert!(!is_signed_in(&one).await && !is_signed_in(&two).await);
        assert!(is_signed_in(&admin).await);
    }

    async fn a_reset_link_sets_a_password_once_and_ends_sessions(kit: Kit) {
        let kit = kit.with_mail().await;
        let browser = kit.signed_in(&kit.owner).await;
        let link = reset(&kit, "Olga@Example.com").await;
        assert!(!kit.database.holds(link.split('/').nth(3).unwrap()).await, "only the hash of the link is kept");
        let short = kit.browser().post(&link, json!({ "password": "short" })).await;
        assert_eq!((short.code(), short.text("/attr")), ((400, "password_too_short"), "password"));
        assert!(is_signed_in(&browser).await);
        let dry = kit.browser().post(&format!("{link}?dry_run=true"), json!({ "password": "another horse battery" })).await;
        assert_eq!((dry.status, dry.header("x-dry-run")), (204, "true"));
        assert!(is_signed_in(&browser).await);

        let done = kit.browser().post(&link, json!({ "password": "another horse battery" })).await;
        assert_eq!((done.status, done.headers.contains_key("set-cookie")), (204, false));
        assert!(!is_signed_in(&browser).await);
        assert_eq!(kit.browser().log_in("olga@example.com", PASSWORD).await.status, 400);
        assert_eq!(browser.log_in("olga@example.com", "another horse battery").await.status, 200);
        assert_eq!(browser.get("/api/users/@me/").await.body["is_email_verified"], true, "the mail came through");
        let again = kit.browser().post(&link, json!({ "password": "a third horse battery" })).await;
        assert_eq!(again.code(), (400, "expired"));
        let emails = kit.emails().await;
        assert!(matches!(emails.as_slice(), [(_, EmailMessage::PasswordChanged { .. })]), "{emails:?}");
        // The address was not proven before, so somebody else may have made the account, and its keys.
        assert_eq!(kit.get(&kit.owner.key, &kit.at("")).await.status, 401);
    }

    async fn a_reset_link_lasts_an_hour_and_the_newest_counts(kit: Kit) {
        let kit = kit.with_mail().await;
        let old = reset(&kit, "olga@example.com").await;
        kit.browser().post("/api/reset/", json!({ "email": "olga@example.com" })).await;
        assert!(kit.emails().await.is_empty(), "one is on its way already");
        kit.service.clock().advance(TimeDelta::minutes(2));
        let new = reset(&kit, "olga@example.com").await;
        let body = json!({ "password": "another horse battery" });
        assert_eq!(kit.browser().post(&old, body.clone()).await.code(), (400, "expired"));
        kit.service.clock().advance(TimeDelta::hours(1));
        assert_eq!(kit.browser().post(&new, body.clone()).await.code(), (400, "expired"));
        assert_eq!(kit.browser().post("/api/reset/hgw_wrong/", body).await.code(), (400, "expired"));
    }

    async fn of_many_who_use_one_reset_link_at_once_one_does(kit: Kit) {
        let kit = kit.with_mail().await;
        let link = reset(&kit, "olga@example.com").await;
        let browsers: Vec<Browser> = (0..10).map(|_| kit.browser()).collect();
        let sent = browsers.iter().enumerate()
            .map(|(number, browser)| browser.post(&link, json!({ "password": format!("battery number {number}") })));
        let replies = futures_util::future::join_all(sent).await;
        let winners: Vec<usize> = (0..10).filter(|number| replies[*number].status == 204).collect();
        assert_eq!(winners.len(), 1, "{replies:?}");
        let password = format!("battery number {}", winners[0]);
        assert_eq!(kit.browser().log_in("olga@example.com", &password).await.status, 200);
    }

    async fn asking_for_a_reset_tells_nothing(kit: Kit) {
        let without_mail = kit.browser().post("/api/reset/", json!({ "email": "olga@example.com" })).await;
        assert_eq!(without_mail.code(), (400, "mail_not_configured"));
        let nobody = kit.browser().post("/api/reset/", json!({ "email": "nobody@example.com" })).await;
        assert_eq!(told(&nobody), told(&without_mail));

        let kit = kit.with_mail().await;
        let known = kit.browser().post("/api/reset/", json!({ "email": "olga@example.com" })).await;
        let unknown = kit.browser().post("/api/reset/", json!({ "email": "nobody@example.com" })).await;
        assert_eq!((known.status, told(&known)), (204, told(&unknown)));
        let to: Vec<String> = kit.emails().await.into_iter().map(|(to, _)| to).collect();
        assert_eq!(to, ["olga@example.com"]);
        let dry = kit.browser().post("/api/reset/?dry_run=true", json!({ "email": "olga@example.com" })).await;
        assert_eq!((dry.status, dry.header("x-dry-run"), kit.emails().await.len()), (204, "true", 0));
    }

    async fn a_reset_lifts_the_lock_of_whoever_has_the_mail(kit: Kit) {
        let kit = kit.with_mail().await;
        let there = kit.browser();
        for _ in 0..20 {
            there.log_in("olga@example.com", "incorrect horse").await;
        }
        assert_eq!(there.log_in("olga@example.com", PASSWORD).await.status, 429);
        let link = reset(&kit, "olga@example.com").await;
        assert_eq!(there.post(&link, json!({ "password": PASSWORD })).await.status, 204);
        assert_eq!(there.log_in("olga@example.com", PASSWORD).await.status, 200);
    }

    async fn enforced_single_sign_on_refuses_passwords_and_leaves_keys(kit: Kit) {
        let kit = kit.with_mail().await;
        let ann = kit.join("ann@acme.example", Level::Member).await;
        kit.give_password(&ann).await;
        let link = reset(&kit, "ann@acme.example").await;
        assert_eq!(kit.browser().log_in("ann@acme.example", PASSWORD).await.status, 200);
        enforce_saml(&kit).await;
        for (email, password) in [
            ("ANN@acme.example", PASSWORD), ("ann@acme.example", "wrong"), ("nobody@acme.example", "wrong"),
        ] {
            assert_eq!(kit.browser().log_in(email, password).await.code(), (400, "sso_enforced"), "{email}");
        }
        for email in ["ann@acme.example", "nobody@acme.example"] {
            let reply = kit.browser().post("/api/reset/", json!({ "email": email })).await;
            assert_eq!(reply.code(), (400, "sso_enforced"), "{email}");
        }
        assert_eq!(
            kit.browser().post(&link, json!({ "password": "another horse battery" })).await.code(), (400, "sso_enforced"),
        );
        assert_eq!(kit.emails().await, []);
        assert_eq!(kit.get(&ann.key, &kit.at("")).await.status, 200);
        assert_eq!(kit.browser().log_in("olga@example.com", PASSWORD).await.status, 200, "another domain");
    }

    async fn the_domain_alone_says_how_to_sign_in(kit: Kit) {
        let precheck = async |email: &str| {
            kit.browser().post("/api/login/precheck", json!({ "email": email })).await.body
        };
        let open = json!({ "sso_enforcement": null, "saml_available": false, "oidc_available": false });
        assert_eq!(precheck("olga@example.com").await, open);
        let enforced = enforce_saml(&kit).await;
        let saml = json!({ "sso_enforcement": "saml", "saml_available": true, "oidc_available": false });
        for email in ["nobody@acme.example", "ANN@ACME.EXAMPLE"] {
            assert_eq!(precheck(email).await, saml);
        }
        for email in ["olga@example.com", "nobody@example.com", "nonsense", "ann@below.acme.example"] {
            assert_eq!(precheck(email).await, open, "{email}");
        }
        let at = kit.at(&format!("domains/{}/", enforced.text("/id")));
        assert_eq!(kit.patch(&kit.owner.key, &at, json!({ "sso_enforcement": "" })).await.status, 200);
        assert_eq!(precheck("ann@acme.example").await["sso_enforcement"], json!(null));
    }

    async fn a_dry_run_of_a_sign_in_opens_nothing_and_still_counts_failures(kit: Kit) {
        kit.give_password(&kit.owner).await;
        let browser = kit.browser();
        let login = |password: &str| json!({ "email": "olga@example.com", "password": password });
        let dry = browser.post("/api/login/?dry_run=true", login(PASSWORD)).await;
        assert_eq!((dry.status, dry.header("x-dry-run"), browser.cookies()), (200, "true", String::new()));
        for _ in 0..20 {
            browser.post("/api/login/?dry_run=true", login("incorrect horse")).await;
        }
        assert_eq!(browser.post("/api/login/?dry_run=true", login(PASSWORD)).await.status, 429);
    }
}
