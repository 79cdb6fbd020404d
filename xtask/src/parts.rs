//! The real far sides that tests start for themselves: mail, names, identity providers, a browser.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::{process, root, tools};

const PYTHON: [&str; 1] = ["aiosmtpd==1.4.6"];
const NODE: [&str; 5] = [
    "samlp@8.0.0",
    "oidc-provider@9.13.3",
    "express@5.3.0",
    "playwright-core@1.65.0",
    "axe-core@4.14.0",
];
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
    for (program, package) in DEBIAN {
        process::need(Path::new(program), package)?;
    }
    tools::unpacked("parts/simplesamlphp", "simplesamlphp")
}
