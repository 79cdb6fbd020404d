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
    ensure!(count == 0, "the delivery is not what was delivered: {count} problems");
    let record = &report.manifest.hedgerow;
    let (rows, files) = (record.rows, record.files.len());
    writeln!(stdout(), "{rows} rows in {files} files are as they were delivered")?;
    Ok(())
}
