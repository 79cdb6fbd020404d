use chrono::TimeDelta;
use service::Level;

use crate::kit::{Answer, Kit, between};

fn link(page: &Answer, number: usize) -> String {
    let start = format!("id=\"link-{number}\">");
    between(&page.html, &start, "</code>").expect("a link").to_owned()
}

#[tokio::test]
async fn many_are_invited_at_once_and_each_has_a_link() {
    let kit = Kit::new().await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let pasted = "Ann Lee <ann@example.org>, ben@example.org\r\ncia@example.org; dan@example.org eve@example.org";
    let form = [("addresses", pasted), ("level", "8")];
    let made = owner.post(&kit.at("invites/new/"), &form).await;
    assert_eq!((made.status, made.h1()), (200, "5 invitations created"));
    assert!(made.says("<pre id=\"links\">ann@example.org: http://127.0.0.1:8000/signup/hgi_"));
    let path = link(&made, 1).replace("http://127.0.0.1:8000", "");
    assert!(path.starts_with("/signup/hgi_"), "{path}");
    let join = kit.browser().get(&path).await;
    assert_eq!((join.status, join.h1()), (200, "Join Acme"));
    assert!(
        join.says("ann@example.org") && join.says("value=\"Ann\"") && join.says("an <strong>Administrator</strong>")
    );
    let listed = owner.get(&kit.at("invites/")).await;
    assert_eq!(listed.html.matches("/revoke/\"").count(), 5);
    assert!(listed.says("in 3 days") && !listed.says("hgi_"), "links are shown once");
    assert_eq!(
        listed.html.matches("<span class=\"tag\">Administrator</span>").count(),
        5
    );
}

#[tokio::test]
async fn nobody_is_invited_if_one_address_is_wrong_and_each_mistake_is_named() {
    let kit = Kit::new().await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let form = [
        ("addresses", "ann@example.org, nonsense, olga@example.com"),
        ("level", "1"),
    ];
    let refused = owner.post(&kit.at("invites/new/"), &form).await;
    assert_eq!(refused.status, 400);
    assert!(refused.says("<li>nonsense: Enter a valid email address, such as name@example.com.</li>"));
    assert!(refused.says("ann@example.org, nonsense, olga@example.com</textarea>"));
    assert!(owner.get(&kit.at("invites/")).await.says("No pending invites"));
    let form = [("addresses", "olga@example.com"), ("level", "1")];
    let member = owner.post(&kit.at("invites/new/"), &form).await;
    assert!(
        member.says("<li>olga@example.com is already a member of this organization.</li>"),
        "{member:?}"
    );
    let empty = owner
        .post(&kit.at("invites/new/"), &[("addresses", " ,"), ("level", "1")])
        .await;
    assert!(empty.says("<li>Enter at least one email address.</li>"));
    let many: Vec<String> = (0..101).map(|number| format!("a{number}@example.org")).collect();
    let many = owner
        .post(
            &kit.at("invites/new/"),
            &[("addresses", &many.join(" ")), ("level", "1")],
        )
        .await;
    assert!(many.says("This list has 101 addresses: invite at most 100 at a time."));
}

#[tokio::test]
async fn nobody_invites_above_themselves() {
    let kit = Kit::new().await;
    kit.member("ann@example.org", Level::Member).await;
    let mut ann = kit.signed_in("ann@example.org").await;
    let asked = ann.get(&kit.at("invites/new/")).await;
    assert!(asked.says("value=\"1\" selected") && !asked.says("<option value=\"15\""));
    let form = [("addresses", "ben@example.org"), ("level", "15")];
    let refused = ann.post(&kit.at("invites/new/"), &form).await;
    assert_eq!(refused.status, 403);
    assert!(refused.says("role=\"alert\">Your role (member) does not allow inviting someone as owner."));
}

#[tokio::test]
async fn an_invite_is_sent_again_and_revoked() {
    let kit = Kit::new().await;
    let old = format!("/signup/{}/", kit.invite("ann@example.org").await);
    let mut owner = kit.signed_in("olga@example.com").await;
    kit.service.clock().advance(TimeDelta::days(4));
    let mut owner_again = kit.signed_in("olga@example.com").await;
    assert_eq!(
        owner.get(&kit.at("")).await.status,
        303,
        "sessions end after three idle days"
    );
    let listed = owner_again.get(&kit.at("invites/")).await;
    assert!(listed.says(">Expired<"));
    let id = between(&listed.html, "invites/", "/resend/\"").expect("a form");
    let id = id[id.len() - 36..].to_owned();
    let sent = owner_again.post(&kit.at(&format!("invites/{id}/resend/")), &[]).await;
    assert_eq!(sent.h1(), "New link for ann@example.org");
    let fresh = link(&sent, 1).replace("http://127.0.0.1:8000", "");
    assert_eq!(kit.browser().get(&old).await.h1(), "This invite is no longer valid");
    assert_eq!(kit.browser().get(&fresh).await.h1(), "Join Acme");
    let revoked = owner_again.post(&kit.at(&format!("invites/{id}/revoke/")), &[]).await;
    assert_eq!(revoked.place(), (303, kit.at("invites/?done=revoked").as_str()));
    assert_eq!(kit.browser().get(&fresh).await.status, 400);
    let gone = owner_again.post(&kit.at(&format!("invites/{id}/revoke/")), &[]).await;
    assert_eq!(gone.status, 404);
}

#[tokio::test]
async fn who_may_not_revoke_an_invite_is_told_on_the_list() {
    let kit = Kit::new().await;
    kit.invite("new@example.org").await;
    kit.member("ann@example.org", Level::Member).await;
    let mut ann = kit.signed_in("ann@example.org").await;
    let mut owner = kit.signed_in("olga@example.com").await;
    let listed = owner.get(&kit.at("invites/")).await;
    let id = between(&listed.html, "invites/", "/revoke/\"").expect("a form");
    let id = &id[id.len() - 36..];
    assert!(!ann.get(&kit.at("invites/")).await.says("/revoke/"));
    let refused = ann.post(&kit.at(&format!("invites/{id}/revoke/")), &[]).await;
    assert_eq!((refused.status, refused.h1()), (403, "Invites"));
    assert!(refused.says("role=\"alert\">Only administrators and the sender can revoke an invite."));
}
