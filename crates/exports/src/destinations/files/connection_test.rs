//! Tries, step by step, what a delivery of files needs.

use bytes::Bytes;
use uuid::Uuid;

use super::bucket::Bucket;
use super::names::{fixed_part, join};
use crate::destinations::steps::Steps;
use crate::{Error, Step};

const CONTENT: &[u8] = b"Hedgerow tested whether it can write here. This file can be deleted.\n";

pub(super) async fn steps(bucket: &dyn Bucket, prefix: &str) -> Vec<Step> {
    let key = join(&fixed_part(prefix), &format!(".hedgerow-test-{}", Uuid::now_v7()));
    let place = bucket.name();
    let (reach, sign_in) = (
        format!("Connect to {place}"),
        format!("Sign in and list the files in {place}"),
    );
    let mut steps = Steps::new(&[
        ("reach", reach.as_str()),
        ("sign_in", sign_in.as_str()),
        ("write", "Write a small file under the prefix"),
        ("read", "Read it back"),
        ("delete", "Delete it"),
    ])
    .silent();
    let listed = bucket.list(&key).await;
    let is_reached = listed
        .as_ref()
        .err()
        .is_none_or(|error| error.is_permanent && !is_refused(error));
    let (reached, listed) = match listed {
        Err(error) if !is_reached => (Err(error), Ok(())),
        listed => (Ok(()), listed.map(drop)),
    };
    steps.take("", async { reached }).await;
    steps.take("", async { listed }).await;
    let written = steps.take("", write(bucket, &key)).await;
    steps.take("", read_back(bucket, &key)).await;
    if written.is_some() {
        // Whatever the reading said: nothing is to be left behind.
        steps.take_anyway("", bucket.delete(&key)).await;
    }
    steps.done()
}

/// Written as a delivery is, so that whatever that needs is there.
async fn write(bucket: &dyn Bucket, key: &str) -> Result<(), Error> {
    let mut file = bucket.begin(key).await?;
    let mut sent = file.write(Bytes::from_static(CONTENT)).await;
    if sent.is_ok() {
        sent = file.close().await;
    }
    if sent.is_ok() {
        sent = file.publish().await;
    }
    if sent.is_err() {
        file.discard().await;
    }
    sent
}

async fn read_back(bucket: &dyn Bucket, key: &str) -> Result<(), Error> {
    match bucket.read(key).await? {
        Some(content) if content == CONTENT => Ok(()),
        _ => Err(Error::plain(
            "the file changed after it was written; check whether something else writes here",
        )),
    }
}

/// Our own policy refused, before anything was reached.
fn is_refused(error: &Error) -> bool {
    let mut next = std::error::Error::source(error);
    while let Some(cause) = next {
        if cause.is::<outbound::HttpError>() {
            return true;
        }
        next = cause.source();
    }
    false
}
