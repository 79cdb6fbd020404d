//! Stores that `object_store` knows: S3 and Azure.

use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{BackoffConfig, MultipartId, ObjectStore, ObjectStoreExt, PutPayload, RetryConfig};
use outbound::HttpError;
use tokio::task::JoinSet;

use super::answer::{Answer, Words};
use super::bucket::{Bucket, Keys, Unfinished};
use crate::Error;

const PART: usize = 8 * 1024 * 1024;
/// A file has at most 10,000 parts, so after this many they become larger: 280 GB in all.
const PARTS_OF_A_SIZE: usize = 1000;
const MAX_PART: usize = 4 * PART;
const PARTS_AT_ONCE: usize = 3;
/// What stores call uploads and parts has some hundred bytes at most, and is kept until the file is complete.
const MAX_ID: usize = 1024;

/// A request is tried at most so often; beyond that the whole delivery is tried again.
pub(crate) fn few_retries() -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig {
            init_backoff: Duration::from_millis(200),
            max_backoff: Duration::from_secs(5),
            base: 2.0,
        },
        max_retries: 2,
        retry_timeout: Duration::from_mins(1),
    }
}

trait Store: ObjectStore + MultipartStore + PaginatedListStore {}

impl<T: ObjectStore + MultipartStore + PaginatedListStore> Store for T {}

/// A bucket of such a store.
pub(crate) struct Objects {
    store: Arc<dyn Store>,
    words: Arc<Words>,
}

impl Objects {
    pub(crate) fn new(store: impl ObjectStore + MultipartStore + PaginatedListStore, words: Words) -> Self {
        Self {
            store: Arc::new(store),
            words: Arc::new(words),
        }
    }

    fn explain(&self, error: object_store::Error) -> Error {
        explain(&self.words, error)
    }
}

#[async_trait]
impl Bucket for Objects {
    fn name(&self) -> String {
        self.words.place.clone()
    }

    async fn begin(&self, key: &str) -> Result<Box<dyn Unfinished>, Error> {
        let path = path(key)?;
        let id = self
            .store
            .create_multipart(&path)
            .await
            .map_err(|error| self.explain(error))?;
        check_id(&id)?;
        Ok(Box::new(Parts {
            store: self.store.clone(),
            words: self.words.clone(),
            path,
            id,
            filling: BytesMut::new(),
            sent: 0,
            in_progress: JoinSet::new(),
            done: Vec::new(),
            is_published: false,
        }))
    }

    async fn read(&self, key: &str) -> Result<Option<Bytes>, Error> {
        let path = path(key)?;
        let read = async { self.store.get(&path).await?.bytes().await };
        match read.await {
            Ok(content) => Ok(Some(content)),
            Err(error) if is_no_file(&error) => Ok(None),
            Err(error) => Err(self.explain(error)),
        }
    }

    async fn write(&self, key: &str, content: Bytes) -> Result<(), Error> {
        let put = self.store.put(&path(key)?, content.into()).await;
        put.map(drop).map_err(|error| self.explain(error))
    }

    async fn delete(&self, key: &str) -> Result<(), Error> {
        match self.store.delete(&path(key)?).await {
            Err(error) if !is_no_file(&error) => Err(self.explain(error)),
            _ => Ok(()),
        }
    }

    async fn list(&self, beginning: &str) -> Result<Vec<String>, Error> {
        let mut keys = Keys::default();
        let mut page_token = None;
        loop {
            let options = PaginatedListOptions {
                page_token,
                ..PaginatedListOptions::default()
            };
            let page = self.store.list_paginated(Some(beginning), options).await;
            let page = page.map_err(|error| self.explain(error))?;
            let objects = page.result.objects.into_iter();
            keys.add(objects.map(|object| object.location.to_string()))?;
            page_token = page.page_token;
            if page_token.is_none() {
                return Ok(keys.all());
            }
        }
    }
}

/// A file that goes up in parts.
struct Parts {
    store: Arc<dyn Store>,
    words: Arc<Words>,
    path: Path,
    id: MultipartId,
    filling: BytesMut,
    sent: usize,
    in_progress: JoinSet<(usize, object_store::Result<PartId>)>,
    done: Vec<(usize, PartId)>,
    is_published: bool,
}

