use exports::{Deliver, Error, Verdict};
use hogql::Model;
use serde_json::{Value, json};
use service::batch_exports::destination::Kind;
use testkit::external::{ObjectStore, S3_KEY, duckdb};

use super::files::{StorePeer, deps, open, reader};
use super::suite::{self, Peer, delivery, events};

fn config(store: &ObjectStore, over: &Value) -> Value {
    let mut config = json!({
        "bucket_name": "exports", "region": "us-east-1", "prefix": "in/{table}", "compression": "gzip",
        "aws_access_key_id": S3_KEY.0, "aws_secret_access_key": S3_KEY.1, "endpoint_url": store.base(),
    });
    config
        .as_object_mut()
        .unwrap()
        .extend(over.as_object().unwrap().clone());
    config
}

fn peer(store: ObjectStore, over: &Value) -> StorePeer {
    store.make("exports");
    StorePeer {
        config: config(&store, over),
        kind: Kind::S3,
        bucket: "exports".to_owned(),
        store,
    }
}

async fn deliver(destination: &dyn Deliver, numbers: std::ops::Range<u128>) -> Result<u64, Error> {
    let delivery = delivery(destination, Model::Events, 0);
    let mut upload = destination.begin(&delivery).await?.unwrap();
    upload.write(events(&delivery, numbers)).await?;
    Ok(upload.commit().await?.rows)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_suite_passes_on_seaweedfs() {
    let peer = peer(ObjectStore::seaweedfs(), &json!({}));
    suite::passes(&peer).await;
    let steps = peer.destination().test().await;
    assert!(steps.iter().all(|step| step.verdict == Verdict::Passed), "{steps:?}");
    let left = peer.fetch().files();
    assert!(left.iter().all(|file| !file.contains("hedgerow-test")), "{left:?}");
    // A wrong secret, found by the server itself.
    let wrong = config(&peer.store, &json!({ "aws_secret_access_key": "wrong" }));
    let destination = open(Kind::S3, &wrong, &deps(None)).unwrap();
    let error = deliver(&*destination, 0..10).await.unwrap_err();
    assert!(
        error.is_permanent && error.sentence.contains("check aws_access_key_id"),
        "{error}"
    );
    let steps = destination.test().await;
    assert_eq!(
        (steps[0].verdict, steps[1].verdict),
        (Verdict::Passed, Verdict::Failed),
        "{steps:?}"
    );
    assert_eq!(steps[2].verdict, Verdict::Skipped);
}

#[tokio::test(flavor = "multi_thread")]
async fn large_files_go_up_in_parts() {
    let peer = peer(
        ObjectStore::seaweedfs(),
        &json!({ "compression": null, "prefix": "large" }),
    );
    let rows = deliver(&*peer.destination(), 0..40_000).await.unwrap();
    assert_eq!(rows, 40_000);
    let folder = peer.fetch();
    let name = folder.files().remove(0);
    let size = std::fs::metadata(folder.path().join(&name)).unwrap().len();
    assert!(size > 2 * 8 * 1024 * 1024, "too small to have several parts: {size}");
    let sql = format!(
        "SELECT count(DISTINCT uuid) FROM {}",
        reader(folder.path(), "large/*.jsonl")
    );
    assert_eq!(duckdb(&sql, &[]), [[json!(40_000)]]);
    let manifest = folder
        .files()
        .into_iter()
        .find(|file| file.ends_with("_manifest.json"))
        .unwrap();
    let report = exports::verify::verify(&folder.path().join(manifest)).unwrap();
    assert!(report.problems.is_empty(), "{:?}", report.problems);
}

#[tokio::test(flavor = "multi_thread")]
async fn moto_sees_encryption_and_names_its_errors() {
    let store = ObjectStore::moto();
    store.make("exports");
    for (encryption, key) in [("AES256", Value::Null), ("aws:kms", json!("alias/exports"))] {
        let prefix = encryption.replace(':', "-");
        let over = json!({ "encryption": encryption, "kms_key_id": key, "prefix": prefix });
        let destination = open(Kind::S3, &config(&store, &over), &deps(None)).unwrap();
        deliver(&*destination, 0..10).await.unwrap();
        let folder = super::files::Folder::new();
        let facts = store.fetch("exports", folder.path());
        let of_prefix = facts
            .as_object()
            .unwrap()
            .iter()
            .filter(|(name, _)| name.starts_with(&prefix));
        let of_prefix: Vec<_> = of_prefix.collect();
        assert_eq!(of_prefix.len(), 2, "a file and its manifest: {facts}");
        for (name, fact) in of_prefix {
            assert_eq!(fact["ServerSideEncryption"], encryption, "{name}");
            assert_eq!(fact["SSEKMSKeyId"], key, "{name}");
        }
    }
    let gone = config(&store, &json!({ "bucket_name": "nowhere" }));
    let error = deliver(&*open(Kind::S3, &gone, &deps(None)).unwrap(), 0..10)
        .await
        .unwrap_err();
    assert!(
        error.is_permanent && error.sentence.contains("\"nowhere\" does not exist"),
        "{error}"
    );
}
