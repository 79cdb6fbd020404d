//! Processes that wait for an app.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal, getpriority_process, kill_process};
use sandbox::{Code, Instance, Meta, Program, Sandbox};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::kit::{Remembering, files, limits};

/// The processes of one sandbox, which has a program of its own.
struct Children {
    folder: TempDir,
}

impl Children {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        symlink(env!("CARGO_BIN_EXE_sandbox-child"), folder.path().join("child")).unwrap();
        Self { folder }
    }

    fn program(&self) -> String {
        self.folder.path().join("child").to_str().unwrap().to_owned()
    }

    fn sandbox(&self) -> Sandbox {
        Sandbox::new(Program::new(self.program()), limits())
    }

    fn alive(&self) -> Vec<i32> {
        let is_ours = |folder: &Path| {
            let command = fs::read_to_string(folder.join("cmdline")).unwrap_or_default();
            command.starts_with(&self.program())
        };
        let processes = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap());
        let numbered = processes.filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path())));
        let mut found: Vec<i32> = numbered.filter(|(_, path)| is_ours(path)).map(|(id, _)| id).collect();
        found.sort_unstable();
        found
    }

    /// Waits until there are so many.
    async fn count(&self, count: usize) -> Vec<i32> {
        for _ in 0..1000 {
            let alive = self.alive();
            if alive.len() == count {
                return alive;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("there are {:?} instead of {count}", self.alive());
    }
}

const ANSWERING: &str = "let calls = 0; export const composeWebhook = () => ++calls";

async fn code(sandbox: &Sandbox) -> Code {
    sandbox.read(&files([("index.ts", ANSWERING)])).await.unwrap().code
}

async fn open(sandbox: &Sandbox, code: &Code) -> Instance {
    sandbox
        .open(code, Meta::default(), Arc::new(Remembering::default()))
        .await
        .unwrap()
}

async fn answer(app: &mut Instance) -> Value {
    app.call("composeWebhook", vec![json!({})]).await.unwrap()
}

#[tokio::test]
async fn an_app_gets_a_process_that_was_started_before_and_is_its_own() {
    let children = Children::new();
    let sandbox = children.sandbox();
    let code = code(&sandbox).await;
    let mut first = open(&sandbox, &code).await;
    let before = children.count(3).await;
    let mut second = open(&sandbox, &code).await;
    let after = children.count(4).await;
    let new: Vec<&i32> = after.iter().filter(|id| !before.contains(id)).collect();
    assert!(
        new.len() == 1,
        "the app has one of {before:?}, and {new:?} took its place"
    );
    assert_eq!(answer(&mut first).await, 1);
    assert_eq!(answer(&mut first).await, 2);
    assert_eq!(answer(&mut second).await, 1);
    drop((first, second, sandbox));
    children.count(0).await;
}

#[tokio::test]
async fn whoever_has_many_leaves_more_of_the_processor_to_others() {
    let children = Children::new();
    let sandbox = children.sandbox();
    let code = code(&sandbox).await;
    let app = open(&sandbox, &code).await;
    let spares = children.count(3).await;
    let niceness = |id: &i32| getpriority_process(Pid::from_raw(*id)).unwrap();
    assert!(spares.iter().all(|id| niceness(id) == 10));
    for (rank, expected) in [(1, 12), (3, 16), (5, 19), (1000, 19)] {
        app.lower_priority(rank);
        let highest = spares.iter().map(niceness).max();
        assert_eq!(highest, Some(expected));
    }
    assert_eq!(
        spares.iter().filter(|id| niceness(id) == 10).count(),
        2,
        "the others are as before"
    );
}

#[tokio::test]
async fn one_that_was_killed_while_it_waited_is_not_used() {
    let children = Children::new();
    let sandbox = children.sandbox();
    let code = code(&sandbox).await;
    drop(open(&sandbox, &code).await);
    let spares = children.count(2).await;
    for id in &spares {
        kill_process(Pid::from_raw(*id).unwrap(), Signal::KILL).unwrap();
    }
    // A process first loses its program, and a moment later it can be found out that it ended.
    let has_ended = |id: &i32| fs::read_to_string(format!("/proc/{id}/stat")).is_ok_and(|stat| stat.contains(") Z "));
    while !spares.iter().all(has_ended) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let mut app = open(&sandbox, &code).await;
    assert_eq!(answer(&mut app).await, 1);
}
