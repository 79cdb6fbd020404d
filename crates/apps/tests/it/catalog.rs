//! The list of apps, from the operator's address or file.

use std::fs;
use std::time::Duration;

use apps::Catalog;
use axum::http::HeaderMap;
use outbound::Policy;
use serde_json::{Value, json};

use crate::remote_host::{RemoteHost, client};

const BUILT_IN: usize = 29;

fn list(names: &[&str]) -> Value {
    let entry = |name: &&str| json!({ "name": name, "url": "https://github.com/a/b", "type": "data_in" });
    names.iter().map(entry).collect()
}

fn catalog(setting: Option<&str>) -> Catalog {
    Catalog::new(
        setting,
        client(Policy::for_the_operator()).within(Duration::from_millis(500)),
    )
}

async fn names(catalog: &Catalog) -> Vec<String> {
    catalog.entries().await.iter().map(|entry| entry.name.clone()).collect()
}

#[tokio::test]
async fn without_a_setting_the_built_in_list_is_shown() {
    assert_eq!(names(&catalog(None)).await.len(), BUILT_IN);
}

#[tokio::test]
async fn a_list_is_fetched_once_and_remembered() {
    let remote = RemoteHost::start().await;
    remote.lists("/list.json", &list(&["One", "Two"]));
    let catalog = catalog(Some(&format!("{}list.json", remote.url())));
    let (first, second, third) = tokio::join!(names(&catalog), names(&catalog), names(&catalog));
    assert_eq!(first, ["One", "Two"]);
    assert_eq!((&second, &third), (&first, &first));
    assert_eq!(remote.asked().len(), 1);
}

#[tokio::test]
async fn when_a_list_fails_the_last_good_one_goes_on() {
    let remote = RemoteHost::start().await;
    let catalog = catalog(Some(&format!("{}list.json", remote.url()))).fresh_for(Duration::ZERO);
    assert_eq!(names(&catalog).await.len(), BUILT_IN);
    remote.lists("/list.json", &list(&["One"]));
    assert_eq!(names(&catalog).await, ["One"]);
    for bad in ["", "{}", "<html>", "[{}]", &" ".repeat(1_000_001)] {
        remote.gives("/list.json", bad);
        assert_eq!(names(&catalog).await, ["One"]);
    }
    remote.answers_with("/list.json", 500, HeaderMap::new(), list(&["Two"]).to_string());
    assert_eq!(names(&catalog).await, ["One"]);
    remote.lists("/list.json", &list(&["Three"]));
    assert_eq!(names(&catalog).await, ["Three"]);
}

/// Or else every request would wait for a server that is down.
#[tokio::test]
async fn a_failure_is_remembered_too() {
    let remote = RemoteHost::start().await;
    let catalog = catalog(Some(&format!("{}list.json", remote.url())));
    for _ in 0..3 {
        assert_eq!(names(&catalog).await.len(), BUILT_IN);
    }
    assert_eq!(remote.asked().len(), 1);
}

#[tokio::test]
async fn a_list_may_be_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalog.json");
    let catalog = catalog(path.to_str()).fresh_for(Duration::ZERO);
    assert_eq!(names(&catalog).await.len(), BUILT_IN);
    fs::write(&path, list(&["One"]).to_string()).unwrap();
    assert_eq!(names(&catalog).await, ["One"]);
    fs::write(&path, " ".repeat(1_000_001)).unwrap();
    assert_eq!(names(&catalog).await, ["One"]);
}
