use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::{any, get};
use futures_util::stream;
use http::Request;
use outbound::{Dialer, Http, HttpError, Policy, Resolve, Roots, Rule};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// 127.0.0.1 stands for the places we may reach; the rest of 127/8 for those we may not.
fn policy() -> Policy {
    Policy::new(vec!["127.0.0.1/32".parse().unwrap()])
}

fn client() -> Http {
    Http::new(Dialer::new(policy()), &Roots::public()).unwrap()
}

async fn serve(router: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

/// Answers every connection with the same bytes, over and over until the client has had enough.
async fn repeat(first: &'static [u8], again: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let _ = stream.read(&mut [0; 1024]).await;
                let mut piece = first;
                while stream.write_all(piece).await.is_ok() {
                    piece = again;
                }
            });
        }
    });
    address
}

fn redirect<S: Into<String>>(to: S) -> impl IntoResponse + use<S> {
    (StatusCode::FOUND, [(header::LOCATION, to.into())])
}

fn rule(outcome: Result<http::Response<Vec<u8>>, HttpError>) -> Rule {
    match outcome {
        Err(HttpError::Refused(refusal)) => refusal.rule,
        other => panic!("not refused: {other:?}"),
    }
}

/// Security case A1: whoever writes an app could open as many connections as they like, and have them all kept.
#[tokio::test]
async fn connections_of_somebodys_programs_end_with_the_exchange() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let ended = Arc::new(AtomicUsize::new(0));
    let seen = ended.clone();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let seen = seen.clone();
            tokio::spawn(async move {
                while stream.read(&mut [0; 1024]).await.is_ok_and(|read| read > 0) {
                    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
                    stream.write_all(answer).await.unwrap();
                }
                seen.fetch_add(1, Ordering::Relaxed);
            });
        }
    });
    let ask = async |client: Http| {
        let request = Request::get(&url).body(Vec::new()).unwrap();
        assert_eq!(client.send(request).await.unwrap().status(), 200);
    };
    let (programs, server) = (client().of_programs(1), client().of(1));
    for _ in 0..3 {
        ask(programs.clone()).await;
        ask(server.clone()).await;
    }
    for _ in 0..200 {
        tokio::time::sleep(Duration::from_millis(10)).await;
        if ended.load(Ordering::Relaxed) == 3 {
            break;
        }
    }
    assert_eq!(ended.load(Ordering::Relaxed), 3);
}

#[tokio::test]
async fn a_request_arrives_as_written_but_for_headers_that_steer_it() {
    let echo = any(async |headers: HeaderMap, body: String| {
        let show = |name| headers[name].to_str().unwrap().to_owned();
        format!("{} {} {} {body}", show("host"), show("x-kept"), show("user-agent"))
    });
    let address = serve(Router::new().route("/echo", echo)).await;
    let request = Request::post(format!("http://{address}/echo"))
        .header("host", "internal.example")
        .header("transfer-encoding", "chunked")
        .header("x-kept", "kept")
        .body(b"hello".to_vec());
    let response = client().send(request.unwrap()).await.unwrap();
    let expected = format!("{address} kept hedgerow/{} hello", env!("CARGO_PKG_VERSION"));
    assert_eq!(
        (response.status().as_u16(), response.body().as_slice()),
        (200, expected.as_bytes())
    );
}

#[tokio::test]
async fn a_failure_of_the_server_is_a_response() {
    let address = serve(Router::new()).await;
    let response = client()
        .get(&format!("http://{address}/nothing"), "*/*", 100)
        .await
        .unwrap();
    assert_eq!(response.status(), 404);
}

#[tokio::test]
async fn redirects_are_not_followed_unless_asked() {
    let router = Router::new()
        .route("/from", get(async || redirect("/to")))
        .route("/to", get(async || "arrived"));
    let url = format!("http://{}/from", serve(router).await);
    assert_eq!(client().get(&url, "*/*", 100).await.unwrap().status(), 302);
    let followed = client().following(1).get(&url, "*/*", 100).await.unwrap();
    assert_eq!(followed.body(), b"arrived");
}

