//! Ways to somebody else's rights that an independent review found: through an identity provider, an invite, a code or a key.

use serde_json::json;
use service::access::Request;
use service::{DomainId, Error, Level};
use testkit::browser::PASSWORD;
use testkit::kit::{everything, with_json};
use testkit::{Kit, Reply, on_both};

use crate::addresses::verified_identity;
use crate::second_factor::set_up;
use crate::{domain, prove, saml};

/// A domain with a provider that says whatever an administrator wants it to.
pub(crate) async fn provider(kit: &Kit) -> DomainId {
    let mut settings = saml();
    settings["domain"] = json!("acme.example");
    settings["jit_provisioning_enabled"] = json!(true);
    let made = domain(kit, settings).await;
    prove(kit, &made).await;
    made.text("/id").parse().unwrap()
}

/// What the browser of somebody with this session gets.
pub(crate) async fn with_session(kit: &Kit, session: &str, method: &str, path: &str, body: serde_json::Value) -> Reply {
    let request = axum::http::Request::builder()
        .method(method)
        .uri(path)
        .header("cookie", format!("__Host-hedgerow_session={session}"))
        .header("origin", "http://hedgerow.test")
        .header("host", "hedgerow.test");
    kit.send(with_json(request, &body)).await
}

pub(crate) fn link(invite: &Reply) -> String {
    let link = invite.text("/invite_link").trim_end_matches('/');
    format!("/api/signup/{}/", link.rsplit_once('/').unwrap().1)
}

