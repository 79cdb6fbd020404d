//! What is released: an archive, a Debian package, a list of what is in them, and their checksums.

mod deb;
mod install;
mod licenses;
mod release;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::process::WorkDir;
use crate::say;
use release::Dist;

/// What the caller asked for.
#[derive(Debug, Default)]
struct Options {
    /// A release binary that is built already.
    binary: Option<PathBuf>,
    /// The platform to build for, if it is not this one.
    target: Option<String>,
    /// Whether to install, start, upgrade and remove the package.
    is_checked: bool,
}

impl Options {
    fn parse(arguments: &[String]) -> Result<Self> {
        let mut options = Self::default();
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let mut value = || rest.next().with_context(|| format!("{argument} needs a value"));
            match argument.as_str() {
                "--binary" => options.binary = Some(fs::canonicalize(value()?)?),
                "--target" => options.target = Some(value()?.clone()),
                "--check" => options.is_checked = true,
                other => bail!("{other} is unknown: use --binary FILE, --target TRIPLE or --check"),
            }
        }
        Ok(options)
    }
}

/// `cargo xtask dist`
pub(crate) fn dist(arguments: &[String]) -> Result<()> {
    let options = Options::parse(arguments)?;
    let dist = Dist::new(options.target.as_deref())?;
    let binary = match options.binary {
        Some(binary) => binary,
        None => dist.build()?,
    };
    dist.collect(&binary)?;
    let archive = dist.archive()?;
    let package = deb::package(&dist, None)?;
    let sbom = dist.sbom()?;
    dist.checksums(&[&archive, &package, &sbom])?;
    for file in fs::read_dir(&dist.out)?.flatten().filter(|file| file.path().is_file()) {
        say(&format!(
            "   {:>11} bytes  {}",
            file.metadata()?.len(),
            file.path().display()
        ));
    }
    if options.is_checked {
        let work = WorkDir::new("dist")?;
        dist.check_archive(&archive, &work.0)?;
        install::check(&dist, &package, &work.0)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::Options;

    #[test]
    fn unknown_options_are_refused() {
        let parse = |words: &[&str]| Options::parse(&words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>());
        assert!(parse(&["--check"]).is_ok_and(|options| options.is_checked));
        assert!(parse(&["--chekc"]).is_err() && parse(&["--target"]).is_err());
    }
}
