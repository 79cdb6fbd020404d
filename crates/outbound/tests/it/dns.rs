use std::net::SocketAddr;
use std::time::{Duration, Instant};

use hickory_resolver::proto::op::{Message, MessageType, ResponseCode};
use hickory_resolver::proto::rr::rdata::{CNAME, TXT};
use hickory_resolver::proto::rr::{Name, RData, Record};
use outbound::{Dns, DnsError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UdpSocket};

fn record(name: &str, data: RData) -> Record {
    Record::from_rdata(Name::from_ascii(name).unwrap(), 60, data)
}

fn txt(name: &str, strings: &[&str]) -> Record {
    record(
        name,
        RData::TXT(TXT::new(strings.iter().map(ToString::to_string).collect())),
    )
}

/// What the zone says about a name; nothing at all for `silent`.
fn answer(query: &[u8], over_tcp: bool) -> Option<Vec<u8>> {
    let mut message = Message::from_vec(query).unwrap();
    message.metadata.message_type = MessageType::Response;
    let name = message.queries[0].name().to_ascii();
    let name = name.as_str();
    match name {
        "silent.example.org." => return None,
        "one.example.org." => message.answers = vec![txt(name, &["proof"])],
        "split.example.org." => message.answers = vec![txt(name, &["first ", "second ", "third"])],
        "many.example.org." => message.answers = vec![txt(name, &["v=spf1 -all"]), txt(name, &["proof"])],
        "alias.example.org." => {
            let target = Name::from_ascii("one.example.org.").unwrap();
            message.answers = vec![
                record(name, RData::CNAME(CNAME(target))),
                txt("one.example.org.", &["proof"]),
            ];
        }
        // The alias alone, as a server answers that does not know the target's zone.
        "half.example.org." => {
            let target = Name::from_ascii("one.example.org.").unwrap();
            message.answers = vec![record(name, RData::CNAME(CNAME(target)))];
        }
        "long.example.org." if over_tcp => {
            message.answers = (0..30).map(|_| txt(name, &["x".repeat(200).as_str()])).collect();
        }
        "long.example.org." => message.metadata.truncation = true,
        "empty.example.org." => {}
        "failing.example.org." => message.metadata.response_code = ResponseCode::ServFail,
        "refused.example.org." => message.metadata.response_code = ResponseCode::Refused,
        _ => message.metadata.response_code = ResponseCode::NXDomain,
    }
    Some(message.to_vec().unwrap())
}

/// A name server on one port, over UDP and TCP.
async fn server() -> SocketAddr {
    let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = tcp.local_addr().unwrap();
    let udp = UdpSocket::bind(address).await.unwrap();
    tokio::spawn(async move {
        let mut query = [0; 4096];
        loop {
            let (length, from) = udp.recv_from(&mut query).await.unwrap();
            if let Some(answer) = answer(&query[..length], false) {
                udp.send_to(&answer, from).await.unwrap();
            }
        }
    });
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = tcp.accept().await.unwrap();
            while let Ok(length) = stream.read_u16().await {
                let mut query = vec![0; usize::from(length)];
                stream.read_exact(&mut query).await.unwrap();
                let Some(answer) = answer(&query, true) else { continue };
                stream.write_u16(answer.len().try_into().unwrap()).await.unwrap();
                stream.write_all(&answer).await.unwrap();
            }
        }
    });
    address
}

async fn client() -> Dns {
    Dns::new(&[server().await]).unwrap()
}

#[tokio::test]
async fn records_are_found_however_they_are_written() {
    let dns = client().await;
    for (name, expected) in [
        ("one.example.org", vec!["proof"]),
        ("one.example.org.", vec!["proof"]),
        ("ONE.example.ORG", vec!["proof"]),
        ("split.example.org", vec!["first second third"]),
        ("many.example.org", vec!["v=spf1 -all", "proof"]),
        ("alias.example.org", vec!["proof"]),
        ("half.example.org", vec!["proof"]),
    ] {
        let mut found = dns.txt(name).await.unwrap();
        found.sort_by_key(|text| expected.iter().position(|known| known == text));
        assert_eq!(found, expected, "{name}");
    }
}

#[tokio::test]
async fn a_long_answer_is_fetched_over_tcp() {
    assert_eq!(client().await.txt("long.example.org").await.unwrap().len(), 30);
}

#[tokio::test]
async fn each_kind_of_nothing_has_its_own_error() {
    let dns = client().await;
    for (name, code) in [
        ("empty.example.org", "dns_no_record"),
        ("absent.example.org", "dns_no_such_name"),
        ("refused.example.org", "dns_refused"),
        ("failing.example.org", "dns_failure"),
        ("a..b", "dns_bad_name"),
    ] {
        let error = dns.txt(name).await.unwrap_err();
        assert_eq!(error.code(), code);
        assert!(error.to_string().contains(name), "{error}");
    }
}

#[tokio::test]
async fn what_is_no_name_is_an_error() {
    let dns = client().await;
    let long = "x".repeat(64);
    let longer = vec!["x".repeat(60); 5].join(".");
    for name in [
        "",
        ".",
        "..",
        "a..b",
        "\\",
        "\0",
        "a b\n",
        long.as_str(),
        longer.as_str(),
        "\u{202e}.example.org",
    ] {
        assert!(dns.txt(name).await.is_err(), "{name:?}");
    }
}

#[tokio::test]
async fn silence_ends_within_five_seconds() {
    let address = server().await;
    // Two silent servers, so that trying one after the other is bounded too.
    let dns = Dns::new(&[address, server().await]).unwrap();
    let started = Instant::now();
    let error = dns.txt("silent.example.org").await.unwrap_err();
    assert!(matches!(error, DnsError::Timeout(_)), "{error:?}");
    assert!(started.elapsed() < Duration::from_millis(5_500));
}

#[tokio::test]
async fn a_second_server_answers_for_a_dead_one() {
    // Bound and dropped: nobody listens there.
    let dead = UdpSocket::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let dns = Dns::new(&[dead, server().await]).unwrap();
    assert_eq!(dns.txt("one.example.org").await.unwrap(), ["proof"]);
}
