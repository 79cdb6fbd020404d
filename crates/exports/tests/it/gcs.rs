use std::process::Command;

use exports::Verdict;
use hogql::Model;
use serde_json::json;
use service::batch_exports::destination::Kind;
use testkit::external::ObjectStore;

use super::files::{StorePeer, deps, open, uuids};
use super::suite::{self, Peer, delivery, events};

/// A service account's key, made here: the emulator does not look at tokens, but they are signed all the same.
pub(crate) fn service_account() -> String {
    let made = Command::new("openssl")
        .args(["genpkey", "-algorithm", "RSA", "-quiet"])
        .output();
    let made = made.unwrap();
    assert!(made.status.success());
    json!({
        "type": "service_account",
        "private_key_id": "1",
        "private_key": String::from_utf8(made.stdout).unwrap(),
        "client_email": "exports@example.com",
        "client_id": "1",
    })
    .to_string()
}

fn peer(prefix: &str) -> StorePeer {
    let store = ObjectStore::gcs();
    let config = json!({
        "bucket_name": "exports", "service_account_key": service_account(), "prefix": prefix, "compression": "gzip",
        "endpoint_url": store.base(),
    });
    StorePeer {
        store,
        kind: Kind::Gcs,
        bucket: "exports".to_owned(),
        config,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_suite_passes_on_the_emulator() {
    let peer = peer("in/{table}");
    suite::passes(&peer).await;
    let steps = peer.destination().test().await;
    assert!(steps.iter().all(|step| step.verdict == Verdict::Passed), "{steps:?}");
    let left = peer.fetch().files();
    assert!(left.iter().all(|file| !file.contains("hedgerow-test")), "{left:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn large_files_go_up_piece_by_piece() {
    let mut peer = peer("large");
    peer.config["compression"] = json!(null);
    let destination = peer.destination();
    let delivery = delivery(&*destination, Model::Events, 0);
    let mut upload = destination.begin(&delivery).await.unwrap().unwrap();
    upload.write(events(&delivery, 0..40_000)).await.unwrap();
    let receipt = upload.commit().await.unwrap();
    assert!(
        receipt.bytes > 2 * 8 * 1024 * 1024,
        "too small to have several pieces: {}",
        receipt.bytes
    );
    assert_eq!(uuids(&peer.fetch(), "large/*.jsonl").len(), 40_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_missing_is_named() {
    let mut peer = peer("in");
    peer.config["bucket_name"] = json!("nowhere");
    let steps = peer.destination().test().await;
    assert_eq!(steps[1].verdict, Verdict::Failed, "{steps:?}");
    assert!(
        steps[1].message.contains("\"nowhere\" does not exist"),
        "{}",
        steps[1].message
    );
    peer.config["service_account_key"] = json!("{}");
    let refused = open(Kind::Gcs, &peer.config, &deps(None)).err().unwrap();
    assert!(
        refused.is_permanent && refused.key == Some("service_account_key"),
        "{refused}"
    );
}
