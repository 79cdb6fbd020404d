//! Statements and jobs that run at a server.

use std::time::Duration;

use http::Request;
use outbound::Http;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

/// So many cancellations are on their way at the same time. Nobody waits for them, so nothing else limits them; a statement that is not
/// canceled ends at the server's own time limit.
static CANCELLATIONS: Semaphore = Semaphore::const_new(64);
const TIME: Duration = Duration::from_secs(10);
/// Of a response, which nobody reads.
const MAX_BYTES: usize = 1024;

/// What runs at a server. Dropped before its end, it asks the server to stop it.
pub(crate) struct RemoteWork(Option<(Http, Request<Vec<u8>>)>);

impl RemoteWork {
    /// `cancellation` is what the server is asked then.
    pub(crate) fn new(http: &Http, cancellation: http::Result<Request<Vec<u8>>>) -> Self {
        Self(cancellation.ok().map(|request| (http.clone(), request)))
    }

    pub(crate) fn ended(mut self) {
        self.0 = None;
    }
}

impl Drop for RemoteWork {
    fn drop(&mut self) {
        let (Some((http, request)), Ok(runtime)) = (self.0.take(), Handle::try_current()) else {
            return;
        };
        let Ok(permit) = CANCELLATIONS.try_acquire() else {
            return;
        };
        runtime.spawn(async move {
            let _permit = permit;
            if let Err(error) = http.within(TIME).limited_to(MAX_BYTES).send(request).await {
                tracing::debug!(
                    error = &error as &dyn std::error::Error,
                    "what runs at a destination was not canceled"
                );
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use outbound::{Dialer, Policy, Roots};
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn cancellations_are_few_and_keep_next_to_nothing() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let dialer = Dialer::new(Policy::new(vec!["127.0.0.0/8".parse().unwrap()]));
        let http = Http::new(dialer, &Roots::public()).unwrap();
        for _ in 0..100 {
            drop(RemoteWork::new(&http, Request::post(&url).body(Vec::new())));
        }
        RemoteWork::new(&http, Request::post(&url).body(Vec::new())).ended();
        let mut asked = Vec::new();
        while let Ok(accepted) = timeout(Duration::from_secs(1), listener.accept()).await {
            asked.push(accepted.unwrap().0);
        }
        assert_eq!(asked.len(), 64);
        for mut stream in asked {
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
            let endless = async { while stream.write_all(&[b'x'; 8192]).await.is_ok() {} };
            assert!(timeout(TIME / 2, endless).await.is_ok(), "it reads on");
        }
    }
}
