//! What is being released: the binary and what goes with it, the archive, the list of what is in it, and the checksums.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::licenses;
use crate::{cargo, checks, process, root, say, target, tools};

/// Shells, and what their completions are called where the shell looks for them.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "hedgerow.bash"),
    ("zsh", "_hedgerow"),
    ("fish", "hedgerow.fish"),
];
/// What goes into the archive as it is in the repository.
const FILES: [&str; 8] = [
    "README.md",
    "CHANGELOG.md",
    "LICENSE-MIT",
    "LICENSE-APACHE",
    "packaging/hedgerow.toml",
    "packaging/systemd",
    "packaging/prometheus/hedgerow.rules.yml",
    "packaging/grafana/hedgerow.json",
];
const THIRD_PARTY: &str = "THIRD-PARTY-LICENSES.txt";

/// What is being made, and where.
pub(super) struct Dist {
    version: String,
    triple: String,
    /// Set when it is not this machine's.
    pub(super) cross: Option<String>,
    /// Seconds since 1970 that all files get, so that the same commit gives the same packages.
    pub(super) epoch: String,
    /// The folder of what is released.
    pub(super) out: PathBuf,
    /// What cargo-deb takes for cargo's target folder.
    pub(super) stage: PathBuf,
}

impl Dist {
    pub(super) fn new(cross: Option<&str>) -> Result<Self> {
        let about = process::output(Command::new("rustc").current_dir(root()).arg("-vV"))?;
        let host = about.lines().find_map(|line| line.strip_prefix("host: "));
        let out = target().join("dist");
        let stage = out.join("stage");
        let _ = fs::remove_dir_all(&out);
        fs::create_dir_all(&stage)?;
        Ok(Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            triple: cross.or(host).context("rustc does not name its host")?.to_owned(),
            cross: cross.map(str::to_owned),
            epoch: epoch()?,
            out,
            stage,
        })
    }

    /// The folder that stands for `target/release` in the metadata of cargo-deb.
    fn release(&self) -> PathBuf {
        self.cross
            .as_ref()
            .map_or_else(|| self.stage.clone(), |triple| self.stage.join(triple))
            .join("release")
    }

    /// The profile is that of tests and benchmarks; what it leaves of symbols is stripped from the copy.
    pub(super) fn build(&self) -> Result<PathBuf> {
        let mut build = cargo();
        build
            .args(["build", "--release", "--locked", "--package", "server"])
            .env("SOURCE_DATE_EPOCH", &self.epoch);
        let mut folder = target();
        if let Some(triple) = &self.cross {
            build.args(["--target", triple]);
            folder.push(triple);
        }
        checks::run(&mut build)?;
        Ok(folder.join("release/hedgerow"))
    }

    /// Puts the binary and what it says about itself into one folder.
    pub(super) fn collect(&self, binary: &Path) -> Result<()> {
        let folder = self.release();
        fs::create_dir_all(folder.join("completions"))?;
        let copy = folder.join("hedgerow");
        fs::copy(binary, &copy).with_context(|| format!("cannot copy {}", binary.display()))?;
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o755))?;
        if self.cross.is_none() {
            process::output(Command::new("strip").arg("--strip-all").arg(&copy))?;
        }
        let ours = self.executable(binary)?;
        for (shell, file) in COMPLETIONS {
            let text = process::output(Command::new(&ours).args(["completions", shell]))?;
            fs::write(folder.join("completions").join(file), text)?;
        }
        // Plain in the archive; in the package compressed, as Debian's policy asks.
        for (name, is_compressed) in [("man", false), ("man1", true)] {
            let pages = folder.join(name);
            process::output(Command::new(&ours).arg("man").arg(&pages))?;
            if is_compressed {
                process::output(
                    Command::new("gzip")
                        .args(["-9", "--no-name", "--recursive"])
                        .arg(&pages),
                )?;
            }
        }
        fs::write(folder.join(THIRD_PARTY), licenses::third_party(&self.triple)?)?;
        // The server writes for its own user alone; these are for everybody.
        process::output(Command::new("chmod").args(["-R", "a+rX"]).arg(&folder))?;
        Ok(())
    }

    /// A binary that runs here: for another platform, the one built for this machine says the same.
    fn executable(&self, binary: &Path) -> Result<PathBuf> {
        if self.cross.is_none() {
            return Ok(binary.to_owned());
        }
        if process::output(Command::new(binary).arg("--version")).is_ok() {
            return Ok(binary.to_owned());
        }
        checks::run(cargo().args(["build", "--release", "--locked", "--package", "server"]))?;
        Ok(target().join("release/hedgerow"))
    }

    /// The name of the archive, and of the folder in it.
    fn name(&self) -> String {
        format!("hedgerow-{}-{}", self.version, self.triple)
    }

    pub(super) fn archive(&self) -> Result<PathBuf> {
        process::need(Path::new("zstd"), "zstd")?;
        let (name, release) = (self.name(), self.release());
        let folder = self.stage.join(&name);
        fs::create_dir_all(&folder)?;
        let mut copy = Command::new("cp");
        copy.arg("--recursive");
        copy.args(["hedgerow", "completions", "man", THIRD_PARTY].map(|name| release.join(name)));
        copy.args(FILES.map(|name| root().join(name))).arg(&folder);
        process::output(&mut copy)?;
        let archive = self.out.join(format!("{name}.tar.zst"));
        let mut tar = Command::new("tar");
        tar.arg("--create")
            .arg("--use-compress-program=zstd -19 --threads=1")
            .args([
                "--sort=name",
                "--owner=0",
                "--group=0",
                "--numeric-owner",
                "--format=ustar",
            ])
            .args(["--mode=u=rwX,go=rX".to_owned(), format!("--mtime=@{}", self.epoch)])
            .arg("--file")
            .arg(&archive)
            .arg("--directory")
            .arg(&self.stage)
            .arg(&name);
        process::output(&mut tar)?;
        Ok(archive)
    }

    /// Unpacks the archive and runs what is in it.
    pub(super) fn check_archive(&self, archive: &Path, work: &Path) -> Result<()> {
        process::output(Command::new("tar").arg("-xf").arg(archive).arg("-C").arg(work))?;
        let binary = work.join(self.name()).join("hedgerow");
        let said = process::output(Command::new(binary).arg("--version"))?;
        let wanted = format!("hedgerow {} (", self.version);
        ensure!(said.starts_with(&wanted), "the binary in the archive says it is {said}");
        say(&format!("   the archive holds {}", said.trim()));
        Ok(())
    }

    /// What the binary is made of. The tool writes beside the manifest, and names folders of this machine.
    pub(super) fn sbom(&self) -> Result<PathBuf> {
        let mut list = tools::cargo_cyclonedx()?;
        list.args([
            "--quiet",
            "--format",
            "json",
            "--spec-version",
            "1.5",
            "--no-build-deps",
        ])
        .args(["--manifest-path", "crates/server/Cargo.toml", "--target", &self.triple])
        .args(["--describe", "binaries"])
        .env("SOURCE_DATE_EPOCH", &self.epoch);
        process::output(&mut list)?;
        let mut found = None;
        for written in written_lists()? {
            let text = fs::read_to_string(&written)?;
            fs::remove_file(&written)?;
            if written.starts_with(root().join("crates/server")) {
                found = Some(text);
            }
        }
        let text = found.context("cargo-cyclonedx wrote no list for the server")?;
        let text = text.replace(&format!("file://{}", root().display()), "file:///hedgerow");
        let list: serde_json::Value = serde_json::from_str(&text)?;
        let count = list["components"].as_array().map_or(0, Vec::len);
        ensure!(
            list["bomFormat"] == "CycloneDX" && count > 100,
            "the list holds {count} components"
        );
        let path = self.out.join(format!("{}.cdx.json", self.name()));
        fs::write(&path, text)?;
        Ok(path)
    }

    pub(super) fn checksums(&self, files: &[&Path]) -> Result<()> {
        let names = files.iter().filter_map(|file| file.file_name());
        let mut sum = Command::new("sha256sum");
        let sums = process::output(sum.current_dir(&self.out).args(names))?;
        fs::write(self.out.join("SHA256SUMS"), sums)?;
        Ok(())
    }
}

/// The lists that cargo-cyclonedx wrote, one beside each manifest it looked at.
fn written_lists() -> Result<Vec<PathBuf>> {
    let mut folders: Vec<PathBuf> = fs::read_dir(root().join("crates"))?
        .flatten()
        .map(|entry| entry.path())
        .collect();
    folders.extend([root(), root().join("xtask")]);
    let mut lists = Vec::new();
    for folder in folders {
        let files = fs::read_dir(folder)?.flatten().map(|entry| entry.path());
        lists.extend(files.filter(|file| file.to_string_lossy().contains(".cdx")));
    }
    Ok(lists)
}

/// As given, else the time of the commit, else a fixed day for a copy without git.
fn epoch() -> Result<String> {
    if let Ok(given) = std::env::var("SOURCE_DATE_EPOCH") {
        ensure!(
            given.parse::<u64>().is_ok(),
            "SOURCE_DATE_EPOCH is no number of seconds"
        );
        return Ok(given);
    }
    let commit = process::output(
        Command::new("git")
            .current_dir(root())
            .args(["log", "-1", "--format=%ct"]),
    );
    Ok(commit.map_or_else(|_| "1767225600".to_owned(), |seconds| seconds.trim().to_owned()))
}
