use std::fs;

use exports::verify::{Problem, Unverifiable, verify};
use hogql::Model;
use serde_json::{Value, json};
use service::batch_exports::destination::Kind;

use super::files::{Folder, deps, open};
use super::suite::{delivery, events};

const STEM: &str = "2026-11-15T00:00:00+00:00-2026-11-15T01:00:00+00:00";

/// Two files of JSON lines and their manifest, as they come with a copy of the folder.
async fn delivered() -> Folder {
    let root = Folder::new();
    let deps = deps(Some(root.path()));
    let config = json!({ "prefix": "a/b", "max_file_size_mb": 1 });
    let destination = open(Kind::File, &config, &deps).unwrap();
    let delivery = delivery(&*destination, Model::Events, 0);
    let mut upload = destination.begin(&delivery).await.unwrap().unwrap();
    upload.write(events(&delivery, 0..5000)).await.unwrap();
    upload.commit().await.unwrap();
    root
}

/// Damages a delivery and says what is found.
async fn found(damage: impl FnOnce(&dyn Fn(&str) -> std::path::PathBuf)) -> Vec<String> {
    let root = delivered().await;
    let path = |end: &str| root.path().join(format!("a/b/{STEM}{end}"));
    damage(&path);
    let report = verify(&path("_manifest.json")).unwrap();
    report.problems.iter().map(Problem::to_string).collect()
}

#[tokio::test]
async fn each_kind_of_damage_is_named() {
    assert_eq!(found(|_| {}).await, Vec::<String>::new());
    let file = |end: &str| format!("{STEM}{end}");
    let missing = found(|path| fs::remove_file(path("-0.jsonl")).unwrap()).await;
    assert_eq!(missing, [format!("{} is missing", file("-0.jsonl"))]);
    let cut = found(|path| {
        let content = fs::read(path("-1.jsonl")).unwrap();
        fs::write(path("-1.jsonl"), &content[..content.len() - 1]).unwrap();
    })
    .await;
    assert!(
        cut.len() == 1 && cut[0].starts_with(&format!("{} is cut off", file("-1.jsonl"))),
        "{cut:?}"
    );
    let changed = found(|path| {
        let mut content = fs::read(path("-0.jsonl")).unwrap();
        content[100] ^= 1;
        fs::write(path("-0.jsonl"), content).unwrap();
    })
    .await;
    assert_eq!(
        changed,
        [format!("{} was changed: its SHA-256 is another", file("-0.jsonl"))]
    );
    let extra = found(|path| fs::write(path("-2.jsonl"), "").unwrap()).await;
    assert_eq!(extra.len(), 1);
    assert!(extra[0].starts_with(&format!("{} is of the same interval", file("-2.jsonl"))));
}

#[tokio::test]
async fn rows_are_counted_and_not_believed() {
    let lied = found(|path| {
        let mut manifest: Value = serde_json::from_slice(&fs::read(path("_manifest.json")).unwrap()).unwrap();
        let rows = &mut manifest["hedgerow"]["files"][0]["rows"];
        *rows = json!(rows.as_u64().unwrap() + 1);
        let rows = &mut manifest["hedgerow"]["rows"];
        *rows = json!(rows.as_u64().unwrap() + 1);
        fs::write(path("_manifest.json"), manifest.to_string()).unwrap();
    })
    .await;
    assert!(lied.len() == 1 && lied[0].contains("rows instead of"), "{lied:?}");
    let contradicting = found(|path| {
        let mut manifest: Value = serde_json::from_slice(&fs::read(path("_manifest.json")).unwrap()).unwrap();
        manifest["files"].as_array_mut().unwrap().pop();
        fs::write(path("_manifest.json"), manifest.to_string()).unwrap();
    })
    .await;
    assert!(
        contradicting[0].starts_with("the manifest contradicts itself"),
        "{contradicting:?}"
    );
}

#[tokio::test]
async fn what_is_no_manifest_is_said_to_be_none() {
    let root = delivered().await;
    let path = root.path().join(format!("a/b/{STEM}-0.jsonl"));
    assert!(matches!(verify(&path), Err(Unverifiable::NoManifest(..))));
    assert!(matches!(
        verify(&root.path().join("nothing")),
        Err(Unverifiable::Io(..))
    ));
}
