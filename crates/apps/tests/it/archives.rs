//! Archives as hosts make them, and the limits.

use apps::source::{Error, Unpacked, unpack};
use apps::{Files, Limits};
use tar::EntryType;

use crate::pack::{self, APP, Entry, file, item, link, tar_gz, zip};

fn whole(packed: &[u8]) -> Result<Unpacked, Error> {
    unpack(packed, None, &Limits::default())
}

fn app() -> Files {
    let texts = APP[..3].iter();
    texts
        .map(|(name, text)| ((*name).to_owned(), String::from_utf8(text.to_vec()).unwrap()))
        .collect()
}

#[test]
fn the_same_app_comes_out_of_the_archives_of_all_hosts() {
    for (host, packed) in [
        ("github", pack::github(&APP)),
        ("gitlab", pack::gitlab(&APP)),
        ("npm", pack::npm(&APP)),
    ] {
        let unpacked = whole(&packed).unwrap();
        assert_eq!(unpacked.files, app(), "{host}");
        assert_eq!((unpacked.binary, unpacked.left_out), (1, 1), "{host}");
    }
}

#[test]
fn a_folder_is_cut_out_and_judged_by_itself() {
    let files: [(&str, &[u8]); 4] = [
        ("plugin.json", b"{}"),
        ("tests/app/plugin.json", b"{\"name\": \"inner\"}"),
        ("tests/app/src/index.ts", b"1"),
        ("tests/apple/other.ts", b"2"),
    ];
    for packed in [pack::github(&files), pack::gitlab(&files)] {
        let unpacked = unpack(&packed, Some("tests/app"), &Limits::default()).unwrap();
        let names: Vec<&str> = unpacked.files.keys().map(String::as_str).collect();
        assert_eq!(names, ["plugin.json", "src/index.ts"]);
        let error = unpack(&packed, Some("tests/ap"), &Limits::default()).unwrap_err();
        assert!(matches!(error, Error::NoSubfolder(name) if name == "tests/ap"));
    }
}

#[test]
fn what_is_no_text_is_counted_and_left() {
    let files: [(&str, &[u8]); 3] = [("a.ts", b"1"), ("b.dat", b"\xff\xfe"), ("c.dat", b"a\0b")];
    for packed in [pack::github(&files), pack::gitlab(&files)] {
        let unpacked = whole(&packed).unwrap();
        assert_eq!((unpacked.files.len(), unpacked.binary), (1, 2));
    }
}

#[test]
fn a_large_picture_does_not_spoil_an_app() {
    let picture = vec![0; 2_000_000];
    let files: [(&str, &[u8]); 2] = [("index.ts", b"1"), ("demo.gif", &picture)];
    for packed in [pack::github(&files), pack::gitlab(&files)] {
        assert_eq!(whole(&packed).unwrap().binary, 1);
    }
}

#[test]
fn an_archive_without_text_is_not_an_app() {
    let files: [(&str, &[u8]); 1] = [("logo.png", b"\0")];
    for packed in [pack::github(&files), pack::gitlab(&files), tar_gz(&[]), zip(&[])] {
        assert!(matches!(whole(&packed), Err(Error::Empty)));
    }
}

#[test]
fn everything_is_in_one_top_folder_or_refused() {
    for names in [["a/x.ts", "b/y.ts"], ["a/x.ts", "y.ts"]] {
        let items = names.map(|name| file(name, b"1"));
        let entries = names.map(|name| Entry::new(name, b"1"));
        for packed in [tar_gz(&items), zip(&entries)] {
            let error = whole(&packed).unwrap_err();
            assert!(matches!(error, Error::NoTopFolder(name) if name == names[1]));
        }
    }
}

/// The same files as tar.gz and as zip.
fn both(files: &[(String, Vec<u8>)]) -> [Vec<u8>; 2] {
    let items: Vec<_> = files.iter().map(|(name, content)| file(name, content)).collect();
    let entries: Vec<_> = files.iter().map(|(name, content)| Entry::new(name, content)).collect();
    [tar_gz(&items), zip(&entries)]
}

