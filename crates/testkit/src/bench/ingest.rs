//! Load for `/batch/`: every connection sends again as soon as it is answered.

use std::net::SocketAddr;
use std::ops::Range;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use uuid::Uuid;

use super::rows::{distinct_id, name, properties, random};

/// Where to send, and how much.
#[derive(Debug, Clone, clap::Args)]
pub struct Load {
    #[arg(long)]
    pub address: SocketAddr,
    #[arg(long)]
    pub token: String,
    #[arg(long, default_value_t = 8)]
    pub connections: u64,
    #[arg(long, default_value_t = 15)]
    pub seconds: u64,
    /// Events in each request.
    #[arg(long, default_value_t = 500)]
    pub events: u64,
}

/// Sends until the time is over. Only what was answered with 200 counts.
pub async fn ingest(load: &Load) -> anyhow::Result<Value> {
    let begun = Instant::now();
    let end = begun + Duration::from_secs(load.seconds);
    let mut senders = JoinSet::new();
    for number in 0..load.connections {
        senders.spawn(send(load.clone(), number, end));
    }
    let mut waits = Vec::new();
    while let Some(sent) = senders.join_next().await {
        waits.extend(sent??);
    }
    let wall = begun.elapsed().as_secs_f64();
    waits.sort_unstable();
    let at = |share: usize| waits.get(waits.len() * share / 100).map(Duration::as_secs_f64);
    Ok(json!({
        "events": waits.len() as u64 * load.events, "wall": wall, "p50": at(50), "p99": at(99),
    }))
}

/// One connection; how long each answer took.
async fn send(load: Load, number: u64, end: Instant) -> anyhow::Result<Vec<Duration>> {
    let mut stream = TcpStream::connect(load.address).await?;
    stream.set_nodelay(true)?;
    let (mut request, ids) = request(&load, number);
    let mut waits = Vec::new();
    let mut id = random(number) ^ random(u64::from(std::process::id()));
    while Instant::now() < end {
        for place in &ids {
            id = random(id);
            let uuid = uuid::Builder::from_random_bytes(Uuid::from_u64_pair(id, random(!id)).into_bytes()).into_uuid();
            uuid.hyphenated().encode_lower(&mut request[place.clone()]);
        }
        let sent = Instant::now();
        stream.write_all(&request).await?;
        read_answer(&mut stream).await?;
        waits.push(sent.elapsed());
    }
    Ok(waits)
}

/// A request, and where its events' ids stand in it: each time others are written there.
fn request(load: &Load, connection: u64) -> (Vec<u8>, Vec<Range<usize>>) {
    let mut body = format!(r#"{{"api_key":"{}","batch":["#, load.token).into_bytes();
    let mut ids = Vec::new();
    for number in connection * load.events..(connection + 1) * load.events {
        if body.last() == Some(&b'}') {
            body.push(b',');
        }
        body.extend_from_slice(br#"{"uuid":""#);
        ids.push(body.len()..body.len() + 36);
        let rest = format!(
            r#"{}","event":"{}","distinct_id":"{}","timestamp":"2026-11-15T00:00:00Z","properties":{}}}"#,
            Uuid::nil(),
            name(number),
            distinct_id(number),
            properties(number)
        );
        body.extend_from_slice(rest.as_bytes());
    }
    body.extend_from_slice(b"]}");
    let head = format!(
        "POST /batch/ HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        load.address,
        body.len()
    );
    let ids = ids
        .into_iter()
        .map(|id| id.start + head.len()..id.end + head.len())
        .collect();
    ([head.into_bytes(), body].concat(), ids)
}

/// Reads one answer to its end, and refuses any but 200.
async fn read_answer(stream: &mut TcpStream) -> anyhow::Result<()> {
    let mut answer = Vec::new();
    loop {
        ensure!(stream.read_buf(&mut answer).await? > 0, "the server hung up");
        let text = String::from_utf8_lossy(&answer);
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let length = head.lines().find_map(|line| {
            line.to_ascii_lowercase()
                .strip_prefix("content-length:")?
                .trim()
                .parse()
                .ok()
        });
        let length: usize = length.context("the answer does not say how long it is")?;
        if body.len() >= length {
            ensure!(head.starts_with("HTTP/1.1 200"), "{text}");
            return Ok(());
        }
    }
}
