//! An app on the real server: made, set up and fed over HTTP, run in a process of the same binary, heard by a real server.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::external::Receiver;

use crate::client::Request;
use crate::home::{Home, KEY, Server, until};
use crate::on_each;
use crate::operation::health_address;

const WAIT_LIMIT: Duration = Duration::from_secs(40);

const APP: &str = "
export function composeWebhook(event: { uuid: string; event: string }, { config }: { config: { url: string } }) {
    return { url: config.url, body: JSON.stringify({ uuid: event.uuid, what: event.event }) }
}
";

fn start(home: &Home) -> Server {
    let mut command = home.keyed();
    command
        .env("HEDGEROW_ALLOW_PRIVATE_NETWORKS", "127.0.0.0/8")
        .env("HEDGEROW_HEALTH_LISTEN", "127.0.0.1:0");
    home.spawn(&mut command).ready()
}

/// The id of its configuration.
fn set_up(server: &Server, receiver: &Receiver) -> String {
    let collection = "/api/organizations/@current/pipeline_destinations/";
    let manifest = json!({ "name": "Hook", "config": [{ "key": "url", "type": "string", "required": true }] });
    let source = json!({ "plugin.json": manifest.to_string(), "index.ts": APP });
    let app = server.post(KEY, collection, &json!({ "plugin_type": "source", "source": source }));
    assert_eq!(app.status, 201, "{app:?}");
    let config = json!({ "enabled": true, "config": { "url": receiver.url() } });
    let made = server.post(KEY, &format!("{collection}{}/configs/", app.body["id"]), &config);
    assert_eq!(made.status, 201, "{made:?}");
    made.body["id"].to_string()
}

fn capture(server: &Server, token: &str, names: &[String]) {
    let event = |name: &String| json!({ "event": name, "distinct_id": "ann", "properties": {} });
    let batch: Vec<Value> = names.iter().map(event).collect();
    let reply = server.post("", "/batch/", &json!({ "api_key": token, "batch": batch }));
    assert_eq!(reply.status, 200, "{reply:?}");
}

fn heard(receiver: &Receiver) -> BTreeSet<String> {
    let name = |body: Value| body["what"].as_str().expect("a name").to_owned();
    receiver
        .requests()
        .into_iter()
        .map(|request| name(request.body))
        .collect()
}

on_each! {
    fn an_app_gets_what_comes_in_also_over_a_crash(home: Home) {
        let receiver = Receiver::start();
        let server = start(home);
        let configuration = set_up(&server, &receiver);
        let team = server.get(KEY, "/api/organizations/@current/teams/").body["results"][0].clone();
        let token = team["api_token"].as_str().expect("a token").to_owned();
        let names = |from: usize| -> Vec<String> { (from..from + 50).map(|number| format!("event {number}")).collect() };
        capture(&server, &token, &names(0));
        until("the first events", WAIT_LIMIT, || (heard(&receiver).len() >= 10).then_some(()));
        capture(&server, &token, &names(50));
        // Killed at any moment, it loses nothing: what was taken in is handed over by the next.
        server.process.signal("KILL");
        drop(server.process.end());
        let server = start(home);
        capture(&server, &token, &names(100));
        until("all events", WAIT_LIMIT * 4, || (heard(&receiver).len() == 150).then_some(()));
        let line = format!("hedgerow_app_events_total{{configuration=\"{configuration}\",outcome=\"delivered\"}} ");
        until("operators see it", WAIT_LIMIT, || {
            let page = Request::new("GET", "/metrics").send(health_address(&server.process)).ok()?;
            page.body.as_str()?.contains(&line).then_some(())
        });
        server.process.signal("TERM");
        assert_eq!(server.process.end().code, Some(0));
    }
}
