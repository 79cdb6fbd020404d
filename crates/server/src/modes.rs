//! Who else on this machine may read what the server writes: nobody.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::Mode;
use rustix::process::umask;

use crate::settings::Settings;

/// Whatever is made from now on, by us or by a library, is for this user alone.
pub(crate) fn restrict() {
    umask(Mode::RWXG | Mode::RWXO);
}

/// Says what was there before and is open to others. It may be meant: a backup program may have to read it.
pub(crate) fn report(settings: &Settings) {
    let folders = std::iter::once(&settings.data_dir).chain(&settings.data.export_root);
    let files = fs::read_dir(&settings.data_dir).into_iter().flatten().flatten();
    let all = folders.cloned().chain(files.map(|file| file.path()));
    for (path, mode) in all.filter_map(open_to_others) {
        tracing::warn!(
            path = %path.display(),
            mode = format!("{mode:o}"),
            "other users of this machine have access to this file: remove it with chmod go-rwx"
        );
    }
}

fn open_to_others(path: PathBuf) -> Option<(PathBuf, u32)> {
    let mode = mode(&path)?;
    (mode & 0o077 != 0).then_some((path, mode))
}

/// None: it is a link, which has none of its own, or cannot be seen.
fn mode(path: &Path) -> Option<u32> {
    let about = fs::symlink_metadata(path).ok()?;
    (!about.is_symlink()).then(|| about.permissions().mode() & 0o777)
}
