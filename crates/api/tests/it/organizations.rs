use axum::body::Body;
use serde_json::json;
use testkit::kit::{bearer, with_json};
use testkit::{Kit, on_both};

use crate::column;

on_both! {
    async fn what_a_deleted_organization_leaves_is_deleted_some_at_a_time(kit: Kit) {
        let source = json!({ "index.ts": "export function onEvent() {}" });
        let body = json!({ "plugin_type": "source", "name": "Look", "source": source });
        let app = kit.post(&kit.owner.key, &kit.at("pipeline_destinations/"), body).await;
        assert_eq!(app.status, 201, "{app:?}");
        let configs = kit.at(&format!("pipeline_destinations/{}/configs/", app.body["id"]));
        let config = kit.post(&kit.owner.key, &configs, json!({ "enabled": false })).await;
        let config = &config.body["id"];
        let rows = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1200)";
        for fill in [
            format!(
                "INSERT INTO pipeline_storage (config_id, key, value, updated_at) \
                 {rows} SELECT {config}, 'key-' || i, '1', '2026-01-01T00:00:00Z' FROM n"
            ),
            format!(
                "INSERT INTO pipeline_reached_host (config_id, host, is_allowed, first_at, last_at) \
                 {rows} SELECT {config}, 'host-' || i, true, '2026-01-01T00:00:00Z', '2026-01-01T00:00:00Z' FROM n"
            ),
            "INSERT INTO pipeline_version (app_id, number, metadata, created_at, files, code) \
             SELECT app_id, number + 1, metadata, created_at, files, code FROM pipeline_version"
                .to_owned(),
            "INSERT INTO pipeline_script (app_id, number, name, code) SELECT app_id, number, 'site', '' FROM pipeline_version"
                .to_owned(),
        ] {
            kit.database.run(&fill).await;
        }
        let left = async || {
            let count = async |sql: &'static str| kit.database.column::<i64>(sql).await[0];
            [
                count("SELECT count(*) FROM pipeline_storage").await,
                count("SELECT count(*) FROM pipeline_reached_host").await,
                count("SELECT count(*) FROM pipeline_version").await,
                count("SELECT count(*) FROM pipeline_script").await,
            ]
        };
        assert_eq!(kit.delete(&kit.owner.key, &kit.at("")).await.status, 204);
        assert_eq!(left().await, [1200, 1200, 2, 2], "whoever deletes does not wait for it");
        assert!(kit.service.delete_leftovers().await.unwrap());
        assert_eq!(left().await, [700, 1200, 1, 1]);
        // Two servers at a time: neither forgets what the other has not deleted yet.
        let (one, other) = tokio::join!(kit.service.delete_leftovers(), kit.service.delete_leftovers());
        assert!(one.unwrap() | other.unwrap());
        while kit.service.delete_leftovers().await.unwrap() {}
        assert_eq!(left().await, [0; 4]);
        for marks in ["SELECT count(*) FROM deleted_config", "SELECT count(*) FROM deleted_app"] {
            assert_eq!(kit.database.column::<i64>(marks).await, [0], "{marks}");
        }
    }

    async fn a_name_is_all_it_takes(kit: Kit) {
        let reply = kit.post(&kit.outsider.key, "/api/organizations/", json!({ "name": "Thorn & Sons" })).await;
        assert_eq!(reply.status, 201);
        insta::allow_duplicates! {
            insta::assert_json_snapshot!(reply.body, {
                ".id" => "[uuid]", ".teams[].id" => "[id]", ".teams[].uuid" => "[uuid]",
                ".teams[].organization" => "[uuid]", ".teams[].api_token" => "[token]",
            }, @r#"
            {
              "available_product_features": [
                {
                  "key": "organizations_projects",
                  "name": "Unlimited organizations and teams"
                },
                {
                  "key": "audit_logs",
                  "name": "Activity log"
                },
                {
                  "key": "automatic_provisioning",
                  "name": "Verified domains and just-in-time provisioning"
                },
                {
                  "key": "saml",
                  "name": "Single sign-on with SAML and OpenID Connect"
                },
                {
                  "key": "sso_enforcement",
                  "name": "SSO enforcement"
                },
                {
                  "key": "2fa_enforcement",
                  "name": "Required two-factor authentication"
                }
              ],
              "created_at": "2026-11-15T09:30:00.000000Z",
              "customer_id": null,
              "enforce_2fa": false,
              "id": "[uuid]",
              "is_member_join_email_enabled": true,
              "member_count": "1",
              "membership_level": 15,
              "metadata": "{}",
              "name": "Thorn & Sons",
              "plugins_access_level": 9,
              "slug": "thorn-sons",
              "teams": [
                {
                  "api_token": "[token]",
                  "created_at": "2026-11-15T09:30:00.000000Z",
                  "id": "[id]",
                  "name": "Default project",
                  "organization": "[uuid]",
                  "timezone": "UTC",
                  "updated_at": "2026-11-15T09:30:00.000000Z",
                  "uuid": "[uuid]"
                }
              ],
              "updated_at": "2026-11-15T09:30:00.000000Z"
            }
            "#);
        }
        let read = kit.get(&kit.outsider.key, reply.header("location")).await;
        assert_eq!(read.body, reply.body);
        assert_eq!(read.header("etag"), reply.header("etag"));
    }

    async fn somebody_has_created_a_hundred_organizations_and_no_more(kit: Kit) {
        let create = async || {
            kit.post(&kit.outsider.key, "/api/organizations/", json!({ "name": "Many" })).await
        };
        let mut created = Vec::new();
        let refused = loop {
            let reply = create().await;
            if reply.status != 201 {
                break reply;
            }
            created.push(reply.text("/id").to_owned());
        };
        assert_eq!(created.len(), 99, "they had one");
        assert_eq!(refused.code(), (403, "permission_denied"), "{refused:?}");
        assert!(refused.text("/detail").contains("at most 100"), "{refused:?}");
        let path = format!("/api/organizations/{}/", created[0]);
        assert_eq!(kit.delete(&kit.outsider.key, &path).await.status, 204);
        assert_eq!(create().await.status, 201);
        assert_eq!(create().await.status, 403);
        kit.database.run("UPDATE app_user SET is_operator = true").await;
        assert_eq!(create().await.status, 201, "operators have no limit");
    }

    async fn names_are_trimmed_and_slugs_are_unique(kit: Kit) {
        let create = async |name: &str| kit.post(&kit.owner.key, "/api/organizations/", json!({ "name": name })).await;
        let first = create("  Łódź \t").await;
        assert_eq!((first.text("/name"), first.text("/slug")), ("Łódź", "lodz"));
        let second = create("Łódź").await;
        assert!(second.text("/slug").starts_with("lodz-"), "{second:?}");
        assert_eq!(create("???").await.text("/slug"), "organization");
        let long = create(&"é".repeat(64)).await;
        assert_eq!((long.status, long.text("/slug").len()), (201, 48));
    }

    async fn a_bad_field_is_named_with_what_would_do(kit: Kit) {
        let create = async |body| kit.post(&kit.owner.key, "/api/organizations/", body).await;
        let cases = [
            (json!({}), "required"),
            (json!({ "name": null }), "null"),
            (json!({ "name": "  " }), "blank"),
            (json!({ "name": "x".repeat(65) }), "max_length"),
            (json!({ "name": 7 }), "invalid_input"),
            (json!({ "name": "two\nlines" }), "invalid_input"),
        ];
        for (body, code) in cases {
            let reply = create(body.clone()).await;
            assert_eq!(reply.code(), (400, code), "{body}");
            assert_eq!((reply.text("/type"), reply.text("/attr")), ("validation_error", "name"), "{body}");
        }
        let several = create(json!({ "enforce_2fa": "maybe", "is_member_join_email_enabled": 1 })).await;
        let attrs: Vec<_> = several.body["errors"].as_array().unwrap().iter().map(|error| &error["attr"]).collect();
        assert_eq!(attrs.len(), 3, "{several:?}");
        let list = create(json!([1])).await;
        assert_eq!((list.code(), &list.body["attr"]), ((400, "invalid_input"), &json!(null)));
        let count = kit.get(&kit.owner.key, "/api/organizations/").await;
        assert_eq!(count.body["count"], 1);
    }

    async fn the_list_is_newest_first_and_pages_do_not_overlap(kit: Kit) {
        for number in 1..=7 {
            kit.service.clock().advance(chrono::TimeDelta::microseconds(1));
            let body = json!({ "name": format!("Number {number}") });
            assert_eq!(kit.post(&kit.owner.key, "/api/organizations/", body).await.status, 201);
        }
        let mut names = Vec::new();
        let mut next = Some("/api/organizations?limit=3&color=red".to_owned());
        while let Some(address) = next {
            let page = kit.get(&kit.owner.key, address.strip_prefix("http://hedgerow.test").unwrap_or(&address)).await;
            assert_eq!(page.body["count"], 8);
            names.extend(column(&page, "name").into_iter().map(|name| name.as_str().unwrap().to_owned()));
            next = page.body["next"].as_str().map(str::to_owned);
            assert_eq!(page.header("link").contains("rel=\"next\""), next.is_some());
        }
        let expected: Vec<String> = (1..=7).rev().map(|number| format!("Number {number}")).chain(["Acme".into()]).collect();
        assert_eq!(names, expected);
    }

    async fn pages_link_to_their_neighbours(kit: Kit) {
        for number in 1..=4 {
            kit.post(&kit.owner.key, "/api/organizations/", json!({ "name": format!("Number {number}") })).await;
        }
        let page = kit.get(&kit.owner.key, "/api/organizations/?offset=2&color=red&limit=2").await;
        assert_eq!(page.text("/next"), "http://hedgerow.test/api/organizations/?color=red&limit=2&offset=4");
        assert_eq!(page.text("/previous"), "http://hedgerow.test/api/organizations/?color=red&limit=2&offset=0");
        let beyond = kit.get(&kit.owner.key, "/api/organizations/?offset=100").await;
        assert_eq!((&beyond.body["count"], &beyond.body["results"]), (&json!(5), &json!([])));
        assert_eq!(beyond.body["next"], json!(null));
        let all = kit.get(&kit.owner.key, "/api/organizations/?limit=99999999999999999999").await;
        assert_eq!(column(&all, "id").len(), 5);
        for (query, attr) in [("limit=-1", "limit"), ("limit=ten", "limit"), ("offset=-3", "offset"), ("offset=1.5", "offset")] {
            let reply = kit.get(&kit.owner.key, &format!("/api/organizations/?{query}")).await;
            assert_eq!((reply.status, reply.text("/attr")), (400, attr), "{query}");
        }
        let nobody = kit.someone("nobody@example.com").await;
        let none = kit.get(&nobody.key, "/api/organizations/").await;
        assert_eq!((none.status, &none.body["count"]), (200, &json!(0)));
    }

    async fn what_was_read_can_be_sent_back_changed(kit: Kit) {
        let mut whole = kit.get(&kit.admin.key, &kit.at("")).await.body;
        whole["name"] = json!("Acme, Inc.");
        whole["slug"] = json!("mine");
        whole["membership_level"] = json!(15);
        whole["plugins_access_level"] = json!(0);
        whole["member_count"] = json!("1000");
        whole["nonsense"] = json!({ "deep": true });
        kit.service.clock().advance(chrono::TimeDelta::seconds(5));
        let reply = kit.patch(&kit.admin.key, &kit.at(""), whole.clone()).await;
        assert_eq!(reply.status, 200);
        assert_eq!((reply.text("/name"), reply.text("/slug")), ("Acme, Inc.", "acme"));
        assert_eq!((&reply.body["membership_level"], reply.text("/member_count")), (&json!(8), "3"));
        assert_eq!(reply.text("/updated_at"), "2026-11-15T09:30:05.000000Z");
        assert_eq!(reply.body, kit.get(&kit.admin.key, &kit.at("")).await.body);
        let unchanged = kit.patch(&kit.admin.key, &kit.at(""), json!({})).await;
        assert_eq!(unchanged.body, reply.body);
    }

    async fn deleting_takes_everything_below_along(kit: Kit) {
        assert_eq!(kit.delete(&kit.admin.key, &kit.at("")).await.code(), (403, "permission_denied"));
        let reply = kit.delete(&kit.owner.key, &kit.at("")).await;
        assert_eq!((reply.status, &reply.body), (204, &json!(null)));
        for person in [&kit.owner, &kit.admin, &kit.member] {
            assert_eq!(kit.get(&person.key, &kit.at("")).await.status, 404);
            assert_eq!(kit.get(&person.key, "/api/organizations/").await.body["count"], 0);
            assert_eq!(kit.get(&person.key, "/api/organizations/@current/").await.code(), (404, "not_found"));
        }
        assert_eq!(kit.get(&kit.outsider.key, "/api/organizations/").await.body["count"], 1);
    }

    async fn current_is_the_first_organization_until_it_is_left(kit: Kit) {
        let current = async || kit.get(&kit.member.key, "/api/organizations/@current/").await;
        assert_eq!(current().await.text("/id"), kit.organization.to_string());
        let second = kit.post(&kit.member.key, "/api/organizations/", json!({ "name": "Second" })).await;
        assert_eq!(current().await.text("/id"), kit.organization.to_string());
        assert_eq!(kit.delete(&kit.member.key, "/api/organizations/@current/members/@me/").await.status, 204);
        assert_eq!(current().await.text("/id"), second.text("/id"));
    }

    async fn an_etag_guards_against_lost_updates(kit: Kit) {
        let read = kit.get(&kit.owner.key, &kit.at("")).await;
        let tag = read.header("etag").to_owned();
        let patch = |tag: &str, name: &str| {
            with_json(bearer("PATCH", &kit.at(""), &kit.owner.key).header("if-match", tag), &json!({ "name": name }))
        };
        let first = kit.send(patch(&tag, "First")).await;
        assert_eq!(first.status, 200);
        let second = kit.send(patch(&tag, "Second")).await;
        assert_eq!(second.code(), (412, "precondition_failed"));
        assert_eq!(kit.get(&kit.owner.key, &kit.at("")).await.text("/name"), "First");
        assert_eq!(kit.send(patch("*", "Third")).await.status, 200);
        let delete = bearer("DELETE", &kit.at(""), &kit.owner.key).header("if-match", &tag).body(Body::empty()).unwrap();
        assert_eq!(kit.send(delete).await.status, 412);

        let fresh = kit.get(&kit.owner.key, &kit.at("")).await;
        let again = bearer("GET", &kit.at(""), &kit.owner.key).header("if-none-match", fresh.header("etag"));
        let again = kit.send(again.body(Body::empty()).unwrap()).await;
        assert_eq!((again.status, &again.body), (304, &json!(null)));
        let stale = bearer("GET", &kit.at(""), &kit.owner.key).header("if-none-match", tag);
        assert_eq!(kit.send(stale.body(Body::empty()).unwrap()).await.status, 200);
    }

    async fn a_join_changes_the_etag(kit: Kit) {
        let before = kit.get(&kit.owner.key, &kit.at("")).await;
        kit.join("new@example.com", service::Level::Member).await;
        let after = kit.get(&kit.owner.key, &kit.at("")).await;
        assert_eq!(after.text("/member_count"), "4");
        assert_ne!(before.header("etag"), after.header("etag"));
    }
}
