//! Lists the documentation's pages, and the pictures they show, so that they become part of the binary.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs")
        .canonicalize()?;
    let mut files = Vec::new();
    collect(&docs, &mut files)?;
    files.sort();
    let is_page = |file: &&PathBuf| file.extension().is_some_and(|ending| ending == "md");
    let pages: io::Result<Vec<String>> = files.iter().filter(is_page).map(fs::read_to_string).collect();
    let pages = pages?;

    let mut list = String::from("&[\n");
    for file in &files {
        let name = file
            .strip_prefix(&docs)
            .expect("files were found below")
            .display()
            .to_string();
        let is_shown = pages.iter().any(|text| text.contains(&format!("]({name})")));
        if is_page(&file) || is_shown {
            println!("cargo:rerun-if-changed={}", file.display());
            let path = file.display().to_string();
            let _ = writeln!(list, "    ({name:?}, include_bytes!({path:?})),");
        }
    }
    list.push_str("]\n");
    let out = env::var_os("OUT_DIR").expect("Cargo sets it");
    fs::write(Path::new(&out).join("documents.rs"), list)
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path
            .extension()
            .is_some_and(|ending| ending == "md" || ending == "svg" || ending == "png")
        {
            files.push(path);
        }
    }
    Ok(())
}
