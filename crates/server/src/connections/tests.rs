use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::routing::get;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;

use super::*;

const SOON: Duration = Duration::from_secs(10);
/// The first bytes of HTTP/2 and an empty frame of settings.
const HTTP2: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
const ASK_ONCE: &[u8] = b"GET / HTTP/1.1\r\nHost: hedgerow.test\r\nConnection: close\r\n\r\n";
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

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// The headers of a POST to / whose body is yet to come, on so many streams.
fn posts(streams: u32) -> Vec<u8> {
    let posts = (0..streams).flat_map(|number| frame(1, 4, 2 * number + 1, b"\x83\x86\x84\x41\x01h"));
    [HTTP2.to_vec(), posts.collect()].concat()
}

/// The next frame: its kind, its stream, its flags and how long it is.
async fn next_frame(stream: &mut TcpStream) -> std::io::Result<(u8, u32, u8, usize)> {
    let mut head = [0; 9];
    stream.read_exact(&mut head).await?;
    let length = usize::from(u16::from_be_bytes([head[1], head[2]]));
    stream.read_exact(&mut vec![0; length]).await?;
    let number = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
    Ok((head[3], number, head[4], length))
}

/// Of each frame that comes until there is silence: its kind and its stream.
async fn frames(stream: &mut TcpStream) -> Vec<(u8, u32)> {
    let mut seen = Vec::new();
    while let Ok(Ok((kind, number, ..))) = timeout(Duration::from_millis(500), next_frame(stream)).await {
        seen.push((kind, number));
    }
    seen
}

/// Reads until there is a frame of this kind on this stream.
async fn wait_for(stream: &mut TcpStream, wanted: (u8, u32)) {
    let found = async {
        while let (kind, number, ..) = next_frame(stream).await.unwrap()
            && (kind, number) != wanted
        {}
    };
    timeout(3 * SOON, found).await.expect("it comes");
}

/// Waits for the body of each request, which never comes, and counts those that were let in.
fn patient() -> (Router, Arc<AtomicU64>) {
    let asked = Arc::new(AtomicU64::new(0));
    let count = asked.clone();
    let wait = async move |body: Body| {
        count.fetch_add(1, Ordering::Relaxed);
        let _ = axum::body::to_bytes(body, 1000).await;
    };
    (Router::new().route("/", axum::routing::post(wait)), asked)
}

#[tokio::test]
async fn a_network_has_so_many_requests_under_way_over_all_its_streams() {
    let (app, asked) = patient();
    let address = serve(app, short(|limits| limits.requests_of_network = 50)).await;
    let (mut open, mut answered) = (Vec::new(), 0);
    for _ in 0..3 {
        let mut stream = connect(address, &posts(30)).await;
        let seen = frames(&mut stream).await;
        answered += seen.iter().filter(|(kind, _)| *kind == 1).count();
        open.push(stream);
    }
    assert_eq!((asked.load(Ordering::Relaxed), answered), (50, 40));
    drop(open);
    let begun = Instant::now();
    while asked.load(Ordering::Relaxed) < 51 {
        let mut stream = connect(address, &posts(1)).await;
        frames(&mut stream).await;
        assert!(begun.elapsed() < SOON, "what has ended makes room");
    }
}

#[tokio::test]
async fn a_connection_has_so_many_streams() {
    let (app, asked) = patient();
    let address = serve(app, short(|_| {})).await;
    let mut stream = connect(address, &posts(STREAMS + 8)).await;
    let seen = frames(&mut stream).await;
    let resets = seen.iter().filter(|(kind, _)| *kind == 3).count();
    assert_eq!((asked.load(Ordering::Relaxed), resets), (STREAMS.into(), 8), "{seen:?}");
}

/// As much as HTTP/1 reads ahead: what is not read yet is in nobody's budget.
#[tokio::test]
async fn little_of_a_body_is_taken_before_it_is_read() {
    let address = serve(hello(), short(|_| {})).await;
    let mut stream = connect(address, HTTP2).await;
    let mut head = [0; 9];
    stream.read_exact(&mut head).await.unwrap();
    assert_eq!(head[3], 4, "settings come first");
    let mut settings = vec![0; usize::from(u16::from_be_bytes([head[1], head[2]]))];
    stream.read_exact(&mut settings).await.unwrap();
    let mut settings = settings.chunks_exact(6);
    let window = settings.find(|setting| setting.starts_with(&[0, 4])).unwrap();
    assert_eq!(window[2..], 65_536_u32.to_be_bytes());
}

