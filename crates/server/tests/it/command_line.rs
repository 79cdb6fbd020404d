//! The commands beside `serve`, most of them next to a server that runs.

use serde_json::Value;

use crate::client::Request;
use crate::home::{Home, KEY, OWNER, Server};
use crate::on_each;

const ROUNDS: usize = 3;
/// So often that whatever may be remembered is.
const WARM: usize = 5;

/// The status of the same question, asked until the server knows the answer by heart.
fn warm_status(server: &Server, key: &str, path: &str) -> u16 {
    let statuses: Vec<u16> = (0..WARM).map(|_| server.get(key, path).status).collect();
    assert!(statuses.iter().all(|status| *status == statuses[0]), "{statuses:?}");
    statuses[0]
}

/// The first column of the newest row.
fn first_id(listed: &str) -> &str {
    listed.split('\t').next().expect("a first column")
}

on_each! {
    fn users_are_made_listed_and_given_another_password(home: Home) {
        let server = home.start();
        let made = home.run(&["users", "create", "mia@example.com", "--password", "the first of two passphrases"]);
        assert!(made.starts_with("created mia@example.com ("), "{made}");
        let listed = home.run(&["users", "list"]);
        let emails: Vec<&str> = listed.lines().filter_map(|line| line.split('\t').nth(1)).collect();
        assert_eq!(emails, [OWNER, "mia@example.com"]);

        let reply = server.sign_in("mia@example.com", "the first of two passphrases");
        assert_eq!(reply.status, 200, "{reply:?}");
        let cookie = reply.header("set-cookie").split(';').next().expect("a cookie").to_owned();
        let keys = || server.send(Request::new("GET", "/api/personal_api_keys/").header("Cookie", &cookie)).status;
        assert_eq!(keys(), 200);
        home.run(&["users", "set-password", "mia@example.com", "--password", "the second of two passphrases"]);
        assert_eq!(keys(), 401, "another password ends all sessions");
        assert_eq!(server.sign_in("mia@example.com", "the first of two passphrases").status, 400);
        assert_eq!(server.sign_in("mia@example.com", "the second of two passphrases").status, 200);
    }

    fn a_password_can_come_from_the_environment(home: Home) {
        let mut command = home.command();
        command.env("HEDGEROW_USER_PASSWORD", "from the environment of a shell").args(["users", "create", "mia@example.com"]);
        assert_eq!(home.spawn(&mut command).end().code, Some(0));
        assert_eq!(home.start().sign_in("mia@example.com", "from the environment of a shell").status, 200);
    }

    fn a_key_works_and_stops_working_on_the_very_next_request(home: Home) {
        let server = home.start();
        for _ in 0..ROUNDS {
            assert_eq!(warm_status(&server, KEY, "/api/organizations/"), 200);
            let made = home.run(&["keys", "create", OWNER, "--label", "Short-lived"]);
            let key = made.trim();
            assert_eq!(warm_status(&server, key, "/api/organizations/@current/"), 200);
            let listed = home.run(&["keys", "list", OWNER]);
            assert!(listed.lines().next().is_some_and(|line| line.ends_with("\t*\tShort-lived")), "{listed}");
            assert!(!listed.contains(key), "a list shows no key");
            let id = first_id(&listed);

            let rolled = home.run(&["keys", "roll", OWNER, id]);
            assert_eq!(server.get(key, "/api/organizations/@current/").status, 401, "rolled");
            let key = rolled.trim();
            assert_eq!(warm_status(&server, key, "/api/organizations/@current/"), 200);

            home.run(&["keys", "delete", OWNER, id]);
            assert_eq!(server.get(key, "/api/organizations/@current/").status, 401, "deleted");
            assert!(!home.run(&["keys", "list", OWNER]).contains(id));
        }
    }

    fn a_key_has_the_scopes_it_was_made_with(home: Home) {
        let server = home.start();
        let made = home.run(&["keys", "create", OWNER, "--scopes", "organization:read", "--label", "Reader"]);
        let key = made.trim();
        assert_eq!(server.get(key, "/api/organizations/").status, 200);
        let reply = server.post(key, "/api/organizations/", &serde_json::json!({ "name": "Mine" }));
        assert_eq!(reply.code(), (403, "permission_denied"));
    }

    fn a_member_who_is_added_gets_in_on_the_very_next_request(home: Home) {
        let server = home.start();
        for round in 0..ROUNDS {
            let email = format!("member{round}@example.com");
            home.run(&["users", "create", &email]);
            let made = home.run(&["keys", "create", &email]);
            let key = made.trim();
            let created = home.run(&["organizations", "create", "Acme", "--owner", OWNER]);
            let listed = home.run(&["organizations", "list"]);
            let id = first_id(&listed);
            assert_eq!(created, format!("created Acme ({id})\n"));
            assert!(listed.lines().next().is_some_and(|line| line.ends_with("\t1 member\tAcme")), "{listed}");

            let path = format!("/api/organizations/{id}/");
            assert_eq!(warm_status(&server, KEY, &path), 200, "made on the command line for the owner");
            assert_eq!(warm_status(&server, key, &path), 404, "a stranger is not told");
            home.run(&["organizations", "add-member", id, &email, "--role", "administrator"]);
            let reply = server.get(key, &path);
            assert_eq!((reply.status, &reply.body["membership_level"]), (200, &Value::from(8)));
            assert_eq!(server.get(KEY, &path).text("/member_count"), "2");
        }
    }

    fn the_first_user_is_an_operator_and_others_are_named_on_the_command_line(home: Home) {
        let server = home.start();
        let listed = home.run(&["operators", "list"]);
        assert!(listed.lines().count() == 1 && listed.contains(OWNER), "{listed}");
        home.run(&["users", "create", "mia@example.com"]);
        home.run(&["operators", "add", "mia@example.com"]);
        home.run(&["operators", "remove", OWNER]);
        let listed = home.run(&["operators", "list"]);
        assert!(listed.lines().count() == 1 && listed.contains("mia@example.com"), "{listed}");
        let last = home.spawn(home.command().args(["operators", "remove", "mia@example.com"])).end();
        assert!(last.code != Some(0) && last.stderr.contains("last operator"), "{}", last.stderr);

        let listed = home.run(&["organizations", "list"]);
        let id = first_id(&listed);
        home.run(&["organizations", "set-plugins-access-level", id, "3"]);
        let path = format!("/api/organizations/{id}/");
        assert_eq!(server.get(KEY, &path).body["plugins_access_level"], 3);
        let wrong = home.spawn(home.command().args(["organizations", "set-plugins-access-level", id, "4"])).end();
        assert!(wrong.code != Some(0) && wrong.stderr.contains("Must be 0"), "{}", wrong.stderr);
    }

    fn what_cannot_be_done_is_said_with_its_name(home: Home) {
        let unknown = home.spawn(home.command().args(["keys", "create", "nobody@example.com"])).end();
        assert_ne!(unknown.code, Some(0));
        assert!(unknown.stderr.contains("nobody@example.com"), "{}", unknown.stderr);
        home.run(&["users", "create", "mia@example.com"]);
        let twice = home.spawn(home.command().args(["users", "create", "mia@example.com"])).end();
        assert_ne!(twice.code, Some(0));
        assert!(!twice.stderr.is_empty() && !twice.stderr.contains("Database error"), "{}", twice.stderr);
    }

    fn migrating_twice_is_as_good_as_once(home: Home) {
        let done = home.run(&["migrate"]);
        assert!(done.ends_with("database is up to date\n"), "{done}");
        assert_eq!(home.run(&["migrate"]), done);
        assert_eq!(home.start().get(KEY, "/api/organizations/").status, 200);
    }

    fn two_migrations_at_once_both_succeed(home: Home) {
        let both = [(); 2].map(|()| home.spawn(home.command().arg("migrate")));
        for ended in both.map(crate::home::Process::end) {
            assert_eq!(ended.code, Some(0), "{ended:?}");
        }
    }
}

