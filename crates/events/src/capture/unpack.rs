//! From the bytes of a body to JSON: out of forms, base64 and gzip, in whatever order they were put in.

use std::io::Read;

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use flate2::bufread::MultiGzDecoder;

use super::{MOST_BYTES, Refusal};

const GZIP: [u8; 3] = [0x1f, 0x8b, 8];
/// A form that holds base64 that holds gzip that holds JSON is as deep as SDKs ever went.
const MOST_LAYERS: usize = 4;
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

/// How large a body says it is once it is unpacked, without unpacking it; the most there may be if it does not say.
/// Who says too little is refused by [`decode`](super::decode).
pub fn unpacked_size(bytes: &[u8]) -> usize {
    match bytes.trim_ascii_start().first() {
        None | Some(b'{' | b'[') => bytes.len(),
        Some(_) if bytes.starts_with(&GZIP) => match bytes.last_chunk::<4>() {
            // The last four bytes of gzip.
            Some(size) => (u32::from_le_bytes(*size) as usize).max(bytes.len()).min(MOST_BYTES),
            None => bytes.len(),
        },
        Some(_) => MOST_BYTES,
    }
}

pub(super) fn json(mut bytes: Vec<u8>, most: usize) -> Result<Vec<u8>, Refusal> {
    for _ in 0..=MOST_LAYERS {
        if bytes.starts_with(&GZIP) {
            bytes = gunzip(&bytes, most)?;
            continue;
        }
        match bytes.trim_ascii_start().first() {
            None => return Err(Refusal::Empty),
            Some(b'{' | b'[') => return Ok(bytes),
            Some(_) => bytes = field(&bytes).map_or_else(|| unbase64(&bytes), Ok)?,
        }
    }
    Err(Refusal::Unreadable("it is packed too often".to_owned()))
}

/// Reads no further than it must to see that it is too much.
fn gunzip(bytes: &[u8], most: usize) -> Result<Vec<u8>, Refusal> {
    let mut unpacked = Vec::with_capacity(bytes.len().saturating_mul(4).min(most));
    let mut limited = MultiGzDecoder::new(bytes).take(most as u64 + 1);
    let read = limited.read_to_end(&mut unpacked);
    if unpacked.len() > most {
        return Err(Refusal::TooLarge);
    }
    read.map_err(|_| Refusal::Unreadable("the gzip is damaged".to_owned()))?;
    Ok(unpacked)
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
    decoded.map_err(|_| Refusal::Unreadable("it is neither JSON, nor a form, nor base64".to_owned()))
}
