//! What a client may send back but never change: fields that are computed, proven or belong to somebody else.

use serde_json::{Map, Value, json};
use testkit::{Kit, on_both};

use crate::access::no_op;
use crate::domain;

/// Everything that was ever worth trying, for all resources alike.
fn hostile(kit: &Kit) -> Value {
    json!({
        "id": 1, "uuid": "01a1dd53-efb7-7ca7-9d85-3211db872bca", "organization": kit.other, "organization_id": kit.other,
        "is_verified": true, "verified_at": "2020-01-01T00:00:00Z", "has_saml": true, "has_scim": true,
        "verification_challenge": "known", "membership_level": 15, "member_count": "1000", "slug": "other",
        "is_email_verified": true, "email": "evil@example.com", "is_2fa_enabled": true, "has_social_auth": true,
        "has_password": true, "is_staff": true, "user": { "email": "evil@example.com", "is_email_verified": true },
        "user_id": 1, "url": "https://evil.example/", "latest_tag": "v9.9.9", "api_token": "hgp_chosen",
        "value": "hgr_chosen", "mask_value": "chosen", "secure_value": "chosen", "created_at": "2020-01-01T00:00:00Z",
        "updated_at": "2020-01-01T00:00:00Z", "joined_at": "2020-01-01T00:00:00Z", "last_used_at": "2020-01-01T00:00:00Z",
        "created_by": { "id": 1 }, "latest_runs": [], "customer_id": "cus_1",
        "available_product_features": [{ "key": "all", "name": "All" }], "no_such_field": { "deep": [1] },
    })
}

fn without_time(mut body: Value) -> Map<String, Value> {
    let fields = body.as_object_mut().unwrap();
    fields.remove("updated_at");
    fields.clone()
}

on_both! {
    async fn no_resource_takes_what_is_not_the_clients_to_set(kit: Kit) {
        let owner = &kit.owner.key;
        let browser = kit.signed_in(&kit.owner).await;
        let made_domain = domain(&kit, json!({ "domain": "acme.example" })).await;
        let team = kit.post(owner, &kit.at("teams/"), json!({ "name": "Web" })).await;
        let export = kit.post(owner, &kit.at("batch_exports/"), no_op()).await;
        let key = browser.post("/api/personal_api_keys/", json!({ "label": "CI", "scopes": ["organization:read"] })).await;
        let app = json!({ "plugin_type": "source", "name": "App" });
        let app = kit.post(owner, &kit.at("pipeline_destinations/"), app).await;
        let below = |made: &testkit::Reply, collection: &str| kit.at(&format!("{collection}/{}/", made.body["id"].to_string().trim_matches('"')));
        let by_key = [
            kit.at(""), below(&made_domain, "domains"), below(&team, "teams"), below(&export, "batch_exports"),
            below(&app, "pipeline_destinations"),
        ];
        for path in by_key {
            let before = kit.get(owner, &path).await;
            assert_eq!(before.status, 200, "{path} {before:?}");
            let patched = kit.patch(owner, &path, hostile(&kit)).await;
            assert_eq!(patched.status, 200, "{path} {patched:?}");
            let after = kit.get(owner, &path).await;
            assert_eq!(without_time(after.body), without_time(before.body), "{path}");
        }
        for path in ["/api/users/@me/".to_owned(), format!("/api/personal_api_keys/{}/", key.text("/id"))] {
            let before = browser.get(&path).await;
            let patched = browser.patch(&path, hostile(&kit)).await;
            assert_eq!(patched.status, 200, "{path} {patched:?}");
            assert_eq!(without_time(browser.get(&path).await.body), without_time(before.body), "{path}");
        }
        // A member has no page of their own: they are read in the list.
        let member = kit.at(&format!("members/{}/", kit.member.user.uuid));
        let list = kit.at("members/?email=mia@example.com");
        let before = kit.get(owner, &list).await;
        assert_eq!(kit.patch(owner, &member, hostile(&kit)).await.status, 200);
        let after = kit.get(owner, &list).await;
        assert_eq!(without_time(after.body["results"][0].clone()), without_time(before.body["results"][0].clone()));
        // Nothing was moved to where it was said to belong.
        let elsewhere = format!("/api/organizations/{}/", kit.other);
        for collection in ["domains/", "batch_exports/", "pipeline_destinations/"] {
            let there = kit.get(&kit.outsider.key, &format!("{elsewhere}{collection}")).await;
            assert_eq!(there.body["count"], 0, "{collection}");
        }
    }
}