on_both! {
    /// Whoever runs the provider could sign in as anybody, choose a password, and come back as an operator.
    async fn an_identity_provider_sets_no_first_password(kit: Kit) {
        let id = provider(&kit).await;
        let (user, session) = kit.service.enter(&verified_identity(id, "ops@acme.example"), &Request::default()).await.unwrap();
        assert_eq!(with_session(&kit, &session, "GET", "/api/users/@me/", json!({})).await.text("/email"), user.email);
        let new = json!({ "password": "several quite random words" });
        let refused = with_session(&kit, &session, "POST", "/api/users/@me/password/", new).await;
        assert_eq!(refused.code(), (403, "permission_denied"), "{refused:?}");
        assert!(refused.text("/detail").contains("reset"), "{refused:?}");
        assert_eq!(kit.browser().log_in(&user.email, "several quite random words").await.status, 400);
    }

    /// Administrators choose the provider; owners invite owners.
    async fn an_identity_provider_makes_nobody_an_owner(kit: Kit) {
        let id = provider(&kit).await;
        let offered = json!({ "target_email": "cfo@acme.example", "level": 15 });
        assert_eq!(kit.post(&kit.owner.key, &kit.at("invites/"), offered).await.status, 201);
        let (_, session) = kit.service.enter(&verified_identity(id, "cfo@acme.example"), &Request::default()).await.unwrap();
        let me = with_session(&kit, &session, "GET", &kit.at(""), json!({})).await;
        assert_eq!((me.status, &me.body["membership_level"]), (200, &json!(8)), "{me:?}");
    }

    /// Somebody else made the account, and changes its password while its person proves that the address is theirs.
    async fn a_change_of_the_password_does_not_outlive_what_allowed_it(kit: Kit) {
        let browser = kit.signed_in(&kit.member).await;
        let before = kit.service.hashes_computed();
        let same = json!({ "current_password": PASSWORD, "password": PASSWORD });
        let change = browser.post("/api/users/@me/password/", same);
        let proof = async {
            while kit.service.hashes_computed() == before {
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
            kit.database.run("DELETE FROM session").await;
            kit.database.run("UPDATE app_user SET password_hash = NULL WHERE email = 'mia@example.com'").await;
        };
        let (changed, ()) = tokio::join!(change, proof);
        assert_eq!(changed.status, 401, "{changed:?}");
        let opened = kit.browser().log_in("mia@example.com", PASSWORD).await;
        assert_eq!(opened.status, 400, "{opened:?}");
    }

    /// Somebody else made the account. Requests that were checked just before its person came, and are carried out just after, open nothing.
    async fn what_was_checked_before_the_proof_opens_nothing_after_it(kit: Kit) {
        let browser = kit.signed_in(&kit.owner).await;
        let session = browser.cookies().split_once('=').unwrap().1.to_owned();
        let person = kit.service.signed_in(&session, Request::default()).await.unwrap();
        kit.database.run("DELETE FROM session").await;
        let begun = kit.service.begin_second_factor(&person).await;
        assert!(matches!(begun, Err(Error::BadCredential)), "{begun:?}");
        let confirmed = kit.service.confirm_second_factor(&person, "123456").await;
        assert!(matches!(confirmed, Err(Error::BadCredential)), "{confirmed:?}");
        let key = kit.service.create_key(&person, &everything()).await;
        assert!(matches!(key, Err(Error::BadCredential)), "{key:?}");
    }

    /// Somebody else made the account and kept codes for it. Once its person has come, they are worth nothing.
    async fn recovery_codes_of_a_squatter_end_with_the_proof(kit: Kit) {
        let kit = kit.with_mail().await;
        let squatted = kit.join("real@example.com", Level::Owner).await;
        let browser = kit.signed_in(&squatted).await;
        set_up(&kit, &browser).await;
        let codes = browser.post(&kit.at("recovery_codes/"), json!({})).await;
        assert_eq!(codes.status, 201, "{codes:?}");
        kit.browser().post("/api/reset/", json!({ "email": "real@example.com" })).await;
        let emails = kit.emails().await;
        let (_, service::mail::EmailMessage::PasswordReset { link, .. }) = &emails[0] else { panic!("{emails:?}") };
        let token = link.trim_end_matches('/').rsplit_once('/').unwrap().1;
        let new = json!({ "token": token, "password": "several quite random words" });
        let reset = kit.browser().post(&format!("/api/reset/{token}/"), new).await;
        assert!(reset.status < 300, "{reset:?}");
        let code = json!({ "email": "real@example.com", "code": codes.body["codes"][0] });
        let refused = kit.browser().post("/api/login/recovery/", code).await;
        assert_eq!(refused.status, 400, "{refused:?}");
        assert_eq!(browser.get("/api/users/@me/").await.status, 401, "the session");
        assert_eq!(kit.get(&squatted.key, &kit.at("")).await.status, 401, "the key");
        let entered = kit.browser().log_in("real@example.com", "several quite random words").await;
        assert_eq!(entered.status, 200, "no second factor is asked for: {entered:?}");
    }

    async fn a_dry_run_does_not_tell_the_inviter_who_has_an_account(kit: Kit) {
        let mut answers = Vec::new();
        for email in ["nobody@example.net", "olga@example.net"] {
            if email.starts_with("olga") {
                kit.proven(email).await;
            }
            let invite = kit.post(&kit.member.key, &kit.at("invites/"), json!({ "target_email": email, "send_email": false })).await;
            let new = json!({ "first_name": "Ann", "password": "several quite random words" });
            let asked = kit.browser().post(&format!("{}?dry_run=true", link(&invite)), new).await;
            answers.push((asked.status, asked.body.as_object().map(|body| body.keys().cloned().collect::<Vec<_>>())));
        }
        assert_eq!(answers[0], answers[1]);
        assert_eq!(answers[0].0, 201);
        let accounts = kit.database.column::<String>("SELECT email FROM app_user WHERE email LIKE '%invalid'").await;
        assert!(accounts.is_empty(), "{accounts:?}");
    }

    /// The link of an invite is known to whoever sent it last; when they go, it goes.
    async fn a_removed_member_has_no_link_to_come_back_with(kit: Kit) {
        let new = json!({ "target_email": "puppet@example.net", "send_email": false });
        let invite = kit.post(&kit.owner.key, &kit.at("invites/"), new).await;
        let again = kit.at(&format!("invites/{}/resend/", invite.text("/id")));
        let resent = kit.post(&kit.member.key, &again, json!({})).await;
        assert_eq!(resent.status, 200, "{resent:?}");
        let leave = kit.at(&format!("members/{}/", kit.member.user.uuid));
        assert_eq!(kit.delete(&kit.owner.key, &leave).await.status, 204);
        let new = json!({ "first_name": "Puppet", "password": "several quite random words" });
        let refused = kit.browser().post(&link(&resent), new).await;
        assert_eq!(refused.code(), (400, "invalid_input"), "{refused:?}");
    }

    async fn a_demoted_member_has_no_link_above_their_role(kit: Kit) {
        let new = |email: &str, level: i16| json!({ "target_email": email, "level": level, "send_email": false });
        let above = kit.post(&kit.admin.key, &kit.at("invites/"), new("puppet@example.net", 8)).await;
        let within = kit.post(&kit.admin.key, &kit.at("invites/"), new("friend@example.net", 1)).await;
        assert_eq!((above.status, within.status), (201, 201), "{above:?} {within:?}");
        let member = kit.at(&format!("members/{}/", kit.admin.user.uuid));
        assert_eq!(kit.patch(&kit.owner.key, &member, json!({ "level": 1 })).await.status, 200);
        let account = json!({ "first_name": "Puppet", "password": "several quite random words" });
        let refused = kit.browser().post(&link(&above), account.clone()).await;
        assert_eq!(refused.code(), (400, "invalid_input"), "{refused:?}");
        assert_eq!(kit.browser().post(&link(&within), account).await.status, 201);
    }

    async fn a_key_for_one_team_reaches_its_organization_alone(kit: Kit) {
        let mut new = everything();
        new.scoped_teams = Some(vec![kit.team]);
        let elsewhere = kit.signed_in(&kit.owner).await.post("/api/organizations/", json!({ "name": "Elsewhere" })).await;
        assert_eq!(elsewhere.status, 201, "{elsewhere:?}");
        let key = kit.key_like(&kit.owner, new).await;
        let listed = kit.get(&key, "/api/organizations/").await;
        assert_eq!(crate::column(&listed, "id"), [&json!(kit.organization)], "{listed:?}");
        let there = format!("/api/organizations/{}/pipeline_destinations/", elsewhere.text("/id"));
        assert_eq!(kit.get(&key, &there).await.status, 404);
        assert_eq!(kit.get(&key, &kit.at("pipeline_destinations/")).await.status, 200);
        // Once the team is gone, it reaches nothing, and not everything.
        let other = kit.post(&kit.owner.key, &kit.at("teams/"), json!({ "name": "Other" })).await;
        assert_eq!(other.status, 201);
        assert_eq!(kit.delete(&kit.owner.key, &kit.at(&format!("teams/{}/", kit.team))).await.status, 204);
        kit.service.clock().advance(chrono::TimeDelta::seconds(1));
        assert_ne!(kit.get(&key, &there).await.status, 200);
        assert_eq!(kit.get(&key, "/api/organizations/").await.body["count"], json!(0));
    }

    /// Whoever knows an address can lock strangers out of it, but not the person from where they always are.
    async fn nobody_is_locked_out_from_where_they_signed_in_before(kit: Kit) {
        kit.give_password(&kit.owner).await;
        let from = |address: &str| {
            let mut request = Request::default();
            request.origin.address = Some(address.parse().unwrap());
            request
        };
        let email = kit.owner.user.email.as_str();
        kit.service.sign_in(email, PASSWORD, from("2001:db8:aaaa::7")).await.unwrap();
        // As many failures from anywhere as lock, from networks that guess a little each.
        for n in 0..70 {
            for _ in 0..3 {
                let guess = kit.service.sign_in(email, "incorrect horse", from(&format!("2001:db8:{n:x}::1"))).await;
                assert!(guess.is_err());
            }
        }
        let elsewhere = kit.service.sign_in(email, PASSWORD, from("198.51.100.7")).await;
        assert!(matches!(elsewhere, Err(service::Error::Throttled(_))), "{elsewhere:?}");
        kit.service.sign_in(email, PASSWORD, from("2001:db8:aaaa::8")).await.unwrap();
    }
}
