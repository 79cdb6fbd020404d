//! What external services say no with, and what is made of it.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use apps::source::Error;
use apps::{Limits, Sources};
use axum::http::{HeaderMap, HeaderName};
use outbound::{Dialer, Http, HttpError, Policy, Resolve, Roots};
use secrecy::SecretString;
use tokio::net::TcpListener;

use crate::pack::{self, APP};
use crate::remote_host::{RemoteHost, client, origin};

const ARCHIVE: &str = "/o/r/archive/v1.tar.gz";
type Headers = &'static [(&'static str, &'static str)];

const URL: &str = "https://github.com/o/r";

async fn refused(sources: &Sources, token: Option<&str>) -> Error {
    let token = token.map(SecretString::from);
    sources.download(&origin(URL), "v1", token.as_ref()).await.unwrap_err()
}

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let pair = |&(name, value): &(&'static str, &str)| (HeaderName::from_static(name), value.parse().unwrap());
    pairs.iter().map(pair).collect()
}

#[tokio::test]
async fn every_no_of_a_host_is_told_in_a_sentence_that_helps() {
    let remote = RemoteHost::start().await;
    let none: Headers = &[];
    let used_up: Headers = &[("x-ratelimit-remaining", "0")];
    let left: Headers = &[("x-ratelimit-remaining", "12")];
    let wait: Headers = &[("retry-after", "90")];
    for (status, headers_of, token, sentence, is_theirs) in [
        (
            404,
            none,
            None,
            "o/r at v1 not found on github.com; check the URL, and if it is private, add ?private_token=",
            true,
        ),
        (404, none, Some("t0ken"), "o/r at v1 not found on github.com", true),
        (401, none, None, "o/r at v1 not found on github.com", true),
        (401, none, Some("t0ken"), "github.com rejected the private token", true),
        (403, left, None, "access to o/r at v1 on github.com was denied", true),
        (
            403,
            used_up,
            None,
            "rate limit of github.com exceeded; try again later, or use a private token for a higher limit",
            false,
        ),
        (
            403,
            wait,
            None,
            "rate limit of github.com exceeded; try again in 90 seconds",
            false,
        ),
        (429, wait, Some("t0ken"), "rate limit of github.com exceeded", false),
        (
            500,
            none,
            None,
            "github.com returned status 500; try again later",
            false,
        ),
        (503, wait, None, "github.com returned status 503", false),
        (204, none, None, "this is neither a zip nor a tar.gz archive", false),
        (304, none, None, "github.com redirects elsewhere", false),
    ] {
        remote.answers_with(ARCHIVE, status, headers(headers_of), "");
        let error = refused(&remote.direct(), token).await;
        assert!(error.to_string().contains(sentence), "{status}: {error}");
        assert_eq!(error.is_theirs(), is_theirs, "{status}");
        assert!(!format!("{error} {error:?}").contains("t0ken"));
    }
}

#[tokio::test]
async fn what_a_host_says_with_its_no_is_not_repeated() {
    let remote = RemoteHost::start().await;
    remote.answers_with(ARCHIVE, 500, HeaderMap::new(), "<script>secret</script>");
    let error = refused(&remote.direct(), None).await;
    assert!(!format!("{error} {error:?}").contains("secret"));
}

/// Where the mirror is, is nobody's business.
#[tokio::test]
async fn a_mirror_that_is_down_is_not_named() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let sources = Sources {
        mirror: Some(format!("http://{address}/").parse().unwrap()),
        ..Sources::new(client(Policy::default()), client(Policy::for_the_operator()))
    };
    let error = refused(&sources, Some("t0ken")).await;
    let told = error.to_string();
    assert!(
        told.contains("this server's mirror for apps could not be used"),
        "{told}"
    );
    assert!(!told.contains("127.0.0.1") && !format!("{error:?}").contains("t0ken"));
    assert!(!error.is_theirs());
}

#[tokio::test]
async fn a_host_that_takes_too_long_is_given_up() {
    // Takes connections and says nothing.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mirror = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
    let operator = client(Policy::for_the_operator()).within(Duration::from_millis(50));
    let sources = Sources {
        mirror: Some(mirror),
        ..Sources::new(client(Policy::default()), operator)
    };
    let error = refused(&sources, None).await;
    let Error::Unreached { source, .. } = &error else {
        panic!("{error:?}");
    };
    assert!(matches!(source, HttpError::TooSlow { .. }) && !error.is_theirs());
}

#[tokio::test]
async fn an_archive_that_is_too_large_is_not_read_to_its_end() {
    let remote = RemoteHost::start().await;
    remote.gives(ARCHIVE, vec![0x1f; 2001]);
    let sources = Sources {
        limits: Limits {
            packed: 2000,
            ..Limits::default()
        },
        ..remote.direct()
    };
    let error = refused(&sources, None).await;
    assert!(matches!(error, Error::PackedTooLarge { limit: 2000 }) && error.is_theirs());
}

#[tokio::test]
async fn a_list_that_is_too_long_is_not_read_to_its_end() {
    let remote = RemoteHost::start().await;
    remote.gives("/repos/o/r/tags?per_page=100&page=1", vec![b' '; 8_000_001]);
    let error = remote.direct().latest(&origin(URL), None).await.unwrap_err();
    assert!(matches!(
        error,
        Error::Unreached {
            source: HttpError::TooLarge { .. },
            ..
        }
    ));
    assert!(!error.is_theirs());
}

#[tokio::test]
async fn an_archive_that_breaks_a_rule_is_refused_as_a_whole() {
    let remote = RemoteHost::start().await;
    let files: Vec<(&str, &[u8])> = APP.into_iter().chain([("../evil.ts", b"1".as_slice())]).collect();
    remote.gives(ARCHIVE, pack::github(&files));
    let error = refused(&remote.direct(), None).await;
    assert!(matches!(error, Error::BadName { .. }) && error.is_theirs());
}

/// Answers every name with addresses of the private network.
struct Inside;

#[async_trait::async_trait]
impl Resolve for Inside {
    async fn resolve(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        Ok(vec!["10.0.0.1".parse().unwrap(), "127.0.0.1".parse().unwrap()])
    }
}

#[tokio::test]
async fn hosts_at_private_addresses_are_refused_without_a_mirror() {
    let dialer = Dialer::with_names(Policy::default(), Arc::new(Inside));
    let http = Http::new(dialer, &Roots::public()).unwrap();
    let sources = Sources::new(http, client(Policy::for_the_operator()));
    for url in [URL, "https://gitlab.com/g/p"] {
        let error = sources.latest(&origin(url), None).await.unwrap_err();
        let Error::Unreached { source, .. } = &error else {
            panic!("{error:?}");
        };
        assert!(matches!(source, HttpError::Refused(_)), "{source:?}");
        assert!(!error.to_string().contains("10.0.0.1"));
    }
}
