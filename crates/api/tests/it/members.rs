use serde_json::json;
use service::Level;
use testkit::{Kit, on_both};

use crate::column;

on_both! {
    async fn a_member_is_shown_with_their_user(kit: Kit) {
        let page = kit.get(&kit.member.key, &kit.at("members/?email=MIA@example.com")).await;
        assert_eq!(page.body["count"], 1);
        insta::allow_duplicates! {
            insta::assert_json_snapshot!(page.body["results"][0], {
                ".id" => "[uuid]", ".user.id" => "[id]", ".user.uuid" => "[uuid]", ".user.distinct_id" => "[random]",
            }, @r#"
            {
              "has_social_auth": false,
              "id": "[uuid]",
              "is_2fa_enabled": false,
              "joined_at": "2026-11-15T09:30:00.000000Z",
              "level": 1,
              "updated_at": "2026-11-15T09:30:00.000000Z",
              "user": {
                "distinct_id": "[random]",
                "email": "mia@example.com",
                "first_name": "Mia",
                "hedgehog_config": {},
                "id": "[id]",
                "is_email_verified": false,
                "last_name": "Member",
                "uuid": "[uuid]"
              }
            }
            "#);
        }
    }

    async fn members_are_listed_newest_first_and_found_by_name(kit: Kit) {
        for name in ["ann@example.com", "50%_off@example.com"] {
            kit.service.clock().advance(chrono::TimeDelta::microseconds(1));
            kit.join(name, Level::Member).await;
        }
        let page = kit.get(&kit.member.key, &kit.at("members/?limit=2")).await;
        let emails: Vec<_> = column(&page, "user").into_iter().map(|user| user["email"].as_str().unwrap()).collect();
        assert_eq!((emails, &page.body["count"]), (vec!["50%_off@example.com", "ann@example.com"], &json!(5)));
        for (search, count) in [("OLGA", 1), ("example.com", 5), ("%25_o", 1), ("%25", 1), ("nobody", 0), ("mia%20member", 1)] {
            let page = kit.get(&kit.member.key, &kit.at(&format!("members/?search={search}"))).await;
            assert_eq!(page.body["count"], count, "{search}");
        }
        let long = kit.get(&kit.member.key, &kit.at(&format!("members/?search={}", "x".repeat(201)))).await;
        assert_eq!((long.status, long.text("/attr")), (400, "search"));
    }

    async fn one_member_cannot_be_read(kit: Kit) {
        let reply = kit.get(&kit.owner.key, &kit.at(&format!("members/{}/", kit.member.user.uuid))).await;
        assert_eq!(reply.code(), (405, "method_not_allowed"));
        assert_eq!(reply.header("allow"), "PATCH,DELETE");
    }

    async fn levels_change_as_the_rules_say(kit: Kit) {
        let second_owner = kit.join("second@example.com", Level::Owner).await;
        let second_admin = kit.join("deputy@example.com", Level::Admin).await;
        let target = |person: &testkit::kit::Person| kit.at(&format!("members/{}/", person.user.uuid));
        // Who, whom, to which level, with what result; each starts from where the one before ended.
        let steps = [
            (&kit.member, &kit.admin, 1, 403),
            (&kit.member, &kit.member, 8, 403),
            (&kit.admin, &kit.member, 15, 403),
            (&kit.admin, &kit.member, 8, 200),
            (&kit.admin, &kit.owner, 1, 403),
            (&kit.admin, &kit.admin, 15, 403),
            (&kit.admin, &second_admin, 1, 200),
            (&kit.owner, &kit.member, 15, 200),
            (&kit.owner, &kit.member, 1, 200),
            (&kit.owner, &second_owner, 8, 200),
            (&kit.owner, &kit.owner, 8, 400),
            (&kit.owner, &kit.owner, 15, 200),
            (&kit.owner, &second_owner, 15, 200),
            (&second_owner, &second_owner, 8, 200),
            (&kit.admin, &kit.admin, 1, 200),
        ];
        for (number, (who, whom, level, status)) in steps.into_iter().enumerate() {
            let reply = kit.patch(&who.key, &target(whom), json!({ "level": level })).await;
            assert_eq!(reply.status, status, "step {number}: {reply:?}");
            if status == 200 {
                assert_eq!(reply.body["level"], level);
            }
        }
        let last = kit.patch(&kit.owner.key, &kit.at("members/@me/"), json!({ "level": 1 })).await;
        assert_eq!(last.code(), (400, "last_owner"));
        for wrong in [json!(0), json!(7), json!(16), json!(-1), json!("8"), json!(1.5), json!(true)] {
            let reply = kit.patch(&kit.owner.key, &target(&kit.member), json!({ "level": wrong })).await;
            assert_eq!((reply.status, reply.text("/attr")), (400, "level"), "{wrong}");
        }
        let seven = kit.patch(&kit.owner.key, &target(&kit.member), json!({ "level": 7 })).await;
        assert_eq!(seven.code(), (400, "invalid_choice"));
        let nothing = kit.patch(&kit.owner.key, &target(&kit.member), json!({})).await;
        assert_eq!(nothing.status, 200);
    }

    async fn the_last_owner_stays(kit: Kit) {
        let me = kit.at("members/@me/");
        assert_eq!(kit.delete(&kit.owner.key, &me).await.code(), (400, "last_owner"));
        kit.join("second@example.com", Level::Owner).await;
        assert_eq!(kit.delete(&kit.owner.key, &me).await.status, 204);
        assert_eq!(kit.delete(&kit.owner.key, &me).await.code(), (404, "not_found"));
    }

    async fn removal_follows_the_levels(kit: Kit) {
        let target = |person: &testkit::kit::Person| kit.at(&format!("members/{}/", person.user.uuid));
        assert_eq!(kit.delete(&kit.member.key, &target(&kit.admin)).await.code(), (403, "permission_denied"));
        assert_eq!(kit.delete(&kit.admin.key, &target(&kit.owner)).await.code(), (403, "permission_denied"));
        assert_eq!(kit.delete(&kit.admin.key, &target(&kit.member)).await.status, 204);
        assert_eq!(kit.delete(&kit.admin.key, &target(&kit.member)).await.code(), (404, "not_found"));
        assert_eq!(kit.get(&kit.owner.key, &kit.at("")).await.text("/member_count"), "2");
    }

    /// Each of them has an entry in the log, and they are more than one statement has parameters for.
    async fn whoever_sent_thousands_of_invites_can_be_removed(kit: Kit) {
        let one = kit.post(&kit.member.key, &kit.at("invites/"), json!({ "target_email": "i0@example.net" })).await;
        assert_eq!(one.status, 201, "{one:?}");
        let (id, hash) = if kit.database.url.starts_with("sqlite") {
            ("randomblob(16)", "randomblob(32)")
        } else {
            ("gen_random_uuid()", "uuid_send(gen_random_uuid())")
        };
        let columns = "organization_id, first_name, level, message, emailing_attempt_made, created_by, created_at, updated_at, \
            expires_at";
        let many = format!(
            "INSERT INTO invite (id, secret_hash, target_email, {columns}) \
             WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000) \
             SELECT {id}, {hash}, 'i' || i || '@example.net', {columns} FROM n, invite"
        );
        kit.database.run(&many).await;
        let removed = kit.delete(&kit.owner.key, &kit.at(&format!("members/{}/", kit.member.user.uuid))).await;
        assert_eq!(removed.status, 204, "{removed:?}");
        let log = kit.get(&kit.owner.key, &kit.at("activity/?scope=OrganizationInvite&limit=1")).await;
        assert_eq!(log.body["count"], 3002, "one was created, and all were deleted");
        assert_eq!(kit.get(&kit.owner.key, &kit.at("invites/")).await.body["count"], 0);
    }

    async fn removal_ends_the_keys_that_were_for_this_organization_only(kit: Kit) {
        let limited_to = |organizations| {
            let mut new = testkit::kit::everything();
            new.scoped_organizations = Some(organizations);
            kit.key_like(&kit.member, new)
        };
        let second = kit.post(&kit.member.key, "/api/organizations/", json!({ "name": "Second" })).await;
        let second_id: service::OrganizationId = second.text("/id").parse().unwrap();
        let only = limited_to(vec![kit.organization]).await;
        let both = limited_to(vec![kit.organization, second_id]).await;
        assert_eq!(kit.delete(&kit.owner.key, &kit.at(&format!("members/{}/", kit.member.user.uuid))).await.status, 204);
        assert_eq!(kit.get(&only, "/api/organizations/").await.status, 401);
        let rest = kit.get(&both, "/api/organizations/").await;
        assert_eq!(column(&rest, "id"), vec![second.text("/id")]);
        // Joining again does not bring the old key's reach back.
        let added = kit.service.add_member(
            &service::access::Actor::system(), kit.organization, &kit.member.user, Level::Member,
        ).await;
        added.unwrap();
        assert_eq!(kit.get(&both, &kit.at("")).await.status, 404);
        assert_eq!(kit.get(&kit.member.key, &kit.at("")).await.status, 200);
    }
}
