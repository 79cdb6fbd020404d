//! Single plain requests: to wait for a server, and to check its answers before it is measured.

use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

const TIMEOUT: Duration = Duration::from_secs(10);

/// A request as a peer describes it in `requests.json`.
///
/// `{{n}}` in the body becomes a number never used before, `{{level}}` one level or another, `{{credential}}` in a header one of `credentials` in turn.
#[derive(Clone)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Option<String>,
    pub(crate) credentials: Vec<String>,
}

/// Status, header lines and decoded body.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Request {
    pub(crate) fn get(path: impl Into<String>) -> Self {
        Self {
            method: "GET".into(),
            path: path.into(),
            headers: Vec::new(),
            body: None,
            credentials: Vec::new(),
        }
    }

    pub(crate) fn post(path: impl Into<String>, body: impl Into<String>) -> Self {
        let mut request = Self::get(path).header("Content-Type", "application/json");
        request.method = "POST".into();
        request.body = Some(body.into());
        request
    }

    pub(crate) fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    pub(crate) fn from_json(json: &Value) -> Result<Self> {
        let text = |name: &str| json[name].as_str().map(str::to_owned);
        let headers = json["headers"].as_object().context("`headers` is no object")?;
        let strings = |list: &Vec<Value>| list.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        Ok(Self {
            method: text("method").context("`method` is missing")?,
            path: text("path").context("`path` is missing")?,
            headers: headers
                .iter()
                .map(|(name, value)| (name.clone(), value.as_str().unwrap_or("").into()))
                .collect(),
            body: text("body"),
            credentials: json["credentials"].as_array().map(strings).unwrap_or_default(),
        })
    }

    pub(crate) fn has_credential(&self) -> bool {
        self.headers.iter().any(|(name, _)| is_credential(name))
    }

    pub(crate) fn without_credential(&self) -> Self {
        let mut request = self.clone();
        request.headers.retain(|(name, _)| !is_credential(name));
        request
    }

    /// The same with the end of its credential replaced.
    pub(crate) fn with_wrong_credential(&self) -> Self {
        let mut request = self.clone();
        for (_, value) in request.headers.iter_mut().filter(|(name, _)| is_credential(name)) {
            let whole = value.replace("{{credential}}", self.credentials.first().map_or("", String::as_str));
            *value = format!("{}AAAAAAAA", &whole[..whole.len().saturating_sub(8)]);
        }
        request
    }

    fn text(&self, port: u16) -> String {
        let body = self
            .body
            .as_deref()
            .unwrap_or("")
            .replace("{{n}}", &unique_number().to_string())
            .replace("{{level}}", "8");
        let mut text = format!("{} {} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n", self.method, self.path);
        for (name, value) in &self.headers {
            let value = value.replace("{{credential}}", self.credentials.first().map_or("", String::as_str));
            let _ = write!(text, "{name}: {value}\r\n");
        }
        let _ = write!(
            text,
            "Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        text
    }
}

/// Sends one request to a loopback port and reads the whole answer.
pub(crate) fn send(port: u16, request: &Request) -> Result<Answer> {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.write_all(request.text(port).as_bytes())?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes)?;
    parse(&bytes).with_context(|| format!("{} {} got no proper answer", request.method, request.path))
}

/// Signs in with a password and returns the cookie of the new session.
pub(crate) fn sign_in(port: u16, email: &str, password: &str) -> Result<String> {
    let body = json!({ "email": email, "password": password }).to_string();
    let answer = send(port, &Request::post("/api/login/", &body))?;
    let set = answer.head.lines().find_map(|line| line.strip_prefix("set-cookie: "));
    let cookie = set.and_then(|cookie| cookie.split(';').next());
    Ok(cookie.context("signing in gave no session")?.to_owned())
}

/// A number that no earlier request of this or an earlier run has used: microseconds since 1970.
#[expect(clippy::disallowed_methods, reason = "the tasks have no clock of their own")]
pub(crate) fn unique_number() -> u128 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_micros()
}

fn is_credential(header: &str) -> bool {
    header.eq_ignore_ascii_case("authorization") || header.eq_ignore_ascii_case("cookie")
}

fn parse(bytes: &[u8]) -> Result<Answer> {
    let end = bytes
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .context("the header does not end")?;
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok())
        .context("there is no status")?;
    let body = &bytes[end + 4..];
    let is_chunked = head
        .lines()
        .any(|line| line.to_ascii_lowercase().starts_with("transfer-encoding: chunked"));
    let body = if is_chunked { joined(body)? } else { body.to_vec() };
    Ok(Answer { status, head, body })
}

/// Joins the chunks of a chunked body.
fn joined(mut rest: &[u8]) -> Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = rest
            .windows(2)
            .position(|two| two == b"\r\n")
            .context("a chunk has no size")?;
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..end])?.trim(), 16)?;
        if size == 0 {
            return Ok(body);
        }
        ensure!(rest.len() >= end + size + 4, "a chunk is cut off");
        body.extend_from_slice(&rest[end + 2..end + 2 + size]);
        rest = &rest[end + size + 4..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_and_a_chunked_answer_are_read() -> Result<()> {
        let plain = parse(b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nok")?;
        assert_eq!((plain.status, plain.body.as_slice()), (201, &b"ok"[..]));
        let chunked = parse(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")?;
        assert_eq!(chunked.body, b"abcde");
        Ok(())
    }

    #[test]
    fn a_credential_is_left_out_or_spoiled() {
        let request = Request::get("/")
            .header("Authorization", "Bearer 0123456789")
            .header("Accept", "x");
        assert_eq!(request.without_credential().headers.len(), 1);
        assert_eq!(request.with_wrong_credential().headers[0].1, "Bearer 01AAAAAAAA");
    }
}
