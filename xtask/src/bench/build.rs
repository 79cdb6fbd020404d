//! Builds what is measured.

use anyhow::Result;

use crate::{cargo, process, say};

pub(super) fn build() -> Result<()> {
    say("building");
    process::output(cargo().args(["build", "--release", "--workspace"]))?;
    Ok(())
}
