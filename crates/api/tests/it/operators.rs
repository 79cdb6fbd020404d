//! The operators of the instance: who names them, what they alone can do, and that the right ends when it should.

use serde_json::{Value, json};
use service::Level;
use service::keys::NewKey;
use service::operators::Operator;
use testkit::kit::{everything, with_json};
use testkit::{Kit, on_both};

const OPERATORS: &str = "/api/instance/operators/";

on_both! {
    async fn operators_name_and_dismiss_operators(kit: Kit) {
        kit.make_operator(&kit.owner).await;
        let browser = kit.signed_in(&kit.owner).await;
        // Somebody else may have made an account in their name.
        let squatted = browser.post(OPERATORS, json!({ "email": kit.admin.user.email })).await;
        assert_eq!((squatted.code(), squatted.text("/attr")), ((400, "unverified"), "email"));
        kit.database.run(&format!("UPDATE app_user SET is_email_verified = TRUE WHERE id = {}", kit.admin.user.id)).await;
        kit.service.clock().advance(chrono::TimeDelta::seconds(1));
        let added = browser.post(OPERATORS, json!({ "email": kit.admin.user.email.to_uppercase() })).await;
        assert_eq!((added.status, added.text("/email")), (201, kit.admin.user.email.as_str()), "{added:?}");
        let list = browser.get(OPERATORS).await;
        assert_eq!(crate::column(&list, "email"), [kit.owner.user.email.as_str(), kit.admin.user.email.as_str()]);
        // Who is one already stays one, and is told so.
        let again = browser.post(OPERATORS, json!({ "email": kit.admin.user.email })).await;
        assert_eq!(again.status, 201);
        let nobody = browser.post(OPERATORS, json!({ "email": "nobody@example.com" })).await;
        assert_eq!((nobody.code(), nobody.text("/attr")), ((400, "does_not_exist"), "email"));
        let own = format!("{OPERATORS}{}/", kit.owner.user.uuid);
        kit.service.clock().advance(chrono::TimeDelta::seconds(1));
        assert_eq!(browser.delete(&own).await.status, 204);
        // From the very next request on.
        assert_eq!(browser.get(OPERATORS).await.code(), (403, "permission_denied"));
        let other = kit.signed_in(&kit.admin).await;
        let last = other.delete(&format!("{OPERATORS}{}/", kit.admin.user.uuid)).await;
        assert_eq!(last.code(), (400, "last_operator"));
        assert_eq!(other.delete(&own).await.code(), (404, "not_found"));
        let activities = kit.database.column::<String>("SELECT activity FROM activity WHERE activity LIKE 'operator%' ORDER BY id").await;
        assert_eq!(activities, ["operator_added", "operator_added", "operator_removed"]);
    }

    /// A browser that somebody found open does not make them an operator for good.
    async fn naming_an_operator_takes_a_recent_proof(kit: Kit) {
        kit.make_operator(&kit.owner).await;
        let browser = kit.signed_in(&kit.owner).await;
        kit.database.run(&format!("UPDATE app_user SET is_email_verified = TRUE WHERE id = {}", kit.admin.user.id)).await;
        kit.service.clock().advance(chrono::TimeDelta::minutes(16));
        let new = json!({ "email": kit.admin.user.email });
        assert_eq!(browser.post(OPERATORS, new.clone()).await.code(), (403, "reauthentication_required"));
        assert_eq!(browser.get(OPERATORS).await.body["count"], 1);
        let confirmed = browser.post("/api/login/confirm/", json!({ "password": testkit::browser::PASSWORD })).await;
        assert_eq!(confirmed.status, 204, "{confirmed:?}");
        assert_eq!(browser.post(OPERATORS, new).await.status, 201);
    }

    async fn nobody_else_and_no_key_acts_for_the_instance(kit: Kit) {
        kit.make_operator(&kit.owner).await;
        let browser = kit.signed_in(&kit.admin).await;
        let organization = format!("/api/instance/organizations/{}/", kit.other);
        let own = format!("{OPERATORS}{}/", kit.admin.user.uuid);
        for (method, path, body) in [
            ("GET", OPERATORS, Value::Null),
            ("POST", OPERATORS, json!({ "email": kit.admin.user.email })),
            ("POST", OPERATORS, json!({ "email": 1 })),
            ("DELETE", own.as_str(), Value::Null),
            ("GET", "/api/instance/organizations/", Value::Null),
            ("PATCH", organization.as_str(), json!({ "plugins_access_level": 0 })),
        ] {
            let refused = browser.send(with_json(browser.request(method, path), &body)).await;
            assert_eq!(refused.code(), (403, "permission_denied"), "{method} {path}: {refused:?}");
            assert!(refused.text("/detail").contains("operator"), "{refused:?}");
            let request = testkit::kit::bearer(method, path, &kit.owner.key);
            let refused = kit.send(with_json(request, &body)).await;
            assert_eq!(refused.code(), (403, "permission_denied"), "a key: {method} {path}: {refused:?}");
        }
    }

    /// An organization's identity provider speaks for its members there, not for the instance.
    async fn an_identity_provider_does_not_vouch_for_an_operator(kit: Kit) {
        kit.make_operator(&kit.owner).await;
        let browser = kit.signed_in(&kit.owner).await;
        assert_eq!(browser.get(OPERATORS).await.status, 200);
        kit.database.run("UPDATE session SET organization_id = (SELECT organization_id FROM member WHERE level = 15 AND \
            member.user_id = session.user_id)").await;
        let refused = browser.get(OPERATORS).await;
        assert_eq!(refused.code(), (403, "permission_denied"), "{refused:?}");
        let for_all = json!({ "plugin_type": "source", "is_global": true });
        let refused = browser.post(&kit.at("pipeline_destinations/"), for_all).await;
        assert_eq!(refused.code(), (403, "permission_denied"), "{refused:?}");
    }

    async fn operators_change_what_an_organization_can_do_with_apps(kit: Kit) {
        kit.make_operator(&kit.owner).await;
        let browser = kit.signed_in(&kit.owner).await;
        let path = format!("/api/instance/organizations/{}/", kit.other);
        kit.service.clock().advance(chrono::TimeDelta::seconds(1));
        let changed = browser.patch(&path, json!({ "plugins_access_level": 3 })).await;
        assert_eq!((changed.status, &changed.body["plugins_access_level"]), (200, &json!(3)), "{changed:?}");
        let apps = format!("/api/organizations/{}/pipeline_destinations/", kit.other);
        assert_eq!(kit.post(&kit.outsider.key, &apps, json!({ "plugin_type": "source" })).await.status, 403);
        let wrong = browser.patch(&path, json!({ "plugins_access_level": 4 })).await;
        assert_eq!((wrong.code(), wrong.text("/attr")), ((400, "invalid_choice"), "plugins_access_level"));
        // Whoever belongs there sees it, and cannot undo it.
        let theirs = format!("/api/organizations/{}/", kit.other);
        let log = kit.get(&kit.outsider.key, &format!("{theirs}activity/")).await;
        assert_eq!(log.body["results"][0]["detail"]["changes"][0]["field"], "plugins_access_level", "{log:?}");
        let same = kit.patch(&kit.outsider.key, &theirs, json!({ "plugins_access_level": 9 })).await;
        assert_eq!((same.status, &same.body["plugins_access_level"]), (200, &json!(3)));
        let list = browser.get("/api/instance/organizations/").await;
        let results = list.body["results"].as_array().unwrap();
        assert!(results.len() == 2 && results.contains(&changed.body), "{list:?}");
    }

    async fn publishing_for_all_takes_the_right_of_an_operator(kit: Kit) {
        let collection = kit.at("pipeline_destinations/");
        let for_all = json!({ "plugin_type": "source", "is_global": true });
        let refused = kit.post(&kit.owner.key, &collection, for_all.clone()).await;
        assert_eq!(refused.code(), (403, "permission_denied"));
        assert!(refused.text("/detail").contains("operator"), "{refused:?}");
        let app = kit.post(&kit.owner.key, &collection, json!({ "plugin_type": "source" })).await;
        let path = format!("{collection}{}/", app.body["id"]);
        for rest in ["", "update_source/"] {
            let body = json!({ "is_global": true, "source": { "index.ts": "export function onEvent() {}" } });
            let refused = kit.patch(&kit.owner.key, &format!("{path}{rest}"), body).await;
            assert_eq!(refused.code(), (403, "permission_denied"), "{rest}: {refused:?}");
        }
        assert_eq!(kit.get(&kit.owner.key, &path).await.body, app.body, "nothing changed");
        kit.make_operator(&kit.owner).await;
        let limited = NewKey { scoped_organizations: Some(vec![kit.organization]), ..everything() };
        let limited = kit.key_like(&kit.owner, limited).await;
        assert_eq!(kit.post(&limited, &collection, for_all).await.code(), (403, "permission_denied"));
        assert_eq!(kit.patch(&kit.owner.key, &path, json!({ "is_global": true })).await.status, 200);
        // Whoever sends back what they read changes nothing.
        assert_eq!(kit.patch(&kit.member.key, &path, json!({ "is_global": true, "name": "Untitled app" })).await.status, 200);
        let code = json!({ "source": { "index.ts": "export function onEvent() {}" } });
        assert_eq!(kit.patch(&kit.owner.key, &format!("{path}update_source/"), code).await.status, 200);
        for (rest, body) in [
            ("", json!({ "is_global": false })),
            ("", json!({ "name": "Official" })),
            ("", json!({ "description": "Checked by the operator" })),
            ("", json!({ "icon": "https://evil.example/icon.png" })),
            ("", json!({ "tag": "v9" })),
            ("", json!({ "plugin_type": "local" })),
            ("", json!({ "capabilities": {} })),
            ("", json!({ "config_schema": [{ "key": "url", "default": "https://evil.example" }] })),
            ("update_source/", json!({ "source": { "index.ts": "export function onEvent() { evil() }" } })),
            ("update_source/", json!({ "is_global": false, "source": { "index.ts": "export function onEvent() { evil() }" } })),
        ] {
            let refused = kit.patch(&kit.member.key, &format!("{path}{rest}"), body.clone()).await;
            assert_eq!(refused.code(), (403, "permission_denied"), "{body}: {refused:?}");
        }
        let code = json!({ "source": { "index.ts": "export function onEvent() { more() }" } });
        assert_eq!(kit.patch(&kit.owner.key, &format!("{path}update_source/"), code).await.status, 200);
        assert_eq!(kit.post(&kit.member.key, &format!("{path}rollback/"), json!({})).await.status, 403);
        assert_eq!(kit.post(&kit.owner.key, &format!("{path}rollback/"), json!({})).await.status, 200);
        assert_eq!(kit.patch(&kit.owner.key, &path, json!({ "is_global": false })).await.status, 200);
        assert_eq!(kit.patch(&kit.member.key, &path, json!({ "is_global": true })).await.status, 403);
    }

    async fn whoever_leaves_the_last_organization_is_no_operator_any_more(kit: Kit) {
        let left = kit.join("leaving@example.com", Level::Member).await;
        kit.make_operator(&kit.owner).await;
        kit.make_operator(&left).await;
        let gone = kit.delete(&kit.owner.key, &kit.at(&format!("members/{}/", left.user.uuid))).await;
        assert_eq!(gone.status, 204);
        assert!(!kit.service.is_operator(left.user.id).await.unwrap());
        // The last one is kept: there would be nobody left to name another.
        kit.service.remove_operator(&Operator::of_the_machine(), kit.owner.user.uuid).await.unwrap_err();
        assert!(kit.service.is_operator(kit.owner.user.id).await.unwrap());
    }

    async fn of_two_operators_who_remove_each_other_one_stays(kit: Kit) {
        kit.make_operator(&kit.owner).await;
        kit.make_operator(&kit.admin).await;
        let (one, other) = (kit.signed_in(&kit.owner).await, kit.signed_in(&kit.admin).await);
        let (first, second) = (format!("{OPERATORS}{}/", kit.admin.user.uuid), format!("{OPERATORS}{}/", kit.owner.user.uuid));
        let (first, second) = tokio::join!(
            one.delete(&first),
            other.delete(&second),
        );
        let mut statuses = [first.status, second.status];
        statuses.sort_unstable();
        assert_eq!(statuses, [204, 403], "{first:?} {second:?}");
    }
}
