use std::io::{Write, stdout};
use std::path::Path;

use anyhow::ensure;
use exports::verify::verify;

/// Prints what is wrong with a delivery, and fails if anything is.
pub(crate) fn run(manifest: &Path) -> anyhow::Result<()> {
    let report = verify(manifest)?;
    for problem in &report.problems {
        writeln!(stdout(), "{problem}")?;
    }
    let count = report.problems.len();
    ensure!(count == 0, "verification failed: {count} problems");
    let record = &report.manifest.hedgerow;
    let (rows, files) = (record.rows, record.files.len());
    writeln!(stdout(), "verified {rows} rows in {files} files")?;
    Ok(())
}
