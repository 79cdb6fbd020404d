//! Which tag is the newest.

use apps::source::Error;
use secrecy::SecretString;
use serde_json::{Value, json};

use crate::remote_host::{RemoteHost, origin};

const GITHUB: &str = "/api.github.com/repos/o/r";
const GITLAB: &str = "/gitlab.com/api/v4/projects/g%2Fs%2Fp/repository";

fn tags<S: AsRef<str>>(names: &[S]) -> Value {
    let tag = |name: &S| json!({ "name": name.as_ref(), "zipball_url": "https://a.example" });
    names.iter().map(tag).collect()
}

async fn latest(remote: &RemoteHost, url: &str) -> Result<String, Error> {
    remote.mirrored().latest(&origin(url), None).await
}

#[tokio::test]
async fn a_repository_follows_its_highest_version() {
    let remote = RemoteHost::start().await;
    remote.lists(
        &format!("{GITHUB}/tags?per_page=100&page=1"),
        &tags(&["v0.9.0", "v0.10.0", "nightly"]),
    );
    remote.lists(
        &format!("{GITLAB}/tags?per_page=100&page=1"),
        &tags(&["1.0.0", "1.1.0-rc.1"]),
    );
    assert_eq!(latest(&remote, "https://github.com/o/r").await.unwrap(), "v0.10.0");
    assert_eq!(latest(&remote, "https://gitlab.com/g/s/p").await.unwrap(), "1.0.0");
}

#[tokio::test]
async fn all_pages_of_tags_are_read() {
    let remote = RemoteHost::start().await;
    let page = |from: usize| {
        let names: Vec<String> = (from..from + 100).map(|number| format!("v0.{number}.0")).collect();
        tags(&names)
    };
    remote.lists(&format!("{GITHUB}/tags?per_page=100&page=1"), &page(0));
    remote.lists(&format!("{GITHUB}/tags?per_page=100&page=2"), &page(100));
    remote.lists(&format!("{GITHUB}/tags?per_page=100&page=3"), &tags(&["v1.0.0"]));
    assert_eq!(latest(&remote, "https://github.com/o/r").await.unwrap(), "v1.0.0");
    assert_eq!(remote.asked().len(), 3);
}

/// A host that never comes to an end is not listened to for ever.
#[tokio::test]
async fn pages_end_at_the_tenth() {
    let remote = RemoteHost::start().await;
    for number in 1..=20 {
        remote.lists(
            &format!("{GITHUB}/tags?per_page=100&page={number}"),
            &tags(&["v1.0.0"; 100]),
        );
    }
    assert_eq!(latest(&remote, "https://github.com/o/r").await.unwrap(), "v1.0.0");
    assert_eq!(remote.asked().len(), 10);
}

#[tokio::test]
async fn without_tags_the_default_branch_is_followed() {
    let remote = RemoteHost::start().await;
    remote.lists(&format!("{GITHUB}/tags?per_page=100&page=1"), &json!([]));
    remote.lists(&format!("{GITHUB}/commits?per_page=1"), &json!([{ "sha": "abc123" }]));
    remote.lists(&format!("{GITLAB}/tags?per_page=100&page=1"), &json!([]));
    remote.lists(&format!("{GITLAB}/commits?per_page=1"), &json!([{ "id": "def456" }]));
    assert_eq!(latest(&remote, "https://github.com/o/r").await.unwrap(), "abc123");
    assert_eq!(latest(&remote, "https://gitlab.com/g/s/p").await.unwrap(), "def456");
}

#[tokio::test]
async fn a_branch_is_followed_and_so_is_its_folder() {
    let remote = RemoteHost::start().await;
    remote.lists(
        &format!("{GITHUB}/commits?per_page=1&sha=main"),
        &json!([{ "sha": "abc" }]),
    );
    remote.lists(
        &format!("{GITHUB}/commits?per_page=1&sha=main&path=x%2Fy"),
        &json!([{ "sha": "def" }]),
    );
    remote.lists(
        &format!("{GITLAB}/commits?per_page=1&ref_name=main&path=x"),
        &json!([{ "id": "123" }]),
    );
    assert_eq!(
        latest(&remote, "https://github.com/o/r/tree/main").await.unwrap(),
        "abc"
    );
    assert_eq!(
        latest(&remote, "https://github.com/o/r/tree/main/x/y").await.unwrap(),
        "def"
    );
    assert_eq!(
        latest(&remote, "https://gitlab.com/g/s/p/-/tree/main/x").await.unwrap(),
        "123"
    );
}

