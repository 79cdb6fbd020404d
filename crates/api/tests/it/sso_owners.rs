//! Administrators choose the identity provider, so it speaks for no owner who did not ask for that.

use serde_json::{Value, json};
use service::access::{Actor, Request};
use service::sso::VerifiedIdentity;
use service::{DomainId, Error, Level};
use testkit::kit::{Person, everything};
use testkit::{Kit, Reply, on_both};

use crate::addresses::verified_identity;
use crate::takeover::{link, provider, with_session};

const VERA: &str = "vera@acme.example";

/// A member whose address is on the domain, and proven.
async fn vera(kit: &Kit) -> Person {
    let vera = kit.proven(VERA).await;
    let added = kit
        .service
        .add_member(&Actor::system(), kit.organization, &vera.user, Level::Member)
        .await;
    added.unwrap();
    vera
}

/// The provider says that it is Vera, who takes no part in it.
async fn vouch(kit: &Kit, domain: DomainId) -> String {
    let entered = kit
        .service
        .enter(&verified_identity(domain, VERA), &Request::default())
        .await;
    entered.unwrap().1
}

async fn expect_not_linked(kit: &Kit, domain: DomainId) {
    match kit
        .service
        .enter(&verified_identity(domain, VERA), &Request::default())
        .await
    {
        Err(Error::Invalid(problems)) => assert_eq!(problems[0].code, "owner_not_linked"),
        other => panic!("the provider speaks for an owner: {other:?}"),
    }
}

async fn raise(kit: &Kit, person: &Person) {
    let member = kit.at(&format!("members/{}/", person.user.uuid));
    let raised = kit.patch(&kit.owner.key, &member, json!({ "level": 15 })).await;
    assert_eq!(raised.status, 200, "{raised:?}");
}

async fn remove(kit: &Kit, person: &Person) {
    let member = kit.at(&format!("members/{}/", person.user.uuid));
    assert_eq!(kit.delete(&kit.owner.key, &member).await.status, 204);
}

async fn look(kit: &Kit, key: &str) -> (u16, Value) {
    let Reply { status, body, .. } = kit.get(key, &kit.at("")).await;
    (status, body["membership_level"].clone())
}

