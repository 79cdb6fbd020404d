//! The bucket as a place for files.

use async_trait::async_trait;
use bytes::Bytes;
use http::{Method, StatusCode};
use serde::Deserialize;

use super::client::Gcs;
use super::session::Session;
use crate::Error;
use crate::destinations::answers::{Bounded, MAX_ROWS, read};
use crate::destinations::files::{Bucket, Keys, Unfinished};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    #[serde(default)]
    items: Bounded<Item, MAX_ROWS>,
    next_page_token: Option<String>,
}

#[derive(Deserialize)]
struct Item {
    name: String,
}

#[async_trait]
impl Bucket for Gcs {
    fn name(&self) -> String {
        self.words.place.clone()
    }

    async fn begin(&self, key: &str) -> Result<Box<dyn Unfinished>, Error> {
        Ok(Box::new(Session::begin(self.clone(), key).await?))
    }

    async fn read(&self, key: &str) -> Result<Option<Bytes>, Error> {
        let url = format!("{}?alt=media", self.object_url(key));
        match self.ask(Method::GET, &url, Bytes::new()).await {
            Ok(response) => Ok(Some(response.into_body().into())),
            Err(refusal) if refusal.is_no_file => Ok(None),
            Err(refusal) => Err(refusal.into()),
        }
    }

    async fn write(&self, key: &str, content: Bytes) -> Result<(), Error> {
        let url = self.objects_url("/upload", &[("uploadType", "media"), ("name", key)]);
        self.ask(Method::POST, url.as_str(), content).await?;
        Ok(())
    }

    async fn delete(&self, key: &str) -> Result<(), Error> {
        match self.ask(Method::DELETE, &self.object_url(key), Bytes::new()).await {
            Err(refusal) if !refusal.is_no_file => Err(refusal.into()),
            _ => Ok(()),
        }
    }

    async fn list(&self, beginning: &str) -> Result<Vec<String>, Error> {
        let mut keys = Keys::default();
        let mut token: Option<String> = None;
        loop {
            let mut query = vec![("prefix", beginning), ("fields", "items(name),nextPageToken")];
            query.extend(token.as_deref().map(|token| ("pageToken", token)));
            let url = self.objects_url("", &query);
            let response = self.ask(Method::GET, url.as_str(), Bytes::new()).await;
            // Of files in a bucket there are always some, if only none: it is the bucket that is not there.
            let response = response.map_err(|refusal| match refusal.status {
                Some(StatusCode::NOT_FOUND) => {
                    let sentence = format!("{} does not exist; create it, or correct its name", self.words.place);
                    Error::permanent(sentence, refusal.error)
                }
                _ => refusal.error,
            })?;
            let page: Page = read(response.body(), |cause| {
                let sentence = format!("{} sent an unexpected response; check endpoint_url", self.words.place);
                Error::retryable(sentence, cause)
            })?;
            keys.add(page.items.0.into_iter().map(|item| item.name))?;
            token = page.next_page_token;
            if token.is_none() {
                return Ok(keys.all());
            }
        }
    }
}
