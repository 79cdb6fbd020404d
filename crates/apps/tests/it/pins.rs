//! An organization swaps the code of an app that others use: what runs for them is what they approved.

use chrono::TimeDelta;
use events::Incoming;
use serde_json::{Map, Value, json};
use testkit::external::Receiver;
use testkit::{Kit, on_both};

const APPROVED: &str = r"
export function composeWebhook(event, { config }) {
    return { url: config.url, body: { who: 'approved', event: event.event, host: config.host } }
}
";

/// Sends the secrets of whoever runs it to somebody else.
const HOSTILE: &str = r"
export function composeWebhook(event, { config }) {
    return { url: config.url, body: { who: 'hostile', stolen: config.token } }
}
";

fn manifest(host: &str, hosts: &[&str]) -> String {
    let fields = json!([
        { "key": "url", "type": "string" },
        { "key": "token", "type": "string", "secret": true },
        { "key": "host", "type": "string", "default": host },
    ]);
    json!({ "name": "For all", "config": fields, "hosts": hosts }).to_string()
}

/// One more event for each team.
async fn happen(kit: &Kit) {
    let now = kit.service.clock().now();
    for team in [kit.team, kit.other_team] {
        let event = Incoming {
            uuid: None,
            event: "paid".to_owned(),
            distinct_id: "ann".to_owned(),
            properties: Map::new(),
            timestamp: now,
        };
        kit.events.append(team.0, vec![event], now).await.unwrap();
    }
    kit.service.clock().advance(TimeDelta::seconds(1));
    kit.run_apps().await;
}

/// Who ran, and with what, since the last time.
fn ran(receiver: &Receiver, count: usize) -> Vec<Value> {
    let requests = receiver.requests();
    assert_eq!(requests.len(), count, "{requests:?}");
    requests
        .iter()
        .skip(count - 1)
        .map(|request| request.body.clone())
        .collect()
}

on_both! {
    async fn code_that_was_swapped_does_not_run_for_others_before_they_take_it(kit: Kit) {
        kit.make_operator(&kit.admin).await;
        let (ours, theirs) = (Receiver::start(), Receiver::start());
        let app = json!({ "plugin_type": "source", "is_global": true, "source": {
            "plugin.json": manifest("good.example", &["config.url"]), "index.ts": APPROVED,
        } });
        let app = kit.post(&kit.admin.key, &kit.at("pipeline_destinations/"), app).await;
        assert_eq!(app.status, 201, "{app:?}");
        let here = kit.at(&format!("pipeline_destinations/{}/", app.body["id"]));
        let there = kit.at_other(&format!("pipeline_destinations/{}/", app.body["id"]));
        let values = |url: &str| json!({ "enabled": true, "config": { "url": url, "token": "hush-hush" } });
        let own = kit.post(&kit.admin.key, &format!("{here}configs/"), values(&ours.url())).await;
        let victim = kit.post(&kit.outsider.key, &format!("{there}configs/"), values(&theirs.url())).await;
        assert_eq!((own.status, victim.status), (201, 201), "{victim:?}");
        let victim = format!("{there}configs/{}/", victim.body["id"]);
        happen(&kit).await;
        let approved = json!({ "who": "approved", "event": "paid", "host": "good.example" });
        assert_eq!((ran(&ours, 1), ran(&theirs, 1)), (vec![approved.clone()], vec![approved.clone()]));

        // Another default would have the approved code reach another host; other code does what it likes.
        let other_default = json!({ "config_schema": serde_json::from_str::<Value>(&manifest("bad.example", &[])).unwrap()["config"] });
        let changed = kit.patch(&kit.admin.key, &here, other_default).await;
        assert_eq!((changed.status, &changed.body["version"]), (200, &json!(2)), "{changed:?}");
        happen(&kit).await;
        assert_eq!((&ran(&ours, 2)[0]["host"], &ran(&theirs, 2)[0]), (&json!("bad.example"), &approved));
        let swapped = kit.patch(&kit.admin.key, &format!("{here}update_source/"), json!({ "source": {
            "index.ts": HOSTILE, "plugin.json": manifest("bad.example", &["config.url", "bad.example"]),
        } })).await;
        assert_eq!((swapped.status, &swapped.body["version"]), (200, &json!(3)), "{swapped:?}");
        happen(&kit).await;
        assert_eq!((&ran(&ours, 3)[0]["who"], &ran(&theirs, 3)[0]), (&json!("hostile"), &approved));
        // Also on a server that has nothing in memory, and long after the version was replaced.
        for round in 0..12 {
            let source = json!({ "source": { "index.ts": format!("{HOSTILE}// {round}") } });
            assert_eq!(kit.patch(&kit.admin.key, &format!("{here}update_source/"), source).await.status, 200);
        }
        let kit = kit.restarted(api::Settings::default(), testkit::kit::instance()).await;
        happen(&kit).await;
        assert_eq!(ran(&theirs, 4), [approved]);

        let activity = kit.get(&kit.outsider.key, &kit.at_other("pipeline_destinations/activity/")).await;
        let told = activity.body["results"].as_array().unwrap().iter().filter(|entry| entry["activity"] == "new_version");
        assert_eq!(told.count(), 14, "{activity:?}");
        let latest = kit.get(&kit.outsider.key, &victim).await.body["latest_version"].clone();
        assert_eq!(latest, 15);
        let preview = kit.get(&kit.outsider.key, &format!("{victim}upgrade/")).await;
        assert_eq!(preview.body["changes"]["added_hosts"], json!(["bad.example"]), "{preview:?}");
        let taken = kit.post(&kit.outsider.key, &format!("{victim}upgrade/"), json!({ "version": latest })).await;
        assert_eq!((taken.status, &taken.body["version"]), (200, &latest), "{taken:?}");
        happen(&kit).await;
        assert_eq!(ran(&theirs, 5), [json!({ "who": "hostile", "stolen": "hush-hush" })]);
    }
}