on_both! {
    async fn what_a_provider_opened_ends_when_somebody_becomes_an_owner(kit: Kit) {
        let domain = provider(&kit).await;
        let vera = vera(&kit).await;
        let browser = kit.signed_in(&vera).await;
        let mut new = everything();
        new.scoped_organizations = Some(vec![kit.organization]);
        let (own, rolled) = (kit.key_like(&vera, new.clone()).await, kit.key_like(&vera, new).await);
        let session = vouch(&kit, domain).await;
        let as_vera = async |method: &str, path: &str, body: Value| with_session(&kit, &session, method, path, body).await;
        let made = as_vera("POST", "/api/personal_api_keys/", json!({ "label": "theirs", "scopes": ["*"] })).await;
        assert_eq!(made.status, 201, "{made:?}");
        let id = kit.get(&rolled, "/api/personal_api_keys/@current/").await.text("/id").to_owned();
        let again = as_vera("POST", &format!("/api/personal_api_keys/{id}/roll/"), json!({})).await;
        assert_eq!(again.status, 200, "{again:?}");
        let theirs = [made.text("/value"), again.text("/value")];
        for key in theirs {
            assert_eq!(look(&kit, key).await, (200, json!(1)));
        }

        raise(&kit, &vera).await;
        for key in theirs {
            assert_eq!(look(&kit, key).await.0, 401, "a key that the provider knows");
        }
        assert_eq!(as_vera("GET", "/api/users/@me/", json!({})).await.status, 401);
        expect_not_linked(&kit, domain).await;
        // What Vera has of her own goes on.
        for key in [&own, &vera.key] {
            assert_eq!(look(&kit, key).await, (200, json!(15)));
        }
        assert_eq!(browser.get(&kit.at("")).await.body["membership_level"], 15);
    }

    async fn an_owner_connects_again_by_their_own_proof(kit: Kit) {
        let domain = provider(&kit).await;
        let vera = vera(&kit).await;
        vouch(&kit, domain).await;
        raise(&kit, &vera).await;
        let proof = kit.own_proof(&vera.user).await;
        let asked = VerifiedIdentity { signed_in_as: Some(proof), ..verified_identity(domain, VERA) };
        kit.service.enter(&asked, &Request::default()).await.unwrap();
        let session = vouch(&kit, domain).await;
        let seen = with_session(&kit, &session, "GET", &kit.at(""), json!({})).await;
        assert_eq!((seen.status, &seen.body["membership_level"]), (200, &json!(15)));
    }

    /// Somebody else made the account and set out to their own provider with it. Then its person proves the address, and becomes an owner.
    async fn a_proof_ends_with_the_session_that_it_is_of(kit: Kit) {
        let domain = provider(&kit).await;
        let vera = vera(&kit).await;
        let stale = kit.own_proof(&vera.user).await;
        let fresh = kit.own_proof(&vera.user).await;
        kit.database.run("UPDATE app_user SET is_email_verified = FALSE WHERE email = 'vera@acme.example'").await;
        assert_eq!(kit.own_proof(&vera.user).await.user, vera.user.id);
        raise(&kit, &vera).await;
        for ended in [stale, fresh] {
            let identity = VerifiedIdentity { signed_in_as: Some(ended), ..verified_identity(domain, VERA) };
            match kit.service.enter(&identity, &Request::default()).await {
                Err(Error::Invalid(problems)) => assert_eq!(problems[0].code, "owner_not_linked"),
                other => panic!("the session has ended: {other:?}"),
            }
        }
    }

    /// Links outlast a membership.
    async fn whoever_comes_back_as_an_owner_is_not_vouched_for(kit: Kit) {
        let domain = provider(&kit).await;
        let vera = vera(&kit).await;
        vouch(&kit, domain).await;
        remove(&kit, &vera).await;
        kit.service.add_member(&Actor::system(), kit.organization, &vera.user, Level::Owner).await.unwrap();
        expect_not_linked(&kit, domain).await;

        remove(&kit, &vera).await;
        // Without a membership the provider takes her in as a new member.
        vouch(&kit, domain).await;
        remove(&kit, &vera).await;
        let new = json!({ "target_email": VERA, "level": 15, "send_email": false });
        let invite = kit.post(&kit.owner.key, &kit.at("invites/"), new).await;
        assert_eq!(invite.status, 201, "{invite:?}");
        let joined = kit.signed_in(&vera).await.post(&link(&invite), json!({})).await;
        assert!(joined.status < 300, "{joined:?}");
        expect_not_linked(&kit, domain).await;
    }

    /// Otherwise a provider's session could set out to the provider, wait until its person is an owner, and come back.
    async fn a_providers_word_is_no_proof_of_ones_own(kit: Kit) {
        let domain = provider(&kit).await;
        let vera = vera(&kit).await;
        let session = vouch(&kit, domain).await;
        let vouched_for = kit.service.signed_in(&session, Request::default()).await.unwrap();
        assert_eq!(vouched_for.own_proof(), None);

        kit.give_password(&kit.owner).await;
        let owner = kit.signed_in(&kit.owner).await;
        let codes = owner.post(&kit.at("recovery_codes/"), json!({})).await;
        let code = codes.text("/codes/0");
        let (olga, session) =
            kit.service.sign_in_with_recovery_code("olga@example.com", code, Request::default()).await.unwrap();
        let recovered = kit.service.signed_in(&session, Request::default()).await.unwrap();
        assert_eq!(recovered.own_proof().map(|proof| proof.user), Some(olga.id));

        // Nor does a request that was in progress leave a key behind.
        raise(&kit, &vera).await;
        let late = kit.service.create_key(&vouched_for, &everything()).await;
        assert!(matches!(late, Err(Error::BadCredential)), "{late:?}");
    }
}
