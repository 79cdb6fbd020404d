//! Shell completions and manual pages, generated from the definition of the command line.

use std::fs;
use std::io::{Write, stdout};
use std::path::Path;

use anyhow::Context;
use clap_complete::Shell;

/// Prints the completions of one shell.
pub(crate) fn completions(mut command: clap::Command, shell: Shell) -> anyhow::Result<()> {
    let name = command.get_name().to_owned();
    // Into memory first: the generator panics when whoever reads it stops early.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut script);
    stdout().write_all(&script)?;
    Ok(())
}

/// Writes a page for the program and one for each of its commands.
pub(crate) fn man_pages(command: clap::Command, folder: &Path) -> anyhow::Result<()> {
    let written = fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(command, folder));
    written.with_context(|| format!("cannot write manual pages to {}", folder.display()))
}
