//! What keeps a child away from the system: a program that is confined as the engine's process is tries to get out.

use std::fs::File;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};

use sandbox::{Layer, Layers, Program, Sandbox, State, Strictness};
use tempfile::TempDir;

use crate::kit::{files, limits, sandbox};

/// What the attempts are made on: a secret file, a listener, and a process of the same user.
struct Targets {
    folder: TempDir,
    listener: TcpListener,
    process: Child,
}

impl Targets {
    fn new(name: &str) -> Self {
        // Others can enter it, so that the secret is kept by its own permissions.
        let folder = tempfile::Builder::new()
            .prefix(&format!("hedgerow-{name}-"))
            .permissions(PermissionsExt::from_mode(0o755))
            .tempdir()
            .unwrap();
        let secret = folder.path().join("secret.key");
        std::fs::write(&secret, "secret").unwrap();
        std::fs::set_permissions(&secret, PermissionsExt::from_mode(0o600)).unwrap();
        Self {
            folder,
            listener: TcpListener::bind("127.0.0.1:0").unwrap(),
            process: Command::new("sleep").arg("600").env("SECRET", "1").spawn().unwrap(),
        }
    }

    fn of(&self, attempt: &str) -> String {
        let file = |name: &str| self.folder.path().join(name).display().to_string();
        match attempt {
            "open" => file("secret.key"),
            "create" => file("new"),
            "connect" => self.listener.local_addr().unwrap().to_string(),
            _ => self.process.id().to_string(),
        }
    }

    /// Tries something with these layers alone; with all of them if none is named.
    fn attempt(&self, attempt: &str, layers: &[&str]) -> Attempt {
        let output = Command::new(env!("CARGO_BIN_EXE_sandbox-child"))
            .args(["probe", attempt, &self.of(attempt)])
            .args(layers)
            .env_clear()
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let (first, rest) = said.split_once('\n').unwrap();
        Attempt {
            layers: serde_json::from_str(first).unwrap(),
            said: rest.trim_end().to_owned(),
            signal: output.status.signal(),
            code: output.status.code(),
        }
    }
}

