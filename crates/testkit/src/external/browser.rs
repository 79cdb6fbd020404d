//! A browser that carries out a journey written in JavaScript.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

/// How long a whole journey may take.
const LIMIT: Duration = Duration::from_mins(2);

/// Runs a script that imports `journey` from `crates/testkit/external/browser.mjs`, with these variables set, and
/// returns what it printed. If it fails, a screenshot is in the folder `TESTKIT_SCREENSHOTS`.
pub async fn run(script: &Path, env: &[(&str, &str)]) -> String {
    let screenshots = std::env::var_os("TESTKIT_SCREENSHOTS");
    let screenshots = screenshots.unwrap_or_else(|| std::env::temp_dir().join("hedgerow-screenshots").into());
    let mut command = Command::new("node");
    command
        .arg(script)
        .env("TESTKIT_COMPONENTS", super::folder())
        .env("TESTKIT_SCREENSHOTS", screenshots)
        .env("NODE_NO_WARNINGS", "1")
        .envs(env.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let mut child = command.spawn().expect("node; `cargo xtask components` installs it");
    // Held open to the end: a journey, and its browser with it, ends when we do.
    let _input = child.stdin.take();
    let ended = tokio::time::timeout(LIMIT, child.wait_with_output()).await;
    let output = ended.unwrap_or_else(|_| panic!("{} is not over after {LIMIT:?}", script.display()));
    let output = output.expect("our own child");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{} failed:\n{printed}{said}", script.display());
    printed
}
