//! Events from files, brought in on the command line.

use std::fs;

use serde_json::json;

use crate::home::{Home, KEY};
use crate::sdks::Project;

fn line(event: &str, number: usize) -> String {
    json!({ "event": event, "distinct_id": format!("d{number}"), "properties": { "number": number } }).to_string()
}

#[test]
fn files_are_brought_in_next_to_a_server_that_runs() {
    let project = Project::new();
    let rows: Vec<String> = (0..25_000).map(|number| line("old", number)).collect();
    fs::write(project.home.folder.join("old.jsonl"), rows.join("\n")).expect("a file");
    fs::write(project.home.folder.join("more.jsonl"), line("more", 1)).expect("a file");
    let said = project
        .home
        .run(&["events", "import", "--token", &project.token, "old.jsonl", "more.jsonl"]);
    assert_eq!(said, "imported 25001 events, skipped 0 invalid rows\n");
    let stored = project.stored();
    assert_eq!((stored.events("old").len(), stored.events("more").len()), (25_000, 1));
    assert_eq!(stored.event("more")["properties"]["number"], json!(1));
}

#[test]
fn bad_rows_are_shown_and_make_it_fail_unless_told_otherwise() {
    let project = Project::new();
    let home = &project.home;
    fs::write(
        home.folder.join("mixed.jsonl"),
        format!("{}\nnonsense\n{}\n", line("a", 1), line("b", 2)),
    )
    .expect("a file");
    let import = |flags: &[&str]| {
        let mut command = home.command();
        command
            .args(["events", "import", "--token", &project.token])
            .args(flags)
            .arg("mixed.jsonl");
        home.spawn(&mut command).end()
    };
    let strict = import(&[]);
    assert!(strict.code.is_some_and(|code| code != 0), "{strict:?}");
    assert!(strict.stdout.contains("mixed.jsonl, line 2: "), "{strict:?}");
    assert!(
        strict.stdout.ends_with("imported 2 events, skipped 1 invalid rows\n"),
        "{strict:?}"
    );
    assert!(strict.stderr.contains("--lenient"), "{strict:?}");
    let lenient = import(&["--lenient"]);
    assert_eq!(lenient.code, Some(0), "{lenient:?}");
}

#[test]
fn a_target_is_needed_and_must_exist() {
    let home = Home::any();
    let server = home.start();
    fs::write(home.folder.join("one.jsonl"), line("a", 1)).expect("a file");
    let import = |flags: &[&str]| {
        home.spawn(home.command().args(["events", "import"]).args(flags).arg("one.jsonl"))
            .end()
    };
    assert!(import(&[]).stderr.contains("--token"));
    let unknown = import(&["--token", "hgp_unknown"]);
    assert!(unknown.stderr.contains("team not found"), "{unknown:?}");
    assert_ne!(import(&["--team", "1", "--token", "x"]).code, Some(0), "one is enough");
    let team = server.get(KEY, "/api/organizations/@current/teams/").body["results"][0].clone();
    assert_eq!(import(&["--team", &team["id"].to_string()]).code, Some(0));
    let organization = team["organization"].as_str().expect("an id");
    assert_eq!(import(&["--organization", organization]).code, Some(0));
    let missing = home
        .spawn(home.command().args(["events", "import", "--team", "1", "none.jsonl"]))
        .end();
    assert!(
        missing.code != Some(0) && missing.stderr.contains("none.jsonl"),
        "{missing:?}"
    );
}
