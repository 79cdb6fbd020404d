//! The real far sides that tests start for themselves: mail, names, identity providers, a browser.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};

use crate::{process, root, tools};

const PYTHON: [&str; 1] = ["aiosmtpd==1.4.6"];
const NODE: [&str; 5] = [
    "samlp@8.0.0",
    "oidc-provider@9.13.3",
    "express@5.3.0",
    "playwright-core@1.65.0",
    "axe-core@4.14.0",
];
/// The oldest that the packages above work with; Debian 12's own is older.
const OLDEST_NODE: u32 = 20;
/// Programs and the Debian packages that bring them, in Debian's version.
const DEBIAN: [(&str, &str); 7] = [
    ("/usr/sbin/knotd", "knot"),
    ("kdig", "knot-dnsutils"),
    ("openssl", "openssl"),
    ("chromium", "chromium"),
    ("php", "php-cli"),
    ("/usr/share/doc/php-xml/copyright", "php-xml"),
    ("/usr/share/doc/php-mbstring/copyright", "php-mbstring"),
];

/// Where `testkit` looks for what was not installed for the whole machine.
pub(crate) fn folder() -> PathBuf {
    root().join(".components/parts")
}

pub(crate) fn install() -> Result<()> {
    tools::python("parts/python", &PYTHON)?;
    tools::npm("parts/node", &NODE)?;
    let node = process::output(Command::new("node").arg("--version"))?;
    ensure!(
        is_recent(&node),
        "node is {}; version {OLDEST_NODE} or newer is needed",
        node.trim()
    );
    for (program, package) in DEBIAN {
        process::need(Path::new(program), package)?;
    }
    tools::unpacked("parts/simplesamlphp", "simplesamlphp")
}

/// `node --version` says `v20.19.0`.
fn is_recent(version: &str) -> bool {
    let major = version.trim_start_matches('v').split('.').next();
    major
        .and_then(|major| major.parse().ok())
        .is_some_and(|major: u32| major >= OLDEST_NODE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_node_is_told_from_a_recent_one() {
        assert!(is_recent("v20.19.0\n") && is_recent("v24.1.0"));
        assert!(!is_recent("v18.20.4\n") && !is_recent(""));
    }
}
