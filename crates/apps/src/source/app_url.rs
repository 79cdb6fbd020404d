//! The URL of an app: where it comes from, what it takes to read it there, and what must be found there.

use std::fmt;

use ring::digest::{SHA256, digest};
use secrecy::SecretString;

use super::{Error, Files, Origin};

const FRAGMENT: &str = "the URL fragment can only be #sha256= with a checksum of 64 hexadecimal digits";

/// Displays as the one URL that stands for it, with the checksum and without the token.
#[derive(Debug, Clone)]
pub struct AppUrl {
    pub origin: Origin,
    pub token: Option<SecretString>,
    /// The only code that is taken from there (`#sha256=`).
    pub pinned: Option<Checksum>,
}

/// SHA-256 over all files of an app, as `sha256sum` would list them in the order of their names.
///
/// Archives are packed again by hosts now and then; the files in them stay the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checksum(String);

impl AppUrl {
    pub fn parse(text: &str) -> Result<Self, Error> {
        let (address, fragment) = match text.trim().split_once('#') {
            Some((address, fragment)) => (address, Some(fragment)),
            None => (text, None),
        };
        let (origin, token) = Origin::parse(address)?;
        let read = |fragment: &str| fragment.strip_prefix("sha256=").and_then(Checksum::parse);
        let pinned = fragment.map(|fragment| read(fragment).ok_or(Error::Url(FRAGMENT)));
        Ok(Self {
            origin,
            token,
            pinned: pinned.transpose()?,
        })
    }
}

impl fmt::Display for AppUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.origin.fmt(f)?;
        match &self.pinned {
            Some(checksum) => write!(f, "#sha256={checksum}"),
            None => Ok(()),
        }
    }
}

impl Checksum {
    pub fn of(files: &Files) -> Self {
        let line = |(name, text): (&String, &String)| format!("{}  {name}\n", sha256(text.as_bytes()));
        let lines: String = files.iter().map(line).collect();
        Self(sha256(lines.as_bytes()))
    }

    /// None: this is no checksum.
    pub fn parse(text: &str) -> Option<Self> {
        let is_whole = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_whole.then(|| Self(text.to_ascii_lowercase()))
    }
}

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn sha256(bytes: &[u8]) -> String {
    hex::encode(digest(&SHA256, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUM: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789ABCDEF";

    #[test]
    fn a_checksum_stands_behind_the_url_and_a_token_does_not() {
        let url = AppUrl::parse(&format!(" https://github.com/a/b/?private_token=hush#sha256={SUM} ")).unwrap();
        assert!(url.token.is_some());
        let shown = format!("https://github.com/a/b#sha256={}", SUM.to_lowercase());
        assert_eq!(url.to_string(), shown);
        assert_eq!(AppUrl::parse(&shown).unwrap().to_string(), shown);
        assert!(AppUrl::parse("https://github.com/a/b").unwrap().pinned.is_none());
    }

    #[test]
    fn whatever_else_stands_behind_the_hash_is_refused() {
        for fragment in ["", "readme", "sha256=", "sha256=0123", "sha1=0123", "md5", SUM] {
            let refused = AppUrl::parse(&format!("https://github.com/a/b#{fragment}"));
            assert!(matches!(refused, Err(Error::Url(FRAGMENT))), "{fragment}");
        }
        for long in [format!("{SUM}0"), format!("{SUM}#sha256={SUM}"), format!("{SUM} ")] {
            let url = format!("https://github.com/a/b#sha256={long}/");
            assert!(AppUrl::parse(&url).is_err(), "{long}");
        }
    }

    /// `printf x > a; printf y > b; sha256sum a b | sha256sum`
    #[test]
    fn a_checksum_can_be_made_with_common_tools() {
        let files = Files::from([("b".to_owned(), "y".to_owned()), ("a".to_owned(), "x".to_owned())]);
        let made = "8d73e01349b30f78751f37931b0d2ae54f8dbd56a8fc69e01f2861cc466fadaa";
        assert_eq!(Checksum::of(&files).to_string(), made);
    }

    #[test]
    fn another_byte_or_another_name_is_another_checksum() {
        let one = |name: &str, text: &str| Checksum::of(&Files::from([(name.to_owned(), text.to_owned())]));
        let code = one("index.ts", "export function onEvent() {}");
        assert_ne!(code, one("index.ts", "export function onEvent() {} "));
        assert_ne!(code, one("index.js", "export function onEvent() {}"));
    }
}
