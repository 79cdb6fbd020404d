//! Apps that lie in a folder of this server, below the one its operator named.

use std::fs::{self, File};
use std::io;
use std::path::{Component, Path, PathBuf};

use super::gather::{Cut, Gathering, Unpacked, shown};
use super::{Error, Files, Limits, Sources};

impl Sources {
    /// The files of a local app, named by a path below the folder for local apps, or by that folder's own path and more;
    /// with or without `file:` before it.
    pub async fn local(&self, url: &str) -> Result<Files, Error> {
        let root = self.local_root.clone().ok_or(Error::NoLocalApps)?;
        let (url, limits) = (url.to_owned(), self.limits.clone());
        let read = tokio::task::spawn_blocking(move || read(&root, &url, &limits));
        Ok(read.await.map_err(Error::Crashed)??.files)
    }
}

fn read(root: &Path, url: &str, limits: &Limits) -> Result<Unpacked, Error> {
    let root = fs::canonicalize(root).map_err(|source| unreadable("HEDGEROW_LOCAL_APPS", source))?;
    let folder = folder(&root, url)?;
    let mut walk = Walk {
        root: &root,
        gathering: Gathering::new(limits, Cut::Nothing),
    };
    walk.take(&folder, "")?;
    walk.gathering.finish()
}

/// The folder that is meant, if it is one and below the root.
fn folder(root: &Path, url: &str) -> Result<PathBuf, Error> {
    let none = || Error::NoFolder(shown(url));
    let path = url.strip_prefix("file:").unwrap_or(url);
    // `file:///srv/apps`, with no host between the second and the third slash.
    let path = path.strip_prefix("//").unwrap_or(path);
    let is_plain = |part| matches!(part, Component::Normal(_) | Component::RootDir | Component::CurDir);
    if path.is_empty() || path.contains('\0') || !Path::new(path).components().all(is_plain) {
        return Err(none());
    }
    let folder = fs::canonicalize(root.join(path)).map_err(|_| none())?;
    // The same answer to what is elsewhere and what is nowhere: who asks need not learn what this server has.
    if !folder.starts_with(root) || !folder.is_dir() {
        return Err(none());
    }
    Ok(folder)
}

struct Walk<'a> {
    root: &'a Path,
    gathering: Gathering<'a>,
}

impl Walk<'_> {
    fn take(&mut self, folder: &Path, name: &str) -> Result<(), Error> {
        let listed = fs::read_dir(folder).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let mut entries = listed.map_err(|source| unreadable(name, source))?;
        // So that the same folder is always told the same mistake.
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let below = entry.file_name().into_string().map_err(|below| Error::BadName {
                name: shown(&below.to_string_lossy()),
                problem: "is not UTF-8",
            })?;
            let name = match name {
                "" => below,
                name => format!("{name}/{below}"),
            };
            self.take_entry(&entry.path(), &name)?;
        }
        Ok(())
    }

    fn take_entry(&mut self, path: &Path, name: &str) -> Result<(), Error> {
        let link = fs::symlink_metadata(path).map_err(|source| unreadable(name, source))?;
        let Some(placed) = self.gathering.place(name.as_bytes(), link.is_dir())? else {
            return Ok(());
        };
        let path = fs::canonicalize(path).map_err(|source| unreadable(name, source))?;
        if !path.starts_with(self.root) {
            return Err(Error::EscapesRoot(shown(name)));
        }
        let kind = fs::metadata(&path).map_err(|source| unreadable(name, source))?;
        if kind.is_dir() {
            // Links may lead in a circle, but not for long.
            self.gathering.check_depth(&placed)?;
            return self.take(&path, name);
        }
        // Opening a pipe would wait for somebody to write into it.
        if !kind.is_file() {
            return Err(Error::NotAFile(shown(name)));
        }
        let content = File::open(&path).and_then(|file| self.gathering.read(file));
        self.gathering
            .add(placed, content.map_err(|source| unreadable(name, source))?)
    }
}

fn unreadable(name: &str, source: io::Error) -> Error {
    let name = shown(name);
    Error::Unreadable { name, source }
}