/// A long field is sent once and then named by its number: 1 byte on the wire, 3,000 in memory.
#[tokio::test]
async fn headers_that_unfold_are_refused() {
    let (app, asked) = patient();
    let address = serve(app, short(|_| {})).await;
    let post = |repeated: usize| {
        let field = [b"\x40\x01x\x7f\xb9\x16".as_slice(), &[b'v'; 3000]].concat();
        [b"\x83\x86\x84\x41\x01h".to_vec(), field, vec![0xbe; repeated]].concat()
    };
    let ask = [HTTP2.to_vec(), frame(1, 4, 1, &post(2)), frame(1, 4, 3, &post(10))].concat();
    let mut stream = connect(address, &ask).await;
    let answered = frames(&mut stream).await;
    assert_eq!(asked.load(Ordering::Relaxed), 1, "{answered:?}");
    let fields = format!("X-Long: {}\r\n", "v".repeat(1000)).repeat(90);
    let ask = format!("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n{fields}\r\n");
    let mut stream = TcpStream::connect(address).await.unwrap();
    let _ = stream.write_all(ask.as_bytes()).await;
    assert!(!is_served(&mut stream).await);
    assert_eq!(asked.load(Ordering::Relaxed), 1);
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

/// A long answer that says when it is gone.
struct Long(Arc<AtomicU64>);

const LONG: usize = 1024 * 1024;
static CONTENTS: [u8; LONG] = [b'x'; LONG];

impl AsRef<[u8]> for Long {
    fn as_ref(&self) -> &[u8] {
        &CONTENTS
    }
}

impl Drop for Long {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Answers long, and counts how many answers are gone.
fn long_answers() -> (Router, Arc<AtomicU64>) {
    let gone = Arc::new(AtomicU64::new(0));
    let count = gone.clone();
    let answer = async move || Body::from(Bytes::from_owner(Long(count.clone())));
    (Router::new().route("/", get(answer)), gone)
}

/// The first bytes of somebody who takes so many bytes of each answer, and no more unless they say so.
fn http2_with_window(window: u32) -> Vec<u8> {
    let settings = [&4_u16.to_be_bytes()[..], &window.to_be_bytes()].concat();
    [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), frame(4, 0, 0, &settings)].concat()
}

/// GET /, on this stream.
fn get_on(stream: u32) -> Vec<u8> {
    frame(1, 5, stream, b"\x82\x86\x84\x41\x01h")
}

/// Security case A1: unread answers are not kept for as long as something else happens on the connection.
#[tokio::test]
async fn an_answer_that_nobody_takes_is_given_up_although_others_are_asked_for() {
    for window in [0, 100] {
        let (app, gone) = long_answers();
        let app = app.route("/o", get(async || ()));
        let address = serve(app, short(|limits| limits.write = Duration::from_millis(100))).await;
        let mut stream = connect(address, &[http2_with_window(window), get_on(1)].concat()).await;
        let (begun, mut other) = (Instant::now(), 1);
        while gone.load(Ordering::Relaxed) == 0 {
            assert!(begun.elapsed() < 3 * SOON, "it is kept");
            other += 2;
            let ask = frame(1, 5, other, b"\x82\x86\x04\x02/o\x41\x01h");
            stream.write_all(&ask).await.unwrap();
            wait_for(&mut stream, (1, other)).await;
        }
        let more = frame(8, 0, 1, &(1_u32 << 24).to_be_bytes());
        stream.write_all(&more).await.unwrap();
        wait_for(&mut stream, (3, 1)).await;
    }
}

/// What was handed to HTTP/2 is kept by it, whole answers as well, until the other side takes them.
#[tokio::test]
async fn answers_that_nobody_takes_are_requests_under_way() {
    let app = Router::new().route("/", get(async || vec![b'x'; 10_000]));
    let address = serve(app, short(|limits| limits.requests_of_network = 20)).await;
    let asked: Vec<u8> = (0..20).flat_map(|number| get_on(2 * number + 1)).collect();
    let mut taking_none = connect(address, &[http2_with_window(1), asked].concat()).await;
    let mut begun = 0;
    while begun < 20 {
        let next = timeout(3 * SOON, next_frame(&mut taking_none)).await;
        begun += usize::from(next.unwrap().unwrap().0 == 0);
    }
    let refused = closed(connect(address, ASK_ONCE).await).await;
    assert!(refused.starts_with(b"HTTP/1.1 429"), "it has as many as it may");
    let more: Vec<u8> = (0..20)
        .flat_map(|number| frame(8, 0, 2 * number + 1, &(1_u32 << 20).to_be_bytes()))
        .collect();
    let all = frame(8, 0, 0, &(1_u32 << 20).to_be_bytes());
    taking_none.write_all(&[all, more].concat()).await.unwrap();
    let mut ended = 0;
    while ended < 20 {
        let next = timeout(3 * SOON, next_frame(&mut taking_none)).await;
        let (kind, _, flags, _) = next.unwrap().unwrap();
        ended += usize::from(kind == 0 && flags & 1 == 1);
    }
    let begun = Instant::now();
    while !closed(connect(address, ASK_ONCE).await)
        .await
        .starts_with(b"HTTP/1.1 200")
    {
        assert!(begun.elapsed() < 3 * SOON, "what was taken makes room");
    }
}

#[tokio::test]
async fn a_long_answer_arrives_whole_in_pieces() {
    let (app, gone) = long_answers();
    let address = serve(app, short(|_| {})).await;
    let more = |stream| frame(8, 0, stream, &(1_u32 << 24).to_be_bytes());
    let ask = [http2_with_window(0), get_on(1), more(0), more(1)].concat();
    let mut stream = connect(address, &ask).await;
    let (mut bytes, mut is_last) = (0, false);
    while !is_last {
        let next = timeout(3 * SOON, next_frame(&mut stream)).await;
        if let (0, 1, flags, length) = next.unwrap().unwrap() {
            bytes += length;
            is_last = flags & 1 == 1;
        }
    }
    assert_eq!(bytes, LONG);
    while gone.load(Ordering::Relaxed) == 0 {
        tokio::task::yield_now().await;
    }
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

/// Connects as another host: all of 127.0.0.0/8 is this machine.
async fn connect_as(host: u8, address: SocketAddr, first: &[u8]) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, host], 0).into()).unwrap();
    let mut stream = socket.connect(address).await.unwrap();
    stream.write_all(first).await.unwrap();
    stream
}

