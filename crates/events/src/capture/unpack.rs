//! From the bytes of a body to JSON: out of forms, base64 and gzip, in whatever order they were put in.

use std::borrow::Cow;
use std::io::{self, BufRead, Read};

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use flate2::bufread::MultiGzDecoder;

use super::refusal::Refusal;

pub(super) const GZIP: [u8; 3] = [0x1f, 0x8b, 8];
/// Memory is asked for in steps of at least this.
const STEP: usize = 16 * 1024;
/// A form that holds base64 that holds gzip that holds JSON is as deep as SDKs ever went.
const MAX_LAYERS: usize = 4;
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Whether a packing that was named is one of those that are recognized.
pub(super) fn is_known(packing: &str) -> bool {
    let known = ["", "identity", "none", "gzip", "x-gzip", "gzip-js", "base64"];
    known.iter().any(|name| packing.trim().eq_ignore_ascii_case(name))
}

/// No more than so many bytes come out of one of gzip.
const MAX_TIMES_PACKED: usize = 1032;

/// Gzip is never longer than twice what it holds, and this. Empty blocks take long to read, and no encoder writes many.
const MAX_OVERHEAD: usize = 64 * 1024;
/// How much of gzip is unpacked before its length is looked at.
const AT_ONCE: usize = 64 * 1024;

/// How long gzip may be that holds so much.
pub(super) fn most_packed(unpacked: usize) -> usize {
    MAX_OVERHEAD + 2 * unpacked
}

/// How large gzip says that it becomes, as far as that is possible. It may lie.
pub fn claimed_size(bytes: &[u8]) -> Option<usize> {
    let size = bytes.last_chunk::<4>().filter(|_| bytes.starts_with(&GZIP))?;
    let possible = bytes.len().saturating_mul(MAX_TIMES_PACKED);
    Some((u32::from_le_bytes(*size) as usize).min(possible))
}

/// Whether this is JSON already.
pub fn is_json(bytes: &[u8]) -> bool {
    matches!(bytes.trim_ascii_start().first(), Some(b'{' | b'['))
}

/// Takes a body out of its packings, up to `most` bytes. `allocate` is asked before memory is used, and may refuse.
pub fn unpack<E: From<Refusal>>(
    bytes: &[u8],
    most: usize,
    allocate: &mut impl FnMut(usize) -> Result<(), E>,
) -> Result<Vec<u8>, E> {
    let mut bytes = Cow::Borrowed(bytes);
    let mut is_gunzipped = false;
    for _ in 0..=MAX_LAYERS {
        if bytes.starts_with(&GZIP) {
            // Gzip can hold so much gzip of nothing that a few bytes take seconds.
            if std::mem::replace(&mut is_gunzipped, true) {
                break;
            }
            bytes = gunzip(&bytes, most, allocate)?.into();
        } else if is_json(&bytes) {
            return Ok(bytes.into_owned());
        } else if bytes.trim_ascii_start().is_empty() {
            return Err(Refusal::Empty.into());
        } else {
            // Copied once to be read, and shorter after.
            allocate(2 * bytes.len())?;
            bytes = field(&bytes).map_or_else(|| unbase64(&bytes), Ok)?.into();
        }
    }
    Err(Refusal::Unreadable("compressed too many times".to_owned()).into())
}

/// Reads no further than it must to see that it is too much, or too little.
fn gunzip<E: From<Refusal>>(
    bytes: &[u8],
    most: usize,
    allocate: &mut impl FnMut(usize) -> Result<(), E>,
) -> Result<Vec<u8>, E> {
    // One byte more, so that a text of the size that was claimed shows its end without growing.
    let first = claimed_size(bytes).unwrap_or_default().clamp(STEP, most.max(STEP)) + 1;
    allocate(first)?;
    let mut unpacked = Vec::with_capacity(first);
    let mut source = MultiGzDecoder::new(Packed {
        left: bytes,
        // Its header is read at once.
        allowed: most_packed(0),
    });
    loop {
        if unpacked.len() == unpacked.capacity() {
            let more = (unpacked.len() / 2).max(STEP);
            allocate(more)?;
            unpacked.reserve_exact(more);
        }
        let room = (unpacked.capacity() - unpacked.len()).min(AT_ONCE);
        let taken = bytes.len() - source.get_ref().left.len();
        source.get_mut().allowed = most_packed(unpacked.len() + room).saturating_sub(taken);
        let read = source.by_ref().take(room as u64).read_to_end(&mut unpacked);
        if unpacked.len() > most {
            return Err(Refusal::TooLarge.into());
        }
        let count = read.map_err(|_| Refusal::Unreadable("corrupt gzip data".to_owned()))?;
        if count < room {
            return Ok(unpacked);
        }
    }
}

/// Gzip of which no more is given to the decoder than is allowed.
struct Packed<'a> {
    left: &'a [u8],
    allowed: usize,
}

impl Read for Packed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.fill_buf()?.read(buffer)?;
        self.consume(count);
        Ok(count)
    }
}

impl BufRead for Packed<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        let ready = &self.left[..self.left.len().min(self.allowed)];
        if ready.is_empty() && !self.left.is_empty() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(ready)
    }

    fn consume(&mut self, count: usize) {
        self.left = &self.left[count..];
        self.allowed -= count;
    }
}

/// The field `data` of a form.
fn field(bytes: &[u8]) -> Option<Vec<u8>> {
    // Neither JSON nor base64 has this in its first field.
    let is_form = bytes.starts_with(b"data=") || bytes.windows(6).take(1024).any(|window| window == b"&data=");
    if !is_form {
        return None;
    }
    let (_, data) = url::form_urlencoded::parse(bytes).find(|(name, _)| name == "data")?;
    Some(data.into_owned().into_bytes())
}

fn unbase64(bytes: &[u8]) -> Result<Vec<u8>, Refusal> {
    let standard = |byte: &u8| match byte {
        // What a form makes of a plus that was not escaped.
        b' ' | b'-' => b'+',
        b'_' => b'/',
        other => *other,
    };
    let text: Vec<u8> = bytes.trim_ascii().iter().map(standard).collect();
    let decoded = BASE64.decode(text);
    decoded.map_err(|_| Refusal::Unreadable("neither JSON, form data nor base64".to_owned()))
}
