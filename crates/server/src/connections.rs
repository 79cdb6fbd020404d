//! Connections: who may open how many, and how long one may be held without being used.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, HttpBody};
use hyper::body::{Bytes, Frame, Incoming, SizeHint};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use ipnet::IpNet;
use service::sign_in::network;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::write_limit::WriteLimit;

const DRAIN_LIMIT: Duration = Duration::from_secs(30);
/// What HTTP/1 reads ahead; longer headers are refused.
const BUFFER: usize = 128 * 1024;
const HEADER_LIST: u32 = 64 * 1024;
/// What one stream of HTTP/2, and one connection, may have sent before it is read.
const STREAM_WINDOW: u32 = 256 * 1024;
const CONNECTION_WINDOW: u32 = 512 * 1024;
const STREAMS: u32 = 100;
/// Streams that were opened and reset at once, before the connection is closed.
const RESETS: usize = 20;

/// What a connection may do, and how long.
#[derive(Debug, Clone)]
pub(crate) struct Limits {
    /// Open at the same time, in all and from one network. Proxies are trusted to have limits of their own.
    pub(crate) connections: usize,
    pub(crate) of_network: usize,
    pub(crate) proxies: Vec<IpNet>,
    /// From the beginning of a header to its end.
    pub(crate) header: Duration,
    /// Without a request that begins or ends. Longer than any request may take.
    pub(crate) idle: Duration,
    /// For what is under way when the connection is closed.
    pub(crate) closing: Duration,
    /// Without the other side taking anything of an answer.
    pub(crate) write: Duration,
    /// Between two pings of HTTP/2, and until their answer.
    pub(crate) ping: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 10_000,
            of_network: 500,
            proxies: Vec::new(),
            header: Duration::from_secs(15),
            idle: Duration::from_mins(1),
            closing: Duration::from_secs(5),
            write: Duration::from_secs(30),
            ping: Duration::from_secs(20),
        }
    }
}

