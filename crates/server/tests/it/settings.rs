//! Settings by flag, by environment, by file; and those that are none.

use std::fs;
use std::net::TcpListener;
use std::process::Command;

use crate::client::Request;
use crate::home::{Home, KEY};

/// The limit a server started so says it has.
fn rate(home: &Home, command: &mut Command) -> String {
    let server = home.spawn(command).ready();
    let reply = server.get(KEY, "/api/organizations/");
    assert_eq!(reply.status, 200);
    reply.header("ratelimit-policy").to_owned()
}

/// Starts it, expects it to refuse, and returns what it says.
fn refusal(home: &Home, command: &mut Command) -> String {
    let ended = home.spawn(command).end();
    assert!(ended.code.is_some_and(|code| code != 0), "{ended:?}");
    assert_eq!(ended.stdout, "");
    ended.stderr
}

#[test]
fn a_flag_beats_the_environment_and_the_environment_beats_the_file() {
    let home = Home::any();
    assert_eq!(rate(&home, &mut home.keyed()), "");
    fs::write(home.folder.join("limits.toml"), "rate_limit = \"11/minute\"\n").expect("a file");
    let by_file = || {
        let mut command = home.keyed();
        command.args(["--config", "limits.toml"]);
        command
    };
    assert_eq!(rate(&home, &mut by_file()), "\"key\";q=11;w=60");
    let mut both = by_file();
    both.env("HEDGEROW_RATE_LIMIT", "22/minute");
    assert_eq!(rate(&home, &mut both), "\"key\";q=22;w=60");
    assert_eq!(
        rate(&home, both.args(["--rate-limit", "33/hour"])),
        "\"key\";q=33;w=3600"
    );
}

#[test]
fn a_file_is_found_by_its_usual_name_or_by_variable() {
    let home = Home::any();
    fs::write(home.folder.join("hedgerow.toml"), "rate_limit = \"44/minute\"\n").expect("a file");
    assert_eq!(rate(&home, home.keyed().arg("serve")), "\"key\";q=44;w=60");
    fs::write(home.folder.join("other.toml"), "rate_limit = \"55/minute\"\n").expect("a file");
    let mut command = home.keyed();
    command.env("HEDGEROW_CONFIG", "other.toml");
    assert_eq!(rate(&home, &mut command), "\"key\";q=55;w=60");
    assert!(refusal(&home, home.command().args(["--config", "none.toml"])).contains("none.toml"));
}

#[test]
fn a_list_in_a_file_is_a_list() {
    let home = Home::any();
    let origins = ["https://one.example", "https://two.example"];
    let text = format!("cors_origins = {origins:?}\nshutdown_delay = 0\n");
    fs::write(home.folder.join("hedgerow.toml"), text).expect("a file");
    let server = home.start();
    for origin in origins {
        let request = Request::new("GET", "/api/organizations/")
            .key(KEY)
            .header("Origin", origin);
        assert_eq!(server.send(request).header("access-control-allow-origin"), origin);
    }
    let request = Request::new("GET", "/api/organizations/").key(KEY);
    let reply = server.send(request.header("Origin", "https://three.example"));
    assert_eq!(reply.header("access-control-allow-origin"), "");
}

/// The console's examples set it in the shell of whoever tries them.
#[test]
fn the_key_of_a_client_is_no_setting() {
    let home = Home::any();
    let ended = home
        .spawn(home.command().env("HEDGEROW_API_KEY", "hgr_x").args(["users", "list"]))
        .end();
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[test]
fn an_unknown_setting_is_refused_by_name() {
    let home = Home::any();
    let by_variable = refusal(&home, home.command().env("HEDGEROW_RATE_LIMITS", "1/minute"));
    assert!(by_variable.contains("HEDGEROW_RATE_LIMITS"), "{by_variable}");
    let by_flag = refusal(&home, home.command().args(["--rate-limits", "1/minute"]));
    assert!(by_flag.contains("--rate-limits"), "{by_flag}");
    for (name, text) in [
        ("rate_limits", "rate_limits = \"1/minute\""),
        ("server", "[server]\nlisten = \"x\""),
    ] {
        fs::write(home.folder.join("wrong.toml"), text).expect("a file");
        let by_file = refusal(&home, home.command().args(["--config", "wrong.toml"]));
        assert!(by_file.contains(name) && by_file.contains("wrong.toml"), "{by_file}");
    }
    assert!(!home.folder.join("data").exists(), "a refusal leaves nothing behind");
}

#[test]
fn a_wrong_value_is_refused_with_the_setting_and_the_value() {
    let home = Home::any();
    let by_variable = refusal(&home, home.command().env("HEDGEROW_RATE_LIMIT", "ten/fortnight"));
    fs::write(home.folder.join("wrong.toml"), "rate_limit = \"ten/fortnight\"").expect("a file");
    let by_file = refusal(&home, home.command().args(["--config", "wrong.toml"]));
    for message in [by_variable, by_file] {
        assert!(
            message.contains("rate-limit") && message.contains("ten/fortnight"),
            "{message}"
        );
    }
}

#[test]
fn help_explains_every_setting() {
    let home = Home::any();
    let help = home.run(&["--help"]);
    let source = [
        include_str!("../../src/settings/mod.rs"),
        include_str!("../../src/settings/data.rs"),
        include_str!("../../src/settings/providers.rs"),
    ]
    .concat();
    let settings = source.split("env = \"HEDGEROW_").skip(1);
    let names: Vec<&str> = settings.filter_map(|rest| rest.split('"').next()).collect();
    assert!(names.len() >= 15, "{names:?}");
    for name in names {
        let variable = ["=", "]"].map(|end| format!("[env: HEDGEROW_{name}{end}"));
        assert!(variable.iter().any(|text| help.contains(text)), "{name}: {help}");
        let flag = format!("--{} <", name.to_lowercase().replace('_', "-"));
        let mut lines = help.lines().skip_while(|line| !line.trim_start().starts_with(&flag));
        assert!(lines.next().is_some(), "{flag} is not in: {help}");
        let explanation = lines.next().unwrap_or_default().trim();
        assert!(
            explanation.len() > 10 && !explanation.starts_with('['),
            "{flag}: {explanation}"
        );
    }
}

#[test]
fn help_shows_no_secret_that_is_set() {
    let home = Home::any();
    let secrets = ["database_url", "events_url", "bootstrap_password", "bootstrap_api_key"];
    let value = "postgres://me:open-sesame@127.0.0.1/x";
    let mut by_variable = home.command();
    for name in secrets {
        by_variable.env(format!("HEDGEROW_{}", name.to_uppercase()), value);
    }
    let text = secrets.map(|name| format!("{name} = \"{value}\"\n")).concat();
    fs::write(home.folder.join("secrets.toml"), text).expect("a file");
    let mut by_file = home.command();
    by_file.args(["--config", "secrets.toml"]);
    for command in [&mut by_variable, &mut by_file] {
        let ended = home.spawn(command.arg("--help")).end();
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let shown: Vec<&str> = ended
            .stdout
            .lines()
            .filter(|line| line.contains("open-sesame"))
            .collect();
        assert!(shown.is_empty(), "{:?} shows {shown:?}", command.get_args());
    }
}

#[test]
fn a_port_that_is_taken_is_named_with_the_way_out() {
    let home = Home::any();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("its address").to_string();
    let message = refusal(&home, home.command().args(["--listen", &address]));
    assert!(message.contains(&address) && message.contains("--listen"), "{message}");
    // The welcome is shown once, so nothing may be made before the port is ours.
    assert_eq!(home.run(&["users", "list"]), "");
}
