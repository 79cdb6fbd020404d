use axum::body::Body;
use chrono::TimeDelta;
use serde_json::json;
use testkit::kit::bearer;
use testkit::{Kit, on_both};

use crate::column;

on_both! {
    async fn a_change_is_recorded_with_who_and_what(kit: Kit) {
        kit.service.clock().advance(TimeDelta::seconds(1));
        let request = bearer("PATCH", &kit.at(""), &kit.admin.key)
            .header("x-request-id", "my-request-1")
            .header("content-type", "application/json")
            .body(Body::from(r#"{"name": "Acme, Inc."}"#)).unwrap();
        let reply = kit.send(request).await;
        assert_eq!((reply.status, reply.header("x-request-id")), (200, "my-request-1"));
        let page = kit.get(&kit.member.key, &kit.at("activity/?limit=1")).await;
        insta::allow_duplicates! {
            insta::assert_json_snapshot!(page.body["results"][0], {
                ".id" => "[uuid]", ".item_id" => "[uuid]", ".key_id" => "[uuid]",
                ".user.id" => "[id]", ".user.uuid" => "[uuid]", ".user.distinct_id" => "[random]",
            }, @r#"
            {
              "activity": "updated",
              "created_at": "2026-11-15T09:30:01.000000Z",
              "detail": {
                "changes": [
                  {
                    "action": "changed",
                    "after": "Acme, Inc.",
                    "before": "Acme",
                    "field": "name",
                    "type": "Organization"
                  }
                ],
                "name": "Acme, Inc."
              },
              "id": "[uuid]",
              "is_system": false,
              "item_id": "[uuid]",
              "key_id": "[uuid]",
              "request_id": "my-request-1",
              "scope": "Organization",
              "user": {
                "distinct_id": "[random]",
                "email": "adam@example.com",
                "first_name": "Adam",
                "hedgehog_config": {},
                "id": "[id]",
                "is_email_verified": false,
                "last_name": "Admin",
                "uuid": "[uuid]"
              }
            }
            "#);
        }
    }

    async fn every_kind_of_write_leaves_an_entry(kit: Kit) {
        let team = kit.post(&kit.admin.key, &kit.at("teams/"), json!({ "name": "Web" })).await;
        let team = kit.at(&format!("teams/{}/", team.body["id"]));
        kit.patch(&kit.admin.key, &team, json!({ "name": "Site" })).await;
        kit.delete(&kit.admin.key, &team).await;
        let member = kit.at(&format!("members/{}/", kit.member.user.uuid));
        kit.patch(&kit.admin.key, &member, json!({ "level": 8 })).await;
        kit.delete(&kit.owner.key, &member).await;
        let page = kit.get(&kit.admin.key, &kit.at("activity/")).await;
        let mut found: Vec<String> = page.body["results"].as_array().unwrap().iter()
            .map(|entry| format!("{} {}", entry["scope"].as_str().unwrap(), entry["activity"].as_str().unwrap()))
            .collect();
        found.sort();
        assert_eq!(found, [
            "Organization created",
            "OrganizationMembership created", "OrganizationMembership created", "OrganizationMembership created",
            "OrganizationMembership deleted", "OrganizationMembership updated",
            "Team created", "Team created", "Team deleted", "Team updated",
        ]);
        assert!(!page.body.to_string().contains("hgp_"), "a token is in the log");
    }

    async fn what_changes_nothing_is_not_recorded(kit: Kit) {
        let count = async || kit.get(&kit.admin.key, &kit.at("activity/")).await.body["count"].clone();
        let before = count().await;
        kit.patch(&kit.admin.key, &kit.at(""), json!({ "name": "Acme" })).await;
        kit.patch(&kit.admin.key, &kit.at(""), json!({ "name": "" })).await;
        kit.patch(&kit.member.key, &kit.at(""), json!({ "name": "Mine" })).await;
        kit.patch(&kit.admin.key, &format!("{}?dry_run=true", kit.at("")), json!({ "name": "Dry" })).await;
        assert_eq!(count().await, before);
    }

    async fn entries_are_found_by_user_scope_item_and_time(kit: Kit) {
        kit.service.clock().advance(TimeDelta::hours(1));
        let team = kit.post(&kit.admin.key, &kit.at("teams/"), json!({ "name": "Web" })).await;
        let (id, admin) = (team.body["id"].clone(), kit.admin.user.uuid);
        let cases = [
            (format!("user={admin}"), 1),
            (format!("user={}", kit.outsider.user.uuid), 0),
            ("scope=Team".to_owned(), 2),
            (format!("scope=Team&item_id={id}"), 1),
            (format!("item_id={}", kit.organization), 1),
            ("after=2026-11-15T10:00:00Z".to_owned(), 1),
            ("before=2026-11-15T10:00:00Z".to_owned(), 5),
            ("after=2026-11-15T09:00:00%2B01:00&before=2026-11-15T11:00:00Z".to_owned(), 6),
        ];
        for (query, count) in cases {
            let page = kit.get(&kit.member.key, &kit.at(&format!("activity/?{query}"))).await;
            assert_eq!(page.body["count"], count, "{query}");
            assert_eq!(column(&page, "id").len(), count, "{query}");
        }
        for (query, attr) in [("after=yesterday", "after"), ("user=me", "user")] {
            let reply = kit.get(&kit.member.key, &kit.at(&format!("activity/?{query}"))).await;
            assert_eq!((reply.status, reply.text("/attr")), (400, attr));
        }
    }
}
