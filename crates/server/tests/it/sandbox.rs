//! What keeps apps apart from the server, on the real server.

use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;

use testkit::databases::Backend;

use crate::home::{Home, Server, WAIT_LIMIT, until};

const NOBODY: u32 = 65534;

/// The layers, each with whether it holds.
fn layers(server: &Server) -> Vec<(String, bool)> {
    until("the sandbox was looked at", WAIT_LIMIT, || {
        let page = server
            .ask("GET", "/metrics")
            .body
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let lines = page
            .lines()
            .filter_map(|line| line.strip_prefix("hedgerow_sandbox_layer{layer=\""));
        let layers = lines.filter_map(|line| line.split_once("\"} "));
        let layers: Vec<(String, bool)> = layers.map(|(name, value)| (name.to_owned(), value == "1")).collect();
        (layers.len() == 10).then_some(layers)
    })
}

#[test]
fn which_layers_of_the_sandbox_hold_is_said_in_metrics_readiness_and_log() {
    let home = Home::any();
    let server = home.spawn(home.keyed().env("HEDGEROW_SANDBOX", "strict")).ready();
    let layers = layers(&server);
    assert!(layers.contains(&("system_calls".to_owned(), true)), "{layers:?}");
    let missing: Vec<&str> = layers
        .iter()
        .filter(|(_, holds)| !holds)
        .map(|(name, _)| name.as_str())
        .collect();
    let readiness = server
        .ask("GET", "/readyz")
        .body
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let log = server.process.log();
    let warnings = log.matches("sandbox layer unavailable").count();
    assert_eq!(warnings, missing.len(), "{log}");
    assert_eq!(readiness == "ready\n", missing.is_empty(), "{readiness}");
    assert!(missing.iter().all(|name| readiness.contains(name)), "{readiness}");
    assert_eq!(log.contains("apps are disabled"), !missing.is_empty(), "{log}");
}

#[test]
fn how_strict_the_sandbox_is_must_be_one_of_two() {
    let home = Home::any();
    let ended = home.spawn(home.keyed().env("HEDGEROW_SANDBOX", "lax")).end();
    assert_ne!(ended.code, Some(0));
    assert!(ended.stderr.contains("best-effort or strict"), "{}", ended.stderr);
}

/// What belongs to a process in `/proc` belongs to root if the process keeps its memory to itself.
#[test]
fn others_of_the_same_user_cannot_look_into_the_server() {
    let home = Home::new(Backend::Postgres);
    let mut command = home.keyed();
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0);
    if is_root {
        chown(&home.folder, Some(NOBODY), Some(NOBODY)).expect("root gives things away");
        command.uid(NOBODY).gid(NOBODY);
    }
    let server = home.spawn(&mut command).ready();
    let owner = |name: &str| {
        let file = std::fs::metadata(format!("/proc/{}/{name}", server.process.id()));
        file.expect("the process is there").uid()
    };
    assert_eq!((owner("environ"), owner("mem")), (0, 0));
    // And still it can start itself as a process for apps.
    let layers = layers(&server);
    assert!(layers.contains(&("system_calls".to_owned(), true)), "{layers:?}");
}
