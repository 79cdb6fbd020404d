//! Archives that were made to do harm, and broken ones. E7.

use apps::Limits;
use apps::source::{Error, Unpacked, unpack};
use proptest::prelude::*;
use tar::EntryType;

use crate::pack::{self, APP, Entry, Item, Repeated, file, gzip, header, item, padded, tar, tar_gz, zip, zip_with};

const GIGABYTE: u64 = 1 << 30;

fn whole(packed: &[u8]) -> Result<Unpacked, Error> {
    unpack(packed, None, &Limits::default())
}

#[test]
fn names_that_lead_out_are_refused() {
    for name in [
        "../evil.ts",
        "top/../../evil.ts",
        "top/a/../b.ts",
        "/etc/passwd",
        "top/a\\..\\b.ts",
        "top//a.ts",
        "top/./a.ts",
        "top/a\nb.ts",
        "top/node_modules/../../evil.ts",
    ] {
        let packed = [
            tar_gz(&[file("top/a.ts", b"1"), file(name, b"2")]),
            zip(&[Entry::new("top/a.ts", b"1"), Entry::new(name, b"2")]),
        ];
        for packed in packed {
            let error = whole(&packed).unwrap_err();
            assert!(matches!(error, Error::BadName { .. }), "{name:?}: {error:?}");
            assert!(error.is_theirs());
        }
    }
}

#[test]
fn names_that_are_no_text_are_refused() {
    let mut item = file("", b"1");
    item.name = b"top/\xff.ts".to_vec();
    let mut entry = Entry::new("", b"1");
    entry.name = b"top/\xff.ts".to_vec();
    let mut null = Entry::new("", b"1");
    null.name = b"top/a\0b.ts".to_vec();
    for packed in [tar_gz(&[item]), zip(&[entry]), zip(&[null])] {
        assert!(matches!(whole(&packed), Err(Error::BadName { .. })));
    }
}

/// Names that only the second entry of their kind gives: the one that other programs may or may not heed.
#[test]
fn a_long_name_that_leads_out_is_refused_too() {
    let name = format!("top/{}/../../../evil.ts", "x".repeat(120));
    let packed = tar_gz(&[file(&name, b"1")]);
    assert!(matches!(whole(&packed), Err(Error::BadName { .. })));
    let pax = b"29 path=top/../../../evil.ts\n";
    let packed = tar_gz(&[item(EntryType::XHeader, "pax", pax), file("top/fine.ts", b"1")]);
    assert!(matches!(whole(&packed), Err(Error::BadName { .. })));
}

#[test]
fn a_gigabyte_of_zeros_is_never_unpacked() {
    // Smaller than usual, as without optimization the usual ones take a while.
    let limits = Limits {
        unpacked: 2_000_000,
        entries: 100,
        ..Limits::default()
    };
    let bomb = |start: &[u8]| {
        let packed = Repeated::default().then(start, 1).then_zeros().gzipped();
        unpack(&packed, None, &limits).unwrap_err()
    };
    let headed = |name: &[u8], kind| bomb(&header(kind, name, GIGABYTE, ""));
    // As a file that would be read.
    let read = headed(b"top/bomb.ts", EntryType::Regular);
    assert!(matches!(read, Error::FileTooLarge { name, .. } if name == "bomb.ts"));
    // As one that is skipped, which still has to be unpacked to get past it.
    let skipped = headed(b"top/bomb.png", EntryType::Regular);
    assert!(matches!(skipped, Error::TooLarge { name, .. } if name == "top/bomb.png"));
    // As a name, and as attributes of a file.
    for kind in [EntryType::GNULongName, EntryType::GNULongLink, EntryType::XHeader] {
        assert!(matches!(headed(b"././@LongLink", kind), Error::TooLarge { .. }));
    }
    // Behind the end.
    let behind = bomb(&tar(&[file("top/a.ts", b"1")]));
    assert!(matches!(behind, Error::TooLarge { .. }));
}

#[test]
fn a_gigabyte_of_zeros_in_a_zip_is_refused_whatever_size_it_says() {
    let data = Repeated::default().then_zeros().deflated();
    for size in [0, 100, 1_000_000, u32::try_from(GIGABYTE).unwrap()] {
        let mut bomb = Entry::new("top/bomb.ts", b"");
        bomb.packed_size = u32::try_from(data.len()).unwrap();
        bomb.data.clone_from(&data);
        bomb.size = size;
        match whole(&zip(&[bomb])) {
            Err(Error::FileTooLarge { name, .. }) => assert_eq!((name.as_str(), size), ("bomb.ts", 1 << 30)),
            Err(Error::Damaged(_)) => assert!(size <= 1_000_000),
            other => panic!("{size}: {other:?}"),
        }
    }
}