/// Reads a whole answer, which ends with `hello`, and leaves the connection as it is.
async fn is_answered(stream: &mut TcpStream) -> bool {
    let mut answer = Vec::new();
    while !answer.ends_with(b"hello") {
        let mut byte = [0];
        match timeout(SOON, stream.read(&mut byte))
            .await
            .expect("an answer, or an end")
        {
            Ok(1) => answer.extend(byte),
            _ => return false,
        }
    }
    true
}

/// There is room for nine connections, and for two more while others close.
fn small_room(limits: &mut Limits) {
    limits.connections = 11;
    limits.of_network = 3;
}

#[tokio::test]
async fn networks_that_have_all_places_keep_nobody_out() {
    let address = serve(hello(), short(small_room)).await;
    let mut open = Vec::new();
    for host in [11, 12, 13] {
        for _ in 0..3 {
            let mut stream = connect_as(host, address, ASK).await;
            assert!(is_answered(&mut stream).await);
            open.push(stream);
        }
    }
    let mut added = Vec::new();
    for host in 14..20 {
        let mut stream = connect_as(host, address, ASK).await;
        assert!(is_answered(&mut stream).await, "{host} finds a place");
        added.push(stream);
    }
    for stream in &mut added[..3] {
        stream.write_all(ASK).await.unwrap();
        assert!(is_answered(stream).await, "and keeps it while others have more");
    }
    let mut left = 0;
    for stream in &mut open {
        let _ = stream.write_all(ASK).await;
        left += usize::from(is_answered(stream).await);
    }
    assert_eq!(left, 3, "of fifteen, nine have a place");
}

/// One request over HTTP/2 each, and then silence: no ping is answered, and nothing is closed from that side.
#[tokio::test]
async fn who_does_not_go_when_told_is_cut() {
    let limits = short(|limits| {
        small_room(limits);
        limits.closing = Duration::from_mins(1);
    });
    let address = serve(hello(), limits).await;
    let get = frame(1, 5, 1, b"\x82\x86\x84\x41\x01h");
    let mut open = Vec::new();
    for host in [11, 12, 13] {
        for _ in 0..3 {
            let mut stream = connect_as(host, address, &[HTTP2, &get].concat()).await;
            let mut answer = Vec::new();
            while !answer.ends_with(b"hello") {
                let mut byte = [0];
                timeout(SOON, stream.read_exact(&mut byte)).await.unwrap().unwrap();
                answer.extend(byte);
            }
            open.push(stream);
        }
    }
    let mut added = Vec::new();
    for host in 14..20 {
        let mut stream = connect_as(host, address, ASK).await;
        assert!(is_answered(&mut stream).await, "{host} finds a place");
        added.push(stream);
    }
}

#[tokio::test]
async fn busy_connections_keep_nobody_out() {
    let (app, asked) = patient();
    let app = app.route("/hello", get(async || "hello"));
    let address = serve(app, short(small_room)).await;
    let mut open = Vec::new();
    for host in [11, 12, 13] {
        for _ in 0..3 {
            let post = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n";
            open.push(connect_as(host, address, post).await);
            let begun = Instant::now();
            while asked.load(Ordering::Relaxed) < open.len() as u64 && open.len() < 9 {
                assert!(begun.elapsed() < SOON);
                tokio::task::yield_now().await;
            }
        }
    }
    let mut added = Vec::new();
    for host in 14..20 {
        let ask = b"GET /hello HTTP/1.1\r\nHost: h\r\n\r\n";
        let mut stream = connect_as(host, address, ask).await;
        assert!(is_answered(&mut stream).await, "{host} finds a place");
        added.push(stream);
    }
}
