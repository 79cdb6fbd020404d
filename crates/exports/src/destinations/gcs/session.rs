//! A resumable upload: pieces go up one after the other, and the file appears with the last.

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use http::{Method, Request, Response, StatusCode, header};
use url::Url;

use super::client::{Gcs, Refusal, TRIES};
use crate::Error;
use crate::destinations::files::{Unfinished, answer};

/// All pieces but the last are multiples of this.
const UNIT: usize = 256 * 1024;
const PIECE: usize = 32 * UNIT;

pub(super) struct Session {
    bucket: Gcs,
    url: Url,
    waiting: BytesMut,
    sent: u64,
    is_published: bool,
}

impl Session {
    pub(super) async fn begin(bucket: Gcs, key: &str) -> Result<Self, Error> {
        let url = bucket.objects_url("/upload", &[("uploadType", "resumable"), ("name", key)]);
        let response = bucket.ask(Method::POST, url.as_str(), Bytes::new()).await?;
        let location = response.headers().get(header::LOCATION);
        let location = location.and_then(|location| location.to_str().ok());
        let url = location.and_then(|location| Url::parse(location).ok());
        // The token goes wherever this leads.
        let url = url.filter(|url| url.origin() == bucket.base.origin());
        let url = url.ok_or_else(|| {
            Error::plain(format!(
                "{} redirects uploads to another host; check endpoint_url",
                bucket.words.place
            ))
        })?;
        Ok(Self {
            bucket,
            url,
            waiting: BytesMut::new(),
            sent: 0,
            is_published: false,
        })
    }

    /// Sends so many of the waiting bytes. The last piece says how long the whole is.
    async fn send(&mut self, length: usize, is_last: bool) -> Result<(), Error> {
        let end = self.sent + length as u64;
        let total = if is_last { end.to_string() } else { "*".to_owned() };
        let mut piece = self.waiting.split_to(length).freeze();
        for tried in 1.. {
            let range = format!("bytes {}-{}/{total}", self.sent, end - 1);
            match self.put(range, piece.clone()).await {
                Ok(response) if is_last && response.status().is_success() => break,
                Ok(response) if !is_last && kept(&response) == Some(end) => break,
                Ok(_) if tried < TRIES => {}
                Ok(_) => return Err(self.lost()),
                Err(refusal) if refusal.error.is_permanent || tried >= TRIES => return Err(refusal.error),
                Err(_) => {}
            }
            // What of it has arrived?
            let response = self
                .put(format!("bytes */{total}"), Bytes::new())
                .await
                .map_err(Error::from)?;
            if response.status().is_success() {
                break;
            }
            let kept = kept(&response).unwrap_or(0);
            if kept < self.sent || kept > end {
                return Err(self.lost());
            }
            let arrived = usize::try_from(kept - self.sent).expect("no more than a piece");
            let _ = piece.split_to(arrived);
            self.sent = kept;
            if piece.is_empty() && !is_last {
                break;
            }
        }
        self.sent = end;
        Ok(())
    }

    /// 308 means: go on. All that is neither that nor a success is an error.
    async fn put(&self, range: String, body: Bytes) -> Result<Response<Vec<u8>>, Refusal> {
        let request = Request::put(self.url.as_str())
            .header(header::CONTENT_RANGE, range)
            .body(body);
        let response = self.bucket.carry(request).await?;
        if response.status().is_success() || response.status() == StatusCode::PERMANENT_REDIRECT {
            return Ok(response);
        }
        let answer = answer(&response);
        Err(Refusal {
            status: Some(answer.status),
            is_no_file: false,
            error: match answer.status {
                StatusCode::NOT_FOUND | StatusCode::GONE => self.lost(),
                _ => self.bucket.words.explain(&answer, answer.clone()),
            },
        })
    }

    fn lost(&self) -> Error {
        let place = &self.bucket.words.place;
        Error::retryable(
            format!("{place} lost the upload midway; it will be retried"),
            "the session does not go on",
        )
    }
}

/// How many bytes the store has, by its own word: `bytes=0-99` are 100.
fn kept(response: &Response<Vec<u8>>) -> Option<u64> {
    let range = response.headers().get(header::RANGE)?.to_str().ok()?;
    let last: u64 = range.strip_prefix("bytes=0-")?.parse().ok()?;
    Some(last + 1)
}

#[async_trait]
impl Unfinished for Session {
    async fn write(&mut self, bytes: Bytes) -> Result<(), Error> {
        self.waiting.extend_from_slice(&bytes);
        // At least one byte stays: the last piece must not be empty.
        while self.waiting.len() > PIECE {
            self.send(PIECE, false).await?;
        }
        Ok(())
    }

    /// Less than a unit stays here until the commit, as nothing else keeps the file from appearing.
    async fn close(&mut self) -> Result<(), Error> {
        let units = self.waiting.len().saturating_sub(1) / UNIT;
        if units > 0 {
            self.send(units * UNIT, false).await?;
        }
        self.waiting = BytesMut::from(&self.waiting[..]);
        Ok(())
    }

    fn kept(&self) -> usize {
        self.waiting.len() + self.url.as_str().len()
    }

    async fn publish(&mut self) -> Result<(), Error> {
        self.send(self.waiting.len(), true).await?;
        self.is_published = true;
        Ok(())
    }

    async fn discard(&mut self) {
        if self.is_published {
            return;
        }
        let request = Request::delete(self.url.as_str()).body(Bytes::new());
        // Sessions that stay are forgotten by the store within a week.
        let _ = self.bucket.carry(request).await;
    }
}
