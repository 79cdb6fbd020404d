//! Takes archives apart, in memory.
//!
//! What an archive says about its sizes is not believed: bytes are counted as they come out. What kind it is, its first
//! bytes say, whatever was asked for.

use std::cell::Cell;
use std::error::Error as StdError;
use std::io::{self, Cursor, Read};
use std::rc::Rc;

use flate2::bufread::MultiGzDecoder;
use tar::EntryType;
use zip::ZipArchive;

use super::gather::{Cut, Gathering, Unpacked, shown};
use super::{Error, Limits};

/// What tar itself takes for an entry, in bytes: its header, that of a long name, that name, and padding.
const HEADERS: usize = 2048;
/// In bytes, of a name with its folders as an archive has it.
const MAX_PATH: usize = 4096;

/// Takes a zip or tar.gz archive apart. Its one top folder is cut off, and only what is in `folder` is taken, if given.
pub fn unpack(packed: &[u8], folder: Option<&str>, limits: &Limits) -> Result<Unpacked, Error> {
    if packed.len() > limits.packed {
        return Err(Error::PackedTooLarge { limit: limits.packed });
    }
    let mut gathering = Gathering::new(limits, Cut::Top(folder));
    match packed {
        [0x1f, 0x8b, ..] => untar(packed, &mut gathering, limits)?,
        [b'P', b'K', ..] => unzip(packed, &mut gathering)?,
        _ => return Err(Error::NotAnArchive),
    }
    gathering.finish()
}

fn damaged(cause: impl StdError + Send + Sync + 'static) -> Error {
    Error::Damaged(Box::new(cause))
}

fn untar(packed: &[u8], gathering: &mut Gathering, limits: &Limits) -> Result<(), Error> {
    // What is left out has to be unpacked too, to get past it.
    let stream_limit = limits.entries.saturating_mul(HEADERS).saturating_add(limits.unpacked);
    let left = Rc::new(Cell::new(stream_limit));
    let stream = Counted {
        stream: MultiGzDecoder::new(packed),
        left: Rc::clone(&left),
    };
    let mut last = String::new();
    take_tar(tar::Archive::new(stream), gathering, &mut last).map_err(|error| match error {
        // Whatever the reader made of it, this is why it got no further.
        Error::Damaged(_) if left.get() == 0 => Error::TooLarge {
            name: last,
            limit: stream_limit,
        },
        error => error,
    })
}

/// Takes in all entries; `last` is the name of the one that was read last.
fn take_tar(mut archive: tar::Archive<impl Read>, gathering: &mut Gathering, last: &mut String) -> Result<(), Error> {
    for entry in archive.entries().map_err(damaged)? {
        let entry = entry.map_err(damaged)?;
        let kind = entry.header().entry_type();
        // Git notes the commit in one of these; it is about the archive, not in it.
        if kind == EntryType::XGlobalHeader {
            continue;
        }
        // Before it is copied, and shown to somebody: that takes several times as much.
        if entry.path_bytes().len() > MAX_PATH {
            let (name, limit) = (last.clone(), MAX_PATH);
            return Err(Error::NameTooLong { name, limit });
        }
        let raw = entry.path_bytes().into_owned();
        *last = shown(&String::from_utf8_lossy(&raw));
        // The oldest kind of tar knows no folders but by the slash.
        let is_folder = kind.is_dir() || raw.ends_with(b"/");
        let Some(file) = gathering.place(&raw, is_folder)? else {
            continue;
        };
        match kind {
            _ if is_folder => {}
            EntryType::Regular | EntryType::Continuous => {
                let content = gathering.read(entry).map_err(damaged)?;
                gathering.add(file, content)?;
            }
            EntryType::Symlink | EntryType::Link => return Err(Error::Link(last.clone())),
            _ => return Err(Error::NotAFile(last.clone())),
        }
    }
    // The checksum is at the very end.
    io::copy(&mut archive.into_inner(), &mut io::sink()).map_err(damaged)?;
    Ok(())
}

/// A stream that ends with an error after so many bytes.
struct Counted<R> {
    stream: R,
    left: Rc<Cell<usize>>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.stream.read(buffer)?;
        match self.left.get().checked_sub(count) {
            Some(left) if left > 0 => {
                self.left.set(left);
                Ok(count)
            }
            _ => {
                self.left.set(0);
                Err(io::Error::other("the limit is reached"))
            }
        }
    }
}

fn unzip(packed: &[u8], gathering: &mut Gathering) -> Result<(), Error> {
    if is_zip64(packed) {
        return Err(Error::Zip64);
    }
    let mut archive = ZipArchive::new(Cursor::new(packed)).map_err(damaged)?;
    // Its list of entries keeps the last of a name only, and counts the others.
    if archive.metadata().has_duplicate_names() {
        return Err(Error::TwoOfAName);
    }
    // Entries may share their bytes, so that a small archive takes long to read. In an honest one they do not.
    let mut unshared = u64::try_from(packed.len()).unwrap_or(u64::MAX);
    for index in 0..archive.len() {
        let entry = archive.by_index_data(index).map_err(damaged)?;
        let name = shown(&String::from_utf8_lossy(entry.name_raw()));
        let Some(file) = gathering.place(entry.name_raw(), entry.is_dir())? else {
            continue;
        };
        if entry.is_dir() {
            continue;
        }
        match kind_of(entry.unix_mode()) {
            Kind::File => {}
            Kind::Link => return Err(Error::Link(name)),
            Kind::Other => return Err(Error::NotAFile(name)),
        }
        if entry.encrypted() {
            return Err(Error::Encrypted(name));
        }
        unshared = unshared
            .checked_sub(entry.compressed_size())
            .ok_or_else(|| damaged(io::Error::other("entries share their bytes, or end behind the archive")))?;
        let content = gathering
            .read(archive.by_index(index).map_err(damaged)?)
            .map_err(damaged)?;
        gathering.add(file, content)?;
    }
    Ok(())
}

/// Whether the archive has a second, larger directory. Below the limits nobody needs one, and what it says about the
/// number of entries would be believed when memory is set aside for them.
fn is_zip64(packed: &[u8]) -> bool {
    const END: &[u8] = b"PK\x05\x06";
    const LOCATOR: &[u8] = b"PK\x06\x07";
    const LOCATOR_LENGTH: usize = 20;
    // The end may be followed by a comment, and other ends may stand in it.
    const END_AND_COMMENT: usize = 22 + 65_535;
    let begin = packed.len().saturating_sub(END_AND_COMMENT + LOCATOR_LENGTH);
    packed[begin..]
        .windows(LOCATOR_LENGTH + END.len())
        .any(|window| window.starts_with(LOCATOR) && window.ends_with(END))
}

enum Kind {
    File,
    Link,
    Other,
}

/// By the type that Unix keeps in the mode; archives that were not made there say nothing, and have only files.
fn kind_of(mode: Option<u32>) -> Kind {
    match mode.unwrap_or_default() & 0o170_000 {
        0 | 0o100_000 => Kind::File,
        0o120_000 => Kind::Link,
        _ => Kind::Other,
    }
}
