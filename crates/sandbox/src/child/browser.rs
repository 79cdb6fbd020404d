//! The parts of an app that run in browsers: transpiled here, and never run.

use super::transpile::transpile;
use crate::{Fault, Files};

/// Modules that the page has already.
const REACT: [&str; 1] = ["react"];

/// `site.ts`, as an expression: a function that returns what the file exports.
pub(crate) fn site(files: &Files) -> Result<Option<String>, Fault> {
    transpiled(files, "site.ts", &[])
}

/// `frontend.tsx`, in the same form, over a global `React`.
pub(crate) fn frontend(files: &Files) -> Result<Option<String>, Fault> {
    transpiled(files, "frontend.tsx", &REACT)
}

fn transpiled(files: &Files, file: &str, importable: &[&str]) -> Result<Option<String>, Fault> {
    let Some(text) = files.get(file).filter(|text| !text.trim().is_empty()) else {
        return Ok(None);
    };
    let transpiled = transpile(file, text)?;
    let foreign = transpiled
        .imports
        .iter()
        .find(|import| !importable.contains(&import.specifier.as_str()));
    if let Some(import) = foreign {
        let message = format!(
            "Cannot import '{}': this file runs in browsers and cannot import other files",
            import.specifier
        );
        return Err(import.fault(file, text, message));
    }
    let react = if transpiled.imports.is_empty() {
        ""
    } else {
        "const __import = () => ({ __proto__: React, default: React });\n"
    };
    Ok(Some(format!(
        "(function () {{ let exports = {{}};\n{react}{}\nreturn exports; }})",
        transpiled.code
    )))
}
