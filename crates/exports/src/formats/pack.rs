//! Compression of text. Members of gzip and frames of zstd may stand behind each other in a file, so chunks are packed
//! apart from each other; brotli knows nothing of the kind, and packs a file as one stream.

use std::io::Write;

use brotli::CompressorWriter;
use flate2::GzBuilder;
use service::batch_exports::destination::Compression;

use super::format::unwritable;
use crate::Error;

const GZIP_LEVEL: flate2::Compression = flate2::Compression::new(6);
const ZSTD_LEVEL: i32 = 3;
/// As the origin packs.
const BROTLI_QUALITY: u32 = 5;
const BROTLI_WINDOW: u32 = 22;
const BUFFER: usize = 64 * 1024;

/// Packs a chunk so that it can stand behind others. What goes into a stream is left as it is.
pub(super) fn pack(text: Vec<u8>, compression: Option<Compression>) -> Result<Vec<u8>, Error> {
    match compression {
        Some(Compression::Gzip) => gzip(&text),
        Some(Compression::Zstd) => zstd::bulk::compress(&text, ZSTD_LEVEL).map_err(unwritable),
        None | Some(Compression::Brotli) => Ok(text),
        Some(Compression::Snappy | Compression::Lz4) => Err(Error::plain(
            "this compression works with Parquet only; choose gzip, brotli or zstd",
        )),
    }
}

fn gzip(text: &[u8]) -> Result<Vec<u8>, Error> {
    let packed = Vec::with_capacity(text.len() / 4);
    let mut encoder = GzBuilder::new().write(packed, GZIP_LEVEL);
    encoder.write_all(text).map_err(unwritable)?;
    encoder.finish().map_err(unwritable)
}

/// A stream of brotli whose output is taken out piece by piece.
pub(super) struct Brotli(CompressorWriter<Vec<u8>>);

impl Brotli {
    pub(super) fn new() -> Self {
        Self(CompressorWriter::new(Vec::new(), BUFFER, BROTLI_QUALITY, BROTLI_WINDOW))
    }

    /// Takes text in, and gives out what is packed so far.
    pub(super) fn write(&mut self, text: &[u8]) -> Result<Vec<u8>, Error> {
        self.0.write_all(text).map_err(unwritable)?;
        Ok(std::mem::take(self.0.get_mut()))
    }

    pub(super) fn finish(self) -> Vec<u8> {
        self.0.into_inner()
    }
}