impl Drop for Targets {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[derive(Debug)]
struct Attempt {
    layers: Layers,
    said: String,
    signal: Option<i32>,
    code: Option<i32>,
}

/// No layer has this name.
const NONE: &[&str] = &["none"];

/// Everything that gets a process further than its pipe. The last one ends the target.
const ATTEMPTS: [&str; 14] = [
    "open",
    "create",
    "connect",
    "socket",
    "unix socket",
    "exec",
    "fork",
    "thread",
    "environment",
    "memory of another",
    "trace",
    "limits of another",
    "namespace",
    "kill",
];

#[test]
fn a_confined_process_gets_nowhere() {
    let targets = Targets::new("nowhere");
    for attempt in ATTEMPTS {
        let outcome = targets.attempt(attempt, &[]);
        let is_stopped = outcome.signal == Some(libc::SIGSYS) && outcome.said.is_empty();
        assert!(
            is_stopped || outcome.said.starts_with("refused"),
            "{attempt}: {outcome:?}"
        );
    }
    // Opening may fail in peace; whatever else is tried ends the process.
    assert_eq!(targets.attempt("open", &[]).signal, None);
    assert_eq!(targets.attempt("socket", &[]).signal, Some(libc::SIGSYS));
}

#[test]
fn without_any_layer_every_attempt_succeeds() {
    let targets = Targets::new("free");
    // A namespace of one's own takes rights that not everybody has.
    let is_root = rustix::process::geteuid().is_root();
    for attempt in ATTEMPTS
        .into_iter()
        .filter(|attempt| is_root || *attempt != "namespace")
    {
        let outcome = targets.attempt(attempt, NONE);
        assert_eq!(outcome.said, "done", "{attempt}: {outcome:?}");
    }
}

/// Which attempts each layer stops when it is alone.
const ALONE: [(&[&str], &[&str]); 7] = [
    (
        &["landlock_files"],
        &["open", "create", "environment", "memory of another"],
    ),
    (&["landlock_network"], &["connect"]),
    (&["landlock_scopes"], &["kill"]),
    // Without root's rights the one needs the other.
    (&["network_namespace", "user_namespace"], &["connect"]),
    (&["user_namespace"], &["trace", "environment", "memory of another"]),
    (
        &["user"],
        &["open", "create", "environment", "trace", "kill", "become root"],
    ),
    (&["limits"], &["open", "socket", "unix socket", "create"]),
];

#[test]
fn each_layer_holds_without_the_others() {
    let targets = Targets::new("alone");
    let mut tried = 0;
    for (layers, attempts) in ALONE {
        for attempt in attempts {
            let outcome = targets.attempt(attempt, layers);
            let holds = |layer: &Layer| outcome.layers.state(*layer) == State::InForce;
            // A kernel may lack it, and then says so; or there is no other user to become.
            if Layer::ALL
                .iter()
                .filter(|layer| layers.contains(&layer.name()))
                .all(holds)
            {
                assert!(
                    outcome.said.starts_with("refused"),
                    "{layers:?}, {attempt}: {outcome:?}"
                );
                tried += 1;
            }
        }
    }
    // Limits are there on every kernel.
    assert!(tried >= 4, "{tried}");
}

#[test]
fn what_the_server_inherited_is_closed() {
    let targets = Targets::new("descriptors");
    let inherited = File::open("/dev/null").unwrap();
    rustix::io::fcntl_setfd(&inherited, rustix::io::FdFlags::empty()).unwrap();
    assert_eq!(targets.attempt("descriptors", NONE).said, "done");
    let outcome = targets.attempt("descriptors", &["descriptors"]);
    assert_eq!(outcome.said, "refused: nothing is inherited", "{outcome:?}");
}

#[test]
fn a_confined_process_ends_as_others_do() {
    let targets = Targets::new("ends");
    let outcome = targets.attempt("panic", &[]);
    assert_eq!((outcome.code, outcome.signal), (Some(101), None), "{outcome:?}");
    for attempt in ["abort", "overflow", "allocate"] {
        let outcome = targets.attempt(attempt, &[]);
        assert_eq!(outcome.signal, Some(libc::SIGABRT), "{attempt}: {outcome:?}");
    }
}

#[tokio::test]
async fn a_child_says_which_layers_hold() {
    let layers = sandbox().check().await.unwrap();
    for layer in [
        Layer::Descriptors,
        Layer::Limits,
        Layer::NoNewPrivileges,
        Layer::SystemCalls,
    ] {
        assert_eq!(layers.state(layer), State::InForce, "{layer}");
    }
    assert!(sandbox().takes(&layers), "{layers:?}");
    assert_eq!(
        sandbox().with(Strictness::Strict).takes(&layers),
        layers.missing().is_empty()
    );
}

/// A child that says these layers hold, and no others.
fn claiming(name: &str, layers: &[&str]) -> (Targets, Program) {
    let targets = Targets::new(name);
    let script = targets.folder.path().join("child");
    let layers: Vec<String> = layers.iter().map(|layer| format!("\"{layer}\":\"in_force\"")).collect();
    let report = format!("{{\"confined\":{{{}}}}}", layers.join(","));
    std::fs::write(&script, format!("#!/bin/sh\nread limits\necho '{report}'\nread task\n")).unwrap();
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
    (targets, Program::new(script))
}

#[tokio::test]
async fn strictly_no_app_is_read_while_a_layer_is_missing() {
    let (_targets, program) = claiming("strict", &["no_new_privileges", "system_calls"]);
    let sandbox = Sandbox::new(program, limits());
    assert!(sandbox.takes(&sandbox.check().await.unwrap()));
    let fault = sandbox.read(&files([("index.ts", "")])).await.unwrap_err();
    assert!(
        fault.message.contains("ended with"),
        "it came as far as its task: {fault}"
    );
    let fault = sandbox
        .with(Strictness::Strict)
        .read(&files([("index.ts", "")]))
        .await
        .unwrap_err();
    assert!(fault.message.contains("apps cannot run on this server"), "{fault}");
    assert!(fault.message.contains("landlock_files"), "{fault}");
}

#[tokio::test]
async fn no_app_is_read_without_the_filter_of_system_calls() {
    let (_targets, program) = claiming("lax", &["no_new_privileges", "landlock_files"]);
    let fault = Sandbox::new(program, limits())
        .read(&files([("index.ts", "")]))
        .await
        .unwrap_err();
    assert!(fault.message.ends_with("limits, system_calls"), "{fault}");
}
