//! Tries, step by step, what a delivery of files needs.

use bytes::Bytes;
use uuid::Uuid;

use super::bucket::Bucket;
use super::names::{fixed_part, join};
use crate::{Error, Step, Verdict};

const CONTENT: &[u8] = b"Hedgerow tested whether it can write here. This file can be deleted.\n";

pub(super) async fn steps(bucket: &dyn Bucket, prefix: &str) -> Vec<Step> {
    let key = join(&fixed_part(prefix), &format!(".hedgerow-test-{}", Uuid::now_v7()));
    let place = bucket.name();
    let mut steps = Steps::default();
    let listed = bucket.list(&key).await;
    let is_reached = listed
        .as_ref()
        .err()
        .is_none_or(|error| error.is_permanent && !is_refused(error));
    let (reached, listed) = match listed {
        Err(error) if !is_reached => (Err(error), Ok(())),
        listed => (Ok(()), listed.map(drop)),
    };
    steps.add("reach", format!("Connect to {place}"), reached);
    steps.add("sign_in", format!("Sign in and list the files in {place}"), listed);
    if steps.has_failed {
        steps.skip_rest();
        return steps.all;
    }
    let written = write(bucket, &key).await;
    steps.add("write", "Write a small file under the prefix".to_owned(), written);
    if steps.has_failed {
        steps.skip_rest();
        return steps.all;
    }
    let read = read_back(bucket, &key).await;
    steps.add("read", "Read it back".to_owned(), read);
    // Whatever the reading said: nothing is to be left behind.
    let deleted = bucket.delete(&key).await;
    steps.has_failed = false;
    steps.add("delete", "Delete it".to_owned(), deleted);
    steps.all
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

#[derive(Default)]
struct Steps {
    all: Vec<Step>,
    has_failed: bool,
}

impl Steps {
    fn add(&mut self, name: &'static str, description: String, outcome: Result<(), Error>) {
        let (verdict, message) = match outcome {
            _ if self.has_failed => (Verdict::Skipped, String::new()),
            Ok(()) => (Verdict::Passed, String::new()),
            Err(error) => {
                tracing::debug!(error = &error as &dyn std::error::Error, step = name, "a test failed");
                (Verdict::Failed, error.sentence)
            }
        };
        self.has_failed |= verdict == Verdict::Failed;
        self.all.push(Step {
            name,
            description,
            verdict,
            message,
        });
    }

    fn skip_rest(&mut self) {
        for (name, description) in [
            ("write", "Write a small file under the prefix"),
            ("read", "Read it back"),
            ("delete", "Delete it"),
        ] {
            if self.all.iter().all(|step| step.name != name) {
                self.add(name, description.to_owned(), Ok(()));
            }
        }
    }
}
