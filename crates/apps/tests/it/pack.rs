//! Packs archives as GitHub, GitLab and npm do, and as nobody should.

use std::io::Write;
use std::sync::LazyLock;

use flate2::{Compress, Compression, Crc, FlushCompress};
use tar::{EntryType, Header};

/// What a small app consists of.
pub(crate) const APP: [(&str, &[u8]); 5] = [
    ("plugin.json", br#"{"name": "Small"}"#),
    ("index.ts", b"export function onEvent() {}\n"),
    ("src/deep/help.ts", b"export const help = 1\n"),
    ("logo.png", b"\x89PNG\r\n\x1a\n\0\0"),
    ("tests/index.test.ts", b"it('works')\n"),
];

/// An entry of a tar archive.
pub(crate) struct Item {
    pub(crate) kind: EntryType,
    pub(crate) name: Vec<u8>,
    pub(crate) content: Vec<u8>,
    pub(crate) link: &'static str,
}

pub(crate) fn file(name: &str, content: &[u8]) -> Item {
    item(EntryType::Regular, name, content)
}

pub(crate) fn item(kind: EntryType, name: &str, content: &[u8]) -> Item {
    Item {
        kind,
        name: name.into(),
        content: content.to_vec(),
        link: "",
    }
}

pub(crate) fn link(kind: EntryType, name: &str, link: &'static str) -> Item {
    Item {
        link,
        ..item(kind, name, b"")
    }
}

/// The header of an entry, with the name as it stands; one that is too long is said in an entry before it.
pub(crate) fn header(kind: EntryType, name: &[u8], size: u64, link: &str) -> Vec<u8> {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(0o644);
    header.set_size(size);
    if !link.is_empty() {
        header.set_link_name(link).unwrap();
    }
    let mut bytes = Vec::new();
    if name.len() > 100 {
        bytes = header_of(EntryType::GNULongName, b"././@LongLink", name.len() as u64);
        bytes.extend(padded(name));
    }
    let field = &mut header.as_old_mut().name;
    let length = name.len().min(field.len());
    field[..length].copy_from_slice(&name[..length]);
    header.set_cksum();
    bytes.extend(header.as_bytes());
    bytes
}

fn header_of(kind: EntryType, name: &[u8], size: u64) -> Vec<u8> {
    header(kind, name, size, "")
}

pub(crate) fn padded(content: &[u8]) -> Vec<u8> {
    let mut padded = content.to_vec();
    padded.resize(content.len().next_multiple_of(512), 0);
    padded
}

pub(crate) fn tar(items: &[Item]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for item in items {
        bytes.extend(header(item.kind, &item.name, item.content.len() as u64, item.link));
        bytes.extend(padded(&item.content));
    }
    bytes.extend([0; 1024]);
    bytes
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn tar_gz(items: &[Item]) -> Vec<u8> {
    gzip(&tar(items))
}

/// As `git archive` makes it: the commit comes first, then everything in one folder.
pub(crate) fn github(files: &[(&str, &[u8])]) -> Vec<u8> {
    let commit = b"52 comment=0123456789012345678901234567890123456789\n";
    let mut items = vec![
        item(EntryType::XGlobalHeader, "pax_global_header", commit),
        item(EntryType::Directory, "small-0123456/", b""),
    ];
    items.extend(
        files
            .iter()
            .map(|(name, content)| file(&format!("small-0123456/{name}"), content)),
    );
    tar_gz(&items)
}

pub(crate) fn npm(files: &[(&str, &[u8])]) -> Vec<u8> {
    let items: Vec<Item> = files
        .iter()
        .map(|(name, content)| file(&format!("package/{name}"), content))
        .collect();
    tar_gz(&items)
}

pub(crate) fn gitlab(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut entries = vec![Entry::new("small-v1.0.0-0123456/", b"")];
    entries.extend(
        files
            .iter()
            .map(|(name, content)| Entry::new(&format!("small-v1.0.0-0123456/{name}"), content)),
    );
    zip(&entries)
}

/// An entry of a zip archive; all that it says of itself may be a lie.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) name: Vec<u8>,
    /// Packed.
    pub(crate) data: Vec<u8>,
    pub(crate) crc: u32,
    pub(crate) size: u32,
    pub(crate) packed_size: u32,
    pub(crate) flags: u16,
    pub(crate) mode: u32,
    pub(crate) extra: Vec<u8>,
    /// Said to be where the first entry is.
    pub(crate) is_first: bool,
}

impl Entry {
    pub(crate) fn new(name: &str, content: &[u8]) -> Self {
        let mut crc = Crc::new();
        crc.update(content);
        let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(content).unwrap();
        let data = encoder.finish().unwrap();
        Self {
            name: name.into(),
            crc: crc.sum(),
            size: u32::try_from(content.len()).unwrap(),
            packed_size: u32::try_from(data.len()).unwrap(),
            data,
            flags: 0,
            mode: 0o100_644,
            extra: vec![],
            is_first: false,
        }
    }

    /// Common to both headers: from the flags to the length of the extra field.
    fn common(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(self.flags.to_le_bytes());
        bytes.extend(8_u16.to_le_bytes());
        bytes.extend([0, 0, 0x21, 0x50]);
        for value in [self.crc, self.packed_size, self.size] {
            bytes.extend(value.to_le_bytes());
        }
        for length in [self.name.len(), self.extra.len()] {
            bytes.extend(u16::try_from(length).unwrap().to_le_bytes());
        }
        bytes
    }

    fn local(&self) -> Vec<u8> {
        let head = b"PK\x03\x04\x14\0".to_vec();
        [
            head,
            self.common(),
            self.name.clone(),
            self.extra.clone(),
            self.data.clone(),
        ]
        .concat()
    }

    fn central(&self, offset: u32) -> Vec<u8> {
        // Made on Unix (3), no comment, first disk.
        let head = b"PK\x01\x02\x14\x03\x14\0".to_vec();
        let middle = vec![0; 6];
        let mode = (self.mode << 16).to_le_bytes().to_vec();
        let offset = offset.to_le_bytes().to_vec();
        [
            head,
            self.common(),
            middle,
            mode,
            offset,
            self.name.clone(),
            self.extra.clone(),
        ]
        .concat()
    }
}

pub(crate) fn zip(entries: &[Entry]) -> Vec<u8> {
    zip_with(entries, b"")
}

/// With something between the directory and the end.
pub(crate) fn zip_with(entries: &[Entry], before_the_end: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut directory = Vec::new();
    for entry in entries {
        let offset = if entry.is_first {
            0
        } else {
            u32::try_from(bytes.len()).unwrap()
        };
        directory.extend(entry.central(offset));
        if !entry.is_first || bytes.is_empty() {
            bytes.extend(entry.local());
        }
    }
    let begin = u32::try_from(bytes.len()).unwrap();
    let length = u32::try_from(directory.len()).unwrap();
    let count = u16::try_from(entries.len()).unwrap().to_le_bytes();
    bytes.extend(directory);
    bytes.extend(before_the_end);
    bytes.extend(b"PK\x05\x06\0\0\0\0");
    bytes.extend([count, count].concat());
    bytes.extend(length.to_le_bytes());
    bytes.extend(begin.to_le_bytes());
    bytes.extend([0, 0]);
    bytes
}

/// Packs pieces many times over without packing them more than once.
#[derive(Default)]
pub(crate) struct Repeated(Vec<u8>);

impl Repeated {
    pub(crate) fn then(mut self, piece: &[u8], times: usize) -> Self {
        let mut packed = Vec::with_capacity(piece.len() + 1000);
        let mut deflate = Compress::new(Compression::best(), false);
        // What follows a full flush does not refer back to what was before it.
        deflate.compress_vec(piece, &mut packed, FlushCompress::Full).unwrap();
        assert_eq!(deflate.total_in(), piece.len() as u64);
        self.0.extend(packed.repeat(times));
        self
    }

    /// A gigabyte of zeros, packed in a megabyte.
    pub(crate) fn then_zeros(mut self) -> Self {
        static GIGABYTE: LazyLock<Vec<u8>> = LazyLock::new(|| Repeated::default().then(&vec![0; 1 << 20], 1024).0);
        self.0.extend_from_slice(&GIGABYTE);
        self
    }

    /// The last, empty block.
    pub(crate) fn deflated(mut self) -> Vec<u8> {
        self.0.extend([3, 0]);
        self.0
    }

    /// With a wrong checksum, which nobody should come to see.
    pub(crate) fn gzipped(self) -> Vec<u8> {
        [vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3], self.deflated(), vec![0; 8]].concat()
    }
}
