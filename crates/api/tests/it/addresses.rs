//! A domain with letters beyond ASCII is one domain, however the addresses on it are written.

use serde_json::json;
use service::access::{Caller, Permission, Request};
use service::credentials::Credential;
use service::invites::NewInvite;
use service::organizations::OrganizationRef;
use service::sso::{Sso, VerifiedIdentity};
use service::{DomainId, Level};
use testkit::browser::PASSWORD;
use testkit::{Kit, Reply, on_both};

use crate::{column, domain, prove, saml};

/// Four people on one domain, each with another way to write it.
const WRITTEN: [&str; 4] = [
    "ann@bücher.example",
    "Ben@BÜCHER.Example",
    "cid@xn--bcher-kva.example",
    "dan@ｂüｃｈｅｒ.example",
];

/// The domain of all of them, proven and with SAML. The owner's address is elsewhere, and has a password.
async fn proven(kit: &Kit) -> Reply {
    kit.give_password(&kit.owner).await;
    let mut settings = saml();
    settings["domain"] = json!("bücher.example");
    let made = domain(kit, settings).await;
    assert!(prove(kit, &made).await.is_verified());
    made
}

/// The owner, as somebody who may do this.
async fn caller<P: Permission>(kit: &Kit) -> Caller<P> {
    let credential = Credential::Key(&kit.owner.key);
    let organization = Some(OrganizationRef::Id(kit.organization));
    let allowed = kit.service.allowed(credential, organization, Request::default()).await;
    allowed.unwrap()
}

pub(crate) fn verified_identity(domain: DomainId, email: &str) -> VerifiedIdentity {
    VerifiedIdentity {
        sso: Sso::Saml,
        domain: Some(domain),
        subject: "ann".to_owned(),
        email: email.to_owned(),
        first_name: String::new(),
        last_name: String::new(),
        signed_in_as: None,
        session_until: None,
        assertion: None,
    }
}

on_both! {
    async fn enforcement_means_everybody_on_the_domain(kit: Kit) {
        let made = proven(&kit).await;
        let id: DomainId = made.text("/id").parse().unwrap();
        let mut browsers = Vec::new();
        for email in WRITTEN {
            let person = kit.join(email, Level::Member).await;
            browsers.push(kit.signed_in(&person).await);
        }
        let below = kit.join("eve@eu.bücher.example", Level::Member).await;
        let elsewhere = kit.signed_in(&below).await;

        let found = kit.service.consequences_of_enforcing(&caller(&kit).await, id, Sso::Saml).await.unwrap();
        assert_eq!((found.members, found.new_members), (4, 4));
        let named: Vec<&str> = found.named.iter().map(|new_member| new_member.email.as_str()).collect();
        assert_eq!(named, WRITTEN);

        let path = kit.at(&format!("domains/{id}/"));
        let enforced = kit.patch(&kit.owner.key, &path, json!({ "sso_enforcement": "saml" })).await;
        assert_eq!(enforced.status, 200, "{enforced:?}");
        for (browser, email) in browsers.iter().zip(WRITTEN) {
            assert_eq!(browser.get("/api/users/@me/").await.status, 401, "{email}");
            assert_eq!(kit.browser().log_in(email, PASSWORD).await.code(), (400, "sso_enforced"), "{email}");
        }
        assert_eq!(elsewhere.get("/api/users/@me/").await.status, 200, "another domain");
    }

    async fn an_identity_provider_may_write_an_address_in_either_way(kit: Kit) {
        let made = proven(&kit).await;
        let id: DomainId = made.text("/id").parse().unwrap();
        let ann = kit.join("ann@bücher.example", Level::Member).await;
        let request = Request::default();
        let (user, _) = kit.service.enter(&verified_identity(id, "Ann@xn--bcher-kva.example"), &request).await.unwrap();
        assert_eq!(user.id, ann.user.id, "no second account");
        assert_eq!(user.email, "ann@bücher.example", "the address stays as it was written");
    }

    async fn one_address_has_one_account(kit: Kit) {
        let ann = kit.join("ann@bücher.example", Level::Member).await;
        kit.give_password(&ann).await;
        for email in ["ann@bücher.example", "ANN@BÜCHER.example", "ann@xn--bcher-kva.example"] {
            let reply = kit.browser().log_in(email, PASSWORD).await;
            assert_eq!((reply.status, reply.text("/user/email")), (200, "ann@bücher.example"), "{email}");
        }
        for email in ["ann@b%C3%BCcher.example", "ann@XN--bcher-kva.example"] {
            let found = kit.get(&kit.owner.key, &kit.at(&format!("members/?email={email}"))).await;
            assert_eq!((found.status, &found.body["count"]), (200, &json!(1)), "{email}");
        }
        let again = json!({ "target_email": "ann@xn--bcher-kva.example" });
        let refused = kit.post(&kit.owner.key, &kit.at("invites/"), again).await;
        assert_eq!(refused.code(), (400, "user_already_member"));
    }

    async fn an_invite_is_for_an_address_however_it_is_written(kit: Kit) {
        let invite = async |email: &str| {
            let new: NewInvite = serde_json::from_value(json!({ "target_email": email })).unwrap();
            kit.service.create_invite(&caller(&kit).await, &new).await.unwrap()
        };
        invite("Bob@xn--bcher-kva.example").await;
        let fresh = invite("bob@Bücher.example").await;
        assert_eq!(fresh.invite.target_email, "bob@xn--bcher-kva.example");
        let pending = kit.get(&kit.owner.key, &kit.at("invites/")).await;
        assert_eq!(column(&pending, "target_email"), ["bob@xn--bcher-kva.example"], "the second replaces the first");

        let bob = kit.someone("bob@bücher.example").await;
        let browser = kit.signed_in(&bob).await;
        let accepted = browser.post(&format!("/api/signup/{}/", fresh.token), json!({})).await;
        assert_eq!(accepted.status, 201, "{accepted:?}");
        assert_eq!(browser.get(&kit.at("")).await.status, 200);
    }

    async fn keys_of_a_version_before_are_brought_into_form(kit: Kit) {
        let ann = kit.join("ann@bücher.example", Level::Member).await;
        kit.give_password(&ann).await;
        let zoe = kit.join("zoë@example.com", Level::Member).await;
        kit.give_password(&zoe).await;
        kit.join("ben@bücher.example", Level::Member).await;
        kit.database.run("UPDATE app_user SET email_key = email WHERE email LIKE '%@bücher.example'").await;
        // Two accounts of one address, as there could be.
        kit.join("ben@xn--bcher-kva.example", Level::Member).await;
        let log_in = async |email: &str| kit.browser().log_in(email, PASSWORD).await.code().0;
        assert_eq!(log_in("ann@bücher.example").await, 400);
        for _ in 0..2 {
            kit.service.renew_address_keys().await.unwrap();
            assert_eq!(log_in("ann@bücher.example").await, 200);
            assert_eq!(log_in("ann@xn--bcher-kva.example").await, 200);
            assert_eq!(log_in("zoë@example.com").await, 200, "what is before the @ stays as it is");
        }
        let keys = "SELECT email_key FROM app_user WHERE email LIKE 'ben@%' ORDER BY id";
        let keys: Vec<String> = kit.database.column(keys).await;
        assert_eq!(keys, ["ben@bücher.example", "ben@xn--bcher-kva.example"]);
    }
}