/// A file of holes, which takes no room in the archive at all.
#[test]
fn a_file_with_holes_is_refused() {
    let mut sparse = tar::Header::new_gnu();
    sparse.set_entry_type(EntryType::GNUSparse);
    sparse.set_path("top/holes.ts").unwrap();
    sparse.set_size(0);
    let gnu = sparse.as_gnu_mut().unwrap();
    gnu.set_real_size(GIGABYTE);
    let mut number = [0; 12];
    number[..11].copy_from_slice(format!("{GIGABYTE:011o}").as_bytes());
    gnu.sparse[0].offset = number;
    gnu.sparse[0].numbytes[..11].copy_from_slice(b"00000000000");
    sparse.set_cksum();
    let packed = gzip(&[sparse.as_bytes().as_slice(), &[0; 1024]].concat());
    assert!(matches!(whole(&packed), Err(Error::NotAFile(_))));
}

#[test]
fn a_hundred_thousand_entries_are_refused() {
    let hundred = header(EntryType::Directory, b"top/node_modules/", 0, "").repeat(100);
    let packed = Repeated::default().then(&hundred, 1000).gzipped();
    assert!(matches!(whole(&packed), Err(Error::TooManyEntries { limit: 10_000 })));
    // As many as fit into a zip.
    let empty = Entry::new("", b"");
    let named = |name: String| Entry {
        name: name.into(),
        ..empty.clone()
    };
    let folders: Vec<Entry> = (0..65_535).map(|number| named(format!("top/{number}/"))).collect();
    assert!(matches!(
        whole(&zip(&folders)),
        Err(Error::TooManyEntries { limit: 10_000 })
    ));
    let files: Vec<Entry> = (0..1001).map(|number| named(format!("top/{number}"))).collect();
    assert!(matches!(
        whole(&zip(&files)),
        Err(Error::TooManyFiles { limit: 1000, .. })
    ));
}

#[test]
fn bytes_that_do_not_match_their_checksum_are_refused() {
    // Stored as they are, so that only the checksum can tell.
    let stored = |bytes: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
        std::io::Write::write_all(&mut encoder, bytes).unwrap();
        encoder.finish().unwrap()
    };
    let mut tar = stored(&tar(&[file("top/a.ts", b"let right = 1")]));
    let at = tar.windows(5).position(|window| window == b"right").unwrap();
    tar[at..at + 5].copy_from_slice(b"wrong");
    let mut entry = Entry::new("top/a.ts", b"let right = 1");
    entry.crc ^= 1;
    for packed in [tar, zip(&[entry])] {
        let error = whole(&packed).unwrap_err();
        assert!(matches!(error, Error::Damaged(_)), "{error:?}");
        assert!(!error.is_theirs());
    }
}

#[test]
fn an_archive_that_ends_early_is_refused() {
    for packed in [pack::github(&APP), pack::gitlab(&APP)] {
        for length in [2, 3, 10, packed.len() / 2, packed.len() - 9, packed.len() - 1] {
            assert!(matches!(whole(&packed[..length]), Err(Error::Damaged(_))), "{length}");
        }
    }
}

#[test]
fn what_is_no_archive_is_called_so() {
    for packed in [b"".as_slice(), b"P", b"<html>not found</html>", b"\x1f", b"BZh9"] {
        assert!(matches!(whole(packed), Err(Error::NotAnArchive)));
    }
    for packed in [b"PK".as_slice(), b"\x1f\x8b", b"PK\x05\x06"] {
        assert!(matches!(whole(packed), Err(Error::Damaged(_))), "{packed:?}");
    }
    // A gzip without a tar in it.
    assert!(matches!(whole(&gzip(b"just text")), Err(Error::Damaged(_))));
}

#[test]
fn an_encrypted_file_is_refused_by_name() {
    let mut entry = Entry::new("top/secret.ts", b"1");
    entry.flags = 1;
    assert!(matches!(whole(&zip(&[entry])), Err(Error::Encrypted(name)) if name == "top/secret.ts"));
}

#[test]
fn sizes_that_are_lies_unpack_to_no_more_than_there_is() {
    let good = Entry::new("top/a.ts", b"let one = 1");
    let small = Entry {
        size: 5,
        ..good.clone()
    };
    assert!(matches!(whole(&zip(&[small])), Err(Error::Damaged(_))));
    let ends_behind = Entry {
        packed_size: 4_000_000_000,
        ..good.clone()
    };
    assert!(matches!(whole(&zip(&[ends_behind])), Err(Error::Damaged(_))));
    let large = Entry {
        size: 4_000_000_000,
        ..good
    };
    assert_eq!(whole(&zip(&[large])).unwrap().files["a.ts"], "let one = 1");
}

