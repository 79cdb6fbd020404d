//! The least of an HTTP client: one connection, one request, one answer.

use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;
use testkit::Reply;

const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

/// A request of which nothing has been sent yet.
pub(crate) struct Request {
    head: String,
    body: String,
}

impl Request {
    pub(crate) fn new(method: &str, path: &str) -> Self {
        let head = format!("{method} {path} HTTP/1.1\r\nHost: hedgerow.test\r\n");
        Self {
            head,
            body: String::new(),
        }
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.head.extend([name, ": ", value, "\r\n"]);
        self
    }

    pub(crate) fn key(self, key: &str) -> Self {
        self.header("Authorization", &format!("Bearer {key}"))
    }

    pub(crate) fn json(mut self, body: &Value) -> Self {
        self.body = body.to_string();
        let length = self.body.len().to_string();
        self.header("Content-Type", "application/json")
            .header("Content-Length", &length)
    }

    pub(crate) fn send(self, server: SocketAddr) -> Result<Reply> {
        let mut begun = self.header("Connection", "close").begin(server)?;
        begun.finish()?;
        begun.answer()
    }

    /// Sends the head and half of the body.
    pub(crate) fn begin(self, server: SocketAddr) -> Result<Begun> {
        let mut connection = connect(server)?;
        let (first, rest) = self.body.split_at(self.body.len() / 2);
        connection.write_all(format!("{}\r\n{first}", self.head).as_bytes())?;
        Ok(Begun {
            connection,
            rest: rest.to_owned(),
        })
    }
}

/// A request that is in progress.
pub(crate) struct Begun {
    connection: TcpStream,
    rest: String,
}

impl Begun {
    pub(crate) fn finish(&mut self) -> Result<()> {
        self.connection.write_all(self.rest.as_bytes())
    }

    /// Sends another one behind it, and reads its answer.
    pub(crate) fn ask(&mut self, request: &Request) -> Result<Reply> {
        let whole = format!("{}\r\n{}", request.head, request.body);
        self.connection.write_all(whole.as_bytes())?;
        self.answer()
    }

    /// Reads one answer to its last byte, and leaves the connection open.
    pub(crate) fn answer(&mut self) -> Result<Reply> {
        let (mut bytes, mut part) = (Vec::new(), [0; 8192]);
        loop {
            if let Some(reply) = whole(&bytes)? {
                return Ok(reply);
            }
            match self.connection.read(&mut part)? {
                0 => return Err(ErrorKind::UnexpectedEof.into()),
                count => bytes.extend_from_slice(&part[..count]),
            }
        }
    }
}

pub(crate) fn connect(server: SocketAddr) -> Result<TcpStream> {
    let connection = TcpStream::connect_timeout(&server, ANSWER_TIMEOUT)?;
    connection.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    connection.set_nodelay(true)?;
    Ok(connection)
}

/// The answer, once all of it has come. The server knows the length of all it sends.
fn whole(bytes: &[u8]) -> Result<Option<Reply>> {
    let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
        return Ok(None);
    };
    let head = std::str::from_utf8(&bytes[..end]).map_err(Error::other)?;
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.get(9..12)?.parse().ok());
    let status = status.ok_or_else(|| Error::other(format!("no status: {head}")))?;
    let mut headers = HeaderMap::new();
    for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
        let name: HeaderName = name.parse().map_err(Error::other)?;
        headers.append(name, HeaderValue::from_str(value).map_err(Error::other)?);
    }
    let length = headers.get("content-length").and_then(|value| value.to_str().ok());
    let length = match length.map(str::parse::<usize>) {
        Some(length) => length.map_err(Error::other)?,
        None if status == 204 => 0,
        None => return Err(Error::other(format!("an answer of unknown length: {head}"))),
    };
    let Some(body) = bytes[end + 4..].get(..length) else {
        return Ok(None);
    };
    let text = || Value::String(String::from_utf8_lossy(body).into_owned());
    let body = serde_json::from_slice(body).unwrap_or_else(|_| text());
    Ok(Some(Reply { status, headers, body }))
}
