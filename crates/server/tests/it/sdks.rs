//! The official SDKs, unchanged, pointed at the real server; then what is in the store, field by field.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use events::Events;
use events::sqlite::Embedded;
use hogql::Model;
use serde_json::{Map, Value, json};
use service::TeamId;
use testkit::external::browser;
use testkit::stored;
use tokio::runtime::Runtime;

use crate::home::{Home, KEY, Server};

/// SDKs wait between tries, and start slowly on a busy machine.
const WAIT_LIMIT: Duration = Duration::from_mins(1);
const UUID: &str = "0198c2f6-a9b4-7c01-8000-0123456789ab";

type Row = Map<String, Value>;

/// A project that somebody sends to.
pub(crate) struct Project {
    pub(crate) home: Home,
    server: Server,
    team: TeamId,
    pub(crate) token: String,
}

/// What its store holds in the end.
pub(crate) struct Stored {
    events: Vec<Row>,
    persons: Vec<Row>,
}

impl Project {
    pub(crate) fn new() -> Self {
        let home = Home::any();
        let server = home.start();
        let team = server.get(KEY, "/api/organizations/@current/teams/").body["results"][0].clone();
        Self {
            home,
            server,
            team: TeamId(team["id"].as_i64().expect("an id")),
            token: team["api_token"].as_str().expect("a token").to_owned(),
        }
    }

    fn site(&self) -> String {
        format!("http://{}", self.server.address)
    }

    /// Runs a program with the SDK to its end.
    fn run(&self, mut program: Command) {
        program
            .env("SITE", self.site())
            .env("TOKEN", &self.token)
            .env("TESTKIT_COMPONENTS", parts());
        let ended = self.home.spawn(&mut program).end_within(WAIT_LIMIT);
        assert_eq!(ended.code, Some(0), "{ended:?}");
    }

    /// Stops the server and reads what it stored.
    pub(crate) fn stored(self) -> Stored {
        let Self { home, server, team, .. } = self;
        server.process.signal("TERM");
        assert_eq!(server.process.end().code, Some(0));
        let file = home.folder.join("data/events.sqlite");
        runtime().block_on(async {
            let events = Events::Embedded(Embedded::open(&file).expect("the store opens"));
            Stored {
                events: stored::rows(&events, team, Model::Events).await,
                persons: stored::rows(&events, team, Model::Persons).await,
            }
        })
    }
}

impl Stored {
    pub(crate) fn events(&self, name: &str) -> Vec<&Row> {
        self.events.iter().filter(|row| row["event"] == name).collect()
    }

    pub(crate) fn event(&self, name: &str) -> &Row {
        let all = self.events(name);
        assert_eq!(all.len(), 1, "{name}: {:?}", self.names());
        all[0]
    }

    fn names(&self) -> BTreeSet<&str> {
        self.events.iter().filter_map(|row| row["event"].as_str()).collect()
    }

    /// The newest row of a distinct id.
    fn person(&self, distinct_id: &str) -> &Row {
        let mut rows = self.persons.iter().filter(|row| row["distinct_id"] == distinct_id);
        rows.next_back().unwrap_or_else(|| panic!("nobody is {distinct_id}"))
    }
}

fn parts() -> PathBuf {
    let folder = std::env::var_os("TESTKIT_COMPONENTS").map(PathBuf::from);
    folder.expect("run `cargo xtask test`, or set TESTKIT_COMPONENTS")
}

fn script(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/sdks").join(name)
}

fn runtime() -> Runtime {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime")
}

/// What both programs for servers do, in the same words.
fn check_server_sdk(stored: &Stored, library: &str) {
    let bought = stored.event("bought");
    assert_eq!((&bought["uuid"], &bought["distinct_id"]), (&json!(UUID), &json!("ann")));
    let properties = &bought["properties"];
    assert_eq!(properties["price"], json!(7.5));
    assert_eq!(properties["items"], json!(["a", "b"]));
    assert_eq!(properties["name"], json!("Zoë 😀"));
    assert_eq!(properties["nested"], json!({ "deep": null }));
    assert_eq!(properties["$lib"], json!(library));
    assert_eq!(properties.get("$ip"), None, "the address would be that of a server");
    let timestamp: service::Time = serde_json::from_value(bought["timestamp"].clone()).expect("a time");
    let meant: service::Time = "2026-01-02T03:04:05.678Z".parse().expect("a time");
    // Set right by the time that the request was in progress.
    assert!(
        (timestamp - meant).abs() < chrono::TimeDelta::seconds(20),
        "{timestamp}"
    );

    let ann = stored.person("ann");
    assert_eq!(ann["person_id"], bought["person_id"]);
    let known = &ann["properties"];
    assert_eq!(
        (&known["plan"], &known["city"], &known["first"]),
        (&json!("paid"), &json!("Berlin"), &json!("site"))
    );
    assert_eq!(
        stored.person("bob")["person_id"],
        stored.person("before-sign-in")["person_id"]
    );
    assert_ne!(stored.person("bob")["person_id"], ann["person_id"]);

    let counted = stored.events("counted").into_iter();
    let mut numbers: Vec<i64> = counted.filter_map(|row| row["properties"]["number"].as_i64()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..200).collect::<Vec<_>>(), "each once");
    let ids: BTreeSet<&str> = stored.events.iter().filter_map(|row| row["uuid"].as_str()).collect();
    assert_eq!(ids.len(), stored.events.len(), "every event has an id of its own");
}

#[test]
fn python() {
    let project = Project::new();
    let mut program = Command::new(parts().join("sdk-python/bin/python"));
    program.arg(script("capture.py"));
    project.run(program);
    check_server_sdk(&project.stored(), "posthog-python");
}

#[test]
fn node() {
    let project = Project::new();
    let mut program = Command::new("node");
    program.arg(script("capture.mjs"));
    project.run(program);
    check_server_sdk(&project.stored(), "posthog-node");
}

#[test]
fn browsers() {
    let project = Project::new();
    let (site, token) = (project.site(), project.token.clone());
    let variables = [("SITE", site.as_str()), ("TOKEN", token.as_str())];
    runtime().block_on(browser::run(&script("browser.mjs"), &variables));
    let stored = project.stored();

    let (looked, bought) = (stored.event("looked"), stored.event("bought"));
    assert_eq!(
        (&looked["properties"]["shelf"], &looked["properties"]["$lib"]),
        (&json!(3), &json!("web"))
    );
    assert_eq!(looked["properties"]["$ip"], json!("127.0.0.1"));
    assert_eq!(
        (&bought["distinct_id"], &bought["properties"]["name"]),
        (&json!("ann"), &json!("Zoë 😀"))
    );
    let identified = stored.event("$identify");
    assert_eq!(identified["properties"]["$anon_distinct_id"], looked["distinct_id"]);
    let anonymous = looked["distinct_id"].as_str().expect("an id");
    let ann = stored.person("ann");
    assert_eq!(
        stored.person(anonymous)["person_id"],
        ann["person_id"],
        "who looked is who bought"
    );
    assert_eq!(
        (&ann["properties"]["plan"], &ann["properties"]["first"]),
        (&json!("free"), &json!("shop"))
    );
    for name in ["$pageview", "left"] {
        assert!(stored.names().contains(name), "{name}: {:?}", stored.names());
    }
}
