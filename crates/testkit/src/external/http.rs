//! A visitor without a browser: pages, forms and cookies over plain HTTP on this machine.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::TcpStream;

use super::process::WAIT_LIMIT;

/// What an address showed.
#[derive(Debug)]
pub struct Page {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Page {
    /// The first header of this name, given in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|header| header.0 == name);
        found.next().map(|(_, value)| value.as_str())
    }

    /// Where the page's form goes.
    pub fn action(&self) -> Option<String> {
        self.tags("form").find_map(|tag| attribute(tag, "action"))
    }

    /// What the page's form would send if nothing were typed in.
    pub fn fields(&self) -> BTreeMap<String, String> {
        let field = |tag| Some((attribute(tag, "name")?, attribute(tag, "value").unwrap_or_default()));
        self.tags("input").filter_map(field).collect()
    }

    fn tags(&self, name: &str) -> impl Iterator<Item = &str> {
        let start = format!("<{name} ");
        let found = self.body.match_indices(&start).map(|(at, _)| &self.body[at..]);
        let tags: Vec<&str> = found.filter_map(|rest| rest.split('>').next()).collect();
        tags.into_iter()
    }
}

/// Somebody whose cookies are kept from page to page. Redirects are shown, not followed.
#[derive(Debug, Default)]
pub struct Visitor {
    cookies: BTreeMap<String, String>,
}

impl Visitor {
    pub fn get(&mut self, url: &str) -> Page {
        self.send("GET", url, "")
    }

    /// Sends a form.
    pub fn post(&mut self, url: &str, fields: &[(&str, &str)]) -> Page {
        let encoded: Vec<String> = fields
            .iter()
            .map(|(name, value)| format!("{}={}", encode(name), encode(value)))
            .collect();
        self.send("POST", url, &encoded.join("&"))
    }

    /// Sends text as it is.
    pub fn post_text(&mut self, url: &str, text: &str) -> Page {
        self.send("POST", url, text)
    }

    fn send(&mut self, method: &str, url: &str, body: &str) -> Page {
        let rest = url
            .strip_prefix("http://")
            .unwrap_or_else(|| panic!("not plain HTTP: {url}"));
        let (host, path) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
        let cookies: Vec<String> = self
            .cookies
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let mut request = format!(
            "{method} {path} HTTP/1.0\r\nHost: {host}\r\nCookie: {}\r\n",
            cookies.join("; ")
        );
        if method == "POST" {
            let length = body.len();
            let _ = write!(
                request,
                "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {length}\r\n"
            );
        }
        let page =
            exchange(host, &format!("{request}\r\n{body}")).unwrap_or_else(|error| panic!("{method} {url}: {error}"));
        for (_, cookie) in page.headers.iter().filter(|header| header.0 == "set-cookie") {
            let pair = cookie.split(';').next().and_then(|pair| pair.split_once('='));
            let (name, value) = pair.expect("a cookie has a name");
            self.cookies.insert(name.to_owned(), value.to_owned());
        }
        page
    }
}

/// With HTTP/1.0 the answer ends with the connection.
pub(super) fn exchange(host: &str, request: &str) -> std::io::Result<Page> {
    let mut connection = TcpStream::connect(host)?;
    connection.set_read_timeout(Some(WAIT_LIMIT))?;
    connection.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    connection.read_to_end(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").ok_or(std::io::ErrorKind::UnexpectedEof)?;
    let status = head.get(9..12).and_then(|status| status.parse().ok());
    let headers = head.lines().skip(1).filter_map(|line| line.split_once(": "));
    Ok(Page {
        status: status.ok_or(std::io::ErrorKind::InvalidData)?,
        headers: headers
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect(),
        body: body.to_owned(),
    })
}

/// The value of an attribute in double quotes.
fn attribute(tag: &str, name: &str) -> Option<String> {
    let start = format!("{name}=\"");
    let is_whole = |at: &usize| tag[..*at].ends_with(char::is_whitespace);
    let at = tag.match_indices(&start).map(|(at, _)| at).find(is_whole)?;
    let mut parts = tag[at + start.len()..].split('"').next()?.split('&');
    let mut value = parts.next()?.to_owned();
    for part in parts {
        let (sign, rest) = part.split_once(';')?;
        value.push(match sign {
            "amp" => '&',
            "quot" => '"',
            "lt" => '<',
            "gt" => '>',
            _ => char::from_u32(sign.strip_prefix('#')?.parse().ok()?)?,
        });
        value.push_str(rest);
    }
    Some(value)
}

/// For a query, a form, or the credentials of an address.
pub(super) fn encode(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => encoded.push(byte.into()),
            _ => {
                let _ = write!(encoded, "%{byte:02X}");
            }
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_read_as_they_were_meant() {
        let tag = "<input type=\"hidden\"\n name=\"x\" data-value=\"no\" value=\"a &#34;b&quot; &amp;#38; &#039;\"";
        assert_eq!(attribute(tag, "name").as_deref(), Some("x"));
        assert_eq!(attribute(tag, "value").as_deref(), Some("a \"b\" &#38; '"));
        assert_eq!(attribute(tag, "action"), None);
    }
}