/// N3: each step of a redirect is judged like a first request.
#[tokio::test]
async fn redirects_lead_nowhere_that_a_first_request_may_not_go() {
    use outbound::policy::Network;
    let there = get(async |uri: axum::http::Uri| redirect(uri.query().unwrap_or_default().to_owned()));
    let address = serve(Router::new().route("/to", there)).await;
    for (target, expected) in [
        ("http://127.0.0.2/", Rule::Address(Network::Loopback)),
        ("https://169.254.169.254/latest/", Rule::Address(Network::LinkLocal)),
        ("https://[::ffff:10.0.0.1]/", Rule::Address(Network::Embedded)),
        ("https://2130706434/", Rule::Address(Network::Loopback)),
        ("//127.0.0.2/", Rule::Address(Network::Loopback)),
        ("http://example.com/", Rule::PlainHttp),
        ("https://user@example.com/", Rule::UserInfo),
        ("file:///etc/passwd", Rule::Scheme),
    ] {
        let outcome = client()
            .following(3)
            .get(&format!("http://{address}/to?{target}"), "*/*", 100)
            .await;
        assert_eq!(rule(outcome), expected, "{target}");
    }
}

#[tokio::test]
async fn a_client_for_some_hosts_asks_no_others_and_follows_nobody_there() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let there = get(async move |uri: axum::http::Uri| {
        counted.fetch_add(1, Ordering::SeqCst);
        redirect(uri.query().unwrap_or_default().to_owned())
    });
    let address = serve(Router::new().route("/to", there)).await;
    let only = |host: &'static str| client().following(3).only_to(move |asked| asked == host);
    let url = format!("http://{address}/to?https://other.example/");
    for (client, refused, requests) in [
        (only("127.0.0.1"), "other.example", 1),
        (only("a.example"), "127.0.0.1", 1),
    ] {
        let error = client.get(&url, "*/*", 100).await.expect_err("refused");
        assert!(
            matches!(&error, HttpError::HostNotAllowed { host } if host == refused),
            "{error:?}"
        );
        assert_eq!(asked.load(Ordering::SeqCst), requests);
    }
}

#[tokio::test]
async fn a_circle_of_redirects_ends() {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let circle = get(async move || {
        counted.fetch_add(1, Ordering::SeqCst);
        redirect("/")
    });
    let address = serve(Router::new().route("/", circle)).await;
    let outcome = client()
        .following(3)
        .get(&format!("http://{address}/"), "*/*", 100)
        .await;
    assert_eq!(rule(outcome), Rule::TooManyRedirects);
    assert_eq!(count.load(Ordering::SeqCst), 4);
}

#[tokio::test]
async fn a_request_that_changes_something_is_not_repeated_elsewhere() {
    let address = serve(Router::new().route("/", any(async || redirect("/other")))).await;
    let request = Request::post(format!("http://{address}/")).body(vec![]).unwrap();
    assert_eq!(client().following(3).send(request).await.unwrap().status(), 302);
}

#[tokio::test]
async fn credentials_stay_with_the_origin_they_were_meant_for() {
    let show = get(async |headers: HeaderMap| format!("{}", headers.contains_key("authorization")));
    let other = serve(Router::new().route("/show", show.clone())).await;
    let router = Router::new()
        .route("/show", show)
        .route("/same", get(async || redirect("/show")))
        .route("/other", get(async move || redirect(format!("http://{other}/show"))));
    let address = serve(router).await;
    for (path, arrives) in [("same", "true"), ("other", "false")] {
        let request = Request::get(format!("http://{address}/{path}")).header("authorization", "Bearer secret");
        let response = client().following(1).send(request.body(vec![]).unwrap()).await.unwrap();
        assert_eq!(response.body(), arrives.as_bytes(), "{path}");
    }
}

/// Many hosts have a header of their own for it, so only those travel that carry no secret by their nature.
#[tokio::test]
async fn headers_of_the_callers_own_stay_with_their_origin_too() {
    let show = get(async |headers: HeaderMap| {
        let names = ["x-api-key", "accept-language", "accept"];
        names.map(|name| headers.contains_key(name).to_string()).join(" ")
    });
    let other = serve(Router::new().route("/show", show.clone())).await;
    let router = Router::new()
        .route("/show", show)
        .route("/same", get(async || redirect("/show")))
        .route("/other", get(async move || redirect(format!("http://{other}/show"))));
    let address = serve(router).await;
    for (path, arrives) in [("same", "true true true"), ("other", "false false true")] {
        let mut token = http::HeaderValue::from_static("secret");
        token.set_sensitive(true);
        let request = Request::get(format!("http://{address}/{path}"))
            .header("x-api-key", "secret")
            .header("accept-language", token)
            .header("accept", "text/plain");
        let response = client().following(1).send(request.body(vec![]).unwrap()).await.unwrap();
        assert_eq!(response.body(), arrives.as_bytes(), "{path}");
    }
}

/// N8
/// Tells when the last of it is dropped.
struct Watched(Vec<u8>, Arc<AtomicUsize>);

