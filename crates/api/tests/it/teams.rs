use serde_json::json;
use testkit::kit::{bearer, with_json};
use testkit::{Kit, on_both};

use crate::column;

on_both! {
    async fn teams_are_made_changed_and_deleted(kit: Kit) {
        let made = kit.post(&kit.admin.key, &kit.at("teams"), json!({ "name": "Web", "timezone": "Europe/Berlin" })).await;
        assert_eq!((made.status, made.text("/timezone")), (201, "Europe/Berlin"));
        assert_eq!(made.text("/organization"), kit.organization.to_string());
        assert!(made.text("/api_token").starts_with("hgp_"));
        let at = made.header("location").to_owned();
        let read = kit.get(&kit.member.key, &at).await;
        assert_eq!(read.body, made.body);
        let changed = kit.patch(&kit.admin.key, &at, json!({ "name": " Site ", "api_token": "stolen" })).await;
        assert_eq!((changed.text("/name"), changed.text("/timezone")), ("Site", "Europe/Berlin"));
        assert_eq!(changed.text("/api_token"), made.text("/api_token"));
        let stale = with_json(bearer("PATCH", &at, &kit.admin.key).header("if-match", made.header("etag")), &json!({}));
        assert_eq!(kit.send(stale).await.status, 412);
        let seen = kit.get(&kit.member.key, &kit.at("")).await;
        assert_eq!(seen.body["teams"][1], changed.body);
        assert_eq!(kit.delete(&kit.admin.key, &at).await.status, 204);
        assert_eq!(kit.get(&kit.admin.key, &at).await.status, 404);
    }

    /// Their events are deleted later, and only those of teams that are known to have been deleted.
    async fn deleted_teams_are_recorded(kit: Kit) {
        let made = kit.post(&kit.admin.key, &kit.at("teams"), json!({ "name": "Web" })).await;
        let web = service::TeamId(made.body["id"].as_i64().unwrap());
        assert_eq!(kit.delete(&kit.admin.key, made.header("location")).await.status, 204);
        assert!(kit.service.deleted_teams().await.unwrap().is_empty(), "events may be on their way");
        kit.service.clock().advance(chrono::TimeDelta::minutes(11));
        assert_eq!(kit.service.deleted_teams().await.unwrap(), [web]);
        kit.service.forget_deleted_team(web).await.unwrap();
        assert_eq!(kit.delete(&kit.owner.key, &kit.at("")).await.status, 204);
        kit.service.clock().advance(chrono::TimeDelta::minutes(11));
        assert_eq!(kit.service.deleted_teams().await.unwrap(), [kit.team], "with their organization");
    }

    async fn teams_are_listed_oldest_first(kit: Kit) {
        for name in ["B", "A"] {
            kit.post(&kit.admin.key, &kit.at("teams/"), json!({ "name": name })).await;
        }
        let page = kit.get(&kit.member.key, &kit.at("teams/?limit=2&offset=1")).await;
        assert_eq!(column(&page, "name"), ["B", "A"]);
        assert_eq!((&page.body["count"], &page.body["next"]), (&json!(3), &json!(null)));
    }

    async fn the_last_team_stays(kit: Kit) {
        let only = kit.at(&format!("teams/{}/", kit.team));
        assert_eq!(kit.delete(&kit.owner.key, &only).await.code(), (400, "last_team"));
        assert_eq!(kit.get(&kit.owner.key, &only).await.status, 200);
    }

    async fn a_time_zone_must_exist(kit: Kit) {
        let reply = kit.post(&kit.admin.key, &kit.at("teams/"), json!({ "name": "X", "timezone": "Mars/Olympus" })).await;
        assert_eq!((reply.code(), reply.text("/attr")), ((400, "invalid_choice"), "timezone"));
    }
}
