//! Files and folders below the root, and nothing outside of it.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use bytes::Bytes;

use super::super::files::{Bucket, Unfinished};
use crate::Error;

/// Unfinished files are here, in the folder that they are for: renaming works only within a file system.
const HIDDEN: &str = ".hedgerow";
/// Of a small file, such as a manifest.
const READ_LIMIT: u64 = 16 * 1024 * 1024;

#[derive(Debug, Clone)]
pub(super) struct Folder {
    root: PathBuf,
    folder: String,
}

impl Folder {
    pub(super) fn new(root: &Path, folder: &str) -> Self {
        Self {
            root: root.to_owned(),
            folder: folder.to_owned(),
        }
    }

    /// The root, which is made if it is to be; what it is in must be there. It is no link: whoever is beside it cannot lead
    /// us elsewhere.
    fn own_root(&self, is_made: bool) -> io::Result<PathBuf> {
        let (Some(above), Some(name)) = (self.root.parent(), self.root.file_name()) else {
            return fs::canonicalize(&self.root);
        };
        let root = fs::canonicalize(above)?.join(name);
        if is_made {
            make_folder(&root)?;
        }
        if fs::symlink_metadata(&root)?.is_dir() {
            Ok(root)
        } else {
            Err(io::Error::other(EscapesRoot))
        }
    }

    /// The folder and the name of a key. The folders on the way are made, if they are to be; none of them leads out.
    fn place(&self, key: &str, is_made: bool) -> io::Result<FilePath> {
        let root = self.own_root(is_made)?;
        let mut folder = root.clone();
        let (above, name) = key.rsplit_once('/').unwrap_or(("", key));
        for part in self
            .folder
            .split('/')
            .chain(above.split('/'))
            .filter(|part| !part.is_empty())
        {
            folder.push(part);
            if is_made {
                make_folder(&folder)?;
            }
            folder = fs::canonicalize(&folder)?;
            if !folder.starts_with(&root) {
                return Err(io::Error::other(EscapesRoot));
            }
        }
        Ok(FilePath {
            folder,
            name: name.to_owned(),
        })
    }
}

#[derive(Debug, thiserror::Error)]
#[error("a symbolic link leads out of the export root")]
struct EscapesRoot;

struct FilePath {
    folder: PathBuf,
    name: String,
}

impl FilePath {
    fn path(&self) -> PathBuf {
        self.folder.join(&self.name)
    }

    fn hidden(&self) -> PathBuf {
        self.folder.join(HIDDEN)
    }

    fn begin(self) -> io::Result<Draft> {
        make_folder(&self.hidden())?;
        // A link in place of our own folder would be followed.
        if !fs::symlink_metadata(self.hidden())?.is_dir() {
            return Err(io::Error::other(EscapesRoot));
        }
        let path = self.hidden().join(&self.name);
        remove(&path)?;
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?;
        Ok(Draft {
            place: self,
            path,
            file: Some(file),
        })
    }
}

/// A file in the hidden folder.
struct Draft {
    place: FilePath,
    path: PathBuf,
    file: Option<File>,
}

impl Draft {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.file {
            Some(file) => file.write_all(bytes),
            None => Err(io::Error::other("the file is closed")),
        }
    }

    fn close(&mut self) -> io::Result<()> {
        self.file.take().map_or(Ok(()), |file| file.sync_all())
    }

    fn publish(&mut self) -> io::Result<()> {
        fs::rename(&self.path, self.place.path())?;
        File::open(&self.place.folder)?.sync_all()?;
        // Stays if other files are in it.
        let _ = fs::remove_dir(self.place.hidden());
        Ok(())
    }

    fn discard(&mut self) {
        self.file = None;
        let _ = fs::remove_file(&self.path);
        let _ = fs::remove_dir(self.place.hidden());
    }
}

#[async_trait]
impl Bucket for Folder {
    fn name(&self) -> String {
        format!("the folder \"{}\" in the export root", self.folder)
    }

    async fn begin(&self, key: &str) -> Result<Box<dyn Unfinished>, Error> {
        let (folder, key) = (self.clone(), key.to_owned());
        let draft = on_disk(move || folder.place(&key, true)?.begin()).await?;
        Ok(Box::new(OpenDraft(Some(draft))))
    }

    async fn read(&self, key: &str) -> Result<Option<Bytes>, Error> {
        let (folder, key) = (self.clone(), key.to_owned());
        on_disk(move || none_if_missing(read(&folder, &key))).await
    }

    async fn write(&self, key: &str, content: Bytes) -> Result<(), Error> {
        let (folder, key) = (self.clone(), key.to_owned());
        on_disk(move || {
            let mut draft = folder.place(&key, true)?.begin()?;
            draft.write(&content)?;
            draft.close()?;
            draft.publish()
        })
        .await
    }

