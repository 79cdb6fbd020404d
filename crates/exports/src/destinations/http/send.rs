//! One request, tried a few times.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode, header};
use outbound::Http;
use secrecy::{ExposeSecret, SecretString};
use service::batch_exports::destination::Http as Config;
use url::Url;

use crate::{Error, ExportsDeps};

const TIME: Duration = Duration::from_mins(1);
/// Of an answer so much is read, and only to use the connection again.
const ANSWER: usize = 64 * 1024;
/// How long to wait before each further attempt, unless the receiver says otherwise.
const PAUSES: [Duration; 4] = [
    Duration::from_millis(500),
    Duration::from_secs(2),
    Duration::from_secs(8),
    Duration::from_secs(20),
];
/// Whoever wants us to wait longer is asked again in another run.
const MAX_PAUSE: Duration = Duration::from_mins(1);

/// Who gets the batches.
#[derive(Clone)]
pub(super) struct Receiver {
    http: Http,
    url: String,
    token: SecretString,
    /// What a request may take, its answer included.
    time: Duration,
    pauses: &'static [Duration],
}

/// Why a request was not taken, and how long the receiver wants to be left alone.
struct Refused {
    error: Error,
    pause: Option<Duration>,
}

impl Receiver {
    pub(super) fn new(config: &Config, deps: &ExportsDeps) -> Self {
        Self {
            http: deps.http.clone().within(TIME),
            url: config.url.clone(),
            token: config.token.clone(),
            time: TIME,
            pauses: &PAUSES,
        }
    }

    pub(super) fn token(&self) -> &str {
        self.token.expose_secret()
    }

    /// Whether the URL may be asked, as far as that can be told without asking.
    pub(super) fn check(&self) -> Result<(), Error> {
        let url = Url::parse(&self.url).map_err(|cause| Error::permanent("the url is not a valid URL", cause))?;
        self.http
            .policy()
            .check_url(&url)
            .map_err(|refusal| Error::permanent(refusal.to_string(), refusal))
    }

    /// Sends a body, and again after a while if that may help. `key` tells the receiver that it is the same.
    pub(super) async fn send(&self, body: Bytes, key: &str) -> Result<(), Error> {
        let mut pauses = self.pauses.iter().copied();
        loop {
            let Err(Refused { error, pause }) = self.post(body.clone(), Some(key)).await else {
                return Ok(());
            };
            let Some(usual) = pauses.next().filter(|_| !error.is_permanent) else {
                return Err(error);
            };
            let pause = pause.unwrap_or(usual);
            if pause > MAX_PAUSE {
                return Err(error);
            }
            tracing::debug!(?pause, "a batch is sent again");
            tokio::time::sleep(pause).await;
        }
    }

    pub(super) async fn try_once(&self, body: Bytes) -> Result<(), Error> {
        self.post(body, None).await.map_err(|refused| refused.error)
    }

    async fn post(&self, body: Bytes, key: Option<&str>) -> Result<(), Refused> {
        let plain = |error| Refused { error, pause: None };
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(&self.url)
            .header(header::CONTENT_TYPE, "application/json");
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        let request = request
            .body(body)
            .map_err(|cause| plain(Error::permanent("the url is not a valid URL", cause)))?;
        let asking = async {
            let answer = self.http.open(request).await?;
            let (parts, body) = answer.into_parts();
            // What it says does not matter, nor does it if it never ends.
            let _ = body.collect(ANSWER).await;
            Ok((parts.status, parts.headers))
        };
        let too_slow = |cause| {
            let sentence = format!("the endpoint took longer than {} seconds", self.time.as_secs());
            plain(Error::retryable(sentence, cause))
        };
        let answered: Result<_, outbound::HttpError> =
            tokio::time::timeout(self.time, asking).await.map_err(too_slow)?;
        let (status, headers) = answered.map_err(|cause| plain(cause.into()))?;
        judge(status, &headers)
    }
}

fn judge(status: StatusCode, headers: &HeaderMap) -> Result<(), Refused> {
    let code = status.as_u16();
    let refused = |is_permanent: bool, sentence: String| {
        let pause = headers.get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
        let pause = pause
            .and_then(|value| value.trim().parse().ok())
            .map(Duration::from_secs);
        let cause = format!("the endpoint returned {code}");
        let error = if is_permanent {
            Error::permanent(sentence, cause)
        } else {
            Error::retryable(sentence, cause)
        };
        Err(Refused { error, pause })
    };
    match code {
        200..300 => Ok(()),
        300..400 => refused(
            true,
            format!("the endpoint returned {code}, a redirect; enter the URL it redirects to"),
        ),
        401 | 403 => refused(true, format!("the endpoint returned {code}; check the token")),
        413 => refused(
            true,
            "the endpoint returned 413: it does not accept requests of this size".to_owned(),
        ),
        408 | 425 | 429 => refused(
            false,
            format!("the endpoint returned {code} and asked to retry later; it will be retried"),
        ),
        400..500 => refused(
            true,
            format!("the endpoint returned {code}; check the url and what it expects"),
        ),
        _ => refused(false, format!("the endpoint returned {code}; it will be retried")),
    }
}

#[cfg(test)]
mod tests {
    use outbound::{Dialer, Policy, Roots};
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpListener;

    use super::*;

    const QUICK: [Duration; 1] = [Duration::from_millis(10)];

    /// N8
    #[tokio::test]
    async fn whoever_is_silent_is_given_up_after_a_few_attempts() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let dialer = Dialer::new(Policy::new(vec!["127.0.0.0/8".parse().unwrap()]));
        let receiver = Receiver {
            http: Http::new(dialer, &Roots::public()).unwrap(),
            url: format!("http://{}/", listener.local_addr().unwrap()),
            token: "token".into(),
            time: Duration::from_millis(200),
            pauses: &QUICK,
        };
        let silent = async {
            let mut connections = Vec::new();
            loop {
                let (mut connection, _) = listener.accept().await.unwrap();
                let _ = connection.read(&mut [0; 1024]).await;
                connections.push(connection);
                if connections.len() > 2 {
                    break;
                }
            }
        };
        tokio::select! {
            () = silent => panic!("it was asked more than twice"),
            sent = receiver.send("{}".into(), "key") => assert!(!sent.unwrap_err().is_permanent),
        }
    }
}
