//! The console in a real browser: journeys through it, and pictures of it.

use anyhow::Result;

use crate::{cargo, checks, components, process, root, target};

/// Goes through all journeys and looks at every page; or only those that are named.
pub(crate) fn journeys(names: &[String]) -> Result<()> {
    node("run.mjs", names)
}

/// `cargo xtask browser`: builds and installs only what the journeys need.
pub(crate) fn journeys_alone(names: &[String]) -> Result<()> {
    components::for_browsing()?;
    checks::run(cargo().args(["build", "--workspace", "--quiet"]))?;
    journeys(names)
}

/// `cargo xtask screenshots`
pub(crate) fn screenshots() -> Result<()> {
    components::for_browsing()?;
    checks::run(cargo().args(["build", "--workspace", "--quiet"]))?;
    node("screenshots.mjs", &[])
}

/// Runs one of the scripts, which start the server and everything around it by themselves.
fn node(script: &str, arguments: &[String]) -> Result<()> {
    let mut node = process::command("node");
    node.arg(root().join("browser").join(script))
        .args(arguments)
        .env("BROWSER_SERVER", target().join("debug/hedgerow"))
        .env("TESTKIT_COMPONENTS", components::folder())
        .env("TESTKIT_SCREENSHOTS", target().join("screenshots"))
        .env("BROWSER_PICTURES", root().join("docs/screenshots"));
    checks::run(&mut node)
}
