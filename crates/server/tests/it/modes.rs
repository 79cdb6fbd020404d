//! Nobody else on the machine can read what the server writes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;

use crate::client::Request;
use crate::home::{Home, KEY, Server, until};

/// Everything below a folder, itself included, with its mode.
fn walk(path: &Path) -> Vec<(PathBuf, u32)> {
    let about = fs::symlink_metadata(path).expect("it is there");
    let mut found = vec![(path.to_owned(), about.permissions().mode() & 0o777)];
    if about.is_dir() {
        let entries = fs::read_dir(path)
            .expect("a folder")
            .map(|entry| entry.expect("an entry").path());
        found.extend(entries.flat_map(|entry| walk(&entry)));
    }
    found
}

/// An export of one event to files, and a run of it that is over.
fn deliver(server: &Server) {
    let team = server.get(KEY, "/api/organizations/@current/teams/").body["results"][0].clone();
    let event = json!({ "api_key": team["api_token"], "event": "x", "distinct_id": "ada" });
    assert_eq!(server.send(Request::new("POST", "/capture/").json(&event)).status, 200);
    let config = json!({ "folder": "out/deep", "max_file_size_mb": 1 });
    let export =
        json!({ "name": "Files", "interval": "every 5 minutes", "destination": { "type": "File", "config": config } });
    let created = server.post(KEY, "/api/organizations/@current/batch_exports/", &export);
    assert_eq!(created.status, 201, "{created:?}");
    let test = format!(
        "/api/organizations/@current/batch_exports/{}/test/",
        created.text("/id")
    );
    let tested = server.post(KEY, &test, &json!({}));
    assert_eq!(tested.body["is_ok"], true, "{tested:?}");
}

#[test]
fn what_the_server_writes_is_for_its_user_alone() {
    let home = Home::any();
    let root = home.folder.join("exports");
    fs::create_dir(&root).expect("a folder");
    fs::set_permissions(&root, fs::Permissions::from_mode(0o755)).expect("its mode");
    let server = home.spawn(home.keyed().env("HEDGEROW_EXPORT_ROOT", &root)).ready();
    deliver(&server);
    let organization = server.get(KEY, "/api/organizations/@current/").text("/id").to_owned();
    until(
        "the folder of the organization is there",
        Duration::from_secs(10),
        || root.join(&organization).is_dir().then_some(()),
    );
    let data = home.folder.join("data");
    let found: Vec<_> = walk(&data).into_iter().chain(walk(&root.join(&organization))).collect();
    let has = |end: &str| found.iter().any(|(path, _)| path.to_string_lossy().ends_with(end));
    assert!(
        has("events.sqlite") && has("events.sqlite-wal") && has("secret.key"),
        "{found:?}"
    );
    for (path, mode) in &found {
        let most = if path.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode & !most, 0, "{} has the mode {mode:o}", path.display());
    }
    let said = server.process.log();
    assert!(
        said.contains("chmod go-rwx") && said.contains("755"),
        "an open folder is reported: {said}"
    );
}
