//! Real far sides for tests: a mail server, a name server, identity providers, a browser.
//!
//! Each is a process of its own on a free loopback port, which ends with its handle, or with the test process if no
//! handle can be dropped. `cargo xtask test` installs what they need, and `cargo xtask parts` nothing else.
//! Starting blocks until the part is ready, which takes less than a second unless the machine is busy.

mod certificates;
mod dns;
mod http;
mod process;
mod smtp;

use std::path::{Path, PathBuf};

pub use dns::{Dns, SilentDns};
pub use smtp::{Mail, Smtp, SmtpOptions, Tls};

/// Where packages are that were not installed for the whole machine.
fn folder() -> PathBuf {
    let folder = std::env::var_os("TESTKIT_PARTS").map(PathBuf::from);
    folder.expect("run `cargo xtask test`, or set TESTKIT_PARTS")
}

/// One of our own scripts around a real program.
fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("parts").join(name)
}
