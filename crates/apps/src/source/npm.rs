//! What an npm registry says about a package, and whether what it sent is what it promised.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{self, Algorithm};
use serde::Deserialize;
use url::Url;

use super::tag::is_tag;

/// The short form, which registries give on request; the long one holds the same and more.
pub(super) const ACCEPT: &str = "application/vnd.npm.install-v1+json; q=1.0, application/json; q=0.8";

/// The strongest comes first and is the only one that is looked at.
const ALGORITHMS: [(&str, &Algorithm); 4] = [
    ("sha512", &digest::SHA512),
    ("sha384", &digest::SHA384),
    ("sha256", &digest::SHA256),
    ("sha1", &digest::SHA1_FOR_LEGACY_USE_ONLY),
];

/// All versions of a package.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Document {
    #[serde(rename = "dist-tags", default)]
    tags: BTreeMap<String, String>,
    #[serde(default)]
    versions: BTreeMap<String, Release>,
}

#[derive(Debug, Deserialize)]
struct Release {
    dist: Option<Dist>,
}

/// Where the archive of a version is, and its checksums.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Dist {
    #[serde(default)]
    tarball: String,
    integrity: Option<String>,
    shasum: Option<String>,
}

impl Document {
    /// The version that is installed if none is named.
    pub(super) fn latest(self) -> Option<String> {
        let mut tags = self.tags;
        tags.remove("latest").filter(|version| is_tag(version))
    }

    pub(super) fn dist(mut self, version: &str) -> Option<Dist> {
        self.versions.remove(version)?.dist
    }
}

impl Dist {
    /// The address of the archive at the registry that was asked, wherever the document says it is: mirrors often pass on
    /// documents as they got them, and another host is not to be trusted for being named in one.
    pub(super) fn tarball(&self, registry: &Url) -> Option<Url> {
        let named = Url::parse(&self.tarball).ok()?;
        let base = registry.path().trim_end_matches('/');
        let is_here = named.origin() == registry.origin() && named.path().starts_with(&format!("{base}/"));
        let path = match named.path() {
            path if is_here => path.to_owned(),
            path => format!("{base}{path}"),
        };
        let mut url = registry.clone();
        url.set_path(&path);
        url.set_query(None);
        url.set_fragment(None);
        Some(url)
    }

    /// Whether these are the bytes that were promised. No promise is as bad as a broken one.
    pub(super) fn is_of(&self, bytes: &[u8]) -> bool {
        let promises: Vec<(&str, &str)> = self
            .integrity
            .iter()
            .flat_map(|integrity| integrity.split_ascii_whitespace())
            .filter_map(|promise| promise.split_once('-'))
            .collect();
        for (name, algorithm) in ALGORITHMS {
            let mut sums = promises.iter().filter(|promise| promise.0 == name).peekable();
            if sums.peek().is_some() {
                let sum = STANDARD.encode(digest::digest(algorithm, bytes));
                // Options may follow a question mark; none is defined.
                return sums.any(|(_, promised)| promised.split('?').next() == Some(&sum));
            }
        }
        let sum = hex::encode(digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, bytes));
        self.shasum
            .as_ref()
            .is_some_and(|promised| promised.eq_ignore_ascii_case(&sum))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dist(integrity: Option<&str>, shasum: Option<&str>) -> Dist {
        Dist {
            tarball: String::new(),
            integrity: integrity.map(str::to_owned),
            shasum: shasum.map(str::to_owned),
        }
    }

    /// Of `hello`.
    const SHA1: &str = "aaf4c61ddcc5e8a2dabede0f3b482cd9aea9434d";
    const SHA512: &str =
        "sha512-m3HSJL1i83hdltRq0+o9czGb+8KJDKra4t/3JRlnPKcjI8PZm6XBHXx6zG4UuMXaDEZjR1wuXDre9G9zvN7AQw==";

    #[test]
    fn bytes_are_what_the_strongest_checksum_says() {
        assert!(dist(Some(SHA512), None).is_of(b"hello"));
        assert!(dist(Some(SHA512), Some("wrong")).is_of(b"hello"));
        assert!(dist(None, Some(SHA1)).is_of(b"hello"));
        assert!(dist(Some("md5-x"), Some(&SHA1.to_uppercase())).is_of(b"hello"));
        assert!(dist(Some(&format!("sha512-AAAA {SHA512}?opt")), None).is_of(b"hello"));
        assert!(!dist(Some(SHA512), Some(SHA1)).is_of(b"hullo"));
        assert!(!dist(None, Some(SHA1)).is_of(b"hullo"));
        // A right weak one does not make up for a wrong strong one.
        assert!(!dist(Some("sha512-AAAA sha1-qvTGHdzF6KLavt4PO0gs2a6pQ00="), Some(SHA1)).is_of(b"hello"));
    }

    #[test]
    fn without_a_checksum_nothing_is_believed() {
        assert!(!dist(None, None).is_of(b"hello"));
        assert!(!dist(Some(""), Some("")).is_of(b"hello"));
        assert!(!dist(Some("md5-XUFAKrxLKna5cZ2REBfFkg=="), None).is_of(b"hello"));
    }

    #[test]
    fn an_archive_is_fetched_from_where_its_document_came_from() {
        let at = |registry: &str, tarball: &str| {
            let dist = Dist {
                tarball: tarball.to_owned(),
                ..Dist::default()
            };
            dist.tarball(&registry.parse().unwrap()).map(String::from)
        };
        let elsewhere = "https://packages.example/@a/b/-/b-1.0.0.tgz?x=1#y";
        let here = "http://127.0.0.1:9000/npm/@a/b/-/b-1.0.0.tgz";
        assert_eq!(at("http://127.0.0.1:9000/npm", elsewhere).unwrap(), here);
        assert_eq!(at("http://127.0.0.1:9000/npm/", here).unwrap(), here);
        assert_eq!(
            at("https://packages.example/", elsewhere).unwrap(),
            "https://packages.example/@a/b/-/b-1.0.0.tgz"
        );
        let deps = "http://127.0.0.1:9000/npm/../../secret";
        assert_eq!(
            at("http://127.0.0.1:9000/npm", deps).unwrap(),
            "http://127.0.0.1:9000/npm/secret"
        );
        assert_eq!(at("http://127.0.0.1:9000/npm", "b-1.0.0.tgz"), None);
        let file = at("http://127.0.0.1:9000/npm", "file:///etc/passwd").unwrap();
        assert_eq!(file, "http://127.0.0.1:9000/npm/etc/passwd");
    }
}
