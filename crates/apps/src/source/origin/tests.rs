use proptest::prelude::*;
use secrecy::ExposeSecret;

use super::*;

fn shown(url: &str) -> String {
    match Origin::parse(url) {
        Ok((origin, _)) => origin.to_string(),
        Err(error) => panic!("{url}: {error}"),
    }
}

#[test]
fn what_people_paste_is_read_and_written_in_one_way() {
    for (pasted, canonical) in [
        ("https://github.com/a/b", "https://github.com/a/b"),
        ("http://www.github.com/a/b/", "https://github.com/a/b"),
        (" HTTPS://GitHub.com/A/b.js.git ", "https://github.com/A/b.js"),
        ("https://github.com/a/b/tree/main", "https://github.com/a/b/tree/main"),
        (
            "https://github.com/a/b/tree/main/x/y-z/",
            "https://github.com/a/b/tree/main/x/y-z",
        ),
        (
            "https://github.com/a/b/commit/0a1b2c3",
            "https://github.com/a/b/commit/0a1b2c3",
        ),
        (
            "https://github.com/a/b/releases/tag/v1.0.0+2",
            "https://github.com/a/b/releases/tag/v1.0.0+2",
        ),
        (
            "https://github.com/a/b/archive/v1.0.zip",
            "https://github.com/a/b/tree/v1.0",
        ),
        (
            "https://github.com/a/b/archive/v1.0.tar.gz",
            "https://github.com/a/b/tree/v1.0",
        ),
        (
            "https://github.com/a/b/archive/refs/tags/v1.zip",
            "https://github.com/a/b/releases/tag/v1",
        ),
        (
            "https://github.com/a/b/archive/refs/heads/main.zip",
            "https://github.com/a/b/tree/main",
        ),
        ("https://gitlab.com/a/b", "https://gitlab.com/a/b"),
        (
            "https://gitlab.com/a/b/c/d/-/tree/main/x",
            "https://gitlab.com/a/b/c/d/-/tree/main/x",
        ),
        ("https://gitlab.com/a/b/-/tags/v1", "https://gitlab.com/a/b/-/tags/v1"),
        (
            "https://gitlab.com/a/b/-/releases/v1",
            "https://gitlab.com/a/b/-/tags/v1",
        ),
        (
            "https://npmjs.com/package/left-pad",
            "https://www.npmjs.com/package/left-pad",
        ),
        (
            "https://www.npmjs.com/package/@a/b.c",
            "https://www.npmjs.com/package/@a/b.c",
        ),
        (
            "https://www.npmjs.com/package/@a/b/v/1.0.0-x",
            "https://www.npmjs.com/package/@a/b/v/1.0.0-x",
        ),
        ("https://www.npmjs.com/package/v", "https://www.npmjs.com/package/v"),
    ] {
        assert_eq!(shown(pasted), canonical, "{pasted}");
        assert_eq!(shown(canonical), canonical, "{canonical}");
    }
}

#[test]
fn anything_else_is_refused_with_a_way_that_works() {
    for (pasted, sentence) in [
        ("", HOSTS),
        ("github.com/a/b", HOSTS),
        ("git@github.com:a/b.git", HOSTS),
        ("ssh://github.com/a/b", HOSTS),
        ("ftp://github.com/a/b", HOSTS),
        ("https://github.com:443/a/b", HOSTS),
        ("https://user:secret@github.com/a/b", HOSTS),
        ("https://github.com@evil.example/a/b", HOSTS),
        ("https://github.com.evil.example/a/b", HOSTS),
        ("https://evil.example/github.com/a/b", HOSTS),
        ("https://notgithub.com/a/b", HOSTS),
        ("https://www.www.github.com/a/b", HOSTS),
        ("https://github.com./a/b", HOSTS),
        ("https://\u{ff47}ithub.com/a/b", HOSTS),
        ("https://127.0.0.1/a/b", HOSTS),
        ("https://[::1]/a/b", HOSTS),
        ("https://evilnpmjs.com/package/a", HOSTS),
        ("https:/github.com/a/b", HOSTS),
        ("https://github.com\\@evil.example/a/b", HOSTS),
        ("https://github.com/a/..", CHARACTERS),
        ("https://github.com/a/b/tree/main/../../..", CHARACTERS),
        ("https://github.com/a/b/tree/main/./x", CHARACTERS),
        ("https://github.com/a//b", CHARACTERS),
        ("https://github.com//a/b", CHARACTERS),
        ("https://github.com/a/b%2F..", CHARACTERS),
        ("https://github.com/a/b/tree/%2e%2e", CHARACTERS),
        ("https://github.com/a/b\\c", CHARACTERS),
        ("https://github.com/a/b\nc", CHARACTERS),
        ("https://github.com/a/b\0", CHARACTERS),
        ("https://github.com/a/b#readme", CHARACTERS),
        ("https://github.com/a/b:c", CHARACTERS),
        ("https://github.com/ä/b", CHARACTERS),
        ("https://github.com", GITHUB),
        ("https://github.com/a", GITHUB),
        ("https://github.com/a/b/issues", GITHUB),
        ("https://github.com/a/b/tree", GITHUB),
        ("https://github.com/a/b/tree/-x", GITHUB),
        ("https://github.com/@a/b", GITHUB),
        ("https://github.com/a/.git", GITHUB),
        ("https://github.com/a/b/archive/v1.rar", GITHUB),
        ("https://github.com/a/b/archive/.zip", GITHUB),
        ("https://gitlab.com/a", GITLAB),
        ("https://gitlab.com/a/-/tree/main", GITLAB),
        ("https://gitlab.com/a/b/-", GITLAB),
        ("https://gitlab.com/a/b/-/blob/main/x", GITLAB),
        ("https://gitlab.com/a/b/-/commit/abc/x", GITLAB),
        ("https://www.npmjs.com/a", NPM),
        ("https://www.npmjs.com/package", NPM),
        ("https://www.npmjs.com/package/@a", NPM),
        ("https://www.npmjs.com/package/a/b", NPM),
        ("https://www.npmjs.com/package/@a/b/c", NPM),
        ("https://www.npmjs.com/package/.a", NPM),
        ("https://github.com/a/b?tab=readme", QUERY),
        ("https://github.com/a/b?", QUERY),
        ("https://github.com/a/b?private_token=x&private_token=y", QUERY),
        ("https://github.com/a/b?private_token=x&ref=y", QUERY),
        ("https://github.com/a/b?private_token=x#y", QUERY),
    ] {
        match Origin::parse(pasted) {
            Err(Error::Url(given)) => assert_eq!(given, sentence, "{pasted}"),
            other => panic!("{pasted}: {other:?}"),
        }
    }
    let groups = "g/".repeat(21);
    assert!(Origin::parse(&format!("https://gitlab.com/{groups}p")).is_err());
    let folder = "f".repeat(201);
    assert!(Origin::parse(&format!("https://github.com/a/b/tree/c/{folder}")).is_err());
    let package = "p".repeat(215);
    assert!(Origin::parse(&format!("https://www.npmjs.com/package/{package}")).is_err());
    let long = format!("https://github.com/a/{}", "b".repeat(800));
    assert!(matches!(Origin::parse(&long), Err(Error::Url(TOO_LONG))));
}