impl Parts {
    async fn send(&mut self, part: Bytes) -> Result<(), Error> {
        while self.in_progress.len() >= PARTS_AT_ONCE {
            self.take_one().await?;
        }
        let (store, path, id, number) = (self.store.clone(), self.path.clone(), self.id.clone(), self.sent);
        self.in_progress
            .spawn(async move { (number, store.put_part(&path, &id, number, PutPayload::from(part)).await) });
        self.sent += 1;
        Ok(())
    }

    async fn take_one(&mut self) -> Result<(), Error> {
        let Some(ended) = self.in_progress.join_next().await else {
            return Ok(());
        };
        let (number, part) =
            ended.map_err(|cause| Error::retryable("the server was interrupted while it sent the rows", cause))?;
        let part = part.map_err(|error| explain(&self.words, error))?;
        check_id(&part.content_id)?;
        self.done.push((number, part));
        Ok(())
    }

    fn part_size(&self) -> usize {
        (PART << (self.sent / PARTS_OF_A_SIZE).min(8)).min(MAX_PART)
    }
}

#[async_trait]
impl Unfinished for Parts {
    async fn write(&mut self, mut bytes: Bytes) -> Result<(), Error> {
        // One part at a time: what was given may be large, and is not to be in memory twice.
        while !bytes.is_empty() {
            let missing = self.part_size().saturating_sub(self.filling.len());
            self.filling
                .extend_from_slice(&bytes.split_to(missing.min(bytes.len())));
            if self.filling.len() >= self.part_size() {
                let part = std::mem::take(&mut self.filling).freeze();
                self.send(part).await?;
            }
        }
        Ok(())
    }

    async fn close(&mut self) -> Result<(), Error> {
        if !self.filling.is_empty() {
            let last = std::mem::take(&mut self.filling).freeze();
            self.send(last).await?;
        }
        while !self.in_progress.is_empty() {
            self.take_one().await?;
        }
        Ok(())
    }

    fn kept(&self) -> usize {
        let parts = self.done.iter();
        let parts = parts.map(|(number, part)| size_of_val(number) + size_of_val(part) + part.content_id.len());
        self.id.len() + parts.sum::<usize>()
    }

    async fn publish(&mut self) -> Result<(), Error> {
        self.done.sort_by_key(|(number, _)| *number);
        let parts = self.done.iter().map(|(_, part)| part.clone()).collect();
        let completed = self.store.complete_multipart(&self.path, &self.id, parts).await;
        completed.map_err(|error| explain(&self.words, error))?;
        self.is_published = true;
        Ok(())
    }

    async fn discard(&mut self) {
        self.in_progress.shutdown().await;
        if self.is_published {
            return;
        }
        if let Err(error) = self.store.abort_multipart(&self.path, &self.id).await {
            tracing::warn!(error = &error as &dyn StdError, "could not abort an upload");
        }
    }
}

fn check_id(id: &str) -> Result<(), Error> {
    if id.len() > MAX_ID {
        return Err(Error::plain(
            "the store sends longer names for uploads than any does; check its address",
        ));
    }
    Ok(())
}

fn path(key: &str) -> Result<Path, Error> {
    Path::parse(key)
        .map_err(|cause| Error::permanent("the prefix does not form a valid file name; choose another", cause))
}

fn is_no_file(error: &object_store::Error) -> bool {
    matches!(error, object_store::Error::NotFound { .. }) || find::<Answer>(error).is_some_and(Answer::is_no_file)
}

fn explain(words: &Words, error: object_store::Error) -> Error {
    if let Some(answer) = find::<Answer>(&error).cloned() {
        return words.explain(&answer, error);
    }
    if let Some(unsent) = find::<HttpError>(&error) {
        let sentence = unsent.to_string();
        let is_permanent = matches!(unsent, HttpError::Refused(_) | HttpError::Malformed(_));
        return if is_permanent {
            Error::permanent(sentence, error)
        } else {
            Error::retryable(sentence, error)
        };
    }
    Error::retryable(
        format!("{} sent an unexpected response; it will be retried", words.place),
        error,
    )
}

/// Looks for a cause of ours below the wrappings of `object_store`.
fn find<'a, T: StdError + 'static>(error: &'a (dyn StdError + 'static)) -> Option<&'a T> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<T>() {
            return Some(found);
        }
        next = error.source();
    }
    None
}
