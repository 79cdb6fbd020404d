//! Puts the files of an app together, one by one, and stops at the limits.
//!
//! Archives and folders of this server go through here alike. Names are checked before anything else: also those of files
//! that are then left out, as whoever packs `../` means no good.

use std::collections::HashSet;
use std::io::{self, Read};

use super::{Error, Files, Limits};

/// Folders that are no part of an app: packages that it would install, which it cannot here, and its tests.
const LEFT_OUT_FOLDERS: [&str; 5] = ["node_modules", "__mocks__", "__tests__", "test", "tests"];
/// Files that say what would be installed: long, and of no use here.
const LEFT_OUT_FILES: [&str; 4] = [
    "npm-shrinkwrap.json",
    "package-lock.json",
    "pnpm-lock.yaml",
    "yarn.lock",
];
/// Files that are no text. Others show it when they are read; these are not even read, as pictures may be large.
const BINARY: [&str; 22] = [
    "bmp", "eot", "gif", "gz", "ico", "jpeg", "jpg", "mov", "mp3", "mp4", "node", "otf", "pdf", "png", "tgz", "ttf",
    "wasm", "webm", "webp", "woff", "woff2", "zip",
];

/// What came out of an archive or a folder.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Unpacked {
    pub files: Files,
    /// Files that are no text in UTF-8, such as pictures.
    pub binary: usize,
    /// Files and folders that are no part of an app, such as its tests.
    pub left_out: usize,
}

/// What of the names is cut off.
#[derive(Debug, Clone, Copy)]
pub(super) enum Cut<'a> {
    /// The one top folder that archives of repositories and packages have, and the folder that is asked for in it.
    Top(Option<&'a str>),
    Nothing,
}

pub(super) struct Gathering<'a> {
    limits: &'a Limits,
    cut: Cut<'a>,
    top: Option<String>,
    entries: usize,
    bytes: usize,
    names: HashSet<String>,
    unpacked: Unpacked,
}

/// Something with a name that was found good.
pub(super) struct Named {
    /// Below what is cut off.
    pub(super) name: String,
}

impl<'a> Gathering<'a> {
    pub(super) fn new(limits: &'a Limits, cut: Cut<'a>) -> Self {
        Self {
            limits,
            cut,
            top: None,
            entries: 0,
            bytes: 0,
            names: HashSet::new(),
            unpacked: Unpacked::default(),
        }
    }

    /// Checks a name and says what it is in the app; none if it is no part of it.
    pub(super) fn place(&mut self, raw: &[u8], is_folder: bool) -> Result<Option<Named>, Error> {
        self.entries += 1;
        if self.entries > self.limits.entries {
            return Err(Error::TooManyEntries {
                limit: self.limits.entries,
            });
        }
        let Some(name) = self.inside(good_name(raw)?, is_folder)? else {
            return Ok(None);
        };
        if is_left_out(name) {
            self.unpacked.left_out += 1;
            return Ok(None);
        }
        if !is_folder && is_binary(name) {
            self.unpacked.binary += 1;
            return Ok(None);
        }
        Ok(Some(Named { name: name.to_owned() }))
    }

    /// The part of a name below what is cut off.
    fn inside<'n>(&mut self, name: &'n str, is_folder: bool) -> Result<Option<&'n str>, Error> {
        let Cut::Top(folder) = self.cut else {
            return Ok(Some(name));
        };
        let (top, rest) = match name.split_once('/') {
            Some((top, rest)) => (top, Some(rest)),
            None if is_folder => (name, None),
            None => return Err(Error::NoTopFolder(shown(name))),
        };
        if self.top.get_or_insert_with(|| top.to_owned()) != top {
            return Err(Error::NoTopFolder(shown(name)));
        }
        Ok(match (rest, folder) {
            (Some(rest), Some(folder)) => rest.strip_prefix(folder).and_then(|rest| rest.strip_prefix('/')),
            (rest, _) => rest,
        })
    }

    /// Whether a folder may be looked into.
    pub(super) fn check_depth(&self, folder: &Named) -> Result<(), Error> {
        self.check_length(&format!("{}/", folder.name))
    }

    fn check_length(&self, name: &str) -> Result<(), Error> {
        let Limits {
            depth, name: length, ..
        } = *self.limits;
        if name.chars().count() > length {
            let name = shown(name);
            return Err(Error::NameTooLong { name, limit: length });
        }
        if name.split('/').count() > depth {
            let name = shown(name);
            return Err(Error::TooDeep { name, limit: depth });
        }
        Ok(())
    }

    /// Reads a file, but no more of it than it may have and one byte, so that [`Gathering::add`] sees what is too large.
    pub(super) fn read(&self, file: impl Read) -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        let limit = u64::try_from(self.limits.file).unwrap_or(u64::MAX);
        file.take(limit.saturating_add(1)).read_to_end(&mut content)?;
        Ok(content)
    }

    /// Takes a file in.
    pub(super) fn add(&mut self, Named { name }: Named, content: Vec<u8>) -> Result<(), Error> {
        self.check_length(&name)?;
        let Limits {
            file, unpacked, files, ..
        } = *self.limits;
        if content.len() > file {
            return Err(Error::FileTooLarge { name, limit: file });
        }
        self.bytes += content.len();
        if self.bytes > unpacked {
            return Err(Error::TooLarge { name, limit: unpacked });
        }
        if self.names.len() >= files {
            return Err(Error::TooManyFiles { name, limit: files });
        }
        if !self.names.insert(name.clone()) {
            return Err(Error::Twice(name));
        }
        match String::from_utf8(content) {
            Ok(text) if !text.contains('\0') => {
                self.unpacked.files.insert(name, text);
            }
            _ => self.unpacked.binary += 1,
        }
        Ok(())
    }

    pub(super) fn finish(self) -> Result<Unpacked, Error> {
        match self.cut {
            _ if !self.unpacked.files.is_empty() => Ok(self.unpacked),
            Cut::Top(Some(folder)) => Err(Error::NoSubfolder(folder.to_owned())),
            _ => Err(Error::Empty),
        }
    }
}

