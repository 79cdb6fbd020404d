//! What the engine lacks: encodings, hashes, random numbers and URLs. Bytes come in as text with a character for each.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD, URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit, Mac};
use md5::Md5;
use rquickjs::{Ctx, Exception, Function, Object, Result, TypedArray};
use serde_json::json;
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha384, Sha512};
use url::Url;
use url::form_urlencoded;

type Bytes<'js> = TypedArray<'js, u8>;

/// Takes base64 with and without padding.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// How many random bytes may be asked for at once.
const MAX_RANDOM: f64 = 65536.0;

/// Puts these functions where the prelude finds them.
pub(crate) fn install<'js>(ctx: &Ctx<'js>, native: &Object<'js>) -> Result<()> {
    install_encodings(ctx, native)?;
    install_hashes(ctx, native)?;
    install_urls(ctx, native)
}

fn install_encodings<'js>(ctx: &Ctx<'js>, native: &Object<'js>) -> Result<()> {
    let set = |name: &str, function: Result<Function<'js>>| native.set(name, function?);
    let from_text = |ctx: Ctx<'js>, text: String| Bytes::new_copy(ctx, text);
    set("fromText", Function::new(ctx.clone(), from_text))?;
    let from_latin1 = |ctx: Ctx<'js>, text: String| Bytes::new_copy(ctx, bytes(&text));
    set("fromLatin1", Function::new(ctx.clone(), from_latin1))?;
    let from_hex = |ctx: Ctx<'js>, text: String| Bytes::new_copy(ctx, unhex(&text));
    set("fromHex", Function::new(ctx.clone(), from_hex))?;
    let from_base64 = |ctx: Ctx<'js>, text: String| Bytes::new_copy(ctx, unbase64(&text));
    set("fromBase64", Function::new(ctx.clone(), from_base64))?;
    let to_text = |binary: String| String::from_utf8_lossy(&bytes(&binary)).into_owned();
    set("toText", Function::new(ctx.clone(), to_text))?;
    set(
        "toHex",
        Function::new(ctx.clone(), |binary: String| hex::encode(bytes(&binary))),
    )?;
    set(
        "toBase64",
        Function::new(ctx.clone(), |binary: String, for_urls: bool| {
            base64(&bytes(&binary), for_urls)
        }),
    )
}

fn install_hashes<'js>(ctx: &Ctx<'js>, native: &Object<'js>) -> Result<()> {
    let set = |name: &str, function: Result<Function<'js>>| native.set(name, function?);
    let hash = |ctx: Ctx<'js>, algorithm: String, data: String| match hash(&algorithm, &bytes(&data)) {
        Some(hash) => Bytes::new_copy(ctx, hash),
        None => Err(unknown(&ctx, &algorithm)),
    };
    set("hash", Function::new(ctx.clone(), hash))?;
    let hmac = |ctx: Ctx<'js>, algorithm: String, key: String, data: String| match hmac(
        &algorithm,
        &bytes(&key),
        &bytes(&data),
    ) {
        Some(hash) => Bytes::new_copy(ctx, hash),
        None => Err(unknown(&ctx, &algorithm)),
    };
    set("hmac", Function::new(ctx.clone(), hmac))?;
    set("random", Function::new(ctx.clone(), random))?;
    set(
        "uuid",
        Function::new(ctx.clone(), || {
            uuid::Builder::from_random_bytes(rand::random()).into_uuid().to_string()
        }),
    )
}

fn install_urls<'js>(ctx: &Ctx<'js>, native: &Object<'js>) -> Result<()> {
    let set = |name: &str, function: Result<Function<'js>>| native.set(name, function?);
    let parse = |input: String, base: String| parse_url(&input, &base).map(|url| parts(&url));
    set("parseUrl", Function::new(ctx.clone(), parse))?;
    let change = |href: String, part: String, value: String| {
        let mut url = Url::parse(&href).ok()?;
        change_url(&mut url, &part, &value);
        Some(parts(&url))
    };
    set("changeUrl", Function::new(ctx.clone(), change))?;
    set(
        "parseForm",
        Function::new(ctx.clone(), |text: String| parse_form(&text)),
    )?;
    set(
        "writeForm",
        Function::new(ctx.clone(), |pairs: String| write_form(&pairs)),
    )
}

fn unknown(ctx: &Ctx<'_>, algorithm: &str) -> rquickjs::Error {
    let message = format!("unknown algorithm '{algorithm}'; use md5, sha1, sha256, sha384, or sha512");
    Exception::throw_message(ctx, &message)
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the low byte is the one that is meant, as browsers have it"
)]
fn bytes(binary: &str) -> Vec<u8> {
    binary.chars().map(|character| character as u32 as u8).collect()
}

/// Reads as far as it is hexadecimal.
fn unhex(text: &str) -> Vec<u8> {
    let digits = text.bytes().take_while(u8::is_ascii_hexdigit).count();
    hex::decode(&text[..digits & !1]).expect("pairs of hexadecimal digits")
}

fn base64(bytes: &[u8], for_urls: bool) -> String {
    if for_urls {
        URL_SAFE_NO_PAD.encode(bytes)
    } else {
        STANDARD.encode(bytes)
    }
}