impl AsRef<[u8]> for Watched {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.1.fetch_add(1, Ordering::SeqCst);
    }
}

/// The connection stays open, and the body would stay in its buffer.
#[tokio::test]
async fn a_body_that_nobody_reads_is_dropped_with_the_exchange() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.peek(&mut [0]).await.unwrap();
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            .await
            .unwrap();
        stream
    });
    let dropped = Arc::new(AtomicUsize::new(0));
    let body = Watched(vec![b'x'; 32 << 20], dropped.clone());
    let request = Request::post(url).body(bytes::Bytes::from_owner(body)).unwrap();
    let response = client().open(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(dropped.load(Ordering::SeqCst), 1);
    drop((response, server.await.unwrap()));
}

#[tokio::test]
async fn a_long_body_arrives_whole_and_with_its_length() {
    let lengths = |headers: HeaderMap, body: axum::body::Bytes| async move {
        assert!(body.iter().all(|byte| *byte == b'x'), "as it was sent");
        format!("{:?} {}", headers.get(header::CONTENT_LENGTH), body.len())
    };
    let limit = axum::extract::DefaultBodyLimit::disable();
    let address = serve(Router::new().route("/", any(lengths)).layer(limit)).await;
    for length in [1, 16 << 10, (16 << 10) + 1, 5_000_001] {
        let request = Request::post(format!("http://{address}/"))
            .body(vec![b'x'; length])
            .unwrap();
        let response = client().send(request).await.unwrap();
        let said = String::from_utf8(response.into_body()).unwrap();
        assert_eq!(said, format!("Some(\"{length}\") {length}"));
    }
}

#[tokio::test]
async fn an_endless_body_is_cut_off_at_the_limit() {
    let endless = get(async || Body::from_stream(stream::repeat_with(|| Ok::<_, io::Error>(vec![b'x'; 1024]))));
    let address = serve(Router::new().route("/", endless)).await;
    let error = client()
        .get(&format!("http://{address}/"), "*/*", 100_000)
        .await
        .unwrap_err();
    assert!(matches!(error, HttpError::TooLarge { limit: 100_000, .. }), "{error:?}");
}

/// N8
#[tokio::test]
async fn a_body_may_be_exactly_as_large_as_the_limit() {
    let address = serve(Router::new().route("/", get(async || "12345"))).await;
    let url = format!("http://{address}/");
    assert!(client().get(&url, "*/*", 5).await.is_ok());
    assert!(client().get(&url, "*/*", 4).await.is_err());
}

/// N8: a byte now and then keeps no connection alive.
#[tokio::test]
async fn a_body_that_trickles_is_cut_off_in_time() {
    let trickle = get(async || {
        Body::from_stream(stream::unfold((), |()| async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            Some((Ok::<_, io::Error>("x"), ()))
        }))
    });
    let address = serve(Router::new().route("/", trickle)).await;
    let started = Instant::now();
    let short = client().within(Duration::from_millis(300));
    let error = short
        .get(&format!("http://{address}/"), "*/*", 1_000_000)
        .await
        .unwrap_err();
    assert!(matches!(error, HttpError::TooSlow { .. }), "{error:?}");
    assert!(started.elapsed() < Duration::from_secs(20));
}

/// N8: headers without end, as one, as many, and just more than we take.
#[tokio::test]
async fn headers_without_end_are_cut_off() {
    static BIG: [u8; 70_000] = [b'x'; 70_000];
    let first: &[u8] = b"HTTP/1.1 200 OK\r\nx-long: ";
    for address in [
        repeat(first, b"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx").await,
        repeat(b"HTTP/1.1 200 OK\r\n", b"x-many: 1\r\n").await,
        serve(Router::new().route("/", get(async || [("x-big", str::from_utf8(&BIG).unwrap())]))).await,
    ] {
        let outcome = client()
            .within(Duration::from_secs(20))
            .get(&format!("http://{address}/"), "*/*", 100)
            .await;
        let error = outcome.unwrap_err();
        assert!(
            matches!(error, HttpError::Broken { .. } | HttpError::TooLarge { .. }),
            "{error:?}"
        );
    }
}

/// N7: an error quotes neither the response nor an address that was not in the URL.
#[tokio::test]
async fn errors_do_not_quote_the_other_side() {
    let address = repeat(b"SECRET-BANNER of an internal service\r\n\r\n", b"SECRET").await;
    let url = format!("http://localhost:{}/?token=t0k3n", address.port());
    let error = client().get(&url, "*/*", 100).await.unwrap_err();
    let shown = error.to_string();
    assert!(
        !shown.contains("SECRET") && !shown.contains("127.") && !shown.contains("t0k3n"),
        "{shown}"
    );
    assert!(
        !format!("{error:?}").contains("t0k3n"),
        "the log does not learn it either"
    );
}

