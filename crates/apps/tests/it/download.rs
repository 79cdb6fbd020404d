//! Archives from a mirror, a registry and hosts.

use apps::source::Error;
use apps::{Files, Sources};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use outbound::{HttpError, Policy};
use ring::digest;
use secrecy::SecretString;
use serde_json::{Value, json};

use crate::pack::{self, APP};
use crate::remote_host::{RemoteHost, client, origin};

async fn download(sources: &Sources, url: &str, tag: &str) -> Result<Files, Error> {
    sources.download(&origin(url), tag, None).await
}

#[tokio::test]
async fn an_app_comes_from_each_host_by_way_of_the_mirror() {
    let remote = RemoteHost::start().await;
    remote.gives("/github.com/o/r/archive/v1.0.0.tar.gz", pack::github(&APP));
    remote.gives("/github.com/o/r/archive/release/1.tar.gz", pack::github(&APP));
    remote.gives(
        "/gitlab.com/api/v4/projects/g%2Fp/repository/archive.zip?sha=v1.0.0",
        pack::gitlab(&APP),
    );
    let sources = remote.mirrored();
    for (url, tag) in [
        ("https://github.com/o/r", "v1.0.0"),
        ("https://github.com/o/r", "release/1"),
        ("https://gitlab.com/g/p", "v1.0.0"),
    ] {
        let files = download(&sources, url, tag).await.unwrap();
        assert_eq!(files.len(), 3, "{url}");
        assert_eq!(files["plugin.json"], r#"{"name": "Small"}"#);
    }
    let files = download(&sources, "https://github.com/o/r/tree/main/src/deep", "v1.0.0")
        .await
        .unwrap();
    assert_eq!(files.into_keys().collect::<Vec<_>>(), ["help.ts"]);
}

/// What a registry says about one version of a package.
fn document(packed: &[u8], tarball: &str) -> Value {
    let integrity = format!("sha512-{}", STANDARD.encode(digest::digest(&digest::SHA512, packed)));
    let dist = json!({ "tarball": tarball, "integrity": integrity, "shasum": "0" });
    let broken = json!({ "name": "an old one, without dist" });
    json!({ "dist-tags": { "latest": "1.0.0" }, "versions": { "1.0.0": { "dist": dist }, "0.0.1": broken } })
}

#[tokio::test]
async fn a_package_is_fetched_from_the_mirror_wherever_its_document_says_it_is() {
    let (remote, elsewhere) = (RemoteHost::start().await, RemoteHost::start().await);
    let packed = pack::npm(&APP);
    for tarball in [
        format!("{}a/b/-/b-1.0.0.tgz", elsewhere.url()),
        format!("{}npm/a/b/-/b-1.0.0.tgz", remote.url()),
        "https://packages.example/a/b/-/b-1.0.0.tgz".to_owned(),
    ] {
        remote.lists("/npm/@a%2Fb", &document(&packed, &tarball));
        remote.gives("/npm/a/b/-/b-1.0.0.tgz", packed.clone());
        let files = download(&remote.mirrored(), "https://www.npmjs.com/package/@a/b", "1.0.0")
            .await
            .unwrap();
        assert_eq!(files.len(), 3, "{tarball}");
    }
    assert!(elsewhere.asked().is_empty());
}

#[tokio::test]
async fn a_registry_may_be_below_a_path_and_at_a_private_address() {
    let remote = RemoteHost::start().await;
    let packed = pack::npm(&APP);
    let tarball = format!("{}repository/npm/b/-/b-1.0.0.tgz", remote.url());
    remote.lists("/repository/npm/b", &document(&packed, &tarball));
    remote.gives("/repository/npm/b/-/b-1.0.0.tgz", packed);
    let sources = Sources {
        npm_registry: Some(remote.url().join("repository/npm/").unwrap()),
        ..Sources::new(client(Policy::default()), client(Policy::for_the_operator()))
    };
    let files = download(&sources, "https://www.npmjs.com/package/b", "1.0.0")
        .await
        .unwrap();
    assert_eq!(files.len(), 3);
}

#[tokio::test]
async fn a_package_that_is_not_what_was_promised_is_thrown_away() {
    let remote = RemoteHost::start().await;
    remote.lists("/npm/b", &document(b"something else", "https://packages.example/b.tgz"));
    remote.gives("/npm/b.tgz", pack::npm(&APP));
    let error = download(&remote.mirrored(), "https://www.npmjs.com/package/b", "1.0.0")
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Checksum { .. }) && !error.is_theirs());
}

