//! Connections: who may open how many, and how long one may be held without being used.

mod activity;
mod limits;
mod unread;

use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, HttpBody};
use hyper::body::{Buf, Bytes, Frame, Incoming, SizeHint};
use hyper::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode, Version};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

pub(crate) use self::activity::Activity;
use self::activity::Busy;
pub(crate) use self::limits::Limits;
use self::limits::STREAMS;
use self::unread::Unread;
use crate::networks::{ConnectionPermit, Networks, Requests};
use crate::write_limit::WriteLimit;

const DRAIN_LIMIT: Duration = Duration::from_secs(30);
/// What HTTP/1 reads ahead; longer headers are refused.
const BUFFER: usize = 64 * 1024;
/// Of HTTP/2, as they are when unpacked: on the wire, a field that comes again is one byte.
const HEADER_LIST: u32 = 16 * 1024;
/// A field takes memory however short it is. HTTP/1 has a limit of its own.
const FIELDS: usize = 200;
/// What one stream of HTTP/2, and one connection, may have sent before it is read. It counts as nobody's memory until then. Whoever
/// never acknowledges our settings has as much. A few streams that are not read must not stop the others of a proxy's connection.
const STREAM_WINDOW: u32 = 64 * 1024;
const CONNECTION_WINDOW: u32 = 512 * 1024;
/// What of an answer waits for the socket, for each stream. No time limit takes it back, but its request counts until it is gone.
const SEND_BUFFER: usize = 16 * 1024;
/// Streams that were opened and reset immediately, before the connection is closed.
const RESETS: usize = 20;

/// Serves until told to stop, and then lets what is in progress come to its end.
pub(crate) async fn accept(listener: TcpListener, app: Router, limits: Limits, stop: CancellationToken) {
    let builder = protocol(&limits);
    let limits = Arc::new(limits);
    let networks = Networks::new(limits.clone());
    while let Some(accepted) = stop.run_until_cancelled(listener.accept()).await {
        match accepted {
            Ok((stream, peer)) => {
                let Some(permit) = stop.run_until_cancelled(networks.acquire(peer.ip())).await else {
                    break;
                };
                let Some(permit) = permit else {
                    metrics::counter!("hedgerow_connections_refused_total").increment(1);
                    continue;
                };
                let conversation = converse(stream, peer.ip(), &permit, app.clone(), &builder, &limits, &stop);
                tokio::spawn(async move {
                    conversation.await;
                    drop(permit);
                });
            }
            Err(error) => {
                // Out of file descriptors, most likely: others will close theirs.
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "could not accept a connection"
                );
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
    drop(listener);
    if timeout(DRAIN_LIMIT, networks.emptied()).await.is_err() {
        tracing::warn!("closing connections that are still busy");
    }
}

fn protocol(limits: &Limits) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    // Whoever takes for ever to send a header is not waited for, nor who sends no second one.
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header)
        .max_buf_size(BUFFER);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(limits.ping)
        .keep_alive_timeout(limits.ping)
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(HEADER_LIST)
        .max_pending_accept_reset_streams(RESETS)
        .max_local_error_reset_streams(RESETS)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(SEND_BUFFER);
    builder
}

/// Serves a connection to its end, unless nothing happens on it or its permit is needed.
fn converse(
    stream: TcpStream,
    peer: IpAddr,
    permit: &ConnectionPermit,
    app: Router,
    builder: &auto::Builder<TokioExecutor>,
    limits: &Arc<Limits>,
    stop: &CancellationToken,
) -> impl Future<Output = ()> + use<> {
    // Answers are written whole, so there is nothing to gather.
    let _ = stream.set_nodelay(true);
    let activity = permit.activity.clone();
    let io = TokioIo::new(WriteLimit::new(stream, limits.write));
    let answer = service_fn(answer(app, peer, permit.requests.clone(), activity.clone()));
    let connection = builder.serve_connection(io, answer).into_owned();
    let (limits, stop) = (limits.clone(), stop.clone());
    async move {
        let mut connection = std::pin::pin!(connection);
        loop {
            // What happens in the meantime may bring the deadline closer, and answers are looked at now and then.
            let look_again = Instant::now() + limits.idle.min(limits.write / 2);
            let deadline = activity.deadline(&limits).min(look_again);
            tokio::select! {
                _ = connection.as_mut() => return,
                () = stop.cancelled() => {
                    connection.as_mut().graceful_shutdown();
                    // The process waits for what is in progress, up to a limit of its own.
                    let _ = connection.await;
                    return;
                }
                () = activity.told() => break,
                () = sleep_until(deadline) => {}
            }
            activity.unread.end_after(limits.write);
            if activity.deadline(&limits) <= Instant::now() {
                break;
            }
        }
        if activity.has_spoken() && !activity.is_cut() {
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                _ = timeout(limits.closing, connection) => {}
                () = activity.told() => {}
            }
        }
    }
}

