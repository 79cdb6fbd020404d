//! Bodies of responses: counted while they are kept, or handed out piece by piece.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::error::HttpError;

/// Counts what is kept of a response's body.
#[async_trait::async_trait]
pub trait Meter: Send + Sync {
    /// Waits until there is room for this piece as well.
    async fn take(&self, piece: &[u8]);
}

#[derive(Clone)]
pub(super) struct BodyMeter(pub(super) Arc<dyn Meter>);

impl fmt::Debug for BodyMeter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BodyMeter")
    }
}

/// The body of a response on its way in. Dropped, it closes the connection.
#[derive(Debug)]
pub struct Chunks {
    pub(super) response: reqwest::Response,
    pub(super) host: String,
    pub(super) limit: Duration,
}

impl Chunks {
    /// The next piece; none after the last.
    pub async fn next(&mut self) -> Result<Option<Bytes>, HttpError> {
        let next = tokio::time::timeout(self.limit, self.response.chunk()).await;
        let read = next.map_err(|_| HttpError::TooSlow {
            host: self.host.clone(),
            limit: self.limit,
        })?;
        read.map_err(|source| HttpError::Broken {
            host: self.host.clone(),
            source,
        })
    }

    /// The whole of it, unless it is larger than `limit` bytes.
    pub async fn collect(mut self, limit: usize) -> Result<Vec<u8>, HttpError> {
        let mut body = Vec::new();
        while let Some(piece) = self.next().await? {
            if body.len() + piece.len() > limit {
                return Err(HttpError::TooLarge { host: self.host, limit });
            }
            body.extend_from_slice(&piece);
        }
        Ok(body)
    }
}