#[test]
fn entries_that_share_their_bytes_are_refused() {
    let content: Vec<u8> = (0..50_000_u32)
        .flat_map(|number| (number.wrapping_mul(2_654_435_761)).to_le_bytes())
        .collect();
    let first = Entry::new("top/0.ts", &content);
    let shared = (1..100).map(|number| Entry {
        name: format!("top/{number}.ts").into(),
        is_first: true,
        ..first.clone()
    });
    let entries: Vec<Entry> = [first.clone()].into_iter().chain(shared).collect();
    assert!(matches!(whole(&zip(&entries)), Err(Error::Damaged(_))));
}

#[test]
fn what_zip64_says_is_not_believed() {
    // A second directory with 2^62 entries in it.
    let mut end = b"PK\x06\x06".to_vec();
    end.extend(44_u64.to_le_bytes());
    end.extend([45, 3, 45, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    for value in [1_u64 << 62, 1 << 62, 1 << 62, 0] {
        end.extend(value.to_le_bytes());
    }
    let mut locator = b"PK\x06\x07\0\0\0\0".to_vec();
    locator.extend(0_u64.to_le_bytes());
    locator.extend(1_u32.to_le_bytes());
    let before_the_end = [end, locator].concat();
    let packed = zip_with(&[Entry::new("top/a.ts", b"1")], &before_the_end);
    assert!(matches!(whole(&packed), Err(Error::Zip64)));
    // An entry that is said to be larger than all disks there are.
    let mut entry = Entry::new("top/a.ts", b"1");
    entry.size = u32::MAX;
    entry.packed_size = u32::MAX;
    entry.extra = [1_u16.to_le_bytes(), 16_u16.to_le_bytes()].concat();
    entry
        .extra
        .extend([u64::MAX / 2, u64::MAX / 2].map(u64::to_le_bytes).concat());
    assert!(matches!(whole(&zip(&[entry])), Err(Error::Damaged(_))));
}

/// The number at the beginning of an attribute is its length, or a lie about it.
#[test]
fn attributes_that_are_lies_are_refused_or_ignored() {
    for pax in [
        "999999999999 path=top/x.ts\n",
        "0 path=x\n",
        "-1 path=x\n",
        "19 size=9999999999\n",
        "x",
    ] {
        let items = [item(EntryType::XHeader, "pax", pax.as_bytes()), file("top/a.ts", b"1")];
        match whole(&tar_gz(&items)) {
            Ok(unpacked) => assert_eq!(unpacked.files.keys().collect::<Vec<_>>(), ["a.ts"]),
            Err(error) => assert!(
                matches!(error, Error::Damaged(_) | Error::FileTooLarge { .. }),
                "{pax:?}: {error:?}"
            ),
        }
    }
}

/// Any number of a header may be anything.
fn bent(items: &[Item], at: usize, byte: u8) -> Vec<u8> {
    let mut tar = tar(items);
    let block = at / 512 * 512;
    tar[at] = byte;
    if let Some(header) = tar.get(block..block + 512) {
        let mut header = tar::Header::from_byte_slice(header).clone();
        header.set_cksum();
        tar[block..block + 512].copy_from_slice(header.as_bytes());
    }
    gzip(&tar)
}

fn is_harmless(outcome: Result<Unpacked, Error>) -> bool {
    let is_good = |name: &String| !name.split('/').any(|part| matches!(part, "" | "." | ".."));
    outcome.is_err() || outcome.is_ok_and(|unpacked| unpacked.files.keys().all(is_good))
}

proptest! {
    #[test]
    fn a_bent_archive_is_read_or_refused_but_does_no_harm(at in 0_usize..2000, byte in any::<u8>()) {
        let [first, second] = [file("top/a.ts", b"1"), file("top/b/c.ts", &padded(b"2"))];
        let packed = bent(&[first, second], at, byte);
        prop_assert!(is_harmless(whole(&packed)));
        for mut packed in [pack::gitlab(&APP), pack::github(&APP)] {
            let at = at % packed.len();
            packed[at] = byte;
            prop_assert!(is_harmless(whole(&packed)));
        }
    }

    #[test]
    fn a_hostile_entry_is_read_or_refused_but_does_no_harm(
        name in "[a./\\\\\u{0}ü]{0,12}", size in any::<u32>(), flags in any::<u16>(), mode in any::<u32>(),
        extra in prop::collection::vec(any::<u8>(), 0..30),
    ) {
        let entry = Entry { size, flags, mode, extra, ..Entry::new(&name, b"content") };
        prop_assert!(is_harmless(whole(&zip(&[entry]))));
        prop_assert!(is_harmless(whole(&tar_gz(&[file(&name, b"content")]))));
    }
}
