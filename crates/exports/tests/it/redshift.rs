//! What of Redshift plain PostgreSQL can do: the protocol, INSERT, the ledger and its lock.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use exports::{Deliver, Verdict};
use hogql::Model;
use outbound::Roots;
use serde_json::{Value, json};
use service::batch_exports::destination::Kind;
use testkit::external::{ObjectStore, S3_KEY};

use crate::by_model::ByModel;
use crate::database::{Home, destination};
use crate::suite::{self, Peer, delivery, events, ids, sorted};

impl Home {
    fn redshift(&self, over: &Value) -> Box<dyn Deliver> {
        destination(Kind::Redshift, &self.config(over), Roots::public())
    }
}

struct Redshift(Home);

#[async_trait]
impl Peer for Redshift {
    fn destination(&self) -> Box<dyn Deliver> {
        Box::new(ByModel {
            events: self.0.redshift(&json!({})),
            persons: self.0.redshift(&json!({ "table_name": "persons" })),
        })
    }

    async fn uuids(&self) -> Vec<String> {
        self.0.uuids("product.events").await
    }

    async fn person_versions(&self) -> Option<BTreeMap<String, i64>> {
        Some(self.0.versions("product.persons").await)
    }
}

#[tokio::test]
async fn inserting_passes_the_suite() {
    suite::passes(&Redshift(Home::shared().await)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_twenty_workers_with_the_same_interval_one_delivers() {
    let home = Arc::new(Home::shared().await);
    let deliver = |home: Arc<Home>| async move {
        let to = home.redshift(&json!({}));
        let delivery = delivery(&*to, Model::Events, 0);
        let Some(mut upload) = to.begin(&delivery).await.unwrap() else {
            return 0;
        };
        upload.write(events(&delivery, 0..10)).await.unwrap();
        upload.commit().await.unwrap().rows
    };
    let workers: Vec<_> = (0..20).map(|_| tokio::spawn(deliver(home.clone()))).collect();
    let mut delivered = 0;
    for worker in workers {
        delivered += worker.await.unwrap();
    }
    assert_eq!(delivered, 10);
    assert_eq!(sorted(home.uuids("product.events").await), ids(0..10));
}

#[tokio::test]
async fn rows_of_many_statements_arrive_as_they_were() {
    let home = Home::shared().await;
    let to = home.redshift(&json!({}));
    let delivery = delivery(&*to, Model::Events, 0);
    let mut upload = to.begin(&delivery).await.unwrap().unwrap();
    upload.write(events(&delivery, 0..7000)).await.unwrap();
    assert_eq!(upload.commit().await.unwrap().rows, 7000);
    assert_eq!(sorted(home.uuids("product.events").await), ids(0..7000));
    let sql = "SELECT concat_ws('|', event, properties::json->>'text', elements, \"set\", distinct_id, team_id, ip, \
               timestamp AT TIME ZONE 'UTC') FROM product.events WHERE properties::json->>'n' = '3'";
    assert_eq!(
        home.texts(sql).await,
        ["quote \" ' \\ , ;\n\ttab é 🦔|a\"b\\c\n é 🦔||person 3|1|10.0.0.1|2026-11-15 00:00:00.000003"]
    );
    let ledger = "SELECT concat_ws(' ', export_id, model, \"rows\") FROM product.hedgerow_ledger";
    assert_eq!(
        home.texts(ledger).await,
        ["00000000-0000-0000-0000-000000000001 events 7000"]
    );
}

/// E4
#[tokio::test]
async fn hostile_names_are_names() {
    let home = Home::shared().await;
    home.run("CREATE TABLE x (a int)").await;
    let hostile = "a\"; drop table x; --";
    let to = home.redshift(&json!({ "schema": hostile, "table_name": hostile }));
    let delivery = delivery(&*to, Model::Events, 0);
    let mut upload = to.begin(&delivery).await.unwrap().unwrap();
    upload.write(events(&delivery, 0..10)).await.unwrap();
    upload.commit().await.unwrap();
    assert!(home.exists("public.x").await);
}

#[tokio::test]
async fn a_trial_leaves_nothing() {
    let home = Home::shared().await;
    let steps = home.redshift(&json!({})).test().await;
    assert!(steps.iter().all(|step| step.verdict == Verdict::Passed), "{steps:?}");
    assert!(!home.exists("product.events").await && !home.exists("product.hedgerow_ledger").await);
}

/// PostgreSQL cannot copy from a bucket, so what can be seen here is that all goes well up to there and that nothing is
/// left of it, in the database or in the bucket.
#[tokio::test]
async fn a_copy_that_is_refused_leaves_nothing_and_tells_no_secrets() {
    let (home, store) = (Home::shared().await, ObjectStore::seaweedfs());
    let keys = json!({ "aws_access_key_id": S3_KEY.0, "aws_secret_access_key": S3_KEY.1 });
    let to = home.redshift(&json!({ "mode": "COPY", "copy_inputs": {
        "s3_bucket": "stage", "region_name": "us-east-1", "s3_key_prefix": "/through/here/", "authorization": keys,
        "bucket_credentials": keys, "endpoint_url": store.base(),
    }}));
    let steps = to.test().await;
    assert!(steps.iter().all(|step| step.verdict == Verdict::Passed), "{steps:?}");

    let delivery = delivery(&*to, Model::Events, 0);
    let mut upload = to.begin(&delivery).await.unwrap().unwrap();
    upload.write(events(&delivery, 0..1000)).await.unwrap();
    let error = upload.commit().await.unwrap_err();
    assert!(error.is_permanent, "{error}");
    assert!(!format!("{error:?}").contains(S3_KEY.1), "{error:?}");
    assert!(home.uuids("product.events").await.is_empty());
    assert!(
        home.texts("SELECT run_id FROM product.hedgerow_ledger")
            .await
            .is_empty()
    );
}