#[test]
fn each_limit_names_the_file_that_broke_it() {
    let limits = Limits {
        unpacked: 250,
        file: 100,
        files: 3,
        depth: 3,
        name: 20,
        ..Limits::default()
    };
    let file = |name: &str, size: usize| (format!("top/{name}"), vec![b'x'; size]);
    let good = [
        file("a/b/c.ts", 100),
        file("12345678901234567.ts", 100),
        file("e.ts", 50),
    ];
    for packed in both(&good) {
        assert_eq!(unpack(&packed, None, &limits).unwrap().files.len(), 3);
    }
    for (bad, sentence) in [
        (vec![file("a.ts", 101)], "\"a.ts\" is larger than 100 bytes"),
        (
            vec![file("a.ts", 100), file("b.ts", 100), file("c.ts", 51)],
            "with \"c.ts\" the app is larger than 250 bytes",
        ),
        (
            ["a", "b", "c", "d"].map(|name| file(name, 1)).to_vec(),
            "with \"d\" the app has more than 3 files",
        ),
        (
            vec![file("a/b/c/d.ts", 1)],
            "\"a/b/c/d.ts\" is more than 3 folders deep",
        ),
        (
            vec![file("123456789012345678.ts", 1)],
            "the name \"123456789012345678.ts\" is longer than 20 characters",
        ),
        (
            vec![file("a.ts", 1), file("./a.ts", 1)],
            "has a name that points outside its folder",
        ),
    ] {
        for packed in both(&bad) {
            let error = unpack(&packed, None, &limits).unwrap_err();
            assert!(error.to_string().contains(sentence), "{error}");
            assert!(error.is_theirs());
        }
    }
}

#[test]
fn no_limit_holds_for_what_is_left_out() {
    let long = format!("top/node_modules/{}{}.js", "a/".repeat(50), "b".repeat(300));
    let files = [
        ("top/index.ts".to_owned(), b"1".to_vec()),
        (long, vec![b'x'; 2_000_000]),
    ];
    for packed in both(&files) {
        let unpacked = whole(&packed).unwrap();
        assert_eq!((unpacked.files.len(), unpacked.left_out), (1, 1));
    }
}

#[test]
fn the_packed_size_counts_before_anything_is_unpacked() {
    let packed = pack::github(&APP);
    let limits = Limits {
        packed: packed.len() - 1,
        ..Limits::default()
    };
    let error = unpack(&packed, None, &limits).unwrap_err();
    assert!(matches!(error, Error::PackedTooLarge { .. }));
}

#[test]
fn a_name_that_is_there_twice_is_refused() {
    let twice = [
        ("top/a.ts".to_owned(), b"1".to_vec()),
        ("top/a.ts".to_owned(), b"2".to_vec()),
    ];
    let [tar, zip] = both(&twice);
    assert!(matches!(whole(&tar), Err(Error::Twice(name)) if name == "a.ts"));
    assert!(matches!(whole(&zip), Err(Error::TwoOfAName)));
    // Two spellings of one name.
    let spelt = [
        ("top/a.ts".to_owned(), b"1".to_vec()),
        ("./top/a.ts".to_owned(), b"2".to_vec()),
    ];
    for packed in both(&spelt) {
        assert!(matches!(whole(&packed), Err(Error::Twice(name)) if name == "a.ts"));
    }
}

#[test]
fn links_are_refused_where_they_would_count() {
    for kind in [EntryType::Symlink, EntryType::Link] {
        let packed = tar_gz(&[file("top/a.ts", b"1"), link(kind, "top/b.ts", "../../etc/passwd")]);
        assert!(matches!(whole(&packed), Err(Error::Link(name)) if name == "top/b.ts"));
        // Packages link their programs; nobody is going to look there.
        let packed = tar_gz(&[
            file("top/a.ts", b"1"),
            link(kind, "top/node_modules/.bin/b", "../b/b.js"),
        ]);
        assert_eq!(whole(&packed).unwrap().files.len(), 1);
    }
    let mut entry = Entry::new("top/b.ts", b"/etc/passwd");
    entry.mode = 0o120_777;
    assert!(matches!(whole(&zip(&[entry])), Err(Error::Link(name)) if name == "top/b.ts"));
}

#[test]
fn pipes_and_devices_are_refused() {
    for kind in [EntryType::Fifo, EntryType::Char, EntryType::Block] {
        let packed = tar_gz(&[item(kind, "top/pipe", b"")]);
        assert!(matches!(whole(&packed), Err(Error::NotAFile(_))));
    }
    for mode in [0o010_644, 0o020_644, 0o060_644, 0o140_644] {
        let mut entry = Entry::new("top/pipe", b"");
        entry.mode = mode;
        assert!(matches!(whole(&zip(&[entry])), Err(Error::NotAFile(_))), "{mode:o}");
    }
}