/// An answer on its way.
type Answering = Pin<Box<dyn Future<Output = Result<Response<Answer>, Infallible>> + Send>>;

/// Hands each request of a connection to the app, with the address it came from.
fn answer(
    app: Router,
    peer: IpAddr,
    requests: Requests,
    activity: Arc<Activity>,
) -> impl Fn(Request<Incoming>) -> Answering + Clone {
    move |request| {
        activity.note();
        let Some(in_progress) = requests.enter() else {
            metrics::counter!("hedgerow_requests_refused_total").increment(1);
            return refuse(TOO_MANY, &activity);
        };
        if request.headers().len() > FIELDS {
            return refuse(TOO_LONG, &activity);
        }
        let version = request.version();
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(api::Peer(peer));
        api::end_path_with_slash(&mut request);
        // What goes on after the answer holds it, too.
        let in_progress = api::InProgress::new(in_progress);
        request.extensions_mut().insert(in_progress.clone());
        let busy = activity.begin();
        let answering = tower::Service::call(&mut app.clone(), request);
        let activity = activity.clone();
        let answered = async move {
            let response = answering.await?;
            activity.note();
            Ok(response.map(|body| Answer {
                body: AnswerBody::new(body, version, &activity),
                activity,
                held: Some(Arc::new((busy, in_progress))),
            }))
        };
        Box::pin(answered)
    }
}

const TOO_MANY: (StatusCode, &str) = (
    StatusCode::TOO_MANY_REQUESTS,
    r#"{"type":"throttled_error","code":"throttled","detail":"Too many concurrent requests from this IP address. Try again when some have finished.","attr":null}"#,
);
const TOO_LONG: (StatusCode, &str) = (
    StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
    r#"{"type":"invalid_request","code":"too_large","detail":"The request has too many headers.","attr":null}"#,
);

/// Answers without asking the app, whose memory is what is spared.
fn refuse((status, detail): (StatusCode, &'static str), activity: &Arc<Activity>) -> Answering {
    let mut response = Response::new(Answer {
        body: AnswerBody::Whole(Body::from(detail)),
        activity: activity.clone(),
        held: None,
    });
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
    Box::pin(std::future::ready(Ok(response)))
}

/// A body that says when the other side takes some of it.
struct Answer {
    body: AnswerBody,
    activity: Arc<Activity>,
    held: Held,
}

/// The request counts until its answer was taken.
type Held = Option<Arc<(Busy, api::InProgress)>>;

/// A part of an answer. HTTP/2 keeps it until the other side takes it, although the answer itself has ended.
struct Piece {
    bytes: Bytes,
    _held: Held,
}

impl Buf for Piece {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
    }
}

enum AnswerBody {
    /// Over HTTP/1 answers come one after the other, and [`WriteLimit`] sees whether one is taken.
    Whole(Body),
    InPieces(Arc<Unread>),
}

impl AnswerBody {
    fn new(body: Body, version: Version, activity: &Activity) -> Self {
        if version == Version::HTTP_2 {
            Self::InPieces(activity.unread.add(body))
        } else {
            Self::Whole(body)
        }
    }
}

impl HttpBody for Answer {
    type Data = Piece;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Piece>, axum::Error>>> {
        let frame = match &mut self.body {
            AnswerBody::Whole(body) => HttpBody::poll_frame(Pin::new(body), cx),
            AnswerBody::InPieces(unread) => unread.poll_frame(cx),
        };
        let frame = ready!(frame);
        self.activity.note();
        let piece = |bytes| Piece {
            bytes,
            _held: self.held.clone(),
        };
        Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        match &self.body {
            AnswerBody::Whole(body) => HttpBody::is_end_stream(body),
            AnswerBody::InPieces(unread) => unread.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.body {
            AnswerBody::Whole(body) => HttpBody::size_hint(body),
            AnswerBody::InPieces(unread) => unread.size_hint(),
        }
    }
}

#[cfg(test)]
mod tests;