#[tokio::test]
async fn a_version_that_is_not_there_is_named() {
    let remote = RemoteHost::start().await;
    remote.lists("/npm/b", &document(b"", "https://packages.example/b.tgz"));
    for version in ["2.0.0", "0.0.1"] {
        let error = download(&remote.mirrored(), "https://www.npmjs.com/package/b", version)
            .await
            .unwrap_err();
        assert!(error.to_string().contains(&format!("no version {version} of b")) && error.is_theirs());
    }
}

#[tokio::test]
async fn a_tag_that_would_bend_the_address_is_refused_before_anybody_is_asked() {
    let remote = RemoteHost::start().await;
    for url in [
        "https://github.com/o/r",
        "https://gitlab.com/g/p",
        "https://www.npmjs.com/package/b",
    ] {
        for tag in ["", "..", "../../other/r", "a?b=c", "a#b", "a%2fb", "a b"] {
            let error = download(&remote.mirrored(), url, tag).await.unwrap_err();
            assert!(matches!(error, Error::Tag(_)) && error.is_theirs(), "{tag:?}");
        }
    }
    assert!(remote.asked().is_empty());
}

#[tokio::test]
async fn hosts_may_send_archives_from_elsewhere_but_the_token_does_not_go_there() {
    let (remote, storage) = (RemoteHost::start().await, RemoteHost::start().await);
    let token = SecretString::from("glpat-x");
    storage
        .gives("/tar", pack::github(&APP))
        .gives("/zip", pack::gitlab(&APP));
    let path = "/api/v4/projects/g%2Fp/repository/archive.zip?sha=v1";
    remote.redirects("/o/r/archive/v1.tar.gz", &format!("{}tar", storage.url()));
    remote.redirects(path, &format!("{}zip", storage.url()));
    for (url, header) in [
        ("https://github.com/o/r", "authorization"),
        ("https://gitlab.com/g/p", "private-token"),
    ] {
        let files = remote
            .direct()
            .download(&origin(url), "v1", Some(&token))
            .await
            .unwrap();
        assert_eq!(files.len(), 3);
        assert!(remote.last_header(header).unwrap().contains("glpat-x"));
        assert_eq!(storage.last_header(header), None, "{url}");
    }
}

#[tokio::test]
async fn a_host_cannot_send_us_into_the_private_network() {
    let remote = RemoteHost::start().await;
    for target in [
        "http://127.0.0.2:1/",
        "https://10.0.0.1/",
        "https://[fd00::1]/",
        "https://169.254.169.254/",
    ] {
        remote.redirects("/o/r/archive/v1.tar.gz", target);
        let error = download(&remote.direct(), "https://github.com/o/r", "v1")
            .await
            .unwrap_err();
        let Error::Unreached { source, .. } = error else {
            panic!("{target}: {error:?}");
        };
        assert!(matches!(source, HttpError::Refused(_)), "{target}");
    }
}

#[tokio::test]
async fn a_mirror_may_send_us_on_to_itself_and_to_nobody_else() {
    let (remote, elsewhere) = (RemoteHost::start().await, RemoteHost::start().await);
    elsewhere.gives("/x", pack::github(&APP));
    remote.redirects("/github.com/o/r/archive/v1.tar.gz", &format!("{}x", elsewhere.url()));
    remote.redirects("/github.com/o/r/archive/v2.tar.gz", "/codeload/r");
    remote.gives("/codeload/r", pack::github(&APP));
    remote.redirects("/github.com/o/r/archive/v3.tar.gz", "/github.com/o/r/archive/v3.tar.gz");
    for tag in ["v1", "v3"] {
        let error = download(&remote.mirrored(), "https://github.com/o/r", tag)
            .await
            .unwrap_err();
        assert!(matches!(error, Error::SentOn { .. }), "{error:?}");
    }
    assert!(elsewhere.asked().is_empty());
    let files = download(&remote.mirrored(), "https://github.com/o/r", "v2")
        .await
        .unwrap();
    assert_eq!(files.len(), 3);
}