/// Gives another answer each time.
struct Fickle(Mutex<Vec<IpAddr>>);

#[async_trait::async_trait]
impl Resolve for Fickle {
    async fn resolve(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        Ok(vec![self.0.lock().unwrap().remove(0)])
    }
}

/// N2, with real connections: only 127.0.0.1 may be dialed, and 127.0.0.2 listens on the same port.
#[tokio::test]
async fn a_name_that_moves_is_followed_only_to_checked_addresses() {
    let bye = || get(async || ([(header::CONNECTION, "close")], "right"));
    let right = serve(Router::new().route("/", bye())).await;
    let wrong = TcpListener::bind(("127.0.0.2", right.port())).await.unwrap();
    let answers = ["127.0.0.1", "127.0.0.2"].map(|address| address.parse().unwrap());
    let dialer = Dialer::with_names(policy(), Arc::new(Fickle(Mutex::new(answers.into()))));
    let client = Http::new(dialer, &Roots::public()).unwrap();
    let url = format!("http://localhost:{}/", right.port());

    assert_eq!(client.get(&url, "*/*", 100).await.unwrap().body(), b"right");
    assert_eq!(rule(client.get(&url, "*/*", 100).await), Rule::ResolvedAddress);
    let accepted = tokio::time::timeout(Duration::from_millis(100), wrong.accept()).await;
    assert!(accepted.is_err(), "the refused address was dialed");
}

/// Looks names up for single callers alone.
struct OfCallers;

#[async_trait::async_trait]
impl Resolve for OfCallers {
    async fn resolve(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        Err(io::Error::other("nobody in particular asked"))
    }

    fn of(&self, _: u128) -> Option<Arc<dyn Resolve>> {
        let here = "127.0.0.1".parse().unwrap();
        Some(Arc::new(Fickle(Mutex::new(vec![here]))))
    }
}

#[tokio::test]
async fn names_are_looked_up_for_the_caller() {
    let bye = get(async || ([(header::CONNECTION, "close")], "here"));
    let address = serve(Router::new().route("/", bye)).await;
    let dialer = Dialer::with_names(policy(), Arc::new(OfCallers));
    let client = Http::new(dialer, &Roots::public()).unwrap();
    let url = format!("http://localhost:{}/", address.port());
    assert!(client.get(&url, "*/*", 100).await.is_err());
    for caller in [1, 2] {
        let own = client.clone().of(caller);
        assert_eq!(own.get(&url, "*/*", 100).await.unwrap().body(), b"here");
    }
}

struct Counted(AtomicUsize);

#[async_trait::async_trait]
impl outbound::Meter for Counted {
    async fn take(&self, piece: &[u8]) {
        self.0.fetch_add(piece.len(), Ordering::SeqCst);
        if self.0.load(Ordering::SeqCst) > 1000 {
            std::future::pending::<()>().await;
        }
    }
}

#[tokio::test]
async fn a_body_waits_for_room_before_it_is_kept() {
    let router = Router::new().route("/{length}", get(async |Path(length): Path<usize>| "x".repeat(length)));
    let address = serve(router).await;
    let meter = Arc::new(Counted(AtomicUsize::new(0)));
    let client = client().metered_by(meter.clone()).within(Duration::from_millis(300));
    let get = async |length: usize| client.get(&format!("http://{address}/{length}"), "*/*", 5000).await;
    assert_eq!(get(900).await.unwrap().body().len(), 900);
    assert_eq!(meter.0.load(Ordering::SeqCst), 900);
    assert!(matches!(get(200).await, Err(HttpError::TooSlow { .. })));
}

/// N1: an address in the URL never reaches the look-up of names, so it is refused before.
#[tokio::test]
async fn an_address_in_the_url_is_refused_in_every_spelling() {
    let closed = Http::new(Dialer::new(Policy::default()), &Roots::public()).unwrap();
    let address = serve(Router::new().route("/", get(async || "inside"))).await;
    let port = address.port();
    for host in [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f.1",
        "0177.0.0.1",
        "[::ffff:127.0.0.1]",
        "localhost",
        "localhost.",
    ] {
        for scheme in ["http", "https"] {
            let outcome = closed.get(&format!("{scheme}://{host}:{port}/"), "*/*", 100).await;
            assert!(
                matches!(outcome, Err(HttpError::Refused(_))),
                "{scheme} {host}: {outcome:?}"
            );
        }
    }
}
