use exports::Verdict;
use hogql::Model;
use serde_json::{Value, json};
use service::batch_exports::destination::Kind;
use testkit::external::{AZURE_ACCOUNT, ObjectStore};

use super::files::{StorePeer, deps, open, uuids};
use super::suite::{self, Peer, delivery, events};

fn config(store: &ObjectStore, over: &Value) -> Value {
    let mut config = json!({
        "container_name": "exports", "account_name": AZURE_ACCOUNT.0, "account_key": AZURE_ACCOUNT.1,
        "endpoint_url": store.base(), "prefix": "in/{table}", "compression": "gzip",
    });
    config
        .as_object_mut()
        .unwrap()
        .extend(over.as_object().unwrap().clone());
    config
}

fn peer(over: &Value) -> StorePeer {
    let store = ObjectStore::azurite();
    store.make("exports");
    StorePeer {
        config: config(&store, over),
        kind: Kind::AzureBlob,
        bucket: "exports".to_owned(),
        store,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_suite_passes_on_azurite() {
    let peer = peer(&json!({}));
    suite::passes(&peer).await;
    let steps = peer.destination().test().await;
    assert!(steps.iter().all(|step| step.verdict == Verdict::Passed), "{steps:?}");
    let left = peer.fetch().files();
    assert!(left.iter().all(|file| !file.contains("hedgerow-test")), "{left:?}");
    let wrong = config(&peer.store, &json!({ "account_key": "d3Jvbmc=" }));
    let steps = open(Kind::AzureBlob, &wrong, &deps(None)).unwrap().test().await;
    // The container is public, for the sake of our reader, so that listing needs no key at all.
    let failed = steps.iter().find(|step| step.verdict == Verdict::Failed).unwrap();
    assert_eq!(failed.name, "write", "{steps:?}");
    assert!(failed.message.contains("check connection_string"), "{}", failed.message);
    let gone = config(&peer.store, &json!({ "container_name": "nowhere" }));
    let steps = open(Kind::AzureBlob, &gone, &deps(None)).unwrap().test().await;
    assert!(steps[1].message.contains("\"nowhere\" does not exist"), "{steps:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_string_is_enough_and_large_files_go_up_in_blocks() {
    let mut peer = peer(&json!({}));
    let (name, key) = AZURE_ACCOUNT;
    let base = peer.store.base();
    let connection = format!("DefaultEndpointsProtocol=http;AccountName={name};AccountKey={key};BlobEndpoint={base};");
    peer.config = json!({ "container_name": "exports", "connection_string": connection, "prefix": "large" });
    let destination = peer.destination();
    let delivery = delivery(&*destination, Model::Events, 0);
    let mut upload = destination.begin(&delivery).await.unwrap().unwrap();
    upload.write(events(&delivery, 0..40_000)).await.unwrap();
    let receipt = upload.commit().await.unwrap();
    assert!(
        receipt.bytes > 2 * 8 * 1024 * 1024,
        "too small to have several blocks: {}",
        receipt.bytes
    );
    assert_eq!(uuids(&peer.fetch(), "large/*.jsonl").len(), 40_000);
}