#[tokio::test]
async fn what_is_pinned_is_not_asked_for() {
    let remote = RemoteHost::start().await;
    for (url, tag) in [
        ("https://github.com/o/r/releases/tag/v1", "v1"),
        ("https://github.com/o/r/commit/abc", "abc"),
        ("https://gitlab.com/o/r/-/tags/v2", "v2"),
        ("https://www.npmjs.com/package/a/v/1.0.0", "1.0.0"),
    ] {
        assert_eq!(latest(&remote, url).await.unwrap(), tag);
    }
    assert!(remote.asked().is_empty());
}

#[tokio::test]
async fn a_package_has_the_version_its_registry_calls_latest() {
    let remote = RemoteHost::start().await;
    let document = json!({ "dist-tags": { "latest": "1.2.3", "next": "2.0.0" }, "versions": {} });
    remote.lists("/npm/@a%2Fb", &document).lists("/npm/plain", &document);
    assert_eq!(
        latest(&remote, "https://www.npmjs.com/package/@a/b").await.unwrap(),
        "1.2.3"
    );
    assert_eq!(
        latest(&remote, "https://www.npmjs.com/package/plain").await.unwrap(),
        "1.2.3"
    );
    assert!(
        remote
            .last_header("accept")
            .unwrap()
            .contains("application/vnd.npm.install-v1+json")
    );
}

#[tokio::test]
async fn without_a_registry_packages_are_refused_with_the_setting_that_helps() {
    let remote = RemoteHost::start().await;
    let package = origin("https://www.npmjs.com/package/a");
    let error = remote.direct().latest(&package, None).await.unwrap_err();
    assert!(matches!(error, Error::NoRegistry) && error.is_theirs());
    assert!(error.to_string().contains("HEDGEROW_NPM_REGISTRY"));
}

#[tokio::test]
async fn answers_that_make_no_sense_are_not_used() {
    let remote = RemoteHost::start().await;
    let commits = format!("{GITHUB}/commits?per_page=1&sha=main");
    for answer in [
        "",
        "<html>",
        "{}",
        "[{}]",
        r#"[{"sha": "../../x"}]"#,
        r#"[{"sha": ""}]"#,
    ] {
        remote.gives(&commits, answer);
        let error = latest(&remote, "https://github.com/o/r/tree/main").await.unwrap_err();
        assert!(
            matches!(error, Error::Unclear { .. }) && !error.is_theirs(),
            "{answer}: {error:?}"
        );
    }
    for document in [json!({}), json!({ "dist-tags": { "latest": "../x" } }), json!([])] {
        remote.lists("/npm/a", &document);
        let error = latest(&remote, "https://www.npmjs.com/package/a").await.unwrap_err();
        assert!(matches!(error, Error::Unclear { .. }), "{document}: {error:?}");
    }
    // A folder in which nothing was ever committed.
    remote.gives(&commits, "[]");
    let error = latest(&remote, "https://github.com/o/r/tree/main").await.unwrap_err();
    assert!(matches!(error, Error::NotFound { .. }));
}

#[tokio::test]
async fn each_host_gets_the_token_in_the_header_it_knows() {
    let remote = RemoteHost::start().await;
    let token = SecretString::from("glpat-x");
    for (url, name, value) in [
        ("https://github.com/o/r", "authorization", "Bearer glpat-x"),
        ("https://gitlab.com/g/s/p", "private-token", "glpat-x"),
        ("https://www.npmjs.com/package/a", "authorization", "Bearer glpat-x"),
    ] {
        let error = remote.mirrored().latest(&origin(url), Some(&token)).await.unwrap_err();
        assert_eq!(remote.last_header(name).unwrap(), value);
        assert!(!format!("{error} {error:?}").contains("glpat"));
    }
    assert!(remote.asked().iter().all(|path| !path.contains("glpat")));
}
