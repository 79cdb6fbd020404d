//! Which host a request asks for. It ends up in links, so it must be one, and only one.

use std::net::Ipv6Addr;

use axum::http::header;
use axum::http::request::Parts;
use axum::http::uri::Authority;

use crate::http::error::Problem;
use crate::http::settings::Settings;

/// The longest name there can be, and a port.
const MAX_BYTES: usize = 253 + 6;

/// The host in the header or, with HTTP/2, in the address.
pub(crate) fn host(parts: &Parts) -> Result<Option<&str>, Problem> {
    let mut lines = parts.headers.get_all(header::HOST).iter();
    let line = lines.next().map(|value| value.to_str().unwrap_or_default());
    if lines.next().is_some() {
        return Err(Problem::BadHost);
    }
    let authority = parts.uri.authority().map(Authority::as_str);
    let is_contradicted = matches!((line, authority), (Some(line), Some(other)) if !line.eq_ignore_ascii_case(other));
    let host = line.or(authority);
    if is_contradicted || host.is_some_and(|host| !is_host(host)) {
        return Err(Problem::BadHost);
    }
    Ok(host)
}

/// A name or an address, with or without a port.
fn is_host(text: &str) -> bool {
    let bracketed = text.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let (has_name, port) = if let Some((address, rest)) = bracketed {
        let port = if rest.is_empty() {
            Some("")
        } else {
            rest.strip_prefix(':')
        };
        (address.parse::<Ipv6Addr>().is_ok(), port)
    } else {
        let (name, port) = text.split_once(':').unwrap_or((text, ""));
        (is_name(name), Some(port))
    };
    let is_port =
        |port: &str| port.is_empty() || port.parse::<u16>().is_ok() && port.bytes().all(|byte| byte.is_ascii_digit());
    text.len() <= MAX_BYTES && has_name && port.is_some_and(is_port)
}

fn is_name(text: &str) -> bool {
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    !text.is_empty() && text.bytes().all(is_of_name)
}

impl Settings {
    /// The host that the client asked for, which a trusted proxy may know better.
    pub(crate) fn requested_host<'a>(&self, parts: &'a Parts) -> Option<&'a str> {
        let forwarded = parts
            .headers
            .get("x-forwarded-host")
            .filter(|_| self.is_behind_proxy(parts));
        let forwarded = forwarded.and_then(|value| value.to_str().ok()?.split(',').next());
        let forwarded = forwarded.map(str::trim).filter(|host| is_host(host));
        forwarded.or_else(|| host(parts).ok().flatten())
    }

    /// Where links begin: as configured, else as the client found us.
    pub(crate) fn base_url(&self, parts: &Parts) -> String {
        if let Some(site) = &self.site_url {
            return site.trim_end_matches('/').to_owned();
        }
        let host = self.requested_host(parts).unwrap_or("localhost");
        let scheme = if self.is_forwarded_https(parts) {
            "https"
        } else {
            "http"
        };
        format!("{scheme}://{host}")
    }

    /// Whether a trusted proxy says that the client came by https.
    pub(crate) fn is_forwarded_https(&self, parts: &Parts) -> bool {
        let scheme = parts
            .headers
            .get("x-forwarded-proto")
            .filter(|_| self.is_behind_proxy(parts));
        scheme.is_some_and(|scheme| scheme == "https")
    }

    /// Whether browsers are to come by https from now on.
    pub(crate) fn is_https(&self, parts: &Parts) -> bool {
        let is_site = self.site_url.as_ref().is_some_and(|url| url.starts_with("https://"));
        is_site || self.is_forwarded_https(parts)
    }

    /// Whether this is for the host that scripts of apps have for themselves; none if they have no such host.
    pub(crate) fn is_for_apps(&self, parts: &Parts) -> Option<bool> {
        let apps = self.apps_host.as_ref()?;
        let asked = self.requested_host(parts);
        Some(asked.is_some_and(|asked| asked.eq_ignore_ascii_case(apps)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_a_name_or_an_address() {
        for good in [
            "hedgerow.example",
            "localhost",
            "192.0.2.1:8000",
            "a_b.example:",
            "[::1]",
            "[2001:db8::1]:443",
        ] {
            assert!(is_host(good), "{good}");
        }
        let long = "x".repeat(300);
        for bad in [
            "",
            ":80",
            "a b",
            "a/b",
            "user@host",
            "a:b",
            "a:99999",
            "a:+1",
            "[::1",
            "[nonsense]",
            "[::1]x",
            "a?b",
            "a#b",
            "a:1:2",
            "\u{e9}.example",
            "a\\b",
            "<a>",
            &long,
        ] {
            assert!(!is_host(bad), "{bad}");
        }
    }
}