/// Takes both alphabets, and leaves out whatever is of neither.
fn unbase64(text: &str) -> Vec<u8> {
    let mut plain: String = text
        .chars()
        .map(|c| match c {
            '-' => '+',
            '_' => '/',
            other => other,
        })
        .collect();
    plain.retain(|c| c.is_ascii_alphanumeric() || c == '+' || c == '/');
    if plain.len() % 4 == 1 {
        plain.pop();
    }
    LENIENT.decode(plain).unwrap_or_default()
}

fn hash(algorithm: &str, data: &[u8]) -> Option<Vec<u8>> {
    Some(match canonical(algorithm).as_str() {
        "md5" => Md5::digest(data).to_vec(),
        "sha1" => Sha1::digest(data).to_vec(),
        "sha256" => Sha256::digest(data).to_vec(),
        "sha384" => Sha384::digest(data).to_vec(),
        "sha512" => Sha512::digest(data).to_vec(),
        _ => return None,
    })
}

fn hmac(algorithm: &str, key: &[u8], data: &[u8]) -> Option<Vec<u8>> {
    fn with<M: Mac + KeyInit>(key: &[u8], data: &[u8]) -> Option<Vec<u8>> {
        let mut mac = <M as KeyInit>::new_from_slice(key).ok()?;
        mac.update(data);
        Some(mac.finalize().into_bytes().to_vec())
    }
    match canonical(algorithm).as_str() {
        "md5" => with::<Hmac<Md5>>(key, data),
        "sha1" => with::<Hmac<Sha1>>(key, data),
        "sha256" => with::<Hmac<Sha256>>(key, data),
        "sha384" => with::<Hmac<Sha384>>(key, data),
        "sha512" => with::<Hmac<Sha512>>(key, data),
        _ => None,
    }
}

fn canonical(algorithm: &str) -> String {
    algorithm.to_ascii_lowercase().replace('-', "")
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the number is within bounds"
)]
fn random(ctx: Ctx<'_>, count: f64) -> Result<Bytes<'_>> {
    if !(0.0..=MAX_RANDOM).contains(&count) {
        return Err(Exception::throw_range(
            &ctx,
            "at most 65,536 random bytes can be requested per call",
        ));
    }
    let mut bytes = vec![0; count as usize];
    rand::fill(&mut bytes);
    Bytes::new_copy(ctx, bytes)
}

fn parse_url(input: &str, base: &str) -> Option<Url> {
    if base.is_empty() {
        return Url::parse(input).ok();
    }
    Url::parse(base).ok()?.join(input).ok()
}

fn parts(url: &Url) -> String {
    use url::quirks;
    json!({
        "href": url.as_str(),
        "origin": quirks::origin(url),
        "protocol": quirks::protocol(url),
        "username": quirks::username(url),
        "password": quirks::password(url),
        "host": quirks::host(url),
        "hostname": quirks::hostname(url),
        "port": quirks::port(url),
        "pathname": quirks::pathname(url),
        "search": quirks::search(url),
        "hash": quirks::hash(url),
    })
    .to_string()
}

/// Changes a part. As in browsers, a value that does not do changes nothing.
fn change_url(url: &mut Url, part: &str, value: &str) {
    use url::quirks;
    // Whether it did is of no interest.
    let _ = match part {
        "protocol" => quirks::set_protocol(url, value),
        "username" => quirks::set_username(url, value),
        "password" => quirks::set_password(url, value),
        "host" => quirks::set_host(url, value),
        "hostname" => quirks::set_hostname(url, value),
        "port" => quirks::set_port(url, value),
        "pathname" => {
            quirks::set_pathname(url, value);
            Ok(())
        }
        "search" => {
            quirks::set_search(url, value);
            Ok(())
        }
        _ => {
            quirks::set_hash(url, value);
            Ok(())
        }
    };
}

fn parse_form(text: &str) -> String {
    let text = text.strip_prefix('?').unwrap_or(text);
    let pairs: Vec<_> = form_urlencoded::parse(text.as_bytes()).collect();
    serde_json::to_string(&pairs).expect("pairs of text can be written")
}

fn write_form(pairs: &str) -> String {
    let pairs: Vec<(String, String)> = serde_json::from_str(pairs).unwrap_or_default();
    form_urlencoded::Serializer::new(String::new())
        .extend_pairs(pairs)
        .finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings_there_and_back() {
        assert_eq!(unhex(&hex::encode([0_u8, 127, 255])), [0, 127, 255]);
        assert_eq!(unbase64("AP8="), [0, 255]);
        assert_eq!(unbase64("_-8"), unbase64("/+8="));
        assert_eq!(bytes("\u{ff}\u{0}"), [255, 0]);
    }

    #[test]
    fn hashes_are_the_known_ones() {
        assert_eq!(
            hex::encode(hash("SHA-1", b"abc").unwrap()),
            "a9993e364706816aba3e25717850c26c9cd0d89d"
        );
        assert_eq!(
            hex::encode(hash("md5", b"").unwrap()),
            "d41d8cd98f00b204e9800998ecf8427e"
        );
        let mac = hmac("sha256", b"key", b"The quick brown fox jumps over the lazy dog").unwrap();
        assert!(hex::encode(mac).starts_with("f7bc83f430538424b13298e6aa6fb143"));
        assert!(hash("sha3", b"").is_none());
    }
}
