//! Tags: what may be one, and which is the newest.

use semver::Version;

use super::Error;

/// As long as the API takes one.
const LENGTH: usize = 200;

/// Whether a tag, a branch, a version or a commit can be put into an address as it is. Git allows more, but nobody names
/// a release so.
pub(super) fn is_tag(text: &str) -> bool {
    let is_part = |part: &str| !matches!(part, "" | "." | "..") && part.bytes().all(is_plain);
    text.len() <= LENGTH && !text.starts_with('-') && text.split('/').all(is_part)
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"._+@-".contains(&byte)
}

/// A tag that somebody gave.
pub(super) fn checked(tag: &str) -> Result<&str, Error> {
    if is_tag(tag) {
        return Ok(tag);
    }
    Err(Error::Tag(tag.chars().take(LENGTH).collect()))
}

/// The newest of several tags, in the order the host gave them: the highest version, a finished one if there is one. If
/// none is a version, the first.
pub(super) fn newest(tags: Vec<String>) -> Option<String> {
    let tags: Vec<String> = tags.into_iter().filter(|tag| is_tag(tag)).collect();
    let highest = tags
        .iter()
        .filter_map(|tag| Some((version(tag)?, tag)))
        .max_by(|(a, _), (b, _)| a.pre.is_empty().cmp(&b.pre.is_empty()).then_with(|| a.cmp(b)))
        .map(|(_, tag)| tag.clone());
    highest.or_else(|| tags.into_iter().next())
}

/// `1.2.3` as it stands or behind a `v`; what is left out is zero.
fn version(tag: &str) -> Option<Version> {
    let text = tag.strip_prefix(['v', 'V']).unwrap_or(tag);
    let is_short = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let padded = match text.matches('.').count() {
        0 if is_short => format!("{text}.0.0"),
        1 if is_short => format!("{text}.0"),
        _ => text.to_owned(),
    };
    Version::parse(&padded).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn newest_of(tags: &[&str]) -> Option<String> {
        newest(tags.iter().map(|&tag| tag.to_owned()).collect())
    }

    #[test]
    fn the_highest_version_is_the_newest_wherever_it_stands() {
        assert_eq!(newest_of(&["v0.9.0", "v0.10.0", "v0.2.0"]).unwrap(), "v0.10.0");
        assert_eq!(newest_of(&["1.0", "v2", "1.9.9"]).unwrap(), "v2");
        assert_eq!(newest_of(&["nightly", "0.0.1", "zebra"]).unwrap(), "0.0.1");
    }

    #[test]
    fn a_finished_version_goes_before_a_later_trial() {
        assert_eq!(newest_of(&["2.0.0-beta.1", "1.4.0"]).unwrap(), "1.4.0");
        assert_eq!(newest_of(&["2.0.0-beta.1", "2.0.0-beta.12"]).unwrap(), "2.0.0-beta.12");
    }

    #[test]
    fn where_no_tag_is_a_version_the_first_is_taken() {
        assert_eq!(newest_of(&["summer", "winter"]).unwrap(), "summer");
        assert_eq!(newest_of(&["2024.01.05"]).unwrap(), "2024.01.05");
        assert_eq!(newest_of(&[]), None);
    }

    #[test]
    fn a_tag_that_would_bend_an_address_is_none() {
        for tag in [
            "", "..", "a/../b", "a//b", "/a", "a/", "a b", "a?b", "a%2fb", "a\\b", "-o", "ü", "a\0",
        ] {
            assert!(!is_tag(tag), "{tag:?}");
        }
        assert!(!is_tag(&"x".repeat(201)));
        for tag in ["v1.0.0", "release/2", "name@1.0.0+build", "a1b2c3d"] {
            assert!(is_tag(tag), "{tag:?}");
        }
        assert_eq!(newest_of(&["../../x", "fine"]).unwrap(), "fine");
    }
}
