//! Many at once: nothing is lost, nothing is done twice.

use futures_util::future::join_all;
use serde_json::json;
use service::Level;
use testkit::kit::{bearer, with_json};
use testkit::{Kit, on_both};

/// Of each user: how much the count of their organizations is above the number of their memberships.
async fn counts_too_many(kit: &Kit) -> Vec<i64> {
    kit.database
        .column(
            "SELECT coalesce((SELECT CAST(sum(o.count) AS BIGINT) FROM user_organizations o WHERE o.user_id = u.id), 0) \
             - (SELECT count(*) FROM member m WHERE m.user_id = u.id) FROM app_user u",
        )
        .await
}

on_both! {
    async fn a_hundred_writers_on_one_organization_lose_nothing(kit: Kit) {
        let writes = (0..100).map(|number| {
            let kit = &kit;
            async move {
                let body = json!({ "name": format!("Team {number}") });
                kit.post(&kit.admin.key, &kit.at("teams/"), body).await.status
            }
        });
        assert!(join_all(writes).await.iter().all(|&status| status == 201));
        assert_eq!(kit.get(&kit.owner.key, &kit.at("teams/")).await.body["count"], 101);
        let entries = kit.get(&kit.owner.key, &kit.at("activity/?scope=Team")).await;
        assert_eq!(entries.body["count"], 101);
    }

    async fn of_two_writers_who_saw_the_same_one_wins(kit: Kit) {
        for round in 0..10 {
            let tag = kit.get(&kit.owner.key, &kit.at("")).await.header("etag").to_owned();
            let writes = (0..2).map(|writer| {
                let request = bearer("PATCH", &kit.at(""), &kit.owner.key).header("if-match", &tag);
                kit.send(with_json(request, &json!({ "name": format!("Round {round} of {writer}") })))
            });
            let mut statuses: Vec<u16> = join_all(writes).await.iter().map(|reply| reply.status).collect();
            statuses.sort_unstable();
            assert_eq!(statuses, [200, 412]);
        }
    }

    async fn two_owners_who_both_leave_leave_one_behind(kit: Kit) {
        let second = kit.join("second@example.com", Level::Owner).await;
        let me = kit.at("members/@me/");
        let leave = [&kit.owner, &second].map(|person| kit.delete(&person.key, &me));
        let mut statuses: Vec<u16> = join_all(leave).await.iter().map(|reply| reply.status).collect();
        statuses.sort_unstable();
        assert_eq!(statuses, [204, 400]);
    }

    async fn abandoned_requests_leave_no_trace_and_block_nobody(kit: Kit) {
        let path = kit.at("");
        for microseconds in 0..300 {
            let write = kit.post(&kit.owner.key, "/api/organizations/", json!({ "name": "Abandoned" }));
            let other = kit.patch(&kit.owner.key, &path, json!({ "name": format!("Kept {microseconds}") }));
            let abandoned = tokio::time::timeout(std::time::Duration::from_micros(microseconds * 10), write);
            let (_, kept) = tokio::join!(abandoned, other);
            assert_eq!(kept.status, 200, "after {microseconds}: {kept:?}");
        }
        let organizations = kit.get(&kit.owner.key, "/api/organizations/?limit=1000").await;
        let created = kit.get(&kit.owner.key, &kit.at("activity/?scope=Organization")).await;
        assert_eq!(created.body["count"], 301);
        // Some got through before they were abandoned; each of those is whole.
        for organization in organizations.body["results"].as_array().unwrap() {
            assert_eq!(organization["teams"].as_array().unwrap().len(), 1);
        }
    }

    async fn many_joins_make_one_membership(kit: Kit) {
        let person = kit.someone("new@example.com").await;
        let actor = service::access::Actor::system();
        let joins = (0..20).map(|_| kit.service.add_member(&actor, kit.organization, &person.user, Level::Member));
        let joined = join_all(joins).await.iter().filter(|result| result.is_ok()).count();
        assert_eq!(joined, 1);
        assert_eq!(kit.get(&kit.owner.key, &kit.at("")).await.text("/member_count"), "4");
        assert_eq!(kit.get(&kit.owner.key, &kit.at("members/")).await.body["count"], 4);
        assert!(counts_too_many(&kit).await.iter().all(|difference| *difference == 0));
        let member = kit.at(&format!("members/{}/", person.user.uuid));
        assert_eq!(kit.delete(&kit.owner.key, &member).await.status, 204);
        assert_eq!(kit.get(&kit.owner.key, &kit.at("")).await.text("/member_count"), "3");
        assert!(counts_too_many(&kit).await.iter().all(|difference| *difference == 0));
    }

    async fn organizations_of_one_name_get_slugs_of_their_own(kit: Kit) {
        let creates = (0..20).map(|_| kit.post(&kit.owner.key, "/api/organizations/", json!({ "name": "Same" })));
        let replies = join_all(creates).await;
        let mut slugs: Vec<&str> = replies.iter().map(|reply| reply.text("/slug")).collect();
        slugs.sort_unstable();
        slugs.dedup();
        assert_eq!(slugs.len(), 20);
        assert_eq!(kit.get(&kit.owner.key, "/api/organizations/").await.body["count"], 21);
    }

    async fn somebody_has_created_a_hundred_organizations_and_no_more_at_once(kit: Kit) {
        let create = async |number: usize| {
            let body = json!({ "name": format!("Number {number}") });
            kit.post(&kit.outsider.key, "/api/organizations/", body).await
        };
        let creates = (0..150).map(async |number| {
            let mut reply = create(number).await;
            // A busy database is worth another try.
            while reply.status == 503 {
                reply = create(number).await;
            }
            reply
        });
        let replies = join_all(creates).await;
        let created = replies.iter().filter(|reply| reply.status == 201).count();
        assert_eq!(created, 99, "they had one");
        let refused = replies.iter().filter(|reply| reply.status == 403).count();
        assert_eq!(refused, 51);
        assert_eq!(kit.get(&kit.outsider.key, "/api/organizations/?limit=1").await.body["count"], 100);
    }

    async fn a_reader_never_sees_an_older_state_than_the_last_answer(kit: Kit) {
        let path = kit.at("");
        for number in 0..50 {
            let name = format!("Number {number}");
            assert_eq!(kit.patch(&kit.owner.key, &path, json!({ "name": name })).await.status, 200);
            let reads = (0..4).map(|_| kit.get(&kit.member.key, &path));
            for read in join_all(reads).await {
                assert_eq!(read.text("/name"), name);
            }
        }
    }
}