/// Serves until told to stop, and then lets what is under way come to its end.
pub(crate) async fn accept(listener: TcpListener, app: Router, limits: Limits, stop: CancellationToken) {
    let open = Arc::new(Semaphore::new(limits.connections));
    let networks = Networks::default();
    let builder = protocol(&limits);
    let limits = Arc::new(limits);
    loop {
        let next = async { (open.clone().acquire_owned().await, listener.accept().await) };
        let (permit, accepted) = tokio::select! {
            () = stop.cancelled() => break,
            next = next => next,
        };
        match accepted {
            Ok((stream, peer)) => {
                let Some(place) = networks.enter(peer.ip(), &limits) else {
                    metrics::counter!("hedgerow_connections_refused_total").increment(1);
                    continue;
                };
                let conversation = converse(stream, peer.ip(), app.clone(), &builder, &limits, &stop);
                tokio::spawn(async move {
                    conversation.await;
                    drop((place, permit));
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
    let all = u32::try_from(limits.connections).unwrap_or(u32::MAX);
    if timeout(DRAIN_LIMIT, open.acquire_many(all)).await.is_err() {
        tracing::warn!("some connections were still busy and are cut");
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
        .max_send_buf_size(STREAM_WINDOW as usize);
    builder
}

/// Serves a connection to its end, unless nothing happens on it.
fn converse(
    stream: TcpStream,
    peer: IpAddr,
    app: Router,
    builder: &auto::Builder<TokioExecutor>,
    limits: &Arc<Limits>,
    stop: &CancellationToken,
) -> impl Future<Output = ()> + use<> {
    // Answers are written whole, so there is nothing to gather.
    let _ = stream.set_nodelay(true);
    let activity = Arc::new(Activity::new());
    let io = TokioIo::new(WriteLimit::new(stream, limits.write));
    let answer = service_fn(answer(app, peer, activity.clone()));
    let connection = builder.serve_connection(io, answer).into_owned();
    let (limits, stop) = (limits.clone(), stop.clone());
    async move {
        let mut connection = std::pin::pin!(connection);
        loop {
            // What happens in the meantime may bring the deadline closer.
            let deadline = activity.deadline(&limits).min(Instant::now() + limits.idle);
            tokio::select! {
                _ = connection.as_mut() => return,
                () = stop.cancelled() => {
                    connection.as_mut().graceful_shutdown();
                    // The process waits for what is under way, up to a limit of its own.
                    let _ = connection.await;
                    return;
                }
                () = sleep_until(deadline) => {}
            }
            if activity.deadline(&limits) <= Instant::now() {
                break;
            }
        }
        if activity.has_spoken() {
            connection.as_mut().graceful_shutdown();
            let _ = timeout(limits.closing, connection).await;
        }
    }
}

/// When something last happened on a connection.
#[derive(Debug)]
struct Activity {
    opened: Instant,
    has_spoken: AtomicBool,
    /// In milliseconds since it was opened.
    last: AtomicU64,
}

impl Activity {
    fn new() -> Self {
        Self {
            opened: Instant::now(),
            has_spoken: AtomicBool::new(false),
            last: AtomicU64::new(0),
        }
    }

    fn note(&self) {
        let now = u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(now, Ordering::Relaxed);
        self.has_spoken.store(true, Ordering::Relaxed);
    }

    fn has_spoken(&self) -> bool {
        self.has_spoken.load(Ordering::Relaxed)
    }

    /// When to give up unless something happens.
    fn deadline(&self, limits: &Limits) -> Instant {
        if self.has_spoken() {
            self.opened + Duration::from_millis(self.last.load(Ordering::Relaxed)) + limits.idle
        } else {
            self.opened + limits.header
        }
    }
}

/// An answer on its way.
type Answering = Pin<Box<dyn Future<Output = Result<Response<Answer>, Infallible>> + Send>>;

/// Hands each request of a connection to the app, with the address it came from.
fn answer(app: Router, peer: IpAddr, activity: Arc<Activity>) -> impl Fn(Request<Incoming>) -> Answering + Clone {
    move |request| {
        activity.note();
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(api::Peer(peer));
        api::end_path_with_slash(&mut request);
        let answering = tower::Service::call(&mut app.clone(), request);
        let activity = activity.clone();
        let answered = async move {
            let response = answering.await?;
            activity.note();
            Ok(response.map(|body| Answer { body, activity }))
        };
        Box::pin(answered)
    }
}

/// A body that says when the other side takes some of it.
struct Answer {
    body: Body,
    activity: Arc<Activity>,
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(HttpBody::poll_frame(Pin::new(&mut self.body), cx));
        self.activity.note();
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        HttpBody::is_end_stream(&self.body)
    }

    fn size_hint(&self) -> SizeHint {
        HttpBody::size_hint(&self.body)
    }
}

/// How many connections each network has open.
#[derive(Debug, Clone, Default)]
struct Networks(Arc<Mutex<HashMap<IpAddr, usize>>>);

/// The place of one connection, given back when dropped. Those of proxies are not counted.
struct Place(Option<(Networks, IpAddr)>);

impl Networks {
    fn enter(&self, address: IpAddr, limits: &Limits) -> Option<Place> {
        let is_proxy = |proxies: &IpNet| proxies.contains(&address.to_canonical());
        if limits.proxies.iter().any(is_proxy) {
            return Some(Place(None));
        }
        let network = network(address);
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.entry(network).or_default();
        if *count >= limits.of_network {
            return None;
        }
        *count += 1;
        Some(Place(Some((self.clone(), network))))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some((networks, network)) = &self.0 else { return };
        let mut open = networks.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = open.get_mut(network) {
            *count -= 1;
            if *count == 0 {
                open.remove(network);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    const SOON: Duration = Duration::from_secs(10);
    /// The first bytes of HTTP/2 and an empty frame of settings.
    const HTTP2: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    const ASK: &[u8] = b"GET / HTTP/1.1\r\nHost: hedgerow.test\r\n\r\n";

    fn short(change: impl FnOnce(&mut Limits)) -> Limits {
        let mut limits = Limits {
            closing: Duration::from_millis(100),
            ..Limits::default()
        };
        change(&mut limits);
        limits
    }

    async fn serve(app: Router, limits: Limits) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(accept(listener, app, limits, CancellationToken::new()));
        address
    }

    fn hello() -> Router {
        Router::new().route("/", get(async || "hello"))
    }

    async fn connect(address: SocketAddr, first: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(first).await.unwrap();
        stream
    }

    /// Reads until the server closes the connection, which it must do soon.
    async fn closed(mut stream: TcpStream) -> Vec<u8> {
        let mut read = Vec::new();
        // A reset is as good an end as any.
        let _ = timeout(SOON, stream.read_to_end(&mut read))
            .await
            .expect("it is closed");
        read
    }

    async fn is_served(stream: &mut TcpStream) -> bool {
        let mut answer = [0; 15];
        let read = timeout(SOON, stream.read_exact(&mut answer))
            .await
            .expect("an answer, or an end");
        read.is_ok() && &answer == b"HTTP/1.1 200 OK"
    }

    #[tokio::test]
    async fn an_idle_connection_is_closed() {
        let idle = |limits: &mut Limits| limits.idle = Duration::from_millis(200);
        let address = serve(hello(), short(idle)).await;
        let answered = closed(connect(address, ASK).await).await;
        assert!(answered.starts_with(b"HTTP/1.1 200 OK"));
        let header = |limits: &mut Limits| limits.header = Duration::from_millis(200);
        let address = serve(hello(), short(header)).await;
        for beginning in [HTTP2, ASK, b"", b"GET / HT"] {
            closed(connect(address, beginning).await).await;
        }
    }

    /// One request over HTTP/2, answered whole; then the client answers every ping, but asks nothing more.
    #[tokio::test]
    async fn an_idle_connection_is_closed_although_it_answers_pings() {
        let limits = short(|limits| {
            limits.idle = Duration::from_millis(300);
            limits.ping = Duration::from_millis(100);
        });
        let address = serve(hello(), limits).await;
        // GET http / with the static table: fields 2, 6, 4, and an authority.
        let headers = b"\0\0\x06\x01\x05\0\0\0\x01\x82\x86\x84\x41\x01h";
        let mut stream = connect(address, &[HTTP2, headers].concat()).await;
        let mut pings = 0;
        let conversation = async {
            let mut head = [0; 9];
            while stream.read_exact(&mut head).await.is_ok() {
                let length = usize::from(u16::from_be_bytes([head[1], head[2]]));
                let mut payload = vec![0; length];
                if stream.read_exact(&mut payload).await.is_err() {
                    break;
                }
                if head[3] == 6 && head[4] == 0 {
                    pings += 1;
                    head[4] = 1;
                    let _ = stream.write_all(&[&head[..], &payload].concat()).await;
                }
            }
        };
        timeout(SOON, conversation).await.expect("it is closed");
        assert!(pings > 0, "it was asked whether it is there");
    }

    #[tokio::test]
    async fn who_answers_no_ping_is_gone() {
        let limits = short(|limits| {
            limits.ping = Duration::from_millis(100);
            limits.header = Duration::from_mins(1);
        });
        let address = serve(hello(), limits).await;
        closed(connect(address, HTTP2).await).await;
    }

    #[tokio::test]
    async fn who_never_reads_an_answer_is_gone() {
        const ANSWER: usize = 64 * 1024 * 1024;
        let app = Router::new().route("/", get(async || vec![b'x'; ANSWER]));
        let limits = short(|limits| limits.write = Duration::from_millis(200));
        let address = serve(app, limits).await;
        let stream = connect(address, ASK).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let read = closed(stream).await.len();
        assert!(read < ANSWER, "all of it came after all");
    }

    #[tokio::test]
    async fn a_network_has_so_many_connections_and_proxies_as_many_as_they_like() {
        let limits = short(|limits| limits.of_network = 3);
        let behind_proxy = Limits {
            proxies: vec!["127.0.0.0/8".parse().unwrap()],
            ..limits.clone()
        };
        let address = serve(hello(), limits).await;
        let mut open = Vec::new();
        for _ in 0..3 {
            let mut stream = connect(address, ASK).await;
            assert!(is_served(&mut stream).await);
            open.push(stream);
        }
        let mut fourth = TcpStream::connect(address).await.unwrap();
        let _ = fourth.write_all(ASK).await;
        assert!(!is_served(&mut fourth).await);
        drop(open.pop());
        let asked = Instant::now();
        loop {
            let mut next = TcpStream::connect(address).await.unwrap();
            let _ = next.write_all(ASK).await;
            if is_served(&mut next).await {
                break;
            }
            assert!(asked.elapsed() < SOON, "what was closed is free again");
        }
        let address = serve(hello(), behind_proxy).await;
        let mut open = Vec::new();
        for _ in 0..10 {
            let mut stream = connect(address, ASK).await;
            assert!(is_served(&mut stream).await);
            open.push(stream);
        }
    }

    #[test]
    fn addresses_of_one_network_count_together() {
        let (networks, limits) = (Networks::default(), short(|limits| limits.of_network = 1));
        let enter = |text: &str| networks.enter(text.parse().unwrap(), &limits);
        let first = enter("2001:db8:1:2::1");
        assert!(first.is_some());
        assert!(enter("2001:db8:1:2:ffff::9").is_none());
        assert!(enter("2001:db8:1:3::1").is_some());
        assert!(enter("192.0.2.1").is_some());
        drop(first);
        assert!(enter("2001:db8:1:2:ffff::9").is_some());
        assert!(networks.0.lock().unwrap().is_empty());
    }
}
