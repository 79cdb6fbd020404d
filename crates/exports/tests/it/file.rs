use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use async_trait::async_trait;
use exports::{Deliver, Verdict};
use hogql::Model;
use serde_json::{Value, json};
use service::OrganizationId;
use service::batch_exports::destination::Kind;

use super::files::{Folder, deps, open, uuids};
use super::suite::{self, Peer, delivery, events, ids, sorted};

struct FilePeer {
    root: Folder,
    config: Value,
}

#[async_trait]
impl Peer for FilePeer {
    fn destination(&self) -> Box<dyn Deliver> {
        open(Kind::File, &self.config, &deps(Some(self.root.path()))).unwrap()
    }

    async fn uuids(&self) -> Vec<String> {
        uuids(&self.root, "in/events/*.jsonl.gz")
    }

    async fn person_versions(&self) -> Option<BTreeMap<String, i64>> {
        None
    }
}

fn peer() -> FilePeer {
    FilePeer {
        root: Folder::new(),
        config: json!({ "folder": "in", "prefix": "{table}", "compression": "gzip" }),
    }
}

#[tokio::test]
async fn the_suite_passes() {
    let peer = peer();
    suite::passes(&peer).await;
    assert!(
        peer.root.files().iter().all(|file| !file.contains(".hedgerow")),
        "unfinished files stayed: {:?}",
        peer.root.files()
    );
}

#[tokio::test]
async fn an_attempt_that_made_more_files_leaves_none_of_them() {
    let root = Folder::new();
    let deps = deps(Some(root.path()));
    let config = json!({ "prefix": "p", "max_file_size_mb": 1 });
    let destination = open(Kind::File, &config, &deps).unwrap();
    let delivery = delivery(&*destination, Model::Events, 0);
    let name = "2026-11-15T00:00:00+00:00-2026-11-15T01:00:00+00:00";
    // As if a worker had died between its files and its manifest; the last name is not one of ours.
    fs::create_dir(root.path().join("p")).unwrap();
    for end in ["-0.jsonl", "-1.jsonl", "-17.jsonl", "-17.txt"] {
        fs::write(root.path().join(format!("p/{name}{end}")), "{}\n").unwrap();
    }
    let mut upload = destination.begin(&delivery).await.unwrap().unwrap();
    upload.write(events(&delivery, 0..10)).await.unwrap();
    upload.commit().await.unwrap();
    let expected = ["-0.jsonl", "-17.txt", "_manifest.json"].map(|end| format!("p/{name}{end}"));
    assert_eq!(root.files(), expected);
}

#[tokio::test]
async fn a_resend_in_another_format_replaces_the_files() {
    let root = Folder::new();
    let deps = deps(Some(root.path()));
    for (format, is_resend) in [("JSONLines", false), ("Parquet", true)] {
        let destination = open(Kind::File, &json!({ "file_format": format }), &deps).unwrap();
        let mut delivery = delivery(&*destination, Model::Events, 0);
        delivery.is_resend = is_resend;
        let mut upload = destination.begin(&delivery).await.unwrap().unwrap();
        upload.write(events(&delivery, 0..10)).await.unwrap();
        upload.commit().await.unwrap();
    }
    let name = "2026-11-15T00:00:00+00:00-2026-11-15T01:00:00+00:00";
    assert_eq!(
        root.files(),
        [format!("{name}.parquet"), format!("{name}_manifest.json")]
    );
    assert_eq!(sorted(uuids(&root, "*.parquet")), ids(0..10));
}

#[tokio::test]
async fn another_exports_interval_is_not_touched() {
    let root = Folder::new();
    let deps = deps(Some(root.path()));
    let destination = open(Kind::File, &json!({}), &deps).unwrap();
    let mut delivery = delivery(&*destination, Model::Events, 0);
    let mut upload = destination.begin(&delivery).await.unwrap().unwrap();
    upload.write(events(&delivery, 0..10)).await.unwrap();
    upload.commit().await.unwrap();
    assert!(
        destination.begin(&delivery).await.unwrap().is_none(),
        "it is delivered already"
    );
    delivery.export = service::ExportId(uuid::Uuid::from_u128(99));
    for is_resend in [false, true] {
        delivery.is_resend = is_resend;
        let refused = destination.begin(&delivery).await.err().unwrap();
        assert!(
            refused.is_permanent && refused.sentence.contains("another export"),
            "{refused}"
        );
    }
    assert_eq!(sorted(uuids(&root, "*.jsonl")), ids(0..10));
}

