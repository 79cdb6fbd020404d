//! Changes that somebody may make when they ask for them, and that have to wait until they no longer can.

use std::time::Duration;

use serde_json::{Value, json};
use service::access::Request;
use service::credentials::Credential;
use service::invites::NewInvite;
use service::organizations::OrganizationRef;
use service::{Error, Level, caller};
use testkit::databases::Backend;
use testkit::{Kit, on_both};
use tokio::sync::oneshot;

use crate::access::forget_all;
use crate::column;

/// For how long a change has to wait.
const LATE: Duration = Duration::from_millis(200);

/// Invites somebody, but for what happens between the check of access and the change.
async fn late(kit: &Kit, credential: Credential<'_>, in_between: impl Future<Output = ()>) -> Result<(), Error> {
    let (checked, is_checked) = oneshot::channel::<()>();
    let (go_on, told) = oneshot::channel::<()>();
    let change = Box::pin(caller::on_behalf_of(None, async move {
        let organization = OrganizationRef::Id(kit.organization);
        let allowed = kit.service.allowed(credential, Some(organization), Request::default());
        let caller = allowed.await.unwrap();
        let _ = checked.send(());
        let _ = told.await;
        let new: Vec<NewInvite> = serde_json::from_value(json!([{ "target_email": "friend@example.net" }])).unwrap();
        kit.service.create_invites(&caller, &new).await.map(|_| ())
    }));
    let rest = async move {
        is_checked.await.expect("access is checked");
        in_between.await;
        tokio::time::sleep(LATE).await;
        let _ = go_on.send(());
    };
    tokio::join!(change, rest).0
}

async fn invites(kit: &Kit) -> Vec<Value> {
    let reply = kit.get(&kit.owner.key, &kit.at("invites/")).await;
    column(&reply, "target_email").into_iter().cloned().collect()
}

on_both! {
    async fn a_change_that_waited_is_made_if_nothing_happened(kit: Kit) {
        late(&kit, Credential::Key(&kit.member.key), async {}).await.unwrap();
        assert_eq!(invites(&kit).await, ["friend@example.net"]);
    }

    async fn a_change_that_waited_until_a_removal_is_refused(kit: Kit) {
        let remove = async {
            let path = kit.at(&format!("members/{}/", kit.member.user.uuid));
            assert_eq!(kit.delete(&kit.owner.key, &path).await.status, 204);
        };
        let refused = late(&kit, Credential::Key(&kit.member.key), remove).await;
        assert!(matches!(refused, Err(Error::NotFound("organization"))), "{refused:?}");
        assert!(invites(&kit).await.is_empty());
    }

    async fn a_change_that_waited_until_a_demotion_is_refused(kit: Kit) {
        let demote = async {
            let path = kit.at(&format!("members/{}/", kit.admin.user.uuid));
            assert_eq!(kit.patch(&kit.owner.key, &path, json!({ "level": Level::Member })).await.status, 200);
        };
        let refused = late(&kit, Credential::Key(&kit.admin.key), demote).await;
        assert!(matches!(refused, Err(Error::Unavailable { .. })), "{refused:?}");
        assert!(invites(&kit).await.is_empty());
    }

    async fn a_change_that_waited_until_its_credential_ended_is_refused(kit: Kit) {
        let refused = late(&kit, Credential::Key(&kit.admin.key), Box::pin(forget_all(&kit, &kit.admin))).await;
        assert!(matches!(refused, Err(Error::BadCredential)), "a key: {refused:?}");
        let cookies = kit.signed_in(&kit.member).await.cookies();
        let session = cookies.split(['=', ';', ' ']).find(|part| part.starts_with("hgs_")).unwrap();
        let refused = late(&kit, Credential::Session(session), Box::pin(kit.give_password(&kit.member))).await;
        assert!(matches!(refused, Err(Error::BadCredential)), "a session: {refused:?}");
        assert!(invites(&kit).await.is_empty());
    }
}

/// A change that started immediately and then had to wait for the organization, behind the removal of whoever asked for it.
#[tokio::test]
async fn a_change_that_waited_for_a_lock_is_refused_after_a_removal() {
    let kit = Kit::new(Backend::Postgres).await;
    let held = kit
        .database
        .holding("BEGIN; SELECT 1 FROM organization FOR UPDATE")
        .await;
    let path = kit.at(&format!("members/{}/", kit.member.user.uuid));
    let removal = kit.delete(&kit.owner.key, &path);
    let invite = async {
        tokio::time::sleep(LATE).await;
        let new = json!({ "target_email": "friend@example.net", "send_email": false });
        kit.post(&kit.member.key, &kit.at("invites/"), new).await
    };
    let release = async {
        tokio::time::sleep(3 * LATE).await;
        drop(held);
    };
    let (removed, refused, ()) = tokio::join!(removal, invite, release);
    assert_eq!((removed.status, refused.status), (204, 404), "{refused:?}");
    assert!(invites(&kit).await.is_empty());
}

/// Recovery codes outlast the session that they are created in. So a request that was checked before the account's person ended all sessions,
/// and is carried out after it, creates none.
#[tokio::test]
async fn recovery_codes_that_waited_for_the_account_are_not_created() {
    let kit = Kit::new(Backend::Postgres).await;
    let browser = kit.signed_in(&kit.owner).await;
    let held = kit.database.holding("BEGIN; SELECT 1 FROM app_user FOR UPDATE").await;
    let path = kit.at("recovery_codes/");
    let create = browser.post(&path, json!({}));
    let prove = async {
        tokio::time::sleep(LATE).await;
        kit.database.run("DELETE FROM session").await;
        drop(held);
    };
    let (refused, ()) = tokio::join!(create, prove);
    assert_eq!(refused.status, 401, "{refused:?}");
    let codes: Vec<i64> = kit.database.column("SELECT count(*) FROM recovery_code").await;
    assert_eq!(codes, [0]);
}
