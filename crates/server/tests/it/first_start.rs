//! What a new operator sees, and what automation fixes in advance.

use serde_json::Value;

use crate::client::Request;
use crate::home::{Home, KEY, OWNER};
use crate::on_each;

const PASSWORD: &str = "correct horse battery staple";
const NO_KEYS: [(&str, &str); 3] = [
    ("too short", "fifteen-letters"),
    ("not printable", "sixteen letters and spaces"),
    (
        "wrong checksum",
        "hgr_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefgAAAAAA",
    ),
];

/// The rest of the line that begins so.
fn after<'a>(text: &'a str, label: &str) -> &'a str {
    let mut lines = text.lines().filter_map(|line| line.trim().strip_prefix(label));
    lines.next().unwrap_or_else(|| panic!("no {label} in: {text}")).trim()
}

on_each! {
    fn the_first_start_prints_a_request_that_works(home: Home) {
        let server = home.spawn(&mut home.command()).ready();
        let printed = server.process.stdout();
        let key = after(&printed, "API key");
        let (header, url) = after(&printed, "curl -H \"").split_once("\" ").expect("a header and an address");
        assert_eq!(header, format!("Authorization: Bearer {key}"));
        let path = url.strip_prefix(&format!("http://{}", server.address)).expect("an address of this server");

        let (name, value) = header.split_once(": ").expect("a header");
        let reply = server.send(Request::new("GET", path).header(name, value));
        assert_eq!((reply.status, &reply.body["count"]), (200, &Value::from(1)), "{reply:?}");
        assert_eq!(reply.body["results"].as_array().map(Vec::len), Some(1));
        assert!(!server.process.log().contains(key), "keys are not logged");
    }

    fn the_first_start_prints_an_event_that_is_taken(home: Home) {
        let server = home.spawn(&mut home.command()).ready();
        let printed = server.process.stdout();
        let site = format!("curl http://{}", server.address);
        let (path, body) = after(&printed, &site).split_once(" -d '").expect("a path and a body");
        let body: Value = serde_json::from_str(body.trim_end_matches('\'')).expect("JSON in quotes");
        let reply = server.send(Request::new("POST", path).json(&body));
        assert_eq!((reply.status, &reply.body["status"]), (200, &Value::from(1)), "{reply:?}");
        let token = body["api_key"].as_str().expect("a token");
        assert!(!server.process.log().contains(token), "tokens are not logged");
    }

    fn the_printed_password_signs_in(home: Home) {
        let server = home.spawn(&mut home.command()).ready();
        let printed = server.process.stdout();
        let (email, password) = (after(&printed, "email"), after(&printed, "password"));
        let reply = server.sign_in(email, password);
        assert_eq!((reply.status, reply.text("/user/email")), (200, email));
        assert_eq!(server.sign_in(email, "something else").status, 400);
        assert!(!server.process.log().contains(password), "passwords are not logged");
    }

    fn the_second_start_prints_nothing(home: Home) {
        let first = home.spawn(&mut home.command()).ready();
        let printed = first.process.stdout();
        let key = after(&printed, "API key");
        drop(first);
        let second = home.spawn(&mut home.command()).ready();
        assert_eq!(second.get(key, "/api/organizations/").status, 200);
        assert_eq!(second.process.stdout(), "");
        assert!(!second.process.log().contains(key));
    }

    fn chosen_secrets_are_used_and_not_printed(home: Home) {
        let mut command = home.keyed();
        command
            .env("HEDGEROW_BOOTSTRAP_EMAIL", "ada@example.com")
            .env("HEDGEROW_BOOTSTRAP_PASSWORD", PASSWORD);
        let server = home.spawn(&mut command).ready();
        assert_eq!(server.get(KEY, "/api/organizations/").body["count"], 1);
        assert_eq!(server.sign_in("ada@example.com", PASSWORD).status, 200);

        let printed = server.process.stdout();
        assert_eq!(after(&printed, "email"), "ada@example.com");
        for text in [printed, server.process.log()] {
            assert!(!text.contains(KEY) && !text.contains(PASSWORD), "{text}");
        }
    }

    fn a_bad_first_key_is_refused_and_leaves_nothing_behind(home: Home) {
        for (why, key) in NO_KEYS {
            let ended = home.spawn(home.command().env("HEDGEROW_BOOTSTRAP_API_KEY", key)).end();
            assert!(ended.code.is_some_and(|code| code != 0), "{why}: {ended:?}");
            assert_eq!(ended.stdout, "", "{why}");
            assert!(!ended.stderr.contains(key), "{why}: a secret is not repeated: {}", ended.stderr);
            assert!(ended.stderr.contains("16"), "{why}: says what would do: {}", ended.stderr);
        }
        assert_eq!(home.run(&["users", "list"]), "");
        assert_eq!(home.start().get(KEY, "/api/organizations/").status, 200);
        assert_eq!(home.run(&["users", "list"]).matches(OWNER).count(), 1);
    }
}

#[test]
fn a_bad_first_key_is_refused_by_the_name_of_its_setting() {
    let home = Home::any();
    for (why, key) in NO_KEYS {
        let ended = home.spawn(home.command().env("HEDGEROW_BOOTSTRAP_API_KEY", key)).end();
        let message = ended.stderr.to_lowercase().replace('-', "_");
        assert!(message.contains("bootstrap_api_key"), "{why}: {}", ended.stderr);
    }
}