#[tokio::test]
async fn nothing_leaves_the_root() {
    let (root, elsewhere) = (Folder::new(), Folder::new());
    let deps = deps(Some(root.path()));
    symlink(elsewhere.path(), root.path().join("out")).unwrap();
    symlink(elsewhere.path(), root.path().join(".hedgerow")).unwrap();
    for config in [json!({ "folder": "out" }), json!({ "prefix": "out" }), json!({})] {
        let destination = open(Kind::File, &config, &deps).unwrap();
        let delivery = delivery(&*destination, Model::Events, 0);
        let refused = match destination.begin(&delivery).await {
            Err(error) => error,
            Ok(upload) => {
                let mut upload = upload.unwrap();
                upload.write(events(&delivery, 0..10)).await.unwrap();
                upload.commit().await.err().unwrap()
            }
        };
        assert!(
            refused.is_permanent && refused.sentence.contains("symbolic link"),
            "{refused}"
        );
    }
    assert!(
        elsewhere.files().is_empty(),
        "files were written elsewhere: {:?}",
        elsewhere.files()
    );
    for hostile in ["../x", "/../x", "a/../../x", "%2e%2e/x", "..\\x", "a\u{1}b"] {
        for key in ["folder", "prefix"] {
            let refused = open(Kind::File, &json!({ key: hostile }), &deps).err().unwrap();
            assert!(refused.is_permanent, "{refused}");
        }
    }
}

#[tokio::test]
async fn each_organization_has_a_folder_of_its_own_that_nobody_else_can_read() {
    let (root, elsewhere) = (Folder::new(), Folder::new());
    let [one, other, trapped] = [1, 2, 3].map(|number| OrganizationId(uuid::Uuid::from_u128(number)));
    symlink(elsewhere.path(), root.path().join(trapped.to_string())).unwrap();
    for organization in [one, other, trapped] {
        let deps = deps(Some(root.path())).of(organization);
        let destination = open(Kind::File, &json!({ "folder": "same/place" }), &deps).unwrap();
        let delivery = delivery(&*destination, Model::Events, 0);
        let begun = destination.begin(&delivery).await;
        if organization == trapped {
            assert!(begun.err().unwrap().sentence.contains("symbolic link"));
            continue;
        }
        let mut upload = begun.unwrap().unwrap();
        upload.write(events(&delivery, 0..10)).await.unwrap();
        upload.commit().await.unwrap();
    }
    assert!(elsewhere.files().is_empty());
    let files = root.files();
    for organization in [one, other] {
        let own = format!("{organization}/same/place/");
        assert_eq!(
            files.iter().filter(|file| file.starts_with(&own)).count(),
            2,
            "{files:?}"
        );
        let mode = |path: &str| fs::metadata(root.path().join(path)).unwrap().permissions().mode() & 0o777;
        for file in files.iter().filter(|file| file.starts_with(&own)) {
            assert_eq!(mode(file), 0o600, "{file}");
        }
        for folder in [organization.to_string(), format!("{organization}/same"), own] {
            assert_eq!(mode(&folder), 0o700, "{folder}");
        }
    }
}

#[tokio::test]
async fn without_a_root_there_are_no_files() {
    let refused = open(Kind::File, &json!({}), &deps(None)).err().unwrap();
    assert!(refused.is_permanent && refused.sentence.contains("HEDGEROW_EXPORT_ROOT"));
}

#[tokio::test]
async fn the_test_tries_everything_and_leaves_nothing() {
    let peer = peer();
    let steps = peer.destination().test().await;
    let names: Vec<&str> = steps.iter().map(|step| step.name).collect();
    assert_eq!(names, ["reach", "sign_in", "write", "read", "delete"]);
    assert!(steps.iter().all(|step| step.verdict == Verdict::Passed), "{steps:?}");
    assert!(peer.root.files().is_empty());
    let gone = open(
        Kind::File,
        &peer.config,
        &deps(Some(&peer.root.path().join("gone/acme"))),
    )
    .unwrap();
    let steps = gone.test().await;
    assert_eq!(steps[0].verdict, Verdict::Failed, "{steps:?}");
    assert!(
        steps[1..].iter().all(|step| step.verdict == Verdict::Skipped),
        "{steps:?}"
    );
    assert!(
        !steps[0].message.contains("hedgerow_files"),
        "a path of this server: {}",
        steps[0].message
    );
}