#[test]
fn a_token_is_split_off_and_shown_nowhere() {
    let (origin, token) = Origin::parse("https://gitlab.com/a/b?private_token=glpat-x%2By").unwrap();
    let token = token.unwrap();
    assert_eq!(token.expose_secret(), "glpat-x+y");
    assert!(!format!("{origin} {origin:?} {token:?}").contains("glpat"));
    assert!(Origin::parse("https://gitlab.com/a/b").unwrap().1.is_none());
}

#[test]
fn a_token_that_is_no_header_is_refused_and_not_quoted() {
    for token in ["", "se%0Dcret", "se%0acret", "se cret", "secr%C3%A9t", &"x".repeat(501)] {
        let error = Origin::parse(&format!("https://github.com/a/b?private_token={token}")).unwrap_err();
        assert!(matches!(error, Error::Token), "{token:?}");
        assert!(!format!("{error} {error:?}").contains("secr"));
    }
}

#[test]
fn what_cannot_move_is_known() {
    let pinned = |url: &str| Origin::parse(url).unwrap().0.pinned().map(str::to_owned);
    assert_eq!(pinned("https://github.com/a/b"), None);
    assert_eq!(pinned("https://github.com/a/b/tree/main"), None);
    assert_eq!(pinned("https://github.com/a/b/releases/tag/v1").unwrap(), "v1");
    assert_eq!(pinned("https://gitlab.com/a/b/-/commit/abc").unwrap(), "abc");
    assert_eq!(pinned("https://www.npmjs.com/package/a/v/1.0.0").unwrap(), "1.0.0");
}

/// Pieces of real URLs and of what tries to look like one.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        prop::sample::select(vec![
            "https://",
            "http://",
            "github.com",
            "gitlab.com",
            "www.",
            "npmjs.com",
            "/",
            "/tree/",
            "/-/tree/",
            "/commit/",
            "/releases/tag/",
            "/archive/",
            ".zip",
            "/package/",
            "@",
            "/v/",
            "..",
            ".",
            "%2f",
            "%2e",
            "\\",
            ":",
            "#",
            "?",
            "private_token=",
            "&",
            "a",
            "b1",
            "\0",
            "\n",
            " ",
            "ü",
            "-",
            ".git",
        ])
        .prop_map(str::to_owned),
        "[ -~]{1,3}",
    ];
    prop::collection::vec(piece, 0..14).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn whatever_is_read_reads_the_same_again_and_leads_to_no_other_host(text in pieces()) {
        if let Ok((origin, _)) = Origin::parse(&text) {
            let canonical = origin.to_string();
            let (again, token) = Origin::parse(&canonical).unwrap();
            prop_assert_eq!(&again, &origin);
            prop_assert!(token.is_none());
            // The address that others will read is the one that was read here.
            let url = url::Url::parse(&canonical).unwrap();
            prop_assert_eq!(url.as_str(), &canonical);
            prop_assert!(matches!(url.host_str(), Some("github.com" | "gitlab.com" | "www.npmjs.com")));
            prop_assert!(!canonical.contains("..") || !url.path().split('/').any(|part| part == ".."));
        }
    }

    #[test]
    fn any_text_at_all_is_read_or_refused(text in any::<String>()) {
        let _ = Origin::parse(&text);
    }
}
