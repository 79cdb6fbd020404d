//! Another key for secrets, on the command line.

use std::fs;

use serde_json::json;

use crate::home::{Home, KEY, Server};
use crate::on_each;

const OLD: &str = "the first secret key that is long enough to be one";
const NEW: &str = "the second secret key that is long enough to be one";

fn export(server: &Server) -> String {
    let config = json!({ "url": "https://example.com/batch/", "token": "hush" });
    let body =
        json!({ "name": "x", "interval": "hour", "paused": true, "destination": { "type": "HTTP", "config": config } });
    let made = server.post(KEY, "/api/organizations/@current/batch_exports/", &body);
    assert_eq!(made.status, 201, "{made:?}");
    format!("/api/organizations/@current/batch_exports/{}/", made.text("/id"))
}

/// A dry test reads the secrets.
fn can_read(server: &Server, export: &str) -> bool {
    server
        .post(KEY, &format!("{export}test/?dry_run=true"), &json!({}))
        .status
        == 200
}

fn stop(server: Server) {
    server.process.signal("TERM");
    assert_eq!(server.process.end().code, Some(0));
}

on_each! {
    fn a_key_in_the_environment_is_replaced_by_rotating(home: Home) {
        let server = home.spawn(home.keyed().env("HEDGEROW_SECRET_KEY", OLD)).ready();
        let export = export(&server);
        let run = |keys: &str, command: &str| {
            let ended = home.spawn(home.command().env("HEDGEROW_SECRET_KEY", keys).args(["secret-key", command])).end();
            (ended.code, ended.stdout)
        };
        assert_eq!(run(OLD, "status"), (Some(0), "with the newest key: 1\nwith older keys: 0\n".to_owned()));
        assert_ne!(run(OLD, "add").0, Some(0), "keys of the environment are changed there");
        stop(server);
        let both = format!("{NEW},{OLD}");
        let (code, said) = run(&both, "rotate");
        assert!(code == Some(0) && said.ends_with("with the newest key: 1\nwith older keys: 0\n"), "{said}");
        assert_ne!(run(OLD, "status").0, Some(0), "the old key alone reads nothing any more");
        let server = home.spawn(home.keyed().env("HEDGEROW_SECRET_KEY", NEW)).ready();
        assert!(can_read(&server, &export));
    }

    fn a_key_in_the_file_is_replaced_by_adding_rotating_and_pruning(home: Home) {
        let server = home.start();
        let export = export(&server);
        let file = home.folder.join("data/secret.key");
        let old = fs::read_to_string(&file).expect("the key");
        home.run(&["secret-key", "add"]);
        assert_eq!(fs::read_to_string(&file).expect("the keys").lines().count(), 2);
        assert!(can_read(&server, &export), "a server that runs goes on");
        stop(server);
        let server = home.start();
        assert!(can_read(&server, &export));
        home.run(&["secret-key", "rotate"]);
        home.run(&["secret-key", "prune"]);
        let new = fs::read_to_string(&file).expect("the key");
        assert!(new.lines().count() == 1 && !old.contains(new.trim()));
        stop(server);
        assert!(can_read(&home.start(), &export));
    }
}