/// A name as it stands in the archive, without the `./` that some programs put before it and the slash behind a folder.
fn good_name(raw: &[u8]) -> Result<&str, Error> {
    let bad = |problem| {
        let name = shown(&String::from_utf8_lossy(raw));
        Error::BadName { name, problem }
    };
    let name = str::from_utf8(raw).map_err(|_| bad("is not UTF-8"))?;
    if name.chars().any(char::is_control) {
        return Err(bad("has control characters"));
    }
    if name.contains('\\') {
        return Err(bad("has a backslash"));
    }
    if name.starts_with('/') {
        return Err(bad("is an absolute path"));
    }
    let name = name.strip_prefix("./").unwrap_or(name);
    let name = name.strip_suffix('/').unwrap_or(name);
    if name.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Err(bad("points outside its folder"));
    }
    Ok(name)
}

/// A name for a sentence: cut, as nobody reads 60,000 characters.
pub(super) fn shown(name: &str) -> String {
    const LENGTH: usize = 100;
    let mut shown: String = name.chars().take(LENGTH).collect();
    if shown.len() < name.len() {
        shown.push('…');
    }
    shown
}

/// Whether something is no part of an app: hidden files and folders (`.git`, settings of editors and of CI, `.env`),
/// packages, tests, lists of packages, and maps from built to written code.
fn is_left_out(name: &str) -> bool {
    let (folders, file) = name.rsplit_once('/').unwrap_or(("", name));
    let is_out = |part: &str| part.starts_with('.') || LEFT_OUT_FOLDERS.contains(&part);
    let is_test = file.contains(".test.") || file.contains(".spec.");
    let is_map = file.ends_with(".js.map") || file.ends_with(".css.map");
    folders.split('/').any(is_out) || is_out(file) || is_test || is_map || LEFT_OUT_FILES.contains(&file)
}

fn is_binary(name: &str) -> bool {
    let extension = name
        .rsplit_once('.')
        .map(|(_, extension)| extension.to_ascii_lowercase());
    extension.is_some_and(|extension| BINARY.contains(&extension.as_str()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn place(name: &str) -> Result<Option<String>, Error> {
        let limits = Limits::default();
        let mut gathering = Gathering::new(&limits, Cut::Nothing);
        Ok(gathering.place(name.as_bytes(), false)?.map(|named| named.name))
    }

    #[test]
    fn what_is_no_part_of_an_app_is_left_out() {
        for name in [
            ".env",
            ".git/config",
            ".github/workflows/ci.yml",
            "node_modules/a/index.js",
            "src/node_modules/a.js",
            "src/__tests__/a.ts",
            "test/a.js",
            "tests/a.js",
            "index.test.ts",
            "src/index.spec.js",
            "yarn.lock",
            "sub/package-lock.json",
            "dist/index.js.map",
            "logo.PNG",
        ] {
            assert_eq!(place(name).unwrap(), None, "{name}");
        }
        for name in [
            "index.ts",
            "plugin.json",
            "package.json",
            "src/testing.ts",
            "latest/a.js",
            "test.ts",
            "logo.svg",
            "LICENSE",
            "dist/index.js",
            "a..b/c...ts",
        ] {
            assert_eq!(place(name).unwrap().unwrap(), name);
        }
    }

    #[test]
    fn a_name_that_leads_out_is_refused_also_where_nobody_looks() {
        for name in [
            "../x",
            "a/../x",
            "a/..",
            "..",
            ".",
            "",
            "/",
            "/etc/passwd",
            "//x",
            "a//b",
            "a/./b",
            "././a",
            "a\\b",
            "C:\\x",
            "a\0b",
            "a\nb",
            "node_modules/../x",
            ".git/../../x",
        ] {
            assert!(matches!(place(name), Err(Error::BadName { .. })), "{name:?}");
        }
        assert_eq!(place("./index.ts").unwrap().unwrap(), "index.ts");
    }

    #[test]
    fn a_long_name_is_cut_where_it_is_told() {
        let error = place(&format!("../{}", "x".repeat(60_000))).unwrap_err();
        assert!(error.to_string().len() < 300);
    }

    proptest! {
        #[test]
        fn no_name_comes_through_that_leaves_its_folder(
            parts in prop::collection::vec(prop::sample::select(vec!["a", "..", ".", "", "b.ts", "\\", "ü", "\0", "...", " "]), 1..6)
        ) {
            let raw = parts.join("/");
            if let Ok(Some(name)) = place(&raw) {
                let path = std::path::Path::new(&name);
                prop_assert!(path.components().all(|part| matches!(part, std::path::Component::Normal(_))));
                prop_assert_eq!(path.components().count(), name.split('/').count());
                prop_assert!(!name.contains(['\\', '\0']));
            }
        }

        #[test]
        fn any_bytes_are_a_name_or_refused(raw in any::<Vec<u8>>()) {
            let limits = Limits::default();
            for cut in [Cut::Nothing, Cut::Top(None), Cut::Top(Some("a"))] {
                let _ = Gathering::new(&limits, cut).place(&raw, false);
            }
        }
    }
}