#[test]
fn many_migrations_at_once_of_a_new_sqlite_file_all_succeed() {
    for _ in 0..10 {
        let home = Home::any();
        let all = [(); 4].map(|()| home.spawn(home.command().arg("migrate")));
        for ended in all.map(crate::home::Process::end) {
            assert_eq!(ended.code, Some(0), "{ended:?}");
        }
    }
}

#[test]
fn the_openapi_document_is_printed_without_a_database() {
    let home = Home::any();
    let printed = home.run(&["openapi"]);
    let spec: Value = serde_json::from_str(&printed).expect("the spec is JSON");
    assert_eq!(spec["openapi"], "3.1.0");
    assert!(spec.pointer("/paths/~1api~1organizations~1/post").is_some());
    assert!(
        !home.folder.join("data").exists(),
        "printing a spec leaves nothing behind"
    );
}

#[test]
fn the_version_names_the_commit_and_the_date_of_the_build() {
    let printed = Home::any().run(&["--version"]);
    let rest = printed.strip_prefix(concat!("hedgerow ", env!("CARGO_PKG_VERSION"), " ("));
    let (commit, date) = rest
        .and_then(|rest| rest.trim_end().strip_suffix(')'))
        .and_then(|rest| rest.split_once(' '))
        .expect(&printed);
    assert!(commit == "unknown" || commit.len() == 12, "{printed}");
    assert!(
        date.len() == 10 && date.split('-').all(|part| part.parse::<u16>().is_ok()),
        "{printed}"
    );
}

#[test]
fn completions_and_manual_pages_come_from_the_binary() {
    let home = Home::any();
    for (shell, line) in [
        ("bash", "complete -F _hedgerow"),
        ("zsh", "#compdef hedgerow"),
        ("fish", "complete -c hedgerow"),
    ] {
        let printed = home.run(&["completions", shell]);
        assert!(
            printed.contains(line) && printed.contains("data-dir"),
            "{shell}: {printed}"
        );
    }
    let folder = home.folder.join("man");
    home.run(&["man", folder.to_str().expect("a path in UTF-8")]);
    let page = |name: &str| std::fs::read_to_string(folder.join(name));
    assert!(page("hedgerow.1").expect("a page").contains("HEDGEROW_DATA_DIR"));
    assert!(page("hedgerow-users-create.1").is_ok());
    assert!(page("hedgerow-sandbox.1").is_err(), "hidden commands have none");
    assert!(!home.folder.join("data").exists(), "neither opens a database");
}

#[test]
fn health_says_whether_the_server_is_ready() {
    let home = Home::any();
    let server = home.start();
    let listen = server.address.to_string();
    assert!(home.run(&["health", "--listen", &listen]).starts_with("ready\n"));
    server.process.signal("TERM");
    server.process.end();
    let ended = home.spawn(home.command().args(["health", "--listen", &listen])).end();
    assert!(
        ended.code != Some(0) && ended.stderr.contains("no answer from"),
        "{ended:?}"
    );
}
