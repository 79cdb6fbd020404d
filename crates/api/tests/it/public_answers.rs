//! What those who are not signed in are told: nothing about customers, members, or what is not enabled.

use serde_json::{Value, json};
use service::mail::EmailMessage;
use testkit::{Kit, Reply, on_both};

use crate::{domain, prove, saml};

async fn precheck(kit: &Kit, email: &str) -> Reply {
    kit.browser()
        .post("/api/login/precheck/", json!({ "email": email }))
        .await
}

/// Everything an answer says, in one text.
fn all(reply: &Reply) -> String {
    format!("{:?} {}", reply.headers, reply.body)
}

on_both! {
    async fn discovery_tells_by_the_domain_alone_and_names_nobody(kit: Kit) {
        let nothing = json!({ "sso_enforcement": null, "saml_available": false, "oidc_available": false });
        // Settings of a domain that is not proven have no effect, and do not show.
        let mut settings = saml();
        settings["domain"] = json!("example.com");
        let made = domain(&kit, settings).await;
        for email in ["olga@example.com", "nobody@example.com", "nobody@nowhere.example", "not an address"] {
            let reply = precheck(&kit, email).await;
            assert_eq!((reply.status, &reply.body), (200, &nothing), "{email}");
        }
        assert!(prove(&kit, &made).await.is_verified());
        let (known, unknown) = (precheck(&kit, "olga@example.com").await, precheck(&kit, "nobody@example.com").await);
        assert_eq!(known.body, json!({ "sso_enforcement": null, "saml_available": true, "oidc_available": false }));
        assert_eq!(known.body, unknown.body, "members and strangers of one domain are told the same");
        for reply in [&known, &unknown] {
            for name in ["Acme", &kit.organization.to_string(), made.text("/id"), "olga"] {
                assert!(!all(reply).contains(name), "{name}: {reply:?}");
            }
        }
        // Taken away, it is as if it had never been there.
        let path = kit.at(&format!("domains/{}/", made.text("/id")));
        assert_eq!(kit.patch(&kit.owner.key, &path, json!({ "saml_x509_cert": "" })).await.status, 200);
        assert_eq!(precheck(&kit, "olga@example.com").await.body, nothing);
    }

    async fn without_mail_everybody_is_told_the_same(kit: Kit) {
        for email in ["olga@example.com", "nobody@example.com"] {
            let reply = kit.browser().post("/api/reset/", json!({ "email": email })).await;
            assert_eq!(reply.code(), (400, "mail_not_configured"), "{email}");
        }
        let kept: Vec<i64> = kit.database.column("SELECT count(*) FROM password_reset_request").await;
        assert_eq!(kept, [0]);
    }

    async fn a_scanner_tells_a_secret_from_what_is_public(kit: Kit) {
        let kit = kit.with_mail().await;
        let browser = kit.signed_in(&kit.owner).await;
        let session = browser.cookies().split_once('=').unwrap().1.to_owned();
        let invite = kit.post(&kit.owner.key, &kit.at("invites/"), json!({ "target_email": "a@example.net" })).await;
        kit.browser().post("/api/reset/", json!({ "email": "olga@example.com" })).await;
        let token = |link: &str| link.trim_end_matches('/').rsplit('/').next().unwrap().to_owned();
        let mut mailed = Vec::new();
        for (_, email) in kit.emails().await {
            match email {
                EmailMessage::Invite { link, .. } | EmailMessage::PasswordReset { link, .. } => mailed.push(token(&link)),
                other => panic!("{other:?}"),
            }
        }
        mailed.sort();
        let team = kit.get(&kit.owner.key, &kit.at("")).await;
        let public = team.text("/teams/0/api_token");
        let secrets = [&kit.owner.key, &session, &token(invite.text("/invite_link")), &mailed[0], &mailed[1]];
        let prefixes = secrets.map(|secret| &secret[..4]);
        assert_eq!(prefixes, ["hgr_", "hgs_", "hgi_", "hgi_", "hgw_"]);
        assert_eq!(&public[..4], "hgp_", "the one that may stand in a web page");
    }

    async fn those_who_are_not_signed_in_see_no_customer_anywhere(kit: Kit) {
        prove(&kit, &domain(&kit, json!({ "domain": "example.com" })).await).await;
        let browser = kit.browser();
        let answers = [
            browser.get("/api/organizations/").await, browser.get("/api/users/@me/").await, browser.get(&kit.at("")).await,
            browser.get("/api/signup/hgi_unknown/").await, browser.log_in("olga@example.com", "incorrect horse").await,
            browser.post("/api/login/recovery/", json!({ "email": "olga@example.com", "code": "x" })).await,
            browser.get("/healthz").await,
        ];
        for reply in answers {
            assert!(!all(&reply).contains("Acme") && !all(&reply).contains("Elsewhere"), "{reply:?}");
        }
        let (ours, none) = (browser.get(&kit.at("")).await, browser.get("/api/organizations/01a1dd53-efb7-7ca7-9d85-3211db872bca/").await);
        let said = |reply: &Reply| -> (u16, Value) { (reply.status, reply.body["detail"].clone()) };
        assert_eq!(said(&ours), said(&none));
    }
}
