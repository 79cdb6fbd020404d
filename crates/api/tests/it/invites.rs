use axum::body::Body;
use chrono::TimeDelta;
use serde_json::{Value, json};
use service::mail::EmailMessage;
use service::{Level, Object, Scope};
use testkit::kit::{Person, bearer, with_json};
use testkit::{Kit, Reply, on_both};

use crate::{activities, column};

async fn invite(kit: &Kit, person: &Person, body: Value) -> Reply {
    kit.post(&person.key, &kit.at("invites/"), body).await
}

/// The secret in a link.
fn token(link: &str) -> &str {
    link.trim_end_matches('/').rsplit('/').next().unwrap()
}

/// What a link says to a stranger.
async fn opened(kit: &Kit, link: &str) -> Reply {
    kit.browser().get(&format!("/api/signup/{}/", token(link))).await
}

on_both! {
    async fn the_address_alone_is_enough(kit: Kit) {
        let reply = invite(&kit, &kit.member, json!({ "target_email": "Ann@Example.COM" })).await;
        assert_eq!(reply.status, 201, "{reply:?}");
        let link = reply.text("/invite_link").to_owned();
        assert!(link.starts_with("http://hedgerow.test/signup/hgi_"), "{link}");
        let mut body = reply.body.clone();
        body["invite_link"] = json!("[link]");
        insta::allow_duplicates! {
            insta::assert_json_snapshot!(body, {
                ".id" => "[uuid]", ".created_by.id" => "[id]", ".created_by.uuid" => "[uuid]",
                ".created_by.distinct_id" => "[random]",
            }, @r#"
            {
              "created_at": "2026-11-15T09:30:00.000000Z",
              "created_by": {
                "distinct_id": "[random]",
                "email": "mia@example.com",
                "first_name": "Mia",
                "hedgehog_config": {},
                "id": "[id]",
                "is_email_verified": false,
                "last_name": "Member",
                "uuid": "[uuid]"
              },
              "emailing_attempt_made": false,
              "emailing_error": null,
              "expires_at": "2026-11-18T09:30:00.000000Z",
              "first_name": "",
              "id": "[uuid]",
              "invite_link": "[link]",
              "is_expired": false,
              "level": 1,
              "message": "",
              "target_email": "ann@example.com",
              "updated_at": "2026-11-15T09:30:00.000000Z"
            }
            "#);
        }
        let at = kit.at(&format!("invites/{}/", reply.text("/id")));
        assert_eq!(reply.header("location"), at);
        assert_eq!(activities(&kit, "OrganizationInvite").await, ["created"]);
    }

    async fn everything_that_may_be_said_is_kept_and_the_rest_is_ignored(kit: Kit) {
        let message = "x".repeat(2000);
        let reply = invite(&kit, &kit.admin, json!({
            "target_email": "ann@example.com", "first_name": "Ann", "level": 8, "message": message,
            "id": "01999999-9999-7999-8999-999999999999", "is_expired": true, "emailing_attempt_made": true,
            "created_by": null, "created_at": "2020-01-01T00:00:00Z", "organization_id": kit.other,
            "unheard": { "of": 1 },
        })).await;
        assert_eq!(reply.status, 201, "{reply:?}");
        assert_eq!((reply.text("/first_name"), &reply.body["level"]), ("Ann", &json!(8)));
        assert_eq!((reply.text("/message"), &reply.body["is_expired"]), (message.as_str(), &json!(false)));
        assert_eq!(reply.text("/created_by/email"), "adam@example.com");
        assert_eq!(reply.text("/created_at"), "2026-11-15T09:30:00.000000Z");
        assert_eq!(reply.body["emailing_attempt_made"], false);
        assert_ne!(reply.text("/id"), "01999999-9999-7999-8999-999999999999");
        assert_eq!(
            kit.get(&kit.outsider.key, &format!("/api/organizations/{}/invites/", kit.other)).await.body["count"], 0,
        );
    }

    async fn what_is_wrong_with_an_invite_is_named(kit: Kit) {
        let long = format!("{}@{}.example.com", "a".repeat(64), "b".repeat(60).repeat(3));
        let cases = [
            (json!({}), "required", "target_email"),
            (json!({ "target_email": null }), "null", "target_email"),
            (json!({ "target_email": "ann" }), "invalid_input", "target_email"),
            (json!({ "target_email": "a b@example.com" }), "invalid_input", "target_email"),
            (json!({ "target_email": "ann@example.com\nBcc: all@example.com" }), "invalid_input", "target_email"),
            (json!({ "target_email": long.repeat(2) }), "max_length", "target_email"),
            (json!({ "target_email": "ann@example.com", "first_name": "x".repeat(31) }), "max_length", "first_name"),
            (json!({ "target_email": "ann@example.com", "first_name": "A\r\nX: 1" }), "invalid_input", "first_name"),
            (json!({ "target_email": "ann@example.com", "message": "x".repeat(2001) }), "max_length", "message"),
            (json!({ "target_email": "ann@example.com", "level": 7 }), "invalid_choice", "level"),
            (json!({ "target_email": "ann@example.com", "level": 16 }), "invalid_choice", "level"),
            (json!({ "target_email": "ann@example.com", "level": "8" }), "invalid_input", "level"),
            (json!({ "target_email": "MIA@example.com" }), "user_already_member", "target_email"),
        ];
        for (body, code, attr) in cases {
            let reply = invite(&kit, &kit.owner, body.clone()).await;
            assert_eq!((reply.code(), &reply.body["attr"]), ((400, code), &json!(attr)), "{body}");
        }
        assert_eq!(kit.get(&kit.owner.key, &kit.at("invites/")).await.body["count"], 0);
    }

    async fn nobody_invites_above_themselves(kit: Kit) {
        for (person, allowed, refused) in [
            (&kit.member, vec![1], vec![8, 15]), (&kit.admin, vec![1, 8], vec![15]),
            (&kit.owner, vec![1, 8, 15], vec![]),
        ] {
            for level in refused {
                let reply = invite(&kit, person, json!({ "target_email": "ann@example.com", "level": level })).await;
                assert_eq!(reply.code(), (403, "permission_denied"), "{level}");
                let bulk =
                    json!([{ "target_email": "a@example.com" }, { "target_email": "b@example.com", "level": level }]);
                let bulk = kit.post(&person.key, &kit.at("invites/bulk/"), bulk).await;
                assert_eq!(bulk.code(), (403, "permission_denied"), "{level}");
            }
            assert_eq!(kit.get(&kit.owner.key, &kit.at("invites/")).await.body["count"], 0, "nothing is left behind");
            for level in allowed {
                let reply = invite(&kit, person, json!({ "target_email": "ann@example.com", "level": level })).await;
                assert_eq!((reply.status, &reply.body["level"]), (201, &json!(level)));
                let at = kit.at(&format!("invites/{}/", reply.text("/id")));
                assert_eq!(kit.delete(&kit.owner.key, &at).await.status, 204);
            }
        }
        let made = invite(&kit, &kit.owner, json!({ "target_email": "boss@example.com", "level": 15 })).await;
        let resend = kit.at(&format!("invites/{}/resend/", made.text("/id")));
        let reply = kit.post(&kit.admin.key, &resend, json!({})).await;
        assert_eq!(reply.code(), (403, "permission_denied"), "a new link is an invite, too");
    }

    async fn invites_are_listed_newest_first_in_pages_and_without_links(kit: Kit) {
        for number in 0..5 {
            kit.service.clock().advance(TimeDelta::microseconds(1));
            invite(&kit, &kit.owner, json!({ "target_email": format!("p{number}@example.com") })).await;
        }
        let key = kit.key(&kit.member, &[Scope::Read(Object::OrganizationMember)]).await;
        let page = kit.get(&key, &kit.at("invites/?limit=2&offset=1")).await;
        assert_eq!((page.status, &page.body["count"]), (200, &json!(5)));
        assert_eq!(column(&page, "target_email"), ["p3@example.com", "p2@example.com"]);
        assert_eq!(column(&page, "invite_link"), [&Value::Null, &Value::Null]);
        assert!(page.text("/next").contains("/invites/?") && page.text("/next").contains("offset=3"), "{page:?}");
        assert!(page.text("/previous").contains("/invites/?"), "{page:?}");
        let wrong = kit.get(&key, &kit.at("invites/?limit=x")).await;
        assert_eq!((wrong.status, wrong.text("/attr")), (400, "limit"));
        let refused = kit.post(&key, &kit.at("invites/"), json!({ "target_email": "x@example.com" })).await;
        assert_eq!(refused.code(), (403, "permission_denied"));
    }

    async fn one_invite_cannot_be_read(kit: Kit) {
        let made = invite(&kit, &kit.owner, json!({ "target_email": "ann@example.com" })).await;
        let reply = kit.get(&kit.owner.key, &kit.at(&format!("invites/{}/", made.text("/id")))).await;
        assert_eq!(reply.code(), (405, "method_not_allowed"));
        assert_eq!(reply.header("allow"), "DELETE");
    }

    async fn an_invite_expires_after_three_days_and_stays_listed(kit: Kit) {
        let made = invite(&kit, &kit.owner, json!({ "target_email": "ann@example.com" })).await;
        let link = made.text("/invite_link");
        let is_expired = async || {
            kit.get(&kit.owner.key, &kit.at("invites/")).await.body["results"][0]["is_expired"].clone()
        };
        kit.service.clock().advance(TimeDelta::days(3) - TimeDelta::seconds(1));
        assert_eq!((is_expired().await, opened(&kit, link).await.status), (json!(false), 200));
        kit.service.clock().advance(TimeDelta::seconds(1));
        assert_eq!((is_expired().await, opened(&kit, link).await.code()), (json!(true), (400, "expired")));
        let account = json!({ "first_name": "Ann", "password": "correct horse battery" });
        let late = kit.browser().post(&format!("/api/signup/{}/", token(link)), account).await;
        assert_eq!(late.code(), (400, "expired"));
    }

    async fn another_invite_for_an_address_replaces_the_first(kit: Kit) {
        let first = invite(&kit, &kit.owner, json!({ "target_email": "ann@example.com", "level": 15 })).await;
        let second = invite(&kit, &kit.admin, json!({ "target_email": "ANN@example.com" })).await;
        assert_eq!(second.status, 201, "administrators revoke every invite, and so replace it");
        let list = kit.get(&kit.owner.key, &kit.at("invites/")).await;
        assert_eq!(column(&list, "id"), [&second.body["id"]]);
        assert_eq!(opened(&kit, first.text("/invite_link")).await.code(), (400, "invalid_input"));
        assert_eq!(opened(&kit, second.text("/invite_link")).await.body["level"], 1);
        assert_eq!(activities(&kit, "OrganizationInvite").await, ["created", "created", "deleted"]);
        // Another organization's invite for the same address is another matter.
        let elsewhere = format!("/api/organizations/{}/invites/", kit.other);
        assert_eq!(
            kit.post(&kit.outsider.key, &elsewhere, json!({ "target_email": "ann@example.com" })).await.status, 201,
        );
        assert_eq!(opened(&kit, second.text("/invite_link")).await.status, 200);
    }

    async fn nobody_replaces_an_invite_above_their_head(kit: Kit) {
        let offered = invite(&kit, &kit.owner, json!({ "target_email": "ann@example.com", "level": 15 })).await;
        let lower = invite(&kit, &kit.member, json!({ "target_email": "Ann@example.com" })).await;
        assert_eq!((lower.code(), lower.text("/attr")), ((400, "invite_pending"), "target_email"), "{lower:?}");
        let several = json!([{ "target_email": "bob@example.com" }, { "target_email": "ann@example.com" }]);
        let bulk = kit.post(&kit.member.key, &kit.at("invites/bulk/"), several).await;
        assert_eq!((bulk.code(), bulk.text("/attr")), ((400, "invite_pending"), "1__target_email"), "{bulk:?}");
        assert_eq!(opened(&kit, offered.text("/invite_link")).await.body["level"], 15);
        assert_eq!(kit.get(&kit.owner.key, &kit.at("invites/")).await.body["count"], 1, "all or nothing");
        // Of one's own level, and one's own, one replaces as before.
        let other = kit.join("max@example.com", Level::Member).await;
        assert_eq!(invite(&kit, &other, json!({ "target_email": "bob@example.com" })).await.status, 201);
        assert_eq!(invite(&kit, &kit.member, json!({ "target_email": "bob@example.com" })).await.status, 201);
        // What has expired is no longer on offer.
        kit.service.clock().advance(TimeDelta::days(3));
        assert_eq!(invite(&kit, &kit.member, json!({ "target_email": "ann@example.com" })).await.status, 201);
    }

    async fn sending_again_gives_another_link_and_the_whole_time(kit: Kit) {
        let kit = kit.with_mail().await;
        let made = invite(&kit, &kit.member, json!({ "target_email": "ann@example.com" })).await;
        let emails = kit.emails().await;
        let [(to, EmailMessage::Invite { link: first, .. })] = emails.as_slice() else { panic!("{emails:?}") };
        assert_eq!(to, "ann@example.com");
        assert_ne!(token(first), token(made.text("/invite_link")), "the mail's is its own");
        let list = kit.get(&kit.owner.key, &kit.at("invites/")).await;
        assert_eq!(list.body["results"][0]["emailing_attempt_made"], true);

        kit.service.clock().advance(TimeDelta::days(4));
        let resend = kit.at(&format!("invites/{}/resend/", made.text("/id")));
        let again = kit.post(&kit.admin.key, &resend, json!({})).await;
        assert_eq!(
            (again.status, &again.body["id"], &again.body["is_expired"]), (200, &made.body["id"], &json!(false)),
        );
        assert_eq!(again.text("/expires_at"), "2026-11-22T09:30:00.000000Z");
        assert_eq!(again.body["emailing_attempt_made"], false, "not yet");
        assert_eq!(again.text("/created_by/email"), "mia@example.com");
        let emails = kit.emails().await;
        let [(_, EmailMessage::Invite { link: second, .. })] = emails.as_slice() else { panic!("{emails:?}") };
        assert!(second.starts_with("https://hedgerow.test/signup/"), "{second}");
        assert_ne!(token(second), token(again.text("/invite_link")));
        assert_eq!(opened(&kit, first).await.code(), (400, "invalid_input"));
        assert_eq!(opened(&kit, second).await.status, 200);
        assert_eq!(activities(&kit, "OrganizationInvite").await, ["created", "resent"]);
    }

    async fn an_invite_is_revoked_by_its_sender_or_an_administrator(kit: Kit) {
        let make = async |who: &Person| {
            let made = invite(&kit, who, json!({ "target_email": "ann@example.com" })).await;
            (kit.at(&format!("invites/{}/", made.text("/id"))), made.text("/invite_link").to_owned())
        };
        let other = kit.join("other@example.com", Level::Member).await;
        let (at, link) = make(&kit.member).await;
        assert_eq!(kit.delete(&other.key, &at).await.code(), (403, "permission_denied"));
        assert_eq!(opened(&kit, &link).await.status, 200);
        let gone = kit.delete(&kit.member.key, &at).await;
        assert_eq!((gone.status, gone.body), (204, Value::Null));
        assert_eq!(opened(&kit, &link).await.code(), (400, "invalid_input"));
        assert_eq!(kit.delete(&kit.member.key, &at).await.code(), (404, "not_found"));
        let (at, _) = make(&kit.owner).await;
        assert_eq!(kit.delete(&kit.member.key, &at).await.code(), (403, "permission_denied"));
        assert_eq!(kit.delete(&kit.admin.key, &at).await.status, 204);
    }

    async fn revoking_honours_if_match(kit: Kit) {
        let made = invite(&kit, &kit.owner, json!({ "target_email": "ann@example.com" })).await;
        let at = kit.at(&format!("invites/{}/", made.text("/id")));
        let delete = async |tag: &str| {
            kit.send(bearer("DELETE", &at, &kit.owner.key).header("if-match", tag).body(Body::empty()).unwrap()).await.status
        };
        assert_eq!(delete("\"stale\"").await, 412);
        assert_eq!(kit.get(&kit.owner.key, &kit.at("invites/")).await.body["count"], 1);
        assert_eq!(delete(made.header("etag")).await, 204);
    }

    async fn several_are_invited_at_once_in_order(kit: Kit) {
        let bulk = kit.at("invites/bulk/");
        let one = kit.post(&kit.member.key, &bulk, json!({ "target_email": "one@example.com", "message": "Hi" })).await;
        assert_eq!((one.status, one.text("/target_email"), &one.body["count"]), (200, "one@example.com", &json!(1)));
        assert_eq!(one.body["results"].as_array().unwrap().len(), 1);
        let many: Vec<Value> =
            (0..100).map(|number| json!({ "target_email": format!("p{number}@example.com") })).collect();
        let reply = kit.post(&kit.member.key, &bulk, json!(many)).await;
        assert_eq!((reply.status, &reply.body["count"]), (200, &json!(100)));
        assert_eq!(reply.text("/target_email"), "p0@example.com", "the answer is the first");
        for field in [
            "id", "first_name", "emailing_attempt_made", "level", "is_expired", "created_by", "created_at",
            "updated_at", "message",
        ] {
            assert_eq!(reply.body[field], reply.body["results"][0][field], "{field}");
        }
        assert!(!reply.body["created_by"].is_null());
        let emails: Vec<String> = (0..100).map(|number| format!("p{number}@example.com")).collect();
        assert_eq!(json!(column(&reply, "target_email")), json!(emails));
        assert_eq!(opened(&kit, reply.text("/results/99/invite_link")).await.text("/target_email"), "p99@example.com");
        assert_eq!(kit.get(&kit.owner.key, &kit.at("invites/")).await.body["count"], 101);
    }

    async fn several_replace_those_that_are_pending(kit: Kit) {
        let kit = kit.with_mail().await;
        let ann = invite(&kit, &kit.member, json!({ "target_email": "ann@example.com" })).await;
        let bob = invite(&kit, &kit.member, json!({ "target_email": "bob@example.com" })).await;
        let cid = invite(&kit, &kit.member, json!({ "target_email": "cid@example.com" })).await;
        let elsewhere = format!("/api/organizations/{}/invites/", kit.other);
        let theirs = kit.post(&kit.outsider.key, &elsewhere, json!({ "target_email": "ann@example.com" })).await;
        let three = ["Bob@example.com", "dan@example.com", "ANN@example.com"].map(|to| json!({ "target_email": to }));
        let made = kit.post(&kit.member.key, &kit.at("invites/bulk/"), json!(three)).await;
        assert_eq!(json!(column(&made, "target_email")), json!(["bob@example.com", "dan@example.com", "ann@example.com"]));
        for replaced in [&ann, &bob] {
            assert_eq!(opened(&kit, replaced.text("/invite_link")).await.code(), (400, "invalid_input"));
        }
        for stays in [&cid, &theirs] {
            assert_eq!(opened(&kit, stays.text("/invite_link")).await.status, 200);
        }
        assert_eq!(kit.get(&kit.owner.key, &kit.at("invites/")).await.body["count"], 4);
        let mut mailed: Vec<String> = kit.emails().await.into_iter().map(|(to, _)| to).collect();
        mailed.sort_unstable();
        let names = ["ann", "ann", "bob", "cid", "dan"].map(|name| format!("{name}@example.com"));
        assert_eq!(mailed, names, "what was replaced is not sent, what others sent is");
        let activities = activities(&kit, "OrganizationInvite").await;
        assert_eq!(activities, [["created"; 6].as_slice(), &["deleted"; 2]].concat());
    }

    async fn one_bad_invite_spoils_the_lot(kit: Kit) {
        let good = json!({ "target_email": "good@example.com" });
        let many: Vec<Value> =
            (0..101).map(|number| json!({ "target_email": format!("p{number}@example.com") })).collect();
        let cases = [
            (json!([good, { "target_email": "bad" }]), "invalid_input", json!("1__target_email")),
            (json!([good, {}]), "required", json!("1__target_email")),
            (json!([good, { "target_email": "b@example.com", "level": 2 }]), "invalid_choice", json!("1__level")),
            (json!([good, { "target_email": "mia@example.com" }]), "user_already_member", json!("1__target_email")),
            (json!([good, { "target_email": "GOOD@example.com" }]), "unique", json!("1__target_email")),
            (json!([{ "target_email": "mia@example.com" }]), "user_already_member", json!("0__target_email")),
            (json!([{ "target_email": "a@-b.c" }]), "invalid_input", json!("0__target_email")),
            (json!({ "target_email": "mia@example.com" }), "user_already_member", json!("target_email")),
            (json!([]), "min_length", json!(null)),
            (json!(many), "max_length", json!(null)),
            (json!("ann@example.com"), "invalid_input", json!(null)),
        ];
        for (body, code, attr) in cases {
            let reply = kit.post(&kit.owner.key, &kit.at("invites/bulk/"), body.clone()).await;
            assert_eq!((reply.code(), &reply.body["attr"]), ((400, code), &attr), "{body}");
        }
        let two = json!([{ "target_email": "a@-b.c" }, good, { "target_email": "a@-d.e" }]);
        let reply = kit.post(&kit.owner.key, &kit.at("invites/bulk/"), two).await;
        let attrs: Vec<_> = reply.body["errors"].as_array().unwrap().iter().map(|error| &error["attr"]).collect();
        assert_eq!(attrs, ["0__target_email", "2__target_email"]);
        assert_eq!(kit.get(&kit.owner.key, &kit.at("invites/")).await.body["count"], 0);
    }

    async fn a_dry_run_leaves_nothing_and_sends_nothing(kit: Kit) {
        let kit = kit.with_mail().await;
        let body = json!({ "target_email": "ann@example.com" });
        let reply = kit.post(&kit.owner.key, &kit.at("invites/?dry_run=true"), body.clone()).await;
        assert_eq!(
            (reply.status, reply.header("x-dry-run"), reply.text("/target_email")), (201, "true", "ann@example.com"),
        );
        let bulk = kit.post(&kit.owner.key, &kit.at("invites/bulk/?dry_run=true"), json!([body])).await;
        assert_eq!((bulk.status, bulk.header("x-dry-run")), (200, "true"));
        assert_eq!(kit.get(&kit.owner.key, &kit.at("invites/")).await.body["count"], 0);
        assert_eq!(opened(&kit, reply.text("/invite_link")).await.code(), (400, "invalid_input"));
        assert!(kit.emails().await.is_empty());

        let made = invite(&kit, &kit.owner, body).await;
        assert_eq!(kit.emails().await.len(), 1);
        let at = kit.at(&format!("invites/{}/", made.text("/id")));
        assert_eq!(kit.post(&kit.owner.key, &format!("{at}resend/?dry_run=true"), json!({})).await.status, 200);
        assert_eq!(kit.delete(&kit.owner.key, &format!("{at}?dry_run=true")).await.status, 204);
        assert_eq!(opened(&kit, made.text("/invite_link")).await.status, 200, "the old link still works");
        assert!(kit.emails().await.is_empty());
        assert_eq!(activities(&kit, "OrganizationInvite").await, ["created"]);
    }

    async fn a_repetition_is_answered_without_the_link(kit: Kit) {
        let kit = kit.with_mail().await;
        let send = async |path: &str, body: &Value| {
            kit.send(with_json(bearer("POST", &kit.at(path), &kit.owner.key).header("idempotency-key", "once"), body)).await
        };
        for (path, body) in [
            ("invites/", json!({ "target_email": "ann@example.com" })),
            ("invites/bulk/", json!([{ "target_email": "bob@example.com" }, { "target_email": "cid@example.com" }])),
        ] {
            let (first, again) = (send(path, &body).await, send(path, &body).await);
            assert!(first.text("/invite_link").contains("/signup/hgi_"));
            assert_eq!((again.status, again.header("idempotency-replayed")), (first.status, "true"));
            assert_eq!((&again.body["id"], &again.body["invite_link"]), (&first.body["id"], &json!(null)));
            assert!(!again.body.to_string().contains("hgi_"), "{again:?}");
            assert_eq!(send(path, &json!({ "target_email": "dan@example.com" })).await.status, 422);
        }
        assert_eq!(
            (kit.emails().await.len(), &kit.get(&kit.owner.key, &kit.at("invites/")).await.body["count"]),
            (3, &json!(3)),
        );
    }

    async fn the_secret_is_nowhere_in_the_database(kit: Kit) {
        let kit = kit.with_mail().await;
        let made = invite(&kit, &kit.owner, json!({ "target_email": "ann@example.com" })).await;
        let secret = token(made.text("/invite_link")).to_owned();
        assert!(kit.database.holds("ann@example.com").await, "the search finds what is there");
        assert!(!kit.database.holds(&secret).await);
        assert!(!kit.database.holds(&secret[4..]).await);
        let again =
            kit.post(&kit.owner.key, &kit.at(&format!("invites/{}/resend/", made.text("/id"))), json!({})).await;
        assert!(!kit.database.holds(token(again.text("/invite_link"))).await);
        // The id is no secret, and opens nothing.
        assert_eq!(opened(&kit, made.text("/id")).await.code(), (400, "invalid_input"));
    }

    async fn a_mail_says_who_invites_and_what_they_say(kit: Kit) {
        let kit = kit.with_mail().await;
        let body = json!({ "target_email": "ann@example.com", "first_name": "Ann", "message": "Come in" });
        invite(&kit, &kit.admin, body).await;
        let mail = kit.service.next_mail().await.unwrap().unwrap();
        assert_eq!((mail.to.as_str(), mail.reply_to.as_deref()), ("ann@example.com", Some("adam@example.com")));
        let EmailMessage::Invite { organization, inviter, first_name, message, .. } = mail.email else { panic!() };
        assert_eq!((organization.as_str(), inviter.as_str()), ("Acme", "Adam Admin"));
        assert_eq!((first_name.as_str(), message.as_str()), ("Ann", "Come in"));

        let silent = invite(&kit, &kit.admin, json!({ "target_email": "bob@example.com", "send_email": false })).await;
        assert_eq!((silent.status, kit.emails().await.len()), (201, 0));
        // An invite that is gone is not told of.
        let gone = invite(&kit, &kit.admin, json!({ "target_email": "cid@example.com" })).await;
        kit.delete(&kit.admin.key, &kit.at(&format!("invites/{}/", gone.text("/id")))).await;
        assert_eq!(kit.emails().await.len(), 0);
    }

    async fn an_invite_of_another_organization_is_not_found(kit: Kit) {
        let elsewhere = |rest: &str| format!("/api/organizations/{}/invites/{rest}", kit.other);
        let foreign = kit.post(&kit.outsider.key, &elsewhere(""), json!({ "target_email": "ann@example.com" })).await;
        let id = foreign.text("/id");
        assert_eq!(kit.delete(&kit.owner.key, &kit.at(&format!("invites/{id}/"))).await.code(), (404, "not_found"));
        assert_eq!(
            kit.post(&kit.owner.key, &kit.at(&format!("invites/{id}/resend/")), json!({})).await.code(),
            (404, "not_found"),
        );
        assert_eq!(kit.delete(&kit.owner.key, &elsewhere(&format!("{id}/"))).await.code(), (404, "not_found"));
        assert_eq!(kit.get(&kit.owner.key, &elsewhere("")).await.code(), (404, "not_found"));
        assert_eq!(opened(&kit, foreign.text("/invite_link")).await.status, 200, "it is still there");
        assert_eq!(kit.delete(&kit.outsider.key, &elsewhere(&format!("{id}/"))).await.status, 204);
    }

    async fn ten_invites_for_one_address_at_once_leave_one(kit: Kit) {
        let path = kit.at("invites/");
        let sent = (0..10).map(|_| kit.post(&kit.owner.key, &path, json!({ "target_email": "ann@example.com" })));
        let replies = futures_util::future::join_all(sent).await;
        assert!(replies.iter().all(|reply| reply.status == 201), "{replies:?}");
        assert_eq!(kit.get(&kit.owner.key, &path).await.body["count"], 1);
    }
}