    async fn delete(&self, key: &str) -> Result<(), Error> {
        let (folder, key) = (self.clone(), key.to_owned());
        on_disk(move || {
            let deleted = folder.place(&key, false).and_then(|place| remove(&place.path()));
            none_if_missing(deleted.map(Some)).map(|_| ())
        })
        .await
    }

    async fn list(&self, beginning: &str) -> Result<Vec<String>, Error> {
        let (folder, beginning) = (self.clone(), beginning.to_owned());
        on_disk(move || {
            // What the root is in has to be there.
            folder.own_root(true)?;
            let place = none_if_missing(folder.place(&beginning, false).map(Some))?;
            place.map_or(Ok(Vec::new()), |place| list(&place, &beginning))
        })
        .await
    }

    async fn sweep(&self, beginning: &str) -> Result<(), Error> {
        let (folder, beginning) = (self.clone(), beginning.to_owned());
        on_disk(move || {
            let swept = folder.place(&beginning, false).and_then(|place| sweep(&place));
            none_if_missing(swept.map(Some)).map(|_| ())
        })
        .await
    }
}

/// Others on the machine have no business in there.
fn make_folder(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

fn read(folder: &Folder, key: &str) -> io::Result<Option<Bytes>> {
    let path = folder.place(key, false)?.path();
    if !fs::symlink_metadata(&path)?.is_file() {
        return Err(io::Error::other(EscapesRoot));
    }
    let mut content = Vec::new();
    File::open(path)?.take(READ_LIMIT).read_to_end(&mut content)?;
    Ok(Some(content.into()))
}

fn list(place: &FilePath, beginning: &str) -> io::Result<Vec<String>> {
    let above = beginning
        .rsplit_once('/')
        .map_or(String::new(), |(above, _)| format!("{above}/"));
    let mut keys = Vec::new();
    for entry in fs::read_dir(&place.folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.starts_with(&place.name) {
            keys.push(format!("{above}{name}"));
        }
    }
    Ok(keys)
}

/// Removes drafts whose names begin like this.
fn sweep(place: &FilePath) -> io::Result<()> {
    if !fs::symlink_metadata(place.hidden())?.is_dir() {
        return Err(io::Error::other(EscapesRoot));
    }
    for entry in fs::read_dir(place.hidden())? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(&place.name) {
            remove(&entry.path())?;
        }
    }
    let _ = fs::remove_dir(place.hidden());
    Ok(())
}

fn remove(path: &Path) -> io::Result<()> {
    none_if_missing(fs::remove_file(path).map(Some)).map(|_| ())
}

fn none_if_missing<T>(result: io::Result<Option<T>>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        result => result,
    }
}

/// A file that is being written, but for the moments in which a thread has it.
struct OpenDraft(Option<Draft>);

impl OpenDraft {
    async fn with_draft(
        &mut self,
        work: impl FnOnce(&mut Draft) -> io::Result<()> + Send + 'static,
    ) -> Result<(), Error> {
        let Some(mut draft) = self.0.take() else {
            return Err(Error::retryable(
                "writing was interrupted; it will be retried",
                "no draft",
            ));
        };
        let (draft, done) = on_disk(move || {
            let done = work(&mut draft);
            Ok((draft, done))
        })
        .await?;
        self.0 = Some(draft);
        done.map_err(explain)
    }
}

#[async_trait]
impl Unfinished for OpenDraft {
    async fn write(&mut self, bytes: Bytes) -> Result<(), Error> {
        self.with_draft(move |draft| draft.write(&bytes)).await
    }

    async fn close(&mut self) -> Result<(), Error> {
        self.with_draft(Draft::close).await
    }

    async fn publish(&mut self) -> Result<(), Error> {
        self.with_draft(Draft::publish).await
    }

    async fn discard(&mut self) {
        let discarded = self.with_draft(|draft| {
            draft.discard();
            Ok(())
        });
        // A draft that stays is swept away by the next attempt.
        let _ = discarded.await;
    }
}

async fn on_disk<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> Result<T, Error> {
    let done = tokio::task::spawn_blocking(work).await;
    let done = done.map_err(|cause| Error::retryable("the server was interrupted while it wrote files", cause))?;
    done.map_err(explain)
}

/// Paths of this server stay out of the sentence.
fn explain(error: io::Error) -> Error {
    let leads_out = error.get_ref().and_then(|cause| cause.downcast_ref::<EscapesRoot>());
    if leads_out.is_some() {
        return Error::permanent(
            "the folder leads outside the export root through a symbolic link; choose another",
            error,
        );
    }
    match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Error::permanent(
            "this server cannot write to the folder; its operator can change the permissions of the export root",
            error,
        ),
        io::ErrorKind::NotADirectory | io::ErrorKind::IsADirectory | io::ErrorKind::InvalidFilename => {
            Error::permanent(
                "the path is a file instead of a folder, or a folder instead of a file; choose another folder",
                error,
            )
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            Error::retryable("the server's disk is full; its operator can free up space", error)
        }
        _ => Error::retryable(
            "a file could not be written; the server's operator can find details in its log",
            error,
        ),
    }
}
